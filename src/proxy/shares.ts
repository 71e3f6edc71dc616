import { RATE_SLOTS } from '../actors/vault/state.ts';
import { LaneCounts } from './lane-counts.ts';

/** Bytes of the shared buffer for a number of lanes. */
export function shareBytes(lanes: number): number {
  return LaneCounts.bytes(RATE_SLOTS + 2, lanes);
}

/** What sessions have of things that all lanes share out, in shared memory: another lane is no way around a bound. */
export class Shares {
  /** Look-ups of names under way, by a session's slot. */
  readonly lookups: LaneCounts;
  /** The same of all sessions, in slot 0. */
  readonly allLookups: LaneCounts;
  /** Look-ups that wait for a thread, in slot 0. */
  readonly waitingLookups: LaneCounts;

  constructor(shared: SharedArrayBuffer, lanes: number, lane: number) {
    let at = 0;
    const next = (slots: number): LaneCounts => {
      const counts = new LaneCounts(shared, at, slots, lanes, lane);
      at += LaneCounts.bytes(slots, lanes);
      return counts;
    };
    this.lookups = next(RATE_SLOTS);
    this.allLookups = next(1);
    this.waitingLookups = next(1);
  }
}
