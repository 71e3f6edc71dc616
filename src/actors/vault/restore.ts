import type { KeyObject } from 'node:crypto';
import { mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { forgetHead } from './audit-rows.ts';
import { type BackupHead, openChunks } from './backup-format.ts';
import { openDirectory } from './directory.ts';
import { isKeyOf, syncDirectory, writeKeyFile } from './keyfile.ts';
import { openLmdbStore } from './lmdb-store.ts';
import { StoreError } from './store.ts';
import { readKekRow } from './vault-boot.ts';

export interface RestoreOptions {
  /** The backup, opened for reading, and its head. */
  readonly file: FileHandle;
  readonly head: { readonly head: BackupHead; readonly line: Buffer };
  /** The key-encryption key that the head asks for. */
  readonly key: KeyObject;
  /** The data directory to be: absent or empty. A `master.key` may lie there already. */
  readonly directory: string;
}

const prefix = '.restore-';

/** What a directory may hold that counts as empty. */
const harmless = (name: string) =>
  ['broker.lock', 'master.key', 'lost+found'].includes(name) || name.startsWith(prefix);

/** @throws {StoreError} `directory_refused` where there is something in the directory */
export function insistOnEmpty(directory: string): void {
  const names = list(directory).filter((name) => !harmless(name));
  if (names.length === 0) return;
  throw new StoreError(
    'directory_refused',
    `${directory} is not empty (${names[0]}). A backup is restored into an empty data directory only: name another, or move what is there away.`,
  );
}

/**
 * Restores a backup: all of it, or nothing. The snapshot is written beside its place, read whole and opened there; to
 * move it to its place is the last step.
 *
 * @throws {StoreError} (as a rejection) `key_wrong`, `store_unreadable`, `directory_refused`, `directory_in_use`
 */
export async function restoreBackup({ file, head, key, directory }: RestoreOptions): Promise<void> {
  // Before anything is made or written.
  if (!isKeyOf(head.head.kek, key)) throw new StoreError('key_wrong', wrongKey);
  insistOnEmpty(directory);
  const held = openDirectory(directory);
  const { path } = held;
  try {
    for (const name of list(path)) if (name.startsWith(prefix)) rmSync(join(path, name), { recursive: true });
    const folder = mkdtempSync(join(path, prefix));
    try {
      const snapshot = join(folder, 'data.mdb');
      const { size } = await file.stat();
      await write(snapshot, openChunks(key, head, file, size));
      await check(folder, key);
      if (head.head.kek.source === 'file') writeKeyFile(path, key);
      renameSync(snapshot, join(path, 'data.mdb'));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
    syncDirectory(path);
  } finally {
    held.close();
  }
}

async function write(path: string, pieces: AsyncIterable<Buffer>): Promise<void> {
  const target = await open(path, 'wx', 0o600);
  try {
    for await (const piece of pieces) await target.appendFile(piece);
    await target.sync();
  } finally {
    await target.close();
  }
}

/** Opens the snapshot as a server would, and makes it ready for one. */
async function check(folder: string, key: KeyObject): Promise<void> {
  const store = await openLmdbStore(folder);
  try {
    const row = await readKekRow(store);
    if (row === null || !isKeyOf(row, key)) {
      throw new StoreError(
        'store_unreadable',
        'What is in the backup does not open with its own key. Use another one.',
      );
    }
    // The audit log isn't part of a backup: what the anchor knows may be elsewhere, or behind what is copied back.
    await forgetHead(store, key);
  } finally {
    await store.close();
  }
}

function list(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return [];
    throw new StoreError(
      'directory_refused',
      `${directory} can't be read (${code}). Name another directory.`,
    );
  }
}

const wrongKey =
  'This is not the key of the backup. Nothing was restored. Give the master.key, or the master password, that the broker had when the backup was made.';
