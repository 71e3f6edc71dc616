import type { KeyObject } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { newHead, sealChunks } from './backup-format.ts';
import { type Store, StoreError } from './store.ts';
import { readKekRow } from './vault-boot.ts';

export interface BackupOptions {
  readonly store: Store;
  readonly kek: KeyObject;
  /** The data directory: the snapshot takes as much room there as the store, until it is opened. */
  readonly directory: string;
  /** ISO 8601. */
  readonly created: string;
}

const prefix = '.backup-';

/**
 * Takes a consistent snapshot of the store, while commits go on, and gives it as the text of a backup: see
 * `backup-format.ts`. It is to be read to its end, or until `over` aborts.
 *
 * The master key must not be had another way meanwhile: the head says how it is had.
 *
 * @throws {StoreError} (as a rejection) `store_failed` where there is no room for a snapshot
 */
export async function openBackup(
  options: BackupOptions,
  over: AbortSignal,
): Promise<AsyncIterable<Uint8Array>> {
  const { store, kek, created } = options;
  const row = await readKekRow(store);
  if (row === null) throw new StoreError('store_failed', 'The store does not say how its master key is had.');
  const { file, size } = await snapshot(options);
  // Whoever was to read it may never begin.
  const close = () => void file.close().catch(() => {});
  over.addEventListener('abort', close, { once: true });
  if (over.aborted) close();
  const head = newHead(created, row);
  return (async function* () {
    yield head.line;
    yield* sealChunks(kek, head, file, size);
  })();
}

/** A copy of the store's file, without a name any more: it is gone with its handle, or with this process. */
async function snapshot({ store, directory }: BackupOptions): Promise<{ file: FileHandle; size: number }> {
  const folder = mkdtempSync(join(directory, prefix));
  try {
    await store.backup(folder);
    const file = await open(join(folder, 'data.mdb'), 'r');
    return { file, size: (await file.stat()).size };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Removes snapshots that a crash left half made. */
export function clearSnapshots(directory: string): void {
  for (const name of readdirSync(directory)) {
    if (name.startsWith(prefix)) rmSync(join(directory, name), { recursive: true, force: true });
  }
}
