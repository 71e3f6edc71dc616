import { type KeyObject, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { anchorRow, emptyLog } from './audit-rows.ts';
import { type KekProvider, type KekRow, readPrivateFile, writePrivateFile } from './keyfile.ts';
import { defaultSettings } from './model.ts';
import { migrate, schemaRow } from './schema.ts';
import { newDataKey, openBlob, type Sealed, sealBlob } from './seal.ts';
import { type Change, type Store, StoreError } from './store.ts';
import { hashToken, mintToken } from './token.ts';

export interface BootOptions {
  readonly store: Store;
  readonly kek: KekProvider;
  /** Where `owner.token` is kept. */
  readonly directory: string;
  /** Wall clock, ms. */
  readonly now: number;
}

/**
 * Makes a store ready for the vault actor: its schema, its master key, on the first start the vault `default` and the
 * operator `owner`, and on each start the owner's token file. Gives the key-encryption key.
 *
 * @throws {StoreError} (as a rejection) any code but `directory_in_use`.
 */
export async function prepareVault({ store, kek, directory, now }: BootOptions): Promise<KeyObject> {
  // The key first: with a wrong one nothing is touched.
  const stored = await readKekRow(store);
  const opened = stored && (await kek(stored));
  const exists = await migrate(store);
  if (exists && opened === null) {
    throw new StoreError(
      'store_unreadable',
      'The store does not say how its master key is had. Nothing was changed. Restore a backup into an empty data directory.',
    );
  }
  const { key, row } = opened ?? (await kek(null));
  if (!exists) await store.commit(firstRows(key, row, new Date(now).toISOString()));
  await ensureOwnerToken(store, join(directory, 'owner.token'));
  return key;
}

/** In one commit: a store is either empty or complete. */
function firstRows(kek: KeyObject, row: KekRow, created_at: string): Change[] {
  const owner = { name: 'owner', role: 'owner', vault_ids: [], password: null, created_at } as const;
  return [
    schemaRow,
    { table: 'meta', key: 'kek', value: row },
    anchorRow(kek, emptyLog),
    ...newVaultRows(kek, 'default', created_at),
    { table: 'operators', key: 'owner', value: owner },
  ];
}

/** A vault with a new id and a data key of its own. */
export function newVaultRows(kek: KeyObject, name: string, created_at: string): Change[] {
  const id = randomBytes(8).toString('hex');
  const vault = { id, name, settings: defaultSettings, cleared: false, created_at };
  return [
    { table: 'vaults', key: id, value: vault },
    { table: 'meta', key: `key/${id}`, value: newDataKey(kek, id).wrapped },
  ];
}

/** The local owner's token: any that is not in the file is revoked, and a file that is missing is made again. */
async function ensureOwnerToken(store: Store, file: string): Promise<void> {
  const present = hashToken(readPrivateFile(file)?.trim() ?? '');
  const revoked: Change[] = [];
  for await (const row of store.load('operator_sessions')) {
    if (row.table !== 'operator_sessions' || row.value?.kind !== 'file') continue;
    if (row.key === present) return;
    revoked.push({ ...row, value: null });
  }
  const { token, hash } = mintToken('operator');
  const session = { hash, operator: 'owner', kind: 'file', expires_at_ms: null } as const;
  await store.commit([...revoked, { table: 'operator_sessions', key: hash, value: session }]);
  writePrivateFile(file, `${token.reveal()}\n`);
}

/**
 * Something of the broker's own that is kept sealed in the store, such as the key of its CA; `create` makes it where
 * there is none. Let it make something only before the vault actor starts, which is the only writer from then on.
 *
 * @throws {StoreError} (as a rejection) `store_unreadable` if it is there but damaged; `store_failed`.
 */
export async function storedBlob(
  store: Store,
  kek: KeyObject,
  name: string,
  create: () => Buffer,
): Promise<Buffer> {
  const sealed = await readMeta(store, `blob/${name}`);
  if (sealed === undefined) {
    const value = create();
    await store.commit([{ table: 'meta', key: `blob/${name}`, value: sealBlob(kek, name, value) }]);
    return value;
  }
  const value = openBlob(kek, name, sealed as Sealed | null);
  if (value !== null) return value;
  throw new StoreError(
    'store_unreadable',
    `What the store keeps as '${name}' is damaged. Nothing was changed. Restore a backup into an empty data directory.`,
  );
}

/** How the key-encryption key is had; null: the store is new, or the row is damaged. */
export async function readKekRow(store: Store): Promise<KekRow | null> {
  return ((await readMeta(store, 'kek')) ?? null) as KekRow | null;
}

/** undefined: there is no such row; null: it is damaged. */
async function readMeta(store: Store, key: string): Promise<object | null | undefined> {
  for await (const row of store.load('meta')) if (row.key === key) return row.value;
  return undefined;
}
