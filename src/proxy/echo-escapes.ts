import { hex } from './dot-segment.ts';

export const percent = 0x25;
export const backslash = 0x5c;

/** Of `\b`, `\f` and so on, by their letter (RFC 8259 7). */
const shortEscapes = new Map([
  [0x22, 0x22],
  [0x5c, 0x5c],
  [0x2f, 0x2f],
  [0x62, 8],
  [0x66, 12],
  [0x6e, 10],
  [0x72, 13],
  [0x74, 9],
]);

/** Reads one escape at a time, of percent-encoding or of JSON; what it stands for is in `bytes`, `count` of them. */
export class EscapeReader {
  readonly bytes = Buffer.alloc(4);
  count = 0;

  /** The length of the escape at `at`, where a `%` or `\` stands; 0: it is none; -1: its end hasn't come yet. */
  read(from: Buffer, at: number): number {
    if (from[at] === percent) {
      const code = hexAt(from, at + 1, 2);
      return code >= 0 ? this.#give(code, 3) : code === incomplete ? -1 : 0;
    }
    if (at + 1 >= from.length) return -1;
    const letter = from[at + 1];
    if (letter !== 0x75) {
      const meant = shortEscapes.get(letter);
      return meant === undefined ? 0 : this.#give(meant, 2);
    }
    const unit = hexAt(from, at + 2, 4);
    if (unit < 0) return unit === incomplete ? -1 : 0;
    if (unit < 0x80) return this.#give(unit, 6);
    let code = unit;
    let length = 6;
    if (unit >= 0xd800 && unit < 0xdc00) {
      const low = lowSurrogate(from, at + 6);
      if (low === incomplete) return -1;
      if (low > 0) {
        code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        length = 12;
      }
    }
    this.count = this.bytes.write(String.fromCodePoint(code));
    return length;
  }

  #give(byte: number, length: number): number {
    this.bytes[0] = byte;
    this.count = 1;
    return length;
  }
}

/** What can't be told before more has come; and what isn't there. */
const incomplete = -1;
const none = -2;

function lowSurrogate(from: Buffer, at: number): number {
  if (at >= from.length) return incomplete;
  if (from[at] !== backslash) return none;
  if (at + 1 >= from.length) return incomplete;
  if (from[at + 1] !== 0x75) return none;
  const unit = hexAt(from, at + 2, 4);
  return unit === incomplete || (unit >= 0xdc00 && unit < 0xe000) ? unit : none;
}

/** The number that so many hex digits are. */
function hexAt(from: Buffer, at: number, digits: number): number {
  let value = 0;
  for (let i = at; i < at + digits; i++) {
    if (i >= from.length) return incomplete;
    const digit = hex(from[i]);
    if (digit < 0) return none;
    value = value * 16 + digit;
  }
  return value;
}
