import { chmodSync, mkdirSync, readdirSync, type Stats, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { StoreError } from './store.ts';

/** SQLITE_BUSY: someone else holds the lock. */
const sqliteBusy = 5;

/** A data directory that this process holds until `close`. */
export interface DataDirectory {
  /** Absolute. */
  readonly path: string;
  close(): void;
}

/**
 * Takes the data directory for this process: makes it (0700) if it isn't there, makes an empty one private, refuses one
 * that others could look into already, and refuses to share it with another server. Sets the umask to 077, since all
 * that is written later is private too.
 *
 * @throws {StoreError} `directory_refused` or `directory_in_use`, saying what to do.
 */
export function openDirectory(directory: string): DataDirectory {
  const path = resolve(directory);
  process.umask(0o077);
  const stat = make(path);
  if (!stat.isDirectory()) throw refused(`The data directory ${path} is not a directory. Name another.`);
  if (process.geteuid && stat.uid !== process.geteuid()) {
    throw refused(`The data directory ${path} belongs to another user. Start as that user, or name another.`);
  }
  if (stat.mode & 0o077 && !madePrivate(path)) {
    throw refused(`The data directory ${path} is open to other users. Run: chmod 700 ${path}`);
  }
  const lock = takeLock(path);
  return { path, close: () => lock.close() };
}

/** An empty directory, as `mkdir` or a container's volume makes it, holds nothing yet that others could have read. */
function madePrivate(path: string): boolean {
  if (readdirSync(path).length > 0) return false;
  chmodSync(path, 0o700);
  return true;
}

function refused(message: string, cause?: unknown): StoreError {
  return new StoreError('directory_refused', message, { cause });
}

function make(path: string): Stats {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    return statSync(path);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    throw refused(`The data directory ${path} can't be made (${code}). Make it, or name another.`, error);
  }
}

/**
 * SQLite is used for nothing but its lock on an empty file: the only one in Node that the kernel drops when the process
 * dies, however it dies, and that also holds between containers. A file with a process id is neither.
 */
function takeLock(path: string): DatabaseSync {
  const file = join(path, 'broker.lock');
  let lock: DatabaseSync | undefined;
  try {
    lock = new DatabaseSync(file);
    lock.exec('PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE');
    return lock;
  } catch (error) {
    lock?.close();
    if ((error as { errcode?: number }).errcode !== sqliteBusy) {
      throw refused(
        `The file ${file} can't be locked. Remove it if no broker runs on this directory.`,
        error,
      );
    }
    throw new StoreError(
      'directory_in_use',
      `Another broker runs on the data directory ${path}. Stop it first, or name another directory.`,
      { cause: error },
    );
  }
}
