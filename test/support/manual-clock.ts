import type { Clock } from '../../src/actors/core/clock.ts';

export interface ManualClock extends Clock {
  /**
   * Moves time on by `ms`, firing due timers in their order (equal times: as they were set) and letting
   * promises and immediates settle before the first, between them and after the last.
   */
  advance(ms: number): Promise<void>;
  /** Has `advance` wait also while this is so: for work of other threads, which no turn of the event loop ends. */
  waitWhile(busy: () => boolean): void;
}

/** A clock that stands still until told. `start`: wall time in ms. */
export function manualClock(start = 0): ManualClock {
  let elapsed = 0;
  const elsewhere: (() => boolean)[] = [];
  const timers = new Set<{ at: number; fn: () => void }>();
  /** More than one turn of the event loop: actors give way after each two milliseconds, also of this clock. */
  const settle = async () => {
    for (let turns = 0; turns < 4; turns++) {
      await new Promise<void>((resolve) => setImmediate(resolve));
      if (elsewhere.some((busy) => busy())) turns = -1;
    }
  };

  function earliest(limit: number) {
    let first: { at: number; fn: () => void } | undefined;
    // Sets keep insertion order, so `<` leaves equal times in the order they were set.
    for (const timer of timers) if (timer.at <= limit && (!first || timer.at < first.at)) first = timer;
    return first;
  }

  return {
    now: () => start + elapsed,
    monotonic: () => elapsed,
    setTimer(ms, fn) {
      const timer = { at: elapsed + Math.max(0, ms), fn };
      timers.add(timer);
      return () => {
        timers.delete(timer);
      };
    },
    waitWhile: (busy) => void elsewhere.push(busy),
    async advance(ms) {
      const target = elapsed + ms;
      await settle();
      for (let timer = earliest(target); timer; timer = earliest(target)) {
        timers.delete(timer);
        elapsed = Math.max(elapsed, timer.at);
        timer.fn();
        await settle();
      }
      elapsed = target;
    },
  };
}
