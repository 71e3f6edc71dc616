import type { Clock } from '../core/clock.ts';

/** One timer for the earliest of many moments, given as wall clock ms. */
export interface Alarm {
  /** Rings at `at` or earlier; null: no matter. */
  before(at: number | null): void;
}

/** Timers aren't set for longer, so that a jump of the wall clock is noticed. */
const longestWaitMs = 10 * 60_000;
const retryMs = 1000;

/** `ring` may ring in vain. Where it gives false it is called again a second later. */
export function createAlarm(clock: Clock, ring: () => boolean): Alarm {
  let set: { at: number; cancel: () => void } | null = null;

  function before(at: number | null): void {
    if (at === null || (set !== null && set.at <= at)) return;
    set?.cancel();
    const wait = Math.min(Math.max(at - clock.now(), 0), longestWaitMs);
    set = { at: clock.now() + wait, cancel: clock.setTimer(wait, rings) };
  }

  function rings(): void {
    set = null;
    if (!ring()) before(clock.now() + retryMs);
  }

  return { before };
}
