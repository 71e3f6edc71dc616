import { chmodSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { open, type RootDatabase, type RootDatabaseOptionsWithPath } from 'lmdb';
import { checkLmdbFile } from './lmdb-check.ts';
import { type Change, type Row, type Store, StoreError, type Table } from './store.ts';

type Key = [table: string, key: string];
type Database = RootDatabase<string, Key>;

const revisionKey: Key = ['meta', 'revision'];
/** LMDB takes 1,978, with the table's name and what separates them. The keys of the model are a few hundred at most. */
const maxKeyBytes = 1_024;

/**
 * The store in one LMDB file, `data.mdb` in `directory`.
 *
 * A commit is one transaction, written and flushed by a thread of libuv's pool. lmdb-js keeps what a batch had put
 * before a throw, so that nothing is put before every row and key is known to be one that can be.
 *
 * @throws {StoreError} (as a rejection) `store_unreadable`; nothing was touched then.
 */
export async function openLmdbStore(directory: string): Promise<Store> {
  const file = join(directory, 'data.mdb');
  let db: Database | null = null;
  /** Of the last commit: it is stored with the rows. */
  let revision = 0;
  let closed = false;
  connect();

  function openDatabase(): Database {
    // lmdb's own types don't know `safeRestore` and `permissionsMode`.
    const options: RootDatabaseOptionsWithPath & Record<string, unknown> = {
      path: directory,
      // Without it a directory with a dot in its name would be taken for a file.
      noSubdir: false,
      encoding: 'string',
      // Every commit flushes before it shows, so that the newest state is a durable one.
      overlappingSync: false,
      safeRestore: true,
      permissionsMode: 0o600,
      maxReaders: 16,
    };
    return open<string, Key>(options);
  }

  function connect(): Database {
    checkLmdbFile(file);
    return readable(file, () => {
      const fresh = openDatabase();
      revision = readRevision(fresh);
      db = fresh;
      return fresh;
    });
  }

  /** After an I/O error LMDB may refuse all further work until it is opened anew. */
  async function reopen(): Promise<Database> {
    const old = db;
    db = null;
    await old?.close();
    // A file that has gone meanwhile must not be replaced by an empty one.
    if (closed || !existsSync(file)) throw lost(directory);
    return connect();
  }

  /** Nothing in the batch may throw: what was put before it would be kept. */
  async function write(target: Database, changes: readonly Change[], next: number): Promise<void> {
    const rows = changes.map(({ table, key, value }) => ({
      key: checkKey(table, key),
      text: value === null ? null : encode(table, key, value),
    }));
    rows.push({ key: revisionKey, text: encode('meta', 'revision', { revision: next }) });
    await target.batch(() => {
      for (const { key, text } of rows) {
        if (text === null) target.remove(key);
        else target.put(key, text);
      }
    });
  }

  async function commit(changes: readonly Change[]): Promise<void> {
    if (!db) throw lost(directory);
    const wanted = revision + 1;
    try {
      await write(db, changes, wanted);
      revision = wanted;
    } catch (caught) {
      const error = await causeOf(caught);
      if (!(error instanceof Unwritable)) {
        // LMDB says a failed write on standard error itself, without a line end: what is logged next has its own line.
        process.stderr.write('\n');
        await reopenAfter(error);
      }
      if (revision !== wanted) throw failed(directory, error);
    }
  }

  /** An error of the disk may come before or after the point of no return: the store itself says which it was. */
  async function reopenAfter(error: unknown): Promise<void> {
    try {
      await reopen();
    } catch {
      throw lost(directory, error);
    }
  }

  return {
    async *load(table) {
      const source = db ?? (await reopen());
      const range = table ? { start: [table, ''] as Key, end: [table, '\u{10ffff}'] as Key } : {};
      // The cursor sees one state, whatever is committed while the caller waits between two rows.
      const rows = readable(file, () => source.getRange(range)[Symbol.iterator]());
      try {
        for (let row = readable(file, () => rows.next()); !row.done; row = readable(file, () => rows.next()))
          yield decode(row.value.key, row.value.value);
      } finally {
        rows.return?.();
      }
    },
    commit,
    async backup(path) {
      if (!db) throw lost(directory);
      await db.backup(path, true);
      chmodSync(join(path, 'data.mdb'), 0o600);
    },
    async close() {
      closed = true;
      const old = db;
      db = null;
      await old?.close();
    },
  };
}

/** A fault of the rows, not of the disk: the transaction was rolled back and the store is as good as before. */
class Unwritable extends Error {
  constructor(cause: unknown) {
    super(describe(cause), { cause });
  }
}

/** What LMDB said; lmdb-js rejects a batch with an error that only refers to it. */
async function causeOf(error: unknown): Promise<unknown> {
  if (!(error instanceof Error && 'commitError' in error)) return error;
  try {
    await error.commitError;
  } catch (cause) {
    return cause;
  }
  return error;
}

function failed(directory: string, cause: unknown): StoreError {
  return new StoreError(
    'store_failed',
    `The change could not be stored (${describe(cause)}). Nothing was changed. Check the disk that holds ${directory}.`,
    { cause },
  );
}

function lost(directory: string, cause?: unknown): StoreError {
  return new StoreError('store_lost', `The store in ${directory} is not open. Check its disk.`, { cause });
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function readable<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new StoreError(
      'store_unreadable',
      `The store ${file} can't be read (${describe(error)}). Check the disk and the owner of the files, or restore a backup into an empty data directory.`,
      { cause: error },
    );
  }
}

function readRevision(db: Database): number {
  const text = db.get(revisionKey);
  const row = text === undefined ? null : decode(revisionKey, text);
  return (row?.value as { revision: number } | null)?.revision ?? 0;
}

/**
 * A row's bytes: CRC-32 of its place, CRC-32 of its JSON (8 hex digits each), the JSON. Sealed values have better
 * protection of their own; this is for the rest, where one flipped bit could turn a host into another.
 */
function encode(table: Table, key: string, value: object): string {
  const json = stringify(value);
  return checksum(`${table}\0${key}`) + checksum(json) + json;
}

function checkKey(table: Table, key: string): Key {
  if (Buffer.byteLength(key) > maxKeyBytes) throw new Unwritable(`a key of ${table} is too long`);
  return [table, key];
}

function stringify(value: object): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    throw new Unwritable(error);
  }
}

/** A row that isn't the one that was written at this place is as damaged as one whose bytes are. */
function decode(key: unknown, text: string): Row {
  const [table, name] = (Array.isArray(key) ? key : [key]).map(String);
  const isInPlace = checksum(`${table}\0${name}`) === text.slice(0, 8);
  return { table, key: name ?? '', value: isInPlace ? parse(text) : null } as Row;
}

function parse(text: string): unknown {
  const json = text.slice(16);
  if (checksum(json) !== text.slice(8, 16)) return null;
  try {
    return JSON.parse(json);
  } catch {
    return null;
  }
}

function checksum(text: string): string {
  return crc32(text).toString(16).padStart(8, '0');
}
