import { randomFillSync } from 'node:crypto';
import { networkOf, slotKeyBytes, slotOf } from './network.ts';

/** Counters in a table; two keys that share one are refused together, only ever without a valid token. */
const slots = 4096;
const windowMs = 5 * 60_000;
/** One network alone never uses up what an account has: nobody is shut out of their account from one other place. */
const networksOfAccount = 4;
/** Places that accounts were signed in to from which are remembered. */
const maxKnown = 1024;

const tableBytes = slots * 8;

/** Memory for the tables, which all threads share: the key of their slots, tokens, guesses by network and by account. */
export function failureMemory(): SharedArrayBuffer {
  const shared = new SharedArrayBuffer(slotKeyBytes + 3 * tableBytes);
  randomFillSync(new Uint8Array(shared, 0, slotKeyBytes));
  return shared;
}

/**
 * Wrong tokens and links by the peer's network, and wrong passwords and codes by network and by account, each in windows
 * of five minutes, in memory that the front and all lanes share. Tokens and guesses are counted apart: who sends wrong
 * tokens shuts nobody out. What carries a valid token is never refused: callers ask only once a token has proved wrong.
 */
export class SignInFailures {
  readonly #tokens: Windows;
  readonly #guesses: Windows;
  readonly #accounts: Windows;
  readonly #limit: number;
  /** Accounts with networks that they were signed in to from, longest ago first. */
  readonly #known = new Set<string>();

  /**
   * @param shared of `failureMemory`
   * @param limit failures that a network has in a window; 0: no limit
   */
  constructor(shared: SharedArrayBuffer, limit: number) {
    this.#limit = limit;
    // A copy: cryptography takes no shared memory.
    const key = new Uint8Array(new Uint8Array(shared, 0, slotKeyBytes));
    const table = (index: number): Windows =>
      new Windows(new Int32Array(shared, slotKeyBytes + index * tableBytes, 2 * slots), key);
    this.#tokens = table(0);
    this.#guesses = table(1);
    this.#accounts = table(2);
  }

  /**
   * Counts a wrong token. 0: answer as usual; else refuse (429), with this many seconds for `Retry-After`.
   * @param now wall clock, ms
   */
  count(address: string, now: number): number {
    if (this.#limit === 0) return 0;
    return this.#tokens.count(networkOf(address), this.#limit, now);
  }

  /**
   * Whether nothing more is to be looked at that could be guessed, a password or a code: seconds to wait, or 0. An
   * account takes guesses from several networks before it waits, and from those that it was signed in to from always.
   * @param now wall clock, ms
   */
  guessWait(address: string, account: string, now: number): number {
    if (this.#limit === 0) return 0;
    const network = networkOf(address);
    const ofNetwork = this.#guesses.wait(network, this.#limit, now);
    if (this.#known.has(`${account} ${network}`)) return ofNetwork;
    const ofAccount = this.#accounts.wait(account, networksOfAccount * this.#limit, now);
    return Math.max(ofNetwork, ofAccount);
  }

  /** Counts a wrong guess. The result is as that of `count`; past the limit, where none is looked at, nothing is counted. */
  countGuess(address: string, account: string, now: number): number {
    const wait = this.guessWait(address, account, now);
    if (wait > 0 || this.#limit === 0) return wait;
    this.#guesses.count(networkOf(address), this.#limit, now);
    this.#accounts.count(account, networksOfAccount * this.#limit, now);
    return 0;
  }

  /** A guess was right: others' wrong ones don't shut the account out from there any more. */
  guessedRight(address: string, account: string): void {
    const place = `${account} ${networkOf(address)}`;
    this.#known.delete(place);
    this.#known.add(place);
    if (this.#known.size > maxKnown) this.#known.delete(this.#known.values().next().value as string);
  }
}

/** A table of windows: the second in which each began, and its count. */
class Windows {
  readonly #table: Int32Array;
  readonly #key: Uint8Array;

  constructor(table: Int32Array, key: Uint8Array) {
    this.#table = table;
    this.#key = key;
  }

  /** Seconds until the window of a key that had its failures is over, or 0. */
  wait(key: string, limit: number, now: number): number {
    const at = slotOf(this.#key, key, slots) * 2;
    const age = (Math.floor(now / 1000) - Atomics.load(this.#table, at)) | 0;
    const isOver = age < 0 || age >= windowMs / 1000;
    if (isOver || Atomics.load(this.#table, at + 1) < limit) return 0;
    return Math.max(1, windowMs / 1000 - age);
  }

  /** Counts one; the same seconds where the key had its failures before. */
  count(key: string, limit: number, now: number): number {
    const at = slotOf(this.#key, key, slots) * 2;
    // Seconds since the epoch fit in 32 bits unsigned; compared as such.
    const second = Math.floor(now / 1000) | 0;
    const began = Atomics.load(this.#table, at);
    const age = (second - began) | 0;
    if (began === 0 || age < 0 || age >= windowMs / 1000) {
      Atomics.store(this.#table, at, second);
      Atomics.store(this.#table, at + 1, 1);
      return 0;
    }
    if (Atomics.load(this.#table, at + 1) < limit && Atomics.add(this.#table, at + 1, 1) < limit) return 0;
    return Math.max(1, windowMs / 1000 - age);
  }
}
