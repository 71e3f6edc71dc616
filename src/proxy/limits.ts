import type { RateLimit } from '../actors/vault/model.ts';
import { RATE_SLOTS } from '../actors/vault/state.ts';

/** Bytes of the shared buffer for a number of lanes. */
export function limitBytes(lanes: number): number {
  return RATE_SLOTS * (8 + 4 * lanes);
}

/**
 * Rate limits of sessions, shared by all lanes, so that neither another tunnel nor another lane is a way
 * around them. The rate is GCRA: one 64-bit word a slot holds the theoretical arrival time (µs of the
 * machine's monotonic clock); requests in flight are counted per lane, so that a lane that dies takes only
 * its own counts with it.
 */
export class Limits {
  readonly #arrival: BigInt64Array;
  readonly #inFlight: readonly Int32Array[];
  readonly #own: Int32Array;

  constructor(shared: SharedArrayBuffer, lanes: number, lane: number) {
    this.#arrival = new BigInt64Array(shared, 0, RATE_SLOTS);
    this.#inFlight = Array.from(
      { length: lanes },
      (_, i) => new Int32Array(shared, RATE_SLOTS * (8 + 4 * i), RATE_SLOTS),
    );
    this.#own = this.#inFlight[lane];
    // What a predecessor on this lane had in flight ended with it.
    this.#own.fill(0);
  }

  /**
   * Takes one request. 0: taken, and `release` is owed; else the whole seconds to wait.
   * @param nowMicros µs, monotonic, the same clock on all lanes
   */
  take(slot: number, limit: RateLimit, nowMicros: number): number {
    if (limit.inflight > 0) {
      let flying = 0;
      for (const lane of this.#inFlight) flying += Atomics.load(lane, slot);
      if (flying >= limit.inflight) return 1;
    }
    if (limit.rps > 0) {
      const step = 1e6 / limit.rps;
      const room = step * Math.max(1, limit.burst);
      for (;;) {
        const seen = Atomics.load(this.#arrival, slot);
        const next = Math.max(Number(seen), nowMicros) + step;
        if (next - nowMicros > room) return Math.max(1, Math.ceil((next - room - nowMicros) / 1e6));
        if (Atomics.compareExchange(this.#arrival, slot, seen, BigInt(Math.round(next))) === seen) break;
      }
    }
    Atomics.add(this.#own, slot, 1);
    return 0;
  }

  release(slot: number): void {
    Atomics.sub(this.#own, slot, 1);
  }
}
