/** A queue that also takes at its head: a ring that doubles, so that neither end ever moves what waits. */
export class Fifo<T> {
  #ring: (T | undefined)[] = new Array(8).fill(undefined);
  #head = 0;
  length = 0;

  push(item: T): void {
    if (this.length === this.#ring.length) this.#grow();
    this.#ring[(this.#head + this.length++) & (this.#ring.length - 1)] = item;
  }

  unshift(item: T): void {
    if (this.length === this.#ring.length) this.#grow();
    this.#head = (this.#head - 1) & (this.#ring.length - 1);
    this.#ring[this.#head] = item;
    this.length++;
  }

  peek(): T | undefined {
    return this.#ring[this.#head];
  }

  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const item = this.#ring[this.#head];
    this.#ring[this.#head] = undefined;
    this.#head = (this.#head + 1) & (this.#ring.length - 1);
    this.length--;
    return item;
  }

  /** The length stays a power of two, which makes the remainder a mask. */
  #grow(): void {
    const { length } = this.#ring;
    const grown = new Array<T | undefined>(length * 2).fill(undefined);
    for (let i = 0; i < length; i++) grown[i] = this.#ring[(this.#head + i) & (length - 1)];
    this.#ring = grown;
    this.#head = 0;
  }
}
