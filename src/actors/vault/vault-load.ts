import type { KeyObject } from 'node:crypto';
import { defaultSettings } from './model.ts';
import type { Change, Row, Store, Table } from './store.ts';
import { applyChanges, splitKey } from './vault-apply.ts';
import { emptyState, type VaultState } from './vault-state.ts';

/** A row that could not be read, and that the vault does without. The key is no secret. */
export type OnDamaged = (table: Table, key: string) => void;

/** A vault is there before what lies in it, its key before its credentials. */
const order: readonly Table[] = [
  'vaults',
  'meta',
  'services',
  'credentials',
  'proposals',
  'slot_values',
  'sessions',
  'agents',
  'invites',
  'operators',
  'operator_sessions',
];

/**
 * Reads the whole model into memory. What is damaged fails closed, and takes nothing else with it: a credential without
 * a value, a service that is disabled, a token that nobody has, a vault that refuses every request.
 */
export async function loadState(store: Store, kek: KeyObject, onDamaged: OnDamaged): Promise<VaultState> {
  const byTable = new Map<Table, Row[]>(order.map((table) => [table, []]));
  for await (const row of store.load()) {
    if (row.table === 'outbox') continue;
    const rows = byTable.get(row.table);
    if (rows) rows.push(isItself(row) ? row : ({ ...row, value: null } as Row));
    else onDamaged(row.table, row.key);
  }
  byTable.get('proposals')?.sort((a, b) => Number(a.key) - Number(b.key));

  const state = emptyState(kek);
  const rows = order.flatMap((table) => byTable.get(table) ?? []);
  const damaged = rows.filter((row) => row.value === null);
  applyChanges(state, [...rows.filter((row) => row.value !== null), ...damaged.flatMap(instead)]);

  for (const { table, key } of damaged) {
    onDamaged(table, key);
    const [vault, name] = splitKey(key);
    if (table === 'credentials') state.vaults.get(vault)?.credentials.set(name, { row: null, value: null });
  }
  for (const { vault, credentials } of state.vaults.values()) {
    for (const [key, { row, value }] of credentials)
      if (row !== null && value === null) onDamaged('credentials', `${vault.id}/${key}`);
  }
  for (const id of state.proposals.keys()) state.lastProposalId = Math.max(state.lastProposalId, id);
  return state;
}

/** Whether a row says of itself what its key says. Sealed values are bound to their place already. */
function isItself({ table, key, value }: Row): boolean {
  if (value === null) return true;
  switch (table) {
    case 'vaults':
      return value.id === key;
    case 'services':
      return value.service.host === splitKey(key)[1];
    case 'proposals':
      return String(value.id) === key;
    case 'sessions':
    case 'invites':
    case 'operator_sessions':
      return value.hash === key;
    case 'agents':
    case 'operators':
      return value.name === key;
    default:
      return true;
  }
}

/**
 * What is taken for a damaged row: nothing, mostly. A service's host must not become an unknown one; a vault is there
 * under another name, cleared, so that what lies in it can be deleted; `owner` signs in by the file of its token.
 */
function instead({ table, key }: Row): Change[] {
  if (table === 'services') {
    const service = { host: splitKey(key)[1], auth: { type: 'passthrough' }, enabled: false } as const;
    return [{ table, key, value: { place: 0, service } }];
  }
  const created_at = new Date(0).toISOString();
  if (table === 'vaults') {
    const name = `damaged-${key.replace(/[^a-z0-9-]/g, '-').slice(0, 56)}`;
    const settings = { ...defaultSettings, unmatched_host_policy: 'deny' } as const;
    return [{ table, key, value: { id: key, name, settings, cleared: true, created_at } }];
  }
  if (table === 'operators' && key === 'owner') {
    return [{ table, key, value: { name: key, role: 'owner', vault_ids: [], password: null, created_at } }];
  }
  return [];
}
