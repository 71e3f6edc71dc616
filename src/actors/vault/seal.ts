import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject, randomBytes } from 'node:crypto';

const algorithm = 'aes-256-gcm';

/** A sealed value as it is stored. Binary fields are base64. */
export interface Sealed {
  /** Counts the values that this row has had; it is part of what the tag protects. */
  readonly version: number;
  readonly nonce: string;
  readonly ct: string;
  readonly tag: string;
}

/**
 * Where a sealed value belongs. It is the associated data, so that a value moved to another vault, key or
 * version doesn't open there.
 */
export type Place = readonly [kind: 'credential' | 'slot' | 'key' | 'blob', ...path: string[]];

/** AES-256-GCM (NIST SP 800-38D) with a random 96-bit nonce. */
export function seal(key: KeyObject, place: Place, version: number, value: Buffer): Sealed {
  const nonce = randomBytes(12);
  const cipher = createCipheriv(algorithm, key, nonce).setAAD(associatedData(place, version));
  const ct = Buffer.concat([cipher.update(value), cipher.final()]);
  return {
    version,
    nonce: nonce.toString('base64'),
    ct: ct.toString('base64'),
    tag: cipher.getAuthTag().toString('base64'),
  };
}

/** A sealed value as it is kept in memory: bytes outside of the heap, nothing of them in base64. */
export interface Packed {
  readonly version: number;
  readonly nonce: Buffer;
  readonly ct: Buffer;
  readonly tag: Buffer;
}

export function pack({ version, nonce, ct, tag }: Sealed): Packed {
  const bytes = (text: string) => Buffer.from(text, 'base64');
  return { version, nonce: bytes(nonce), ct: bytes(ct), tag: bytes(tag) };
}

/** The value, or null where the row is damaged, belongs elsewhere, or was sealed with another key. Never throws. */
export function openSealed(key: KeyObject, place: Place, sealed: Sealed | null): Buffer | null {
  try {
    return sealed && openPacked(key, place, pack(sealed));
  } catch {
    return null;
  }
}

/** The same, of what was packed. */
export function openPacked(key: KeyObject, place: Place, packed: Packed): Buffer | null {
  try {
    const decipher = createDecipheriv(algorithm, key, packed.nonce, { authTagLength: 16 });
    decipher.setAAD(associatedData(place, packed.version)).setAuthTag(packed.tag);
    return Buffer.concat([decipher.update(packed.ct), decipher.final()]);
  } catch {
    return null;
  }
}

/** JSON keeps the parts apart: no two places have the same bytes. */
function associatedData(place: Place, version: number): Buffer {
  return Buffer.from(JSON.stringify([...place, version]));
}

/** Takes 32 bytes into a key object, which no dump of the heap shows, and wipes them. */
export function takeKey(bytes: Buffer): KeyObject {
  const key = createSecretKey(bytes);
  bytes.fill(0);
  return key;
}

/** 32 random bytes. */
export function newKey(): KeyObject {
  return takeKey(randomBytes(32));
}

/** A new data key, and the row to keep it in: sealed with the key-encryption key, for the vault of this id only. */
export function newDataKey(kek: KeyObject, vaultId: string): { key: KeyObject; wrapped: Sealed } {
  const bytes = randomBytes(32);
  const wrapped = seal(kek, ['key', vaultId], 1, bytes);
  return { key: takeKey(bytes), wrapped };
}

/** The data key of a vault, or null where its row can't be opened: then none of the vault's credentials can. */
export function unwrapDataKey(kek: KeyObject, vaultId: string, wrapped: Sealed | null): KeyObject | null {
  const bytes = openSealed(kek, ['key', vaultId], wrapped);
  return bytes?.length === 32 ? takeKey(bytes) : null;
}

/** Seals something of the broker's own, such as the key of its CA. */
export function sealBlob(kek: KeyObject, name: string, value: Buffer): Sealed {
  return seal(kek, ['blob', name], 1, value);
}

export function openBlob(kek: KeyObject, name: string, sealed: Sealed | null): Buffer | null {
  return openSealed(kek, ['blob', name], sealed);
}
