import { type Change, type Store, StoreError } from './store.ts';

/** One step of the schema: the changes that bring a store of version `to - 1` to version `to`. */
interface Migration {
  readonly to: number;
  changes(store: Store): Promise<readonly Change[]>;
}

/** In order, one for each version after the first. */
const migrations: readonly Migration[] = [];

const current = 1 + migrations.length;

/** The row that a new store begins with. */
export const schemaRow: Change = { table: 'meta', key: 'schema', value: { version: current } };

/**
 * Brings the store to the schema of this program, each step in one commit. False: the store is empty.
 *
 * @throws {StoreError} `store_newer`, `store_unreadable` (rows, but no version), `store_failed`.
 */
export async function migrate(store: Store): Promise<boolean> {
  const version = await storedVersion(store);
  if (version === 0) return false;
  if (version > current) {
    throw new StoreError(
      'store_newer',
      `The data was written by a later version of the broker (schema ${version}, this one knows ${current}). Start that version, or restore a backup made by this one. Nothing was changed.`,
    );
  }
  for (const migration of migrations.slice(version - 1)) {
    const bump: Change = { table: 'meta', key: 'schema', value: { version: migration.to } };
    await store.commit([...(await migration.changes(store)), bump]);
  }
  return true;
}

/** 0: nothing is stored. */
async function storedVersion(store: Store): Promise<number> {
  for await (const row of store.load('meta')) {
    if (row.key !== 'schema') continue;
    const version = (row.value as { version?: unknown } | null)?.version;
    if (typeof version === 'number' && version >= 1) return version;
  }
  for await (const _ of store.load()) {
    throw new StoreError(
      'store_unreadable',
      'The store holds rows but does not say of which version. Nothing was changed. Restore a backup into an empty data directory.',
    );
  }
  return 0;
}
