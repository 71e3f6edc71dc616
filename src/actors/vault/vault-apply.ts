import { hostsByKey } from './merge.ts';
import type { Agent, Proposal, Session, Vault } from './model.ts';
import { openPacked, pack, type Sealed, unwrapDataKey } from './seal.ts';
import type { Delta } from './state.ts';
import type { Change, CredentialRow, ServiceRow } from './store.ts';
import { tokenNameLength } from './token-proof.ts';
import { takeValue } from './values.ts';
import { agentDeltas, sessionDelta, type VaultEntry, type VaultState, vaultDelta } from './vault-state.ts';

/** Brings the state in line with one commit, and gives what the lanes have to be told. */
export function applyChanges(state: VaultState, changes: readonly Change[]): Delta[] {
  const deltas: Delta[] = [];
  const changed = new Set<string>();
  for (const change of changes) {
    for (const delta of applyChange(state, change)) deltas.push(delta);
    if (change.table === 'services') changed.add(splitKey(change.key)[0]);
  }
  for (const id of changed) {
    const entry = state.vaults.get(id);
    if (!entry) continue;
    restoreOrder(entry);
    for (const delta of referTo(entry)) deltas.push(delta);
  }
  return deltas;
}

function applyChange(state: VaultState, change: Change): readonly Delta[] {
  const { key } = change;
  state.usage.take(change, state.proposals);
  switch (change.table) {
    case 'meta':
      return applyMeta(state, key, change.value);
    case 'vaults':
      return applyVault(state, key, change.value);
    case 'services':
      return applyService(state, key, change.value);
    case 'credentials':
      return applyCredential(state, key, change.value);
    case 'proposals':
      return applyProposal(state, Number(key), change.value);
    case 'slot_values':
      return put(state.slotValues, key, change.value && pack(change.value));
    case 'sessions':
      return applySession(state, key, change.value);
    case 'agents':
      return applyAgent(state, key, change.value);
    case 'invites':
      return put(state.invites, key, change.value);
    case 'operators':
      return put(state.operators, key, change.value);
    case 'operator_sessions':
      return put(state.operatorSessions, key, change.value);
    case 'outbox':
      return nothing;
  }
}

/** No lane needs to know. */
const nothing: readonly Delta[] = [];

function put<K, V>(map: Map<K, V>, key: K, value: V | null): readonly Delta[] {
  if (value === null) map.delete(key);
  else map.set(key, value);
  return nothing;
}

function applyMeta(state: VaultState, key: string, value: object | null): readonly Delta[] {
  if (key === 'counters') state.lastProposalId = (value as { proposal: number }).proposal;
  const entry = key.startsWith('key/') ? state.vaults.get(key.slice(4)) : undefined;
  if (entry) entry.key = unwrapDataKey(state.kek, entry.vault.id, value as Sealed | null);
  return nothing;
}

function applyVault(state: VaultState, id: string, vault: Vault | null): readonly Delta[] {
  const entry = state.vaults.get(id);
  if (vault === null) {
    state.vaults.delete(id);
    if (entry) state.vaultIds.delete(entry.vault.name);
    return [{ type: 'vault-gone', id }];
  }
  if (entry) entry.vault = vault;
  else {
    state.vaults.set(id, {
      vault,
      key: null,
      services: new Map(),
      places: new Map(),
      credentials: new Map(),
      values: new Map(),
      referenced: new Set(),
      proposals: new Set(),
      pending: new Set(),
    });
    state.vaultIds.set(vault.name, id);
  }
  return [vaultDelta(vault)];
}

/** Ids have no slash, so the first one ends the id; a host or key follows. */
export function splitKey(key: string): [id: string, rest: string] {
  const slash = key.indexOf('/');
  return [key.slice(0, slash), key.slice(slash + 1)];
}

function applyService(state: VaultState, key: string, row: ServiceRow | null): readonly Delta[] {
  const [vault, host] = splitKey(key);
  const entry = state.vaults.get(vault);
  if (row === null) {
    entry?.services.delete(host);
    entry?.places.delete(host);
    return [{ type: 'service-gone', vault, host }];
  }
  if (!entry) return nothing;
  entry.services.set(host, row.service);
  entry.places.set(host, row.place);
  return [{ type: 'service', vault, service: row.service }];
}

function restoreOrder(entry: VaultEntry): void {
  const place = (host: string) => entry.places.get(host) ?? 0;
  entry.services = new Map([...entry.services].sort(([a], [b]) => place(a) - place(b)));
}

function applyCredential(state: VaultState, key: string, row: CredentialRow | null): readonly Delta[] {
  const [vault, name] = splitKey(key);
  const entry = state.vaults.get(vault);
  if (row === null) {
    entry?.credentials.delete(name);
    return entry && !entry.values.delete(name) ? nothing : [{ type: 'credential-gone', vault, key: name }];
  }
  if (!entry) return nothing;
  const { added_by, agent_id, brought_by, created_at, updated_at } = row;
  entry.credentials.set(name, { ...pack(row), added_by, agent_id, brought_by, created_at, updated_at });
  return entry.referenced.has(name) ? [openFor(entry, name)] : nothing;
}

/** Opens a value for the lanes. */
function openFor(entry: VaultEntry, key: string): Delta {
  const bytes = openCredential(entry, key);
  const value = bytes && takeValue(bytes);
  entry.values.set(key, value);
  return { type: 'credential', vault: entry.vault.id, key, value };
}

/** The bytes of a value, to be wiped; null: its row or its vault's key is damaged. */
export function openCredential({ key: dataKey, vault, credentials }: VaultEntry, key: string): Buffer | null {
  const packed = credentials.get(key);
  return packed && dataKey ? openPacked(dataKey, ['credential', vault.id, key], packed) : null;
}

/** What the lanes have to be told since the services of a vault refer to other keys than before. */
function referTo(entry: VaultEntry): Delta[] {
  const before = entry.referenced;
  const deltas: Delta[] = [];
  entry.referenced = new Set(hostsByKey(entry.services.values()).keys());
  for (const key of entry.referenced)
    if (!before.has(key) && entry.credentials.has(key)) deltas.push(openFor(entry, key));
  for (const key of before) {
    if (!entry.referenced.has(key) && entry.values.delete(key))
      deltas.push({ type: 'credential-gone', vault: entry.vault.id, key });
  }
  return deltas;
}

function applyProposal(state: VaultState, id: number, proposal: Proposal | null): readonly Delta[] {
  const before = state.proposals.get(id);
  const entry = state.vaults.get((proposal ?? before)?.vault_id ?? '');
  if (proposal) entry?.proposals.add(id);
  else entry?.proposals.delete(id);
  if (proposal?.status === 'pending') entry?.pending.add(id);
  else entry?.pending.delete(id);
  return put(state.proposals, id, proposal);
}

function applySession(state: VaultState, hash: string, session: Session | null): readonly Delta[] {
  const before = state.sessions.get(hash);
  put(state.sessions, hash, session);
  put(state.sessionNames, hash.slice(0, tokenNameLength), session && hash);
  if (session) {
    state.sessionHashes.set(session.id, hash);
    return [sessionDelta(state, session)];
  }
  if (!before) return nothing;
  state.sessionHashes.delete(before.id);
  state.slots.release(hash);
  return [{ type: 'session-gone', hash }];
}

function applyAgent(state: VaultState, name: string, agent: Agent | null): readonly Delta[] {
  const kept = new Set(agent?.tokens.map(({ hash }) => hash));
  const gone = (state.agents.get(name)?.tokens ?? []).filter(({ hash }) => !kept.has(hash));
  for (const { hash } of gone) state.agentNames.delete(hash);
  for (const hash of kept) state.agentNames.set(hash, name);
  put(state.agents, name, agent);
  if (!agent) state.slots.release(`agent:${name}`);
  return [
    ...gone.map(({ hash }): Delta => ({ type: 'session-gone', hash })),
    ...(agent ? agentDeltas(state, agent) : []),
  ];
}
