import type { Clock } from '../../actors/core/clock.ts';
import type { Stats } from '../front-options.ts';

/** A minute of the proxy's work. */
export interface Minute {
  readonly requests: number;
  readonly failures: number;
  readonly refusals: number;
  /** Half, and 95 of 100, of the requests took at most so many ms; null: there were none. */
  readonly p50: number | null;
  readonly p95: number | null;
}

export interface History {
  /** Oldest first, always an hour of them; the last one is the minute that runs. */
  minutes(): readonly Minute[];
  stop(): void;
}

const minuteMs = 60_000;
export const minutesKept = 60;

/** Remembers the running totals at the end of each minute, for an hour. */
export function createHistory(stats: () => Stats, clock: Clock): History {
  // What was counted before this began isn't of any minute.
  const totals: Stats[] = [stats()];
  let cancel = clock.setTimer(minuteMs, function tick() {
    totals.push(stats());
    if (totals.length > minutesKept) totals.shift();
    cancel = clock.setTimer(minuteMs, tick);
  });

  return {
    minutes() {
      const all = [...totals, stats()];
      const known = all.slice(1).map((now, i) => between(all[i], now));
      return [...Array.from({ length: minutesKept - known.length }, () => nothing), ...known];
    },
    stop: () => cancel(),
  };
}

const nothing: Minute = { requests: 0, failures: 0, refusals: 0, p50: null, p95: null };

function between(before: Stats, now: Stats): Minute {
  const counts = now.durations.counts.map((count, i) => count - (before.durations.counts[i] ?? 0));
  return {
    requests: now.requests - before.requests,
    failures: now.failures - before.failures,
    refusals: refusalsOf(now) - refusalsOf(before),
    p50: quantile(now.durations.bounds, counts, 0.5),
    p95: quantile(now.durations.bounds, counts, 0.95),
  };
}

function refusalsOf({ refusals }: Stats): number {
  return refusals.reduce((sum, { count }) => sum + count, 0);
}

/** The bound (ms) that a share of the counted is within; what is above all bounds counts as twice the last. */
export function quantile(bounds: readonly number[], counts: readonly number[], share: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total <= 0) return null;
  let seen = 0;
  for (const [i, count] of counts.entries()) {
    seen += count;
    if (seen >= total * share) return bounds[i] ?? 2 * (bounds.at(-1) ?? 0);
  }
  return null;
}
