import {
  createCipheriv,
  createDecipheriv,
  createHash,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import type { KekRow } from './keyfile.ts';
import { isCost } from './password-hash.ts';
import { StoreError } from './store.ts';

/*
 * A backup is one file: a line of JSON, which says how its key is had, and a snapshot of the store in chunks, sealed.
 *
 *     {"broker_backup":1,"created":"2026-01-31T09:00:00.000Z","salt":"<base64>","kek":{…}}\n
 *     chunk, chunk, … last chunk
 *
 * A chunk is 64 KiB of the snapshot (the last one: what is left) and its tag of 16 octets, AES-256-GCM. The key is
 * HKDF-SHA-256 (RFC 5869) of the store's key-encryption key with the salt. The nonce counts the chunks and says which is
 * the last, and each is bound to the head line: chunks can't be left out, added, moved, or come from another backup.
 */

/** The head of a backup. */
export interface BackupHead {
  readonly created: string;
  /** How the key was had then: the same key file, or the password of that time, opens it. */
  readonly kek: KekRow;
  readonly salt: string;
}

const algorithm = 'aes-256-gcm';
const chunkSize = 64 * 1024;
const tagSize = 16;
/** Octets. */
const longestHead = 8192;
const info = 'broker backup 1';

/** A head for the backup that is made now, as the line that it begins with. */
export function newHead(created: string, kek: KekRow): { readonly head: BackupHead; readonly line: Buffer } {
  const head = { created, salt: randomBytes(32).toString('base64'), kek };
  return { head, line: Buffer.from(`${JSON.stringify({ broker_backup: 1, ...head })}\n`) };
}

/**
 * Reads the head of a backup.
 * @throws {StoreError} (as a rejection) `store_unreadable` where it is none, `store_newer` where it is of a later form
 */
export async function readHead(
  file: FileHandle,
): Promise<{ readonly head: BackupHead; readonly line: Buffer }> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(longestHead), 0, longestHead, 0);
  const line = buffer.subarray(0, buffer.subarray(0, bytesRead).indexOf(10) + 1);
  const head = parse(line.toString('utf8'));
  if (head.broker_backup !== undefined && head.broker_backup !== 1) {
    throw new StoreError(
      'store_newer',
      'This backup was made by a later version of the broker. Restore it with that.',
    );
  }
  if (!isHead(head)) {
    throw new StoreError('store_unreadable', 'This is not a backup of the broker. Name another file.');
  }
  return { head, line };
}

type Unchecked = Partial<BackupHead> & { readonly broker_backup?: unknown };

function parse(text: string): Unchecked {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}

function isHead(head: Unchecked): head is BackupHead {
  const { broker_backup, salt, created, kek } = head;
  if (broker_backup !== 1 || typeof salt !== 'string' || typeof created !== 'string') return false;
  if (kek?.source === 'password') return isCost(kek.cost) && typeof kek.salt === 'string';
  return kek?.source === 'file';
}

/** The chunks of a snapshot: `size` octets of the file. */
export async function* sealChunks(
  key: KeyObject,
  { head, line }: { readonly head: BackupHead; readonly line: Buffer },
  file: FileHandle,
  size: number,
): AsyncGenerator<Uint8Array> {
  const sealing = sealingKey(key, head);
  const bound = digest(line);
  for (let at = 0, count = 0; at < size; at += chunkSize, count++) {
    const chunk = await readExactly(file, at, Math.min(chunkSize, size - at));
    const cipher = createCipheriv(algorithm, sealing, nonce(count, at + chunkSize >= size)).setAAD(bound);
    yield Buffer.concat([cipher.update(chunk), cipher.final(), cipher.getAuthTag()]);
  }
}

/**
 * The snapshot in a backup of `size` octets, piece by piece.
 * @throws {StoreError} (as a rejection) `store_unreadable` where a chunk isn't what was written
 */
export async function* openChunks(
  key: KeyObject,
  { head, line }: { readonly head: BackupHead; readonly line: Buffer },
  file: FileHandle,
  size: number,
): AsyncGenerator<Buffer> {
  const sealing = sealingKey(key, head);
  const bound = digest(line);
  const step = chunkSize + tagSize;
  let count = 0;
  for (let at = line.length; at === line.length || at < size; at += step, count++) {
    const length = Math.min(step, size - at);
    if (length <= tagSize) throw damaged();
    const chunk = await readExactly(file, at, length);
    const decipher = createDecipheriv(algorithm, sealing, nonce(count, at + step >= size), {
      authTagLength: tagSize,
    });
    decipher.setAAD(bound).setAuthTag(chunk.subarray(-tagSize));
    try {
      yield Buffer.concat([decipher.update(chunk.subarray(0, -tagSize)), decipher.final()]);
    } catch {
      throw damaged();
    }
  }
}

function damaged(): StoreError {
  return new StoreError(
    'store_unreadable',
    'The backup is damaged or cut short. Nothing was restored. Use another one.',
  );
}

function sealingKey(key: KeyObject, { salt }: BackupHead): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', key, Buffer.from(salt, 'base64'), info, 32));
}

function digest(line: Buffer): Buffer {
  return createHash('sha256').update(line).digest();
}

/** 96 bits: the number of the chunk, and whether it is the last. No key seals two backups, so that none comes twice. */
function nonce(count: number, isLast: boolean): Buffer {
  const bytes = Buffer.alloc(12);
  bytes.writeUIntBE(count, 5, 6);
  bytes[11] = isLast ? 1 : 0;
  return bytes;
}

async function readExactly(file: FileHandle, at: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(length), 0, length, at);
  if (bytesRead < length) throw damaged();
  return buffer;
}
