/** Blocks of two bytes, by their hash. */
const filterSize = 8192;
const mostSkip = 0x3f;
/** This block begins a pattern; this one is somewhere in one. */
const begins = 0x80;
const within = 0x40;

/**
 * Finds any of several patterns in a stream of bytes (Aho and Corasick, 1975), in one step a byte at most, whatever
 * the bytes are. Where no pattern has begun, a table of two-byte blocks (Wu and Manber, 1994) tells how far the next one is
 * away at least, so that most bytes aren't looked at. Built once, used by any number of scanners.
 *
 * A state is a number: 0 is the root, and each other one stands for the beginning of a pattern.
 */
export class EchoAutomaton {
  /** Length of the shortest pattern, in bytes, as far as it counts for skipping. */
  readonly #window: number;
  /** 1 for each byte that is in a pattern. */
  readonly #used = new Uint8Array(256);
  readonly #filter = new Uint8Array(filterSize);
  readonly #root = new Int32Array(256);
  readonly #child: Int32Array;
  readonly #sibling: Int32Array;
  readonly #byte: Uint8Array;
  readonly #fail: Int32Array;
  readonly #depth: Int32Array;
  /** The longest pattern that ends with a state, as its state; 0: none. */
  readonly #accept: Int32Array;
  readonly #names = new Map<number, ReadonlySet<string>>();

  /** @param patterns latin1, none empty, each with what it is reported by */
  constructor(patterns: ReadonlyMap<string, ReadonlySet<string>>) {
    let states = 1;
    let shortest = mostSkip;
    for (const { length } of patterns.keys()) {
      states += length;
      shortest = Math.min(shortest, length);
    }
    this.#window = shortest;
    this.#child = new Int32Array(states);
    this.#sibling = new Int32Array(states);
    this.#byte = new Uint8Array(states);
    this.#fail = new Int32Array(states);
    this.#depth = new Int32Array(states);
    this.#accept = new Int32Array(states);
    this.#filter.fill(shortest - 1);
    let used = 1;
    for (const [pattern, names] of patterns) {
      used = this.#add(Buffer.from(pattern, 'latin1'), names, used);
    }
    this.#link(used);
  }

  /** Bytes of the pattern that a state stands for the beginning of. */
  depth(state: number): number {
    return this.#depth[state];
  }

  /** The longest pattern that ends with a state; 0: none does. */
  accepted(state: number): number {
    return this.#accept[state];
  }

  /** What the patterns that end with an accepted state are reported by. */
  namesOf(accepted: number): ReadonlySet<string> {
    return this.#names.get(accepted) as ReadonlySet<string>;
  }

  /** The state behind one more byte. */
  step(state: number, byte: number): number {
    let from = state;
    while (from !== 0) {
      const to = this.#childOf(from, byte);
      if (to !== 0) return to;
      from = this.#fail[from];
    }
    return this.#root[byte];
  }

  /** Whether a byte can be part of a pattern behind another, or begin one. May say so where it isn't; never the reverse. */
  mayStand(before: number, byte: number): boolean {
    if (this.#used[byte] === 0) return false;
    return this.#root[byte] !== 0 || (this.#filter[hash(before, byte)] & within) !== 0;
  }

  /**
   * Where the next pattern can begin, from `at` on, where none has begun. What is left before `size` is too short to
   * tell: then it is the first index that can't be ruled out.
   */
  skip(bytes: Buffer, at: number, size: number): number {
    const filter = this.#filter;
    const window = this.#window;
    let end = at + window - 1;
    while (end < size) {
      const skip = filter[hash(bytes[end - 1], bytes[end])] & mostSkip;
      if (skip > 0) end += skip;
      else {
        const start = end - window + 1;
        if ((filter[hash(bytes[start], bytes[start + 1])] & begins) !== 0) return start;
        end++;
      }
    }
    return Math.min(end - window + 1, size);
  }

  #childOf(state: number, byte: number): number {
    let child = this.#child[state];
    while (child !== 0 && this.#byte[child] !== byte) child = this.#sibling[child];
    return child;
  }

  #add(pattern: Buffer, names: ReadonlySet<string>, unused: number): number {
    let next = unused;
    let state = 0;
    for (const [i, byte] of pattern.entries()) {
      let to = state === 0 ? this.#root[byte] : this.#childOf(state, byte);
      if (to === 0) {
        to = next++;
        this.#byte[to] = byte;
        this.#used[byte] = 1;
        this.#depth[to] = i + 1;
        if (state === 0) this.#root[byte] = to;
        else {
          this.#sibling[to] = this.#child[state];
          this.#child[state] = to;
        }
      }
      state = to;
    }
    this.#accept[state] = state;
    this.#names.set(state, names);

    const filter = this.#filter;
    for (let i = 1; i < pattern.length; i++) {
      const block = hash(pattern[i - 1], pattern[i]);
      const skip =
        i < this.#window
          ? Math.min(filter[block] & mostSkip, this.#window - 1 - i)
          : filter[block] & mostSkip;
      filter[block] = (filter[block] & begins) | within | skip;
    }
    filter[hash(pattern[0], pattern[1])] |= begins;
    return next;
  }

  /** Where to go on when a byte doesn't fit: the longest beginning of a pattern that the state's end is. Breadth first. */
  #link(states: number): void {
    const queue = new Int32Array(states);
    let length = 0;
    for (const child of this.#root) if (child !== 0) queue[length++] = child;
    for (let i = 0; i < length; i++) {
      const state = queue[i];
      const fail = this.#fail[state];
      if (this.#accept[state] === 0) this.#accept[state] = this.#accept[fail];
      else if (this.#accept[fail] !== 0) {
        // A shorter one ends here, too.
        this.#names.set(state, new Set([...this.namesOf(state), ...this.namesOf(this.#accept[fail])]));
      }
      for (let child = this.#child[state]; child !== 0; child = this.#sibling[child]) {
        this.#fail[child] = this.step(fail, this.#byte[child]);
        queue[length++] = child;
      }
    }
  }
}

function hash(first: number, second: number): number {
  return (first << 5) ^ second;
}
