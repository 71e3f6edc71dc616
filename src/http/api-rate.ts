import type { Clock } from '../actors/core/clock.ts';
import { networkOf } from '../actors/vault/network.ts';
import { type Problem, problem } from '../actors/vault/problem.ts';
import type { Identity } from '../actors/vault/protocol.ts';
import { actorOf } from './caller.ts';

/** What one agent may ask of the API. Operators, and addresses that show no token, have ten times as much. */
export interface RateOptions {
  /** Requests a second; 0: no limit. */
  readonly rate: number;
  /** Requests at once above the rate. */
  readonly burst: number;
}

/** Counts each caller's requests, whatever number of tokens and connections they come by. */
export interface ApiRate {
  /** Counts a request of this caller; `rate_limited` where it is one too many, which isn't counted. */
  ofCaller(identity: Identity): Problem | null;
  /** The same for one who shows no token, by address. */
  ofAddress(peer: string): Problem | null;
}

/** Callers who are remembered at once: those whose time is over are forgotten first. */
const maxCallers = 16_384;
const moreForOperators = 10;

/**
 * One number a caller: when all that it has asked so far will have been within the rate (GCRA, the leaky bucket as a
 * meter, ITU-T I.371). A caller whose number lies in the past has its whole burst again, and need not be remembered.
 */
export function createApiRate({ rate, burst }: RateOptions, clock: Pick<Clock, 'monotonic'>): ApiRate {
  const ends = new Map<string, number>();

  function makeRoom(now: number): void {
    for (const [caller, end] of ends) if (end <= now) ends.delete(caller);
    for (const caller of ends.keys()) {
      if (ends.size <= (maxCallers / 8) * 7) return;
      ends.delete(caller);
    }
  }

  function take(caller: string, share: number): Problem | null {
    if (rate === 0) return null;
    const now = clock.monotonic();
    const interval = 1000 / (rate * share);
    const end = Math.max(ends.get(caller) ?? 0, now) + interval;
    const over = end - now - Math.max(1, burst * share) * interval;
    if (over > 0) return problem('rate_limited', tooMany, undefined, Math.ceil(over / 1000));
    if (!ends.has(caller) && ends.size >= maxCallers) makeRoom(now);
    ends.set(caller, end);
    return null;
  }

  return {
    ofCaller: (identity) => take(actorOf(identity), identity.kind === 'operator' ? moreForOperators : 1),
    ofAddress: (peer) => take(networkOf(peer), moreForOperators),
  };
}

const tooMany = 'Too many requests to the API. Wait as Retry-After says.';
