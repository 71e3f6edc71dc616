/** Bytes that wait for more to come: grows by doubling, so that a sender of single bytes costs linear work. */
export class Accumulator {
  #buffer: Buffer | null = null;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(chunk: Buffer): void {
    if (this.#buffer === null) {
      // The common case is one chunk: kept as it is, copied only if another comes.
      this.#buffer = chunk;
      this.#length = chunk.length;
      return;
    }
    const length = this.#length + chunk.length;
    if (length > this.#buffer.length || this.#buffer.length === this.#length) {
      const grown = Buffer.allocUnsafe(Math.max(length, this.#length * 2, 1024));
      this.#buffer.copy(grown, 0, 0, this.#length);
      this.#buffer = grown;
    }
    chunk.copy(this.#buffer, this.#length);
    this.#length = length;
  }

  /** All of it, without a copy. Valid until the next `push`. */
  view(): Buffer {
    return this.#buffer === null ? empty : this.#buffer.subarray(0, this.#length);
  }

  /** Takes all of it out. */
  take(): Buffer {
    const all = this.view();
    this.#buffer = null;
    this.#length = 0;
    return all;
  }
}

const empty = Buffer.alloc(0);
