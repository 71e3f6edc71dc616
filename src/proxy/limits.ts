import type { RateLimit } from '../actors/vault/model.ts';
import { RATE_SLOTS } from '../actors/vault/state.ts';
import { takeRate } from './gcra.ts';
import { LaneCounts } from './lane-counts.ts';

/** Bytes of the shared buffer for a number of lanes. */
export function limitBytes(lanes: number): number {
  return 8 * RATE_SLOTS + LaneCounts.bytes(RATE_SLOTS, lanes);
}

/**
 * Rate limits of sessions, shared by all lanes, so that neither another tunnel nor another lane is a way
 * around them. The rate is GCRA: one 64-bit word a slot holds the theoretical arrival time (µs of the
 * machine's monotonic clock); beside it the requests in flight are counted.
 */
export class Limits {
  readonly #arrival: BigInt64Array;
  readonly #inFlight: LaneCounts;

  constructor(shared: SharedArrayBuffer, lanes: number, lane: number) {
    this.#arrival = new BigInt64Array(shared, 0, RATE_SLOTS);
    this.#inFlight = new LaneCounts(shared, 8 * RATE_SLOTS, RATE_SLOTS, lanes, lane);
  }

  /**
   * Takes one request. 0: taken, and `release` is owed; else the whole seconds to wait.
   * @param nowMicros µs, monotonic, the same clock on all lanes
   */
  take(slot: number, limit: RateLimit, nowMicros: number): number {
    if (limit.inflight > 0 && this.#inFlight.of(slot) >= limit.inflight) return 1;
    if (limit.rps > 0) {
      const wait = takeRate(this.#arrival, slot, limit, nowMicros);
      if (wait > 0) return wait;
    }
    this.#inFlight.add(slot);
    return 0;
  }

  release(slot: number): void {
    this.#inFlight.sub(slot);
  }
}
