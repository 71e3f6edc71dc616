import { type ProblemCode, problems } from '../actors/vault/problem.ts';

/** Upper bounds of the duration histogram, in ms; one more bucket takes what is above. */
export const durationBounds = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 60_000] as const;

const codes = Object.keys(problems) as ProblemCode[];

/** What each lane counts, in the order of its words. */
const words = {
  requests1xx: 0,
  requests2xx: 1,
  requests3xx: 2,
  requests4xx: 3,
  requests5xx: 4,
  /** Ended without an answer: the client or the upstream went away. */
  requestsAborted: 5,
  injected: 6,
  bytesIn: 7,
  bytesOut: 8,
  durationSum: 9,
  connectionsOpened: 10,
  tunnelsOpened: 11,
  upstreamOpened: 12,
  upstreamReused: 13,
  /** As of the last sweep: connections and what else has a deadline. */
  open: 14,
} as const;

const firstBucket = 16;
const firstCode = firstBucket + durationBounds.length + 1;
const size = firstCode + codes.length;

/** Bytes of the shared table for a number of lanes. */
export function meterBytes(lanes: number): number {
  return lanes * size * 8;
}

/**
 * Counters of one lane in shared memory: each lane writes its own row and only that, so counting is one plain
 * addition; the main thread reads all rows when it is asked for metrics. A row outlives its lane.
 */
export class Meters {
  readonly #row: Float64Array;

  constructor(shared: SharedArrayBuffer, lane: number) {
    this.#row = new Float64Array(shared, lane * size * 8, size);
  }

  count(word: Exclude<keyof typeof words, 'open'>): void {
    this.#row[words[word]]++;
  }

  setOpen(connections: number): void {
    this.#row[words.open] = connections;
  }

  /** One finished request: the same facts as its audit record. */
  request(
    status: number,
    error: string | null,
    injected: boolean,
    bytesIn: number,
    bytesOut: number,
    ms: number,
  ): void {
    const row = this.#row;
    row[status === 0 ? words.requestsAborted : Math.floor(status / 100) - 1]++;
    if (injected) row[words.injected]++;
    row[words.bytesIn] += bytesIn;
    row[words.bytesOut] += bytesOut;
    row[words.durationSum] += ms;
    let bucket = 0;
    while (bucket < durationBounds.length && ms > durationBounds[bucket]) bucket++;
    row[firstBucket + bucket]++;
    const code = error === null ? -1 : codes.indexOf(error as ProblemCode);
    if (code >= 0) row[firstCode + code]++;
  }
}

export interface MeterReading {
  readonly counts: Readonly<Record<keyof typeof words, number>>;
  /** Requests by duration, not cumulated; the last is above all bounds. */
  readonly buckets: readonly number[];
  readonly errors: readonly { readonly code: string; readonly count: number }[];
}

/** Sums of all lanes. */
export function readMeters(shared: SharedArrayBuffer, lanes: number): MeterReading {
  const table = new Float64Array(shared);
  const sum = (word: number): number => {
    let total = 0;
    for (let lane = 0; lane < lanes; lane++) total += table[lane * size + word];
    return total;
  };
  const counts = Object.fromEntries(Object.entries(words).map(([name, word]) => [name, sum(word)]));
  return {
    counts: counts as MeterReading['counts'],
    buckets: Array.from({ length: durationBounds.length + 1 }, (_, i) => sum(firstBucket + i)),
    errors: codes.map((code, i) => ({ code, count: sum(firstCode + i) })).filter(({ count }) => count > 0),
  };
}
