import type { EchoAutomaton } from './echo-automaton.ts';
import { backslash, EscapeReader, percent } from './echo-escapes.ts';

const nothing = Buffer.alloc(0);
const asterisk = 0x2a;
const reader = new EscapeReader();

/**
 * Looks through one stream for what an automaton knows: as it stands there, and with any of its bytes escaped, for
 * URLs or in JSON. With `redacts` what is found becomes asterisks, byte for byte, and what may be the beginning of
 * something is held back until it is clear; nothing else is. Linear in the bytes, however they are cut.
 *
 * The bytes are read twice: as they are, most of them skipped; and from each escape that could be part of something,
 * with what is escaped undone, for as long as it could be.
 */
export class EchoScanner {
  readonly #automaton: EchoAutomaton;
  /** What was found is reported by these; null: nothing was. */
  names: Set<string> | null = null;
  /** Bytes of before that aren't done with: not sent on yet, or the beginning of an escape. */
  #held: Buffer = nothing;
  /** Of the bytes as they are, behind all that came. */
  #state = 0;
  /** Of the bytes with escapes undone, where that is another. */
  #run: Run | null = null;
  /** Starts and ends of what is to be covered; null: nothing is. */
  #masks: number[] | null = null;

  constructor(automaton: EchoAutomaton) {
    this.#automaton = automaton;
  }

  /** Takes over what another one found. */
  add(names: ReadonlySet<string>): void {
    this.names ??= new Set();
    for (const name of names) this.names.add(name);
  }

  /**
   * Takes the next bytes, and leaves them as they are.
   *
   * @param last nothing comes after them
   * @returns `chunk`
   */
  look(chunk: Buffer, last: boolean): Buffer {
    const bytes = this.#read(chunk);
    if (last) this.#reset();
    else this.#keep(bytes, this.#run?.at ?? bytes.length);
    return chunk;
  }

  /**
   * Takes the next bytes, and puts asterisks for what is found, in place.
   *
   * @param last nothing comes after them: nothing is held back
   * @returns what goes on now: a view of `chunk`, where nothing was held back before it
   */
  redact(chunk: Buffer, last: boolean): Buffer {
    this.#masks = [];
    const bytes = this.#read(chunk);
    for (let i = 0; i < this.#masks.length; i += 2) bytes.fill(asterisk, this.#masks[i], this.#masks[i + 1]);
    this.#masks = null;
    if (last) {
      this.#reset();
      return bytes;
    }
    const automaton = this.#automaton;
    let end = bytes.length - automaton.depth(this.#state);
    if (this.#run !== null) end = Math.min(end, this.#run.startOf(automaton.depth(this.#run.state)));
    this.#keep(bytes, end);
    return end === bytes.length ? bytes : bytes.subarray(0, end);
  }

  /** Reads what comes, both ways; it and what was held before it. */
  #read(chunk: Buffer): Buffer {
    const held = this.#held.length;
    const bytes = held === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    const state = this.#state;
    this.#state = this.#readPlain(bytes, held, bytes.length, state, true);
    this.#readEscaped(bytes, held, state);
    return bytes;
  }

  /** What comes next is another stream. */
  #reset(): void {
    this.#held = nothing;
    this.#state = 0;
    this.#run = null;
  }

  #keep(bytes: Buffer, from: number): void {
    this.#held = from === bytes.length ? nothing : Buffer.from(bytes.subarray(from));
    this.#run?.rebase(from, this.#automaton.depth(this.#run.state));
  }

  /** The bytes as they are, of a part of the buffer; the state behind it. */
  #readPlain(bytes: Buffer, at: number, end: number, before: number, reports: boolean): number {
    const automaton = this.#automaton;
    let state = before;
    let i = at;
    while (i < end) {
      if (state === 0) {
        i = automaton.skip(bytes, i, end);
        if (i >= end) break;
      }
      state = automaton.step(state, bytes[i++]);
      const accepted = automaton.accepted(state);
      if (accepted !== 0 && reports) this.#onFound(accepted, i - automaton.depth(accepted), i);
    }
    return state;
  }

  /**
   * The same with escapes undone, where there are some that matter.
   *
   * @param at the first new byte; `state` is that before it
   */
  #readEscaped(bytes: Buffer, at: number, state: number): void {
    const automaton = this.#automaton;
    const size = bytes.length;
    let i = at;
    if (this.#run !== null) {
      i = this.#readRun(bytes, this.#run);
      if (this.#run !== null) return;
    }
    const next = new NextEscape(bytes, i);
    // The plain state before an escape is made out from here: each byte is read once for it.
    let knownAt = at;
    let known = state;
    for (;;) {
      i = next.from(i);
      if (i >= size) return;
      const length = reader.read(bytes, i);
      if (length === 0) i++;
      else if (length > 0 && i > at && !automaton.mayStand(bytes[i - 1], reader.bytes[0])) i += length;
      else {
        known = this.#readPlain(bytes, knownAt, i, known, false);
        knownAt = Math.max(knownAt, i);
        // An escape among the held bytes stands behind another one that is no beginning of anything.
        this.#run = new Run(i < at ? 0 : known, i);
        i = this.#readRun(bytes, this.#run);
        if (this.#run !== null) return;
      }
    }
  }

  /** Goes on with a run, until nothing that holds an escape can be found any more, or the bytes end. */
  #readRun(bytes: Buffer, run: Run): number {
    const automaton = this.#automaton;
    let i = run.at;
    while (i < bytes.length) {
      const byte = bytes[i];
      const length = byte === percent || byte === backslash ? reader.read(bytes, i) : 0;
      if (length < 0) {
        run.at = i;
        return i;
      }
      const count = length === 0 ? 1 : reader.count;
      const end = i + (length || 1);
      for (let k = 0; k < count; k++) {
        run.step(automaton.step(run.state, length === 0 ? byte : reader.bytes[k]), i, length > 0);
        const accepted = automaton.accepted(run.state);
        if (accepted !== 0) this.#onFound(accepted, run.startOf(automaton.depth(accepted)), end);
      }
      i = end;
      if (automaton.depth(run.state) <= run.sinceEscape) {
        // From here on both readings are the same.
        this.#run = null;
        return i;
      }
    }
    run.at = i;
    return i;
  }

  #onFound(accepted: number, start: number, end: number): void {
    this.add(this.#automaton.namesOf(accepted));
    this.#masks?.push(start, end);
  }
}

/** A reading with escapes undone, from an escape on. */
class Run {
  state: number;
  /** Index of the next byte to read. */
  at: number;
  /** Bytes read as they are since the last escape. */
  sinceEscape = 0;
  /** Where what stands before the first of `starts` ends: up to there nothing is escaped. */
  #from: number;
  /** Where each of the last bytes, unescaped, begins. */
  #starts: number[] = [];

  constructor(state: number, at: number) {
    this.state = state;
    this.at = at;
    this.#from = at;
  }

  step(state: number, start: number, isEscape: boolean): void {
    this.state = state;
    this.sinceEscape = isEscape ? 0 : this.sinceEscape + 1;
    this.#starts.push(start);
  }

  /** Where so many bytes, unescaped, begin that end here. */
  startOf(depth: number): number {
    const starts = this.#starts;
    return depth > starts.length
      ? this.#from - (depth - starts.length)
      : depth === 0
        ? this.at
        : starts[starts.length - depth];
  }

  /** The bytes before `offset` are gone; of those that were read, the last `depth` can still matter. */
  rebase(offset: number, depth: number): void {
    this.at -= offset;
    this.#from -= offset;
    const { length } = this.#starts;
    this.#starts = this.#starts.slice(Math.max(0, length - depth)).map((start) => start - offset);
  }
}

/** The next `%` or `\`, natively looked for: each byte once for both. */
class NextEscape {
  readonly #bytes: Buffer;
  #percent: number;
  #backslash: number;

  constructor(bytes: Buffer, at: number) {
    this.#bytes = bytes;
    this.#percent = indexFrom(bytes, percent, at);
    this.#backslash = indexFrom(bytes, backslash, at);
  }

  from(at: number): number {
    if (this.#percent < at) this.#percent = indexFrom(this.#bytes, percent, at);
    if (this.#backslash < at) this.#backslash = indexFrom(this.#bytes, backslash, at);
    return Math.min(this.#percent, this.#backslash);
  }
}

function indexFrom(bytes: Buffer, byte: number, at: number): number {
  const found = bytes.indexOf(byte, at);
  return found < 0 ? bytes.length : found;
}
