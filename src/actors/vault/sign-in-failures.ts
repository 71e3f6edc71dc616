/** Counters in the table; two addresses that share one are refused together, only ever without a valid token. */
const slots = 4096;
const windowMs = 5 * 60_000;

/** Bytes of the shared table. */
export const failureBytes: number = slots * 8;

/**
 * Wrong tokens, passwords and links by peer address, in windows of five minutes, shared by the front and all
 * lanes. It never refuses what carries a valid token: callers ask only once a token has proved wrong.
 */
export class SignInFailures {
  readonly #table: Int32Array;
  readonly #limit: number;

  /** @param limit failures an address has in a window; 0: no limit */
  constructor(shared: SharedArrayBuffer, limit: number) {
    this.#table = new Int32Array(shared);
    this.#limit = limit;
  }

  /**
   * Whether an address had its failures, without counting one: seconds to wait, or 0. For passwords: unlike a token
   * one can be guessed, so that past the limit none is looked at.
   * @param now wall clock, ms
   */
  wait(address: string, now: number): number {
    const at = (hash(address) % slots) * 2;
    const age = (Math.floor(now / 1000) - Atomics.load(this.#table, at)) | 0;
    const isOver = age < 0 || age >= windowMs / 1000;
    if (this.#limit === 0 || isOver || Atomics.load(this.#table, at + 1) < this.#limit) return 0;
    return Math.max(1, windowMs / 1000 - age);
  }

  /**
   * Counts a failure. 0: answer as usual; else refuse (429), with this many seconds for `Retry-After`.
   * @param now wall clock, ms
   */
  count(address: string, now: number): number {
    if (this.#limit === 0) return 0;
    const at = (hash(address) % slots) * 2;
    // Seconds since the epoch fit in 32 bits unsigned; compared as such.
    const second = Math.floor(now / 1000) | 0;
    const began = Atomics.load(this.#table, at);
    const age = (second - began) | 0;
    if (began === 0 || age < 0 || age >= windowMs / 1000) {
      Atomics.store(this.#table, at, second);
      Atomics.store(this.#table, at + 1, 1);
      return 0;
    }
    if (Atomics.add(this.#table, at + 1, 1) < this.#limit) return 0;
    return Math.max(1, windowMs / 1000 - age);
  }
}

/** FNV-1a, 32 bits. */
function hash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h >>> 0;
}
