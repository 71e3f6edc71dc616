import { type Fields, illegal, parseTrailers } from './head.ts';

/** Longest chunk-size line with its extensions, in bytes. Extensions are read over and never passed on. */
const maxSizeLine = 4096;
/** Longest trailer section, in bytes. */
const maxTrailers = 16 * 1024;

const CR = 13;
const LF = 10;
const SEMICOLON = 59;

const state = {
  size: 0,
  extension: 1,
  sizeLf: 2,
  data: 3,
  dataCr: 4,
  dataLf: 5,
  trailers: 6,
  done: 7,
  failed: 8,
} as const;

/**
 * Decodes a chunked body (RFC 9112 7.1), strictly: hex digits only, CRLF only, no white space, sizes below
 * 2^48. It holds no data: `next` hands out the pieces of the input that are content, one after the other.
 */
export class ChunkedDecoder {
  #state: number = state.size;
  #size = 0;
  #digits = 0;
  #lineBytes = 0;
  #inQuotes = false;
  #trailerText = '';
  /** Where the last piece that `next` found begins and ends, in the buffer that was given to it. */
  start = 0;
  end = 0;
  /** Set when the body is complete: fields of the trailer section, or null where there are none. */
  trailers: Fields | null = null;

  get done(): boolean {
    return this.#state === state.done;
  }

  get failed(): boolean {
    return this.#state === state.failed;
  }

  /** Bytes of content still to come in the chunk that is being read: what a relay may announce in one go. */
  get remaining(): number {
    return this.#state === state.data ? this.#size : 0;
  }

  /**
   * Reads on from `at`. true: a piece of content lies at `start`..`end`; call again from `end`.
   * false: the input is used up to `end`, or the body is `done` (then `end` is the first byte after it), or `failed`.
   */
  next(buffer: Buffer, at: number): boolean {
    let i = at;
    const length = buffer.length;
    while (i < length) {
      const byte = buffer[i];
      switch (this.#state) {
        case state.size: {
          const digit = hexValue(byte);
          if (digit >= 0) {
            // Twelve digits are 2^48: more is an attack or a mistake; leading zeros count as digits.
            if (++this.#digits > 12) return this.#fail();
            this.#size = this.#size * 16 + digit;
          } else if (this.#digits > 0 && byte === CR) this.#state = state.sizeLf;
          else if (this.#digits > 0 && byte === SEMICOLON) {
            this.#state = state.extension;
            this.#inQuotes = false;
          } else return this.#fail();
          i++;
          break;
        }
        case state.extension:
          if (++this.#lineBytes > maxSizeLine) return this.#fail();
          if (byte === 34) this.#inQuotes = !this.#inQuotes;
          if (byte === CR) {
            if (this.#inQuotes) return this.#fail();
            this.#state = state.sizeLf;
          } else if (byte < 32 && byte !== 9) return this.#fail();
          i++;
          break;
        case state.sizeLf:
          if (byte !== LF) return this.#fail();
          this.#digits = 0;
          this.#lineBytes = 0;
          this.#state = this.#size === 0 ? state.trailers : state.data;
          i++;
          break;
        case state.data: {
          const stop = Math.min(length, i + this.#size);
          this.#size -= stop - i;
          if (this.#size === 0) this.#state = state.dataCr;
          this.start = i;
          this.end = stop;
          return true;
        }
        case state.dataCr:
          if (byte !== CR) return this.#fail();
          this.#state = state.dataLf;
          i++;
          break;
        case state.dataLf:
          if (byte !== LF) return this.#fail();
          this.#state = state.size;
          i++;
          break;
        case state.trailers: {
          const used = this.#readTrailers(buffer, i);
          if (used < 0) return this.#fail();
          i += used;
          if (this.done) {
            this.end = i;
            return false;
          }
          break;
        }
        default:
          this.end = i;
          return false;
      }
    }
    this.end = length;
    return false;
  }

  /** Collects the trailer section up to its blank line; returns the bytes used, or -1. */
  #readTrailers(buffer: Buffer, at: number): number {
    const before = this.#trailerText.length;
    const stop = Math.min(buffer.length, at + maxTrailers + 4 - before);
    this.#trailerText += buffer.latin1Slice(at, stop);
    const text = this.#trailerText;
    const empty = text.startsWith('\r\n');
    const blank = empty ? 0 : text.indexOf('\r\n\r\n', Math.max(0, before - 3));
    if (!empty && blank < 0) {
      // A bare LF, or anything else that never becomes legal, is not waited for.
      const from = before > 0 && text[before - 1] === '\r' ? before - 1 : before;
      const fresh = text.slice(from, text.endsWith('\r') ? -1 : undefined);
      return text.length >= maxTrailers || illegal.test(fresh) ? -1 : stop - at;
    }
    if (!empty) {
      this.trailers = parseTrailers(text.slice(0, blank));
      if (this.trailers === null) return -1;
    }
    this.#state = state.done;
    this.#trailerText = '';
    return (empty ? 2 : blank + 4) - before;
  }

  #fail(): false {
    this.#state = state.failed;
    return false;
  }
}

function hexValue(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  if (byte >= 97 && byte <= 102) return byte - 87;
  if (byte >= 65 && byte <= 70) return byte - 55;
  return -1;
}
