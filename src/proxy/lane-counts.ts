/**
 * Counts of one thing, such as connections, by slot, over all lanes. Each lane writes a row of its own in shared memory
 * and reads all of them: a lane that dies takes only its own counts with it.
 */
export class LaneCounts {
  readonly #rows: readonly Int32Array[];
  readonly #own: Int32Array;

  /** Bytes for a number of slots and lanes. */
  static bytes(slots: number, lanes: number): number {
    return 4 * slots * lanes;
  }

  /** @param at where the rows begin in `shared`, in bytes */
  constructor(shared: SharedArrayBuffer, at: number, slots: number, lanes: number, lane: number) {
    this.#rows = Array.from({ length: lanes }, (_, i) => new Int32Array(shared, at + 4 * slots * i, slots));
    this.#own = this.#rows[lane];
    // What a predecessor on this lane had ended with it. What is zero isn't written to: it takes no memory yet.
    for (let slot = 0; slot < slots; slot++) if (this.#own[slot] !== 0) Atomics.store(this.#own, slot, 0);
  }

  /** Of all lanes. */
  of(slot: number): number {
    let sum = 0;
    for (const row of this.#rows) sum += Atomics.load(row, slot);
    return sum;
  }

  add(slot: number): void {
    Atomics.add(this.#own, slot, 1);
  }

  sub(slot: number): void {
    Atomics.sub(this.#own, slot, 1);
  }
}
