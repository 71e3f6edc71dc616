import { randomBytes, X509Certificate } from 'node:crypto';
import { accept, type Result, refuse } from './vault/problem.ts';
import { createRoot } from './x509.ts';

/** A root's certificate and its private key (PKCS #8). */
export interface RootPem {
  readonly certPem: string;
  readonly keyPem: string;
}

/** The roots of a broker, as they are kept. */
export interface CaRoots {
  readonly current: RootPem;
  /** What takes over `at` (wall clock, ms); its certificate is handed out before, so that clients trust it by then. */
  readonly next: { readonly root: RootPem; readonly at: number } | null;
}

/** How long the root before is still handed out: connections of that moment were met with its leaves. */
const afterglowMs = 60_000;

/** What holds at a moment. */
export interface Standing {
  /** Signs every leaf. */
  readonly signer: RootPem;
  /** To be trusted, in PEM: the signer first. */
  readonly trusted: readonly string[];
  /** When something of this changes, wall clock ms; null: never. */
  readonly until: number | null;
  /** The roots without the one that is over; the same object while there is none. */
  readonly settled: CaRoots;
}

/** The standing of these roots at `now`. Time alone decides, so that a restart changes nothing. */
export function standing(roots: CaRoots, now: number): Standing {
  const { current, next } = roots;
  if (next === null) return { signer: current, trusted: [current.certPem], until: null, settled: roots };
  if (now < next.at) {
    return { signer: current, trusted: [current.certPem, next.root.certPem], until: next.at, settled: roots };
  }
  const end = next.at + afterglowMs;
  const isOver = now >= end;
  return {
    signer: next.root,
    trusted: isOver ? [next.root.certPem] : [next.root.certPem, current.certPem],
    until: isOver ? null : end,
    settled: isOver ? { current: next.root, next: null } : roots,
  };
}

/**
 * The roots after a rotation is asked for: one more, which takes over `overlapMs` from now. With 0 at once, also the one
 * that waits already; else a second rotation is refused while the first is under way.
 */
export function rotated(roots: CaRoots, now: number, overlapMs: number): Result<CaRoots> {
  const { next } = roots;
  const at = now + overlapMs;
  if (next === null) return accept({ current: roots.current, next: { root: newRoot(now), at } });
  if (now >= next.at) return accept({ current: next.root, next: { root: newRoot(now), at } });
  if (overlapMs === 0) return accept({ current: roots.current, next: { root: next.root, at } });
  const when = new Date(next.at).toISOString();
  return refuse(
    'conflict',
    `The next root waits already, and begins to sign at ${when}. To have it sign now, rotate with --now.`,
  );
}

export function newRoot(now: number): RootPem {
  return createRoot({ commonName: `broker CA ${randomBytes(4).toString('hex')}`, now });
}

/** Names a certificate to humans. */
export function fingerprint(certPem: string): string {
  return new X509Certificate(certPem).fingerprint256;
}

/** As roots are kept: JSON. A single root, as the first version kept it, is read too. */
export function parseRoots(json: string): CaRoots {
  const kept = JSON.parse(json) as CaRoots | RootPem;
  return 'current' in kept ? kept : { current: kept, next: null };
}
