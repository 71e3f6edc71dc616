/** Time, injected so that tests own it. Every unit is milliseconds. */
export interface Clock {
  /** Wall time since 1970; it may jump. */
  now(): number;
  /** Never goes back. Only differences mean something. */
  monotonic(): number;
  /** Runs `fn` once after `ms`; the function returned cancels it. Timers keep the process alive. */
  setTimer(ms: number, fn: () => void): () => void;
}

/** `performance.now()` counts from the start of each thread; this offset makes it one scale for the process. */
const processOffset = Number(process.hrtime.bigint()) / 1e6 - performance.now();

/** Above it `setTimeout` fires at once. */
const longestTimer = 2 ** 31 - 1;

/** The machine's clock. `monotonic()` of two threads of one process may be compared. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now() + processOffset,
  setTimer(ms, fn) {
    const timer = setTimeout(fn, Math.min(ms, longestTimer));
    return () => clearTimeout(timer);
  },
};

export interface ManualClock extends Clock {
  /**
   * Moves time on by `ms`, firing due timers in their order (equal times: as they were set) and letting
   * promises and immediates settle before the first, between them and after the last.
   */
  advance(ms: number): Promise<void>;
}

/** A clock that stands still until told. `start`: wall time in ms. */
export function manualClock(start = 0): ManualClock {
  let elapsed = 0;
  const timers = new Set<{ at: number; fn: () => void }>();
  const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

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
