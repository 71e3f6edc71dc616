/** Chance that can be repeated: the same seed and index give the same numbers on every machine. */
export interface Random {
  /** A whole number from 0 to below `n`. */
  below(n: number): number;
  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number;
  /** true in `percent` of a hundred. */
  chance(percent: number): boolean;
  pick<T>(list: readonly T[]): T;
}

/** An example has numbers of its own, so that it can be made again without those before it. */
export function random(seed: number, index: number): Random {
  // sfc32 (PractRand), 32-bit state words; the first rounds only mix the seed in.
  let a = seed | 0;
  let b = index | 0;
  let c = 0x9e3779b9 | 0;
  let counter = 1;
  const next = (): number => {
    const sum = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return (sum >>> 0) / 2 ** 32;
  };
  for (let i = 0; i < 15; i++) next();
  const below = (n: number) => Math.floor(next() * n);
  return {
    below,
    between: (low, high) => low + below(high - low + 1),
    chance: (percent) => next() * 100 < percent,
    pick: (list) => list[below(list.length)],
  };
}
