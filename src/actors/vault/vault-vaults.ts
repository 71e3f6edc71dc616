import type { Handlers } from '../core/behavior.ts';
import { type Fields, invalid, isFields, refused, unknownField } from './fields.ts';
import type { VaultSettings } from './model.ts';
import { accept, type Problem, refuse } from './problem.ts';
import { decide, proposalEvent } from './proposal-decision.ts';
import type { VaultEvent, VaultProtocol } from './protocol.ts';
import type { Change } from './store.ts';
import { newVaultRows } from './vault-boot.ts';
import { type VaultEntry, type VaultState, vaultDeltas } from './vault-state.ts';
import { discovery, vaultView } from './vault-views.ts';
import { findVault, type Writer } from './vault-writer.ts';

type Names =
  | 'vault.list'
  | 'vault.get'
  | 'vault.create'
  | 'vault.update'
  | 'vault.delete'
  | 'vault.state'
  | 'discover';

export function vaultHandlers(writer: Writer): Pick<Handlers<VaultProtocol>, Names> {
  const { state, commit } = writer;

  return {
    'vault.list': () => [...state.vaults.values()].map(vaultView).sort((a, b) => (a.name < b.name ? -1 : 1)),

    'vault.get'({ vault }) {
      const found = findVault(state, vault);
      return found.ok ? accept(vaultView(found.value)) : found;
    },

    async 'vault.create'({ name, by }) {
      if (!/^[a-z0-9-]{1,64}$/.test(name)) {
        return refused(invalid('name', 'must be 1 to 64 characters of a-z, 0-9 and -, such as my-vault.'));
      }
      if (state.vaultIds.has(name)) {
        return refuse('conflict', `There is a vault '${name}' already. Choose another name.`);
      }
      const failed = await commit(newVaultRows(state.kek, name, writer.timestamp()), {
        action: 'vault.create',
        by,
        vault: name,
      });
      if (failed) return refused(failed);
      const created = findVault(state, name);
      return created.ok ? accept(vaultView(created.value)) : created;
    },

    async 'vault.update'({ vault, patch, by }) {
      const found = findVault(state, vault);
      if (!found.ok) return found;
      const entry = found.value;
      const wrong = settingsProblem(patch);
      if (wrong) return refused(wrong);
      const value = { ...entry.vault, settings: { ...entry.vault.settings, ...present(patch) } };
      const failed = await commit([{ table: 'vaults', key: value.id, value }], {
        action: 'vault.update',
        by,
        vault,
        settings: patch,
      });
      return failed ? refused(failed) : accept(vaultView(entry));
    },

    async 'vault.delete'({ vault, by }) {
      const found = findVault(state, vault);
      if (!found.ok) return found;
      if (vault === 'default') return refuse('conflict', "The vault 'default' can't be deleted. Clear it.");
      const at = writer.timestamp();
      const pending = pendingOf(state, found.value);
      const cancelled = pending.flatMap((p) => decide(p, { status: 'cancelled', reviewed_at: at }));
      const events = pending.map((proposal): VaultEvent => proposalEvent(proposal, 'cancelled', at));
      const changes = [...cancelled, ...removeVault(state, found.value)];
      const failed = await commit(changes, { action: 'vault.delete', by, vault }, events);
      return failed ? refused(failed) : accept(null);
    },

    'vault.state'({ vault }) {
      const found = findVault(state, vault);
      return found.ok ? accept([...vaultDeltas(found.value)]) : found;
    },

    discover({ vault }) {
      const found = findVault(state, vault);
      return found.ok ? accept(discovery(found.value)) : found;
    },
  };
}

function pendingOf(state: VaultState, { pending }: VaultEntry) {
  return [...pending].flatMap((id) => state.proposals.get(id) ?? []);
}

/** A vault and all that is of no use without it. Its key goes too: what backups hold of it stays closed. */
function removeVault(state: VaultState, { vault, services, credentials }: VaultEntry): Change[] {
  const { id } = vault;
  const changes: Change[] = [
    { table: 'vaults', key: id, value: null },
    { table: 'meta', key: `key/${id}`, value: null },
  ];
  for (const host of services.keys()) changes.push({ table: 'services', key: `${id}/${host}`, value: null });
  for (const key of credentials.keys())
    changes.push({ table: 'credentials', key: `${id}/${key}`, value: null });
  for (const [key, { vault_id }] of state.sessions)
    if (vault_id === id) changes.push({ table: 'sessions', key, value: null });
  for (const [key, value] of state.agents)
    if (value.vault_ids.includes(id)) changes.push({ table: 'agents', key, value: without(value, id) });
  for (const [key, value] of state.invites)
    if (value.vault_ids.includes(id)) changes.push({ table: 'invites', key, value: without(value, id) });
  for (const [key, value] of state.operators)
    if (value.vault_ids.includes(id)) changes.push({ table: 'operators', key, value: without(value, id) });
  return changes;
}

function without<T extends { readonly vault_ids: readonly string[] }>(holder: T, id: string): T {
  return { ...holder, vault_ids: holder.vault_ids.filter((each) => each !== id) };
}

/** A field that is there but undefined must not unset anything. */
function present<T extends object>(patch: T): Partial<T> {
  return Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined)) as Partial<T>;
}

/** Refuses a patch with anything else than settings of the right kind. */
function settingsProblem(patch: Partial<VaultSettings>): Problem | null {
  const { unmatched_host_policy, unmatched_tls, require_tls, rate_limit } = patch;
  const unknown = unknownField(patch as Fields, '', [
    'unmatched_host_policy',
    'unmatched_tls',
    'require_tls',
    'rate_limit',
  ]);
  return (
    unknown ??
    oneOf('unmatched_host_policy', unmatched_host_policy, ['passthrough', 'deny']) ??
    oneOf('unmatched_tls', unmatched_tls, ['intercept', 'tunnel']) ??
    oneOf('require_tls', require_tls, [true, false]) ??
    rateLimitProblem(rate_limit)
  );
}

function oneOf(field: string, value: unknown, allowed: readonly unknown[]): Problem | null {
  if (value === undefined || allowed.includes(value)) return null;
  return invalid(field, `must be ${allowed.join(' or ')}.`);
}

function rateLimitProblem(value: unknown): Problem | null {
  if (value === undefined || value === null) return null;
  if (!isFields(value)) return invalid('rate_limit', 'must be an object with rps, burst, inflight, or null.');
  const unknown = unknownField(value, 'rate_limit', ['rps', 'burst', 'inflight']);
  if (unknown) return unknown;
  for (const [name, number] of Object.entries(value)) {
    if (Number.isInteger(number) && (number as number) >= 0 && (number as number) <= 1_000_000) continue;
    return invalid(`rate_limit.${name}`, 'must be a whole number from 0 (no limit) to 1000000.');
  }
  return null;
}
