import type { KeyObject } from 'node:crypto';
import { type Change, type Row, type Store, StoreError, type Table } from './store.ts';
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
 * a value, a service that is disabled, a token that nobody has.
 *
 * @throws {StoreError} `store_unreadable` where the row of a vault or an operator is damaged.
 */
export async function loadState(store: Store, kek: KeyObject, onDamaged: OnDamaged): Promise<VaultState> {
  const byTable = new Map<Table, Row[]>(order.map((table) => [table, []]));
  for await (const row of store.load()) byTable.get(row.table)?.push(row);
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

/** What is taken for a damaged row: nothing, but for a service, whose host must not become an unknown one. */
function instead({ table, key }: Row): Change[] {
  if (table === 'services') {
    const service = { host: splitKey(key)[1], auth: { type: 'passthrough' }, enabled: false } as const;
    return [{ table, key, value: { place: 0, service } }];
  }
  if (table !== 'vaults' && table !== 'operators') return [];
  throw new StoreError(
    'store_unreadable',
    `A row of the store (${table}, ${key}) is damaged, and nothing can stand in for it. Nothing was changed. Restore a backup into an empty data directory.`,
  );
}
