import { createHash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { Secret } from './secret.ts';

/**
 * Tokens are `brk_<kind>_` + 64 hex digits (32 random bytes) + 8 hex digits (CRC-32 of all that stands before
 * them), so that a secret scanner can tell a real one from look-alikes without asking us, and so that a
 * mistyped one is refused without a look-up. Only their SHA-256 is ever stored.
 */
const tokenKinds = {
  session: 'ses',
  agent: 'agt',
  operator: 'opr',
  approval: 'apr',
  invite: 'inv',
} as const;

export type TokenKind = keyof typeof tokenKinds;

const shape = /^brk_(ses|agt|opr|apr|inv)_[0-9a-f]{72}$/;
const kindOf = new Map(Object.entries(tokenKinds).map(([kind, tag]) => [tag, kind as TokenKind]));

function checksum(body: string): string {
  return crc32(body).toString(16).padStart(8, '0');
}

/** A new token and the hash to store in its place. */
export function mintToken(kind: TokenKind): { token: Secret; hash: string } {
  const body = `brk_${tokenKinds[kind]}_${randomBytes(32).toString('hex')}`;
  const token = body + checksum(body);
  return { token: new Secret(token), hash: hashToken(token) };
}

/** The kind a token claims, or null where its shape or checksum is wrong. Says nothing about its being valid. */
export function tokenKind(token: string): TokenKind | null {
  const match = shape.exec(token);
  if (match === null || checksum(token.slice(0, -8)) !== token.slice(-8)) return null;
  return kindOf.get(match[1] as (typeof tokenKinds)[TokenKind]) ?? null;
}

/**
 * SHA-256 of the token, hex: the key it is found by. Looking a hash up in a map compares hashes, not tokens,
 * so its timing tells nothing about any token.
 */
export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}
