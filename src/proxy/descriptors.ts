import { readFileSync } from 'node:fs';
import type net from 'node:net';
import { type Problem, problem } from '../actors/vault/problem.ts';

/** From this share of the limit on, a new client is only told so. */
const crowdedFrom = 0.9;
/** From here on, not even that: what is left is for connections to upstreams, the API and the store. */
const fullFrom = 0.95;
/** The same of what one network has open, all lanes together: two networks at least are needed to take everything. */
const crowdedByOne = 0.5;
const fullByOne = 0.6;
/** The limit can be changed while the process runs: how old what is known of it may be, in ms. */
const maxAgeMs = 1000;

export type Room = 'plenty' | 'crowded' | 'full';

/**
 * How near the process is to its limit of open files (`ulimit -n`), at which the system would drop connections
 * without a word. Where the system doesn't say what the limit is, nothing counts as near.
 */
export class Descriptors {
  #limit = Number.POSITIVE_INFINITY;
  #readAt = Number.NEGATIVE_INFINITY;

  /**
   * What room there is for a connection that was just accepted.
   * @param ofNetwork connections that its network has already
   * @param now ms, monotonic
   */
  roomFor(accepted: net.Socket, ofNetwork: number, now: number): Room {
    if (now - this.#readAt >= maxAgeMs) {
      this.#readAt = now;
      this.#limit = openFilesLimit() ?? this.#limit;
    }
    // The kernel gives out the lowest free number: a high one says that those below it are taken.
    const { fd = -1 } = (accepted as net.Socket & { _handle: { fd?: number } | null })._handle ?? {};
    if (fd >= this.#limit * fullFrom || ofNetwork >= this.#limit * fullByOne) return 'full';
    return fd >= this.#limit * crowdedFrom || ofNetwork >= this.#limit * crowdedByOne ? 'crowded' : 'plenty';
  }
}

/** What a client is told when there is no descriptor for what it wants. */
export function outOfDescriptors(): Problem {
  return problem(
    'overloaded',
    'The broker has as many connections open as the system lets it have. Try again later; the operator can raise its limit of open files (ulimit -n).',
    undefined,
    5,
  );
}

/** A quarter of all at most is the API's, and no more than this. */
const maxApiConnections = 8192;

/** Connections that the API may have open at once. */
export function apiConnections(): number {
  return Math.min(maxApiConnections, Math.floor((openFilesLimit() ?? 1024) / 4));
}

/** The soft limit; null where it can't be read, Infinity where there is none. */
function openFilesLimit(): number | null {
  try {
    const found = /^Max open files +(\S+)/m.exec(readFileSync('/proc/self/limits', 'latin1'));
    if (found === null) return null;
    return found[1] === 'unlimited' ? Number.POSITIVE_INFINITY : Number(found[1]);
  } catch {
    return null;
  }
}
