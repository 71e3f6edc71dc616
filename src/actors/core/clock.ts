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
