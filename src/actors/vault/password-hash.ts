import { randomBytes, scryptSync, timingSafeEqual } from 'node:crypto';
import { invalid } from './fields.ts';
import type { Problem } from './problem.ts';

/** What scrypt (RFC 7914) costs: memory is 128 · N · r octets, time about N · r · p. */
export interface ScryptCost {
  readonly N: number;
  readonly r: number;
  readonly p: number;
}

/** 128 MiB and some 0.3 s a guess. */
export const passwordCost: ScryptCost = { N: 2 ** 17, r: 8, p: 1 };

/** Octets of a salt, and of what is derived. */
const saltSize = 16;
const keySize = 32;

/** Octets. */
const mostMemory = 2 ** 29;

const shortest = 8;
const longest = 1024;

/** Refuses what can't be a new password; lengths are in Unicode code points (NIST SP 800-63B section 3.1.1). */
export function passwordProblem(password: string, field: string): Problem | null {
  if (!password.isWellFormed())
    return invalid(field, 'holds half a surrogate pair. Send well-formed Unicode.');
  const length = [...password.slice(0, 2 * longest + 1)].length;
  if (length >= shortest && length <= longest) return null;
  return invalid(field, `must have ${shortest} to ${longest} characters.`);
}

/** Whether this is a cost that this program might have set: one from elsewhere must not exhaust the machine. */
export function isCost(value: unknown): value is ScryptCost {
  const { N, r, p } = (value ?? {}) as Record<string, unknown>;
  if (typeof N !== 'number' || typeof r !== 'number' || typeof p !== 'number') return false;
  const isPower = N > 1 && Number.isInteger(Math.log2(N));
  const areSmall = [r, p].every((each) => Number.isInteger(each) && each >= 1 && each <= 16);
  return isPower && areSmall && 128 * N * r <= mostMemory;
}

export function newSalt(): Buffer {
  return randomBytes(saltSize);
}

/**
 * 32 octets from a password: scrypt over its NFC form in UTF-8, so that it doesn't matter how a keyboard composes. It
 * holds up its thread for as long as `cost` says.
 *
 * @throws RangeError where the cost is none, see `isCost`
 */
export function scryptKey(password: string, salt: Uint8Array, cost: ScryptCost): Buffer {
  if (!isCost(cost)) throw new RangeError('The cost of a password is none that is taken.');
  // OpenSSL counts a little more than scrypt's own 128 N r octets.
  const maxmem = 128 * cost.r * (cost.N + cost.p) + 2 ** 20;
  return scryptSync(password.normalize('NFC'), salt, keySize, { ...cost, maxmem });
}

/** A new password as it is stored: `scrypt$N$r$p$salt$hash`, salt and hash in base64. */
export function hashPassword(password: string, cost = passwordCost): string {
  const salt = newSalt();
  return encode(cost, salt, scryptKey(password, salt, cost));
}

function encode({ N, r, p }: ScryptCost, salt: Buffer, hash: Buffer): string {
  return ['scrypt', N, r, p, salt.toString('base64'), hash.toString('base64')].join('$');
}

interface Encoded {
  readonly cost: ScryptCost;
  readonly salt: Uint8Array;
  readonly hash: Uint8Array;
}

/**
 * What is checked in place of a password that isn't there: whether there is such an operator must not show in the time
 * of the answer. To find what has this hash would be to break scrypt.
 */
const dummy: Encoded = { cost: passwordCost, salt: Buffer.alloc(saltSize), hash: Buffer.alloc(keySize) };

const shape = /^scrypt\$(\d{1,8})\$(\d{1,3})\$(\d{1,3})\$([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+)$/;

function decode(encoded: string): Encoded | null {
  const parts = shape.exec(encoded);
  if (parts === null) return null;
  const [N, r, p] = parts.slice(1, 4).map(Number);
  const [salt, hash] = parts.slice(4).map((text) => Buffer.from(text, 'base64'));
  return isCost({ N, r, p }) && hash.length === keySize ? { cost: { N, r, p }, salt, hash } : null;
}

/** Compares in constant time. `encoded` null, or not readable: false, after as long as a wrong password takes. */
export function verifyPassword(password: string, encoded: string | null): boolean {
  const { cost, salt, hash } = decode(encoded ?? '') ?? dummy;
  return timingSafeEqual(scryptKey(password, salt, cost), hash);
}
