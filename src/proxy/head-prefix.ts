import { type HeadError, illegal, isHeadError, parseRequestLine } from './head.ts';

/**
 * Heads that have not come whole yet: what can't become legal any more is refused at once, not at the deadline
 * (bare CR or LF, which the end of the head would never follow; HTTP/0.9; another protocol altogether).
 */

const LF = 10;
const CR = 13;
/** A method, and the space behind it, as far as they have come. */
const methodStart = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}(?: |$)/;

/**
 * Why the request head that begins at `at` can't become legal; null: it still can. What lies before `from` was
 * looked at before.
 */
export function requestPrefixError(bytes: Buffer, at: number, from: number): HeadError | null {
  if (hasIllegal(bytes, at, from))
    return {
      code: 'invalid_request',
      message: 'The request head holds characters that HTTP does not allow. Its lines end in CR LF.',
    };
  const newLf = bytes.indexOf(LF, Math.max(at, from));
  if (newLf < 0) {
    const start = bytes.latin1Slice(at, Math.min(bytes.length, at + 33));
    // A CR alone may be the first half of an empty line.
    if (start === '' || start === '\r' || methodStart.test(start)) return null;
    return { code: 'invalid_request', message: 'This is not a request of HTTP/1.1.' };
  }
  // Later lines wait for the end of the head.
  const lf = bytes.indexOf(LF, at);
  if (lf < newLf) return null;
  const line = parseRequestLine(bytes.latin1Slice(at, lf - 1));
  return isHeadError(line) ? line : null;
}

/** Whether a response head that begins at `at` can, as far as it has come, still become a legal one. */
export function canBeHead(bytes: Buffer, at: number, from: number): boolean {
  const start = bytes.latin1Slice(at, Math.min(at + 7, bytes.length));
  return 'HTTP/1.'.startsWith(start) && !hasIllegal(bytes, at, from);
}

/** Whether anything illegal stands from `from` on, but for a last CR, whose LF may still come. */
function hasIllegal(bytes: Buffer, at: number, from: number): boolean {
  const end = bytes[bytes.length - 1] === CR ? bytes.length - 1 : bytes.length;
  const start = from > at && bytes[from - 1] === CR ? from - 1 : Math.max(at, from);
  return start < end && illegal.test(bytes.latin1Slice(start, end));
}
