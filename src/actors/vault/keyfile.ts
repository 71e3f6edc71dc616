import { type KeyObject, randomBytes } from 'node:crypto';
import {
  closeSync,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type { ScryptCost } from './password-hash.ts';
import { openBlob, type Sealed, sealBlob, takeKey } from './seal.ts';
import { StoreError } from './store.ts';

/**
 * How the key-encryption key of a store is had: it is the one in `master.key`, or it is `wrapped` by a key from the
 * master password (`salt` base64). `check` opens with the right key only.
 */
export type KekRow =
  | { readonly source: 'file'; readonly check: Sealed }
  | {
      readonly source: 'password';
      readonly check: Sealed;
      readonly salt: string;
      readonly cost: ScryptCost;
      readonly wrapped: Sealed;
    };

/** Gives the key-encryption key. `row`: how this store's key is had, null for a new store, which gets the row returned. */
export type KekProvider = (row: KekRow | null) => Promise<{ key: KeyObject; row: KekRow }>;

/** Where a data directory keeps its key, unless a password opens it. */
export function keyFile(directory: string): string {
  return join(directory, 'master.key');
}

/**
 * The key in `master.key` of the data directory: 32 random bytes in hex, made together with a new store.
 *
 * @throws {StoreError} (as a rejection) `key_missing`, `key_wrong`, or `directory_refused` if others may read the file.
 */
export function fileKek(directory: string): KekProvider {
  const file = keyFile(directory);
  return async (row) => {
    const text = readPrivateFile(file) ?? (row === null ? makeKeyFile(file) : null);
    if (text === null) {
      throw new StoreError(
        'key_missing',
        `${file} is missing, and without it the stored credentials can't be opened. Put the file back from where you keep it.`,
      );
    }
    const key = parseKey(text);
    if (key === null) {
      throw new StoreError(
        'key_wrong',
        `${file} does not hold a key (64 hex digits). Put the right file back.`,
      );
    }
    if (row === null) return { key, row: fileRow(key) };
    if (!isKeyOf(row, key)) {
      throw new StoreError('key_wrong', `${file} is not the key of this store. Put the right file back.`);
    }
    return { key, row };
  };
}

/** The row of a store whose key is in the file. */
export function fileRow(key: KeyObject): KekRow {
  return { source: 'file', check: newCheck(key) };
}

/**
 * The check of a store that keeps an audit anchor. The row that it is in can't be left out, nor made without the key:
 * where the anchor isn't there all the same, somebody took it away.
 */
export function newCheck(key: KeyObject): Sealed {
  return sealBlob(key, 'check', Buffer.from(anchored));
}

/** Whether the store keeps an anchor; false: no server has opened it yet that keeps one. */
export function keepsAnchor(row: KekRow, key: KeyObject): boolean {
  return openBlob(key, 'check', row.check)?.toString() === anchored;
}

const anchored = 'audit-anchor';

export function isKeyOf(row: KekRow, key: KeyObject): boolean {
  return openBlob(key, 'check', row.check) !== null;
}

/** The key in the text of a key file; null where it holds none. */
export function parseKey(text: string): KeyObject | null {
  return /^[0-9a-f]{64}\n?$/.test(text) ? takeKey(Buffer.from(text.trim(), 'hex')) : null;
}

function makeKeyFile(file: string): string {
  const text = `${randomBytes(32).toString('hex')}\n`;
  writePrivateFile(file, text);
  return text;
}

/** Keeps this key in the file (0600), for good when it returns. */
export function writeKeyFile(directory: string, key: KeyObject): void {
  writePrivateFile(keyFile(directory), `${key.export().toString('hex')}\n`);
}

/** Removes the key file, for good when it returns; that there is none is no error. */
export function removeKeyFile(directory: string): void {
  rmSync(keyFile(directory), { force: true });
  syncDirectory(directory);
}

/**
 * The text of a file that only its owner may read; null if there is none.
 *
 * @throws {StoreError} `directory_refused` if others may read it, or if it can't be read.
 */
export function readPrivateFile(file: string): string | null {
  let fd: number;
  try {
    fd = openSync(file, 'r');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOENT') return null;
    throw new StoreError('directory_refused', `${file} can't be read (${code}). Check its owner and mode.`);
  }
  try {
    // Of the opened file, not of its name: that could be another one by now.
    if (fstatSync(fd).mode & 0o077) {
      throw new StoreError(
        'directory_refused',
        `${file} can be read by other users. If nobody has, run: chmod 600 ${file}`,
      );
    }
    return readFileSync(fd, 'utf8');
  } finally {
    closeSync(fd);
  }
}

/** Writes the whole file (0600) or none of it, and returns when it would survive a power cut. */
export function writePrivateFile(file: string, text: string): void {
  const temporary = `${file}.${randomBytes(6).toString('hex')}.tmp`;
  writeFileSync(temporary, text, { mode: 0o600, flag: 'wx', flush: true });
  renameSync(temporary, file);
  syncDirectory(dirname(file));
}

/** What was renamed or removed in it stays so after a power cut. */
export function syncDirectory(directory: string): void {
  const fd = openSync(directory, 'r');
  fsyncSync(fd);
  closeSync(fd);
}
