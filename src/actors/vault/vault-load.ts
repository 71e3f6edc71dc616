import type { KeyObject } from 'node:crypto';
import { defaultSettings } from './model.ts';
import type { Change, Row, Store, Table } from './store.ts';
import { applyChanges, openCredential, splitKey } from './vault-apply.ts';
import { emptyState, type VaultState } from './vault-state.ts';

/** A row that could not be read, and that the vault does without. The key is no secret. */
export type OnDamaged = (table: Table, key: string) => void;

/** In this order, before the rest: a vault is there before what lies in it, its key before its credentials. */
const first = ['vaults', 'meta', 'services', 'proposals'] as const satisfies readonly Table[];
/** What may be large: taken row by row, so that a start holds the rows of the store once, sealed. */
const large: readonly Table[] = ['credentials', 'slot_values'];
/** Read already, or not part of the model: what the audit is still to be given. */
const elsewhere: ReadonlySet<string> = new Set<Table>([...first, 'outbox']);
/** Of reading without a pause. */
const longestMs = 10;
const others: ReadonlySet<string> = new Set<Table>([
  ...large,
  'sessions',
  'agents',
  'invites',
  'operators',
  'operator_sessions',
]);

/**
 * Reads the whole model into memory. What is damaged fails closed, and takes nothing else with it: a credential without
 * a value, a service that is disabled, a token that nobody has, a vault that refuses every request.
 */
export async function loadState(store: Store, kek: KeyObject, onDamaged: OnDamaged): Promise<VaultState> {
  const state = emptyState(kek);
  const isWhole = (row: Row) => row.value !== null && isItself(row);

  function setAside(row: Row): void {
    onDamaged(row.table, row.key);
    applyChanges(state, instead(row));
    if (row.table !== 'credentials') return;
    const [vault, name] = splitKey(row.key);
    const entry = state.vaults.get(vault);
    entry?.credentials.set(name, null);
    if (entry?.referenced.has(name)) entry.values.set(name, null);
  }

  /** All of one table at once, since the order of its rows is worked out for each change. */
  function take(rows: readonly Row[]): void {
    applyChanges(state, rows.filter(isWhole));
    for (const row of rows) if (!isWhole(row)) setAside(row);
  }

  for (const table of first) {
    const rows: Row[] = [];
    for await (const row of store.load(table)) rows.push(row);
    if (table === 'proposals') rows.sort((a, b) => Number(a.key) - Number(b.key));
    take(rows);
  }
  let small: Row[] = [];
  const breathe = createPause();
  for await (const row of store.load()) {
    await breathe();
    if (large.includes(row.table)) {
      take([row]);
      if (row.table === 'credentials' && row.value !== null) checkOpens(state, row.key, onDamaged);
    } else if (others.has(row.table)) small.push(row);
    // Where the key itself is damaged, no table may have it.
    else if (!elsewhere.has(row.table)) onDamaged(row.table, row.key);
    if (small.length < 1000) continue;
    take(small);
    small = [];
  }
  take(small);
  for (const id of state.proposals.keys()) state.lastProposalId = Math.max(state.lastProposalId, id);
  return state;
}

/** Lets the event loop turn between two rows where they have taken long: a restart of the vault stops nobody else. */
function createPause(): () => Promise<void> | undefined {
  let since = performance.now();
  return () => {
    if (performance.now() - since < longestMs) return undefined;
    return new Promise((resolve) => {
      setImmediate(() => {
        since = performance.now();
        resolve();
      });
    });
  };
}

/** Names a value that can't be opened, which its row's bytes don't show. */
function checkOpens(state: VaultState, row: string, onDamaged: OnDamaged): void {
  const [vault, key] = splitKey(row);
  const entry = state.vaults.get(vault);
  const bytes = entry && openCredential(entry, key);
  if (bytes) bytes.fill(0);
  else if (entry) onDamaged('credentials', row);
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
