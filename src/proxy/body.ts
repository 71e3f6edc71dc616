import { ChunkedDecoder } from './chunked.ts';
import { chunked, type Fields, untilClose } from './head.ts';

/** What to do with the next bytes of a body. */
export const bodyState = { more: 0, done: 1, failed: 2 } as const;

/**
 * Reads one body out of a stream of buffers and frames it anew: as chunks, or as bare content. What lies
 * behind its end is left alone (`end`).
 */
export class BodyReader {
  #left: number;
  readonly #decoder: ChunkedDecoder | null;
  /** Index of the first byte of the last buffer that is not part of this body. */
  end = 0;
  state: number = bodyState.more;
  /** Content bytes that went through. */
  bytes = 0;

  /** @param length bytes, or `chunked`, or `untilClose` */
  constructor(length: number) {
    this.#left = length === untilClose ? Number.POSITIVE_INFINITY : length;
    this.#decoder = length === chunked ? new ChunkedDecoder() : null;
    if (length === 0) this.state = bodyState.done;
  }

  get trailers(): Fields | null {
    return this.#decoder?.trailers ?? null;
  }

  /**
   * Reads `buffer` from `at`; returns what to send on, or null for nothing. With `asChunks` each call gives
   * one chunk; the last one (`0`, trailers) is the caller's to add once `state` is done.
   */
  read(buffer: Buffer, at: number, asChunks: boolean): Buffer | null {
    if (this.#decoder !== null) return this.#readChunked(this.#decoder, buffer, at, asChunks);
    const stop = Math.min(buffer.length, at + this.#left);
    const size = stop - at;
    this.#left -= size;
    this.bytes += size;
    this.end = stop;
    if (this.#left === 0) this.state = bodyState.done;
    if (size === 0) return null;
    const content = size === buffer.length ? buffer : buffer.subarray(at, stop);
    return asChunks ? asChunk([content], size) : content;
  }

  #readChunked(decoder: ChunkedDecoder, buffer: Buffer, at: number, asChunks: boolean): Buffer | null {
    let pieces: Buffer[] | null = null;
    let size = 0;
    let i = at;
    while (decoder.next(buffer, i)) {
      pieces ??= [];
      pieces.push(buffer.subarray(decoder.start, decoder.end));
      size += decoder.end - decoder.start;
      i = decoder.end;
    }
    this.end = decoder.end;
    this.bytes += size;
    if (decoder.failed) this.state = bodyState.failed;
    else if (decoder.done) this.state = bodyState.done;
    if (pieces === null) return null;
    return asChunks ? asChunk(pieces, size) : pieces.length === 1 ? pieces[0] : Buffer.concat(pieces, size);
  }
}

/** Pieces as one chunk of RFC 9112 7.1, in one buffer: one write is cheaper than three. */
export function asChunk(pieces: readonly Buffer[], size: number): Buffer {
  const head = `${size.toString(16)}\r\n`;
  const out = Buffer.allocUnsafe(head.length + size + 2);
  let at = out.latin1Write(head, 0);
  for (const piece of pieces) at += piece.copy(out, at);
  out[at] = 13;
  out[at + 1] = 10;
  return out;
}

/** The end of a chunked body, with the trailer lines that go on. */
export function lastChunk(trailerLines: string): string {
  return `0\r\n${trailerLines}\r\n`;
}

/** Head, content and tail in one buffer, copied only where there is more than content. */
export function join(head: string, content: Buffer | null, tail: string): Buffer | string {
  if (content === null) return head + tail;
  if (head === '' && tail === '') return content;
  const out = Buffer.allocUnsafe(head.length + content.length + tail.length);
  out.latin1Write(head, 0);
  content.copy(out, head.length);
  if (tail !== '') out.latin1Write(tail, head.length + content.length);
  return out;
}
