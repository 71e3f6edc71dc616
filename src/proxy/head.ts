import { type FieldName, fieldName, role } from './fields.ts';
import { webSocketKey } from './websocket.ts';

/**
 * HTTP/1.1 message heads, read strictly (RFC 9112 2 to 6) and without I/O. What two parsers could read in
 * two ways is refused here: a proxy that injects credentials must never be of another opinion than its
 * upstream on where a message ends or whom it is for.
 */

/** Most bytes that a head may take, request line and fields together. */
export const maxHeadBytes = 64 * 1024;
/** Most fields in a head. */
export const maxFields = 256;
/** Longest request target, in bytes. */
const maxTargetBytes = 32 * 1024;

export interface Fields {
  readonly names: readonly FieldName[];
  /** Without the white space around them; latin1, as on the wire. */
  readonly values: readonly string[];
}

/** How long a body is: a count of bytes, or one of these. */
export const chunked = -1;
export const untilClose = -2;

export interface RequestHead extends Fields {
  readonly method: string;
  readonly target: string;
  readonly minor: 0 | 1;
  /** The one Host field's value, or null. */
  readonly host: string | null;
  /** Bytes of the body, or `chunked`. Without a framing field: 0 (RFC 9112 6.3). */
  readonly bodyLength: number;
  /** A framing field was there: 0 is then said upstream too. */
  readonly framed: boolean;
  readonly keepAlive: boolean;
  /** Lower-case names that Connection nominates, or null. */
  readonly nominated: readonly string[] | null;
  /** `Connection: upgrade`, one `Upgrade: websocket` and one key to accept it by, on a GET without a body. */
  readonly websocket: boolean;
  readonly expectContinue: boolean;
  readonly proxyAuthorization: string | null;
  readonly vault: string | null;
}

export interface ResponseHead extends Fields {
  readonly status: number;
  readonly reason: string;
  readonly minor: 0 | 1;
  /** As framed by its fields; what a HEAD request or a 204 does to it is the caller's to apply. */
  readonly bodyLength: number;
  readonly framed: boolean;
  readonly keepAlive: boolean;
  /** Seconds that the upstream keeps an idle connection, where it says so; else -1. */
  readonly keepAliveSeconds: number;
  readonly nominated: readonly string[] | null;
  readonly upgradeTo: string | null;
}

export interface HeadError {
  readonly code: 'invalid_request' | 'headers_too_large' | 'http_version' | 'expectation_failed';
  readonly message: string;
}

export function isHeadError(x: object): x is HeadError {
  return 'code' in x;
}

const bad = (message: string): HeadError => ({ code: 'invalid_request', message });

// Anything but HTAB, CR, LF, visible ASCII, space and obs-text; a CR without LF; an LF without CR.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
export const illegal = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|(?<!\r)\n/;
const decimal = /^(0|[1-9][0-9]{0,15})$/;
const methodToken = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}$/;
// RFC 3986 characters and the few that clients send all the same; never controls, space, `#`, `\`, `"<>^`{|}` non-ASCII.
const targetChars = /^[A-Za-z0-9\-._~:/?[\]@!$&'()*+,;=%|{}^`"<>]+$/;

/** Reads `name: value` lines from `at` to the end of `text`; fills `names` and `values`. */
function readFields(text: string, from: number, names: FieldName[], values: string[]): HeadError | null {
  let at = from;
  const end = text.length;
  while (at < end) {
    let eol = text.indexOf('\r\n', at);
    if (eol < 0) eol = end;
    const colon = text.indexOf(':', at);
    if (colon < 0 || colon > eol) return bad('A header line has no colon.');
    // A line that starts with white space (obs-fold) and a space before the colon fail here: no token holds one.
    const name = fieldName(text.slice(at, colon));
    if (name === null) return bad('A header name is not valid.');
    let start = colon + 1;
    let stop = eol;
    while (start < stop && isOws(text.charCodeAt(start))) start++;
    while (stop > start && isOws(text.charCodeAt(stop - 1))) stop--;
    if (names.length === maxFields) {
      return { code: 'headers_too_large', message: `More than ${maxFields} header fields. Send fewer.` };
    }
    names.push(name);
    values.push(text.slice(start, stop));
    at = eol + 2;
  }
  return null;
}

function isOws(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

/** The framing and connection fields, common to both directions. */
interface Framing {
  length: number;
  framed: boolean;
  close: boolean;
  keepAlive: boolean;
  upgrade: boolean;
  nominated: string[] | null;
  upgradeTo: string | null;
}

function readFraming(names: FieldName[], values: string[], minor: number): Framing | HeadError {
  const framing: Framing = {
    length: 0,
    framed: false,
    close: false,
    keepAlive: false,
    upgrade: false,
    nominated: null,
    upgradeTo: null,
  };
  let lengths = 0;
  let codings = 0;
  for (let i = 0; i < names.length; i++) {
    const r = names[i].role;
    if (r === role.endToEnd) continue;
    const value = values[i];
    if (r === role.contentLength) {
      if (!decimal.test(value) || !Number.isSafeInteger(Number(value)))
        return bad('Content-Length is not valid.');
      lengths++;
      framing.length = Number(value);
    } else if (r === role.transferEncoding) {
      if (value.toLowerCase() !== 'chunked') return bad('Transfer-Encoding can only be chunked.');
      codings++;
    } else if (r === role.connection) {
      for (const part of value.split(',')) {
        const option = part.trim().toLowerCase();
        if (option === 'close') framing.close = true;
        else if (option === 'keep-alive') framing.keepAlive = true;
        else if (option === 'upgrade') framing.upgrade = true;
        else if (option !== '') {
          framing.nominated ??= [];
          framing.nominated.push(option);
        }
      }
    } else if (r === role.upgrade) {
      framing.upgradeTo = framing.upgradeTo === null ? value.toLowerCase() : '';
    }
  }
  if (lengths + codings > 1) return bad('More than one Content-Length or Transfer-Encoding field.');
  if (codings === 1) {
    if (minor === 0) return bad('Transfer-Encoding needs HTTP/1.1.');
    framing.length = chunked;
  }
  framing.framed = lengths + codings === 1;
  return framing;
}

export interface RequestLine {
  readonly method: string;
  readonly target: string;
  readonly minor: 0 | 1;
}

/** Reads a request line, without its CRLF: one space, and only one, stands between its three parts. */
export function parseRequestLine(line: string): RequestLine | HeadError {
  const space = line.indexOf(' ');
  const last = line.lastIndexOf(' ');
  if (space <= 0 || last === space) return bad('The request line is not METHOD TARGET HTTP/1.1.');
  const method = line.slice(0, space);
  const target = line.slice(space + 1, last);
  const version = line.slice(last + 1);
  if (!methodToken.test(method)) return bad('The method is not valid.');
  if (version !== 'HTTP/1.1' && version !== 'HTTP/1.0') {
    return /^HTTP\/[0-9.]+$/.test(version)
      ? { code: 'http_version', message: 'Only HTTP/1.0 and HTTP/1.1 are supported here.' }
      : bad('The request line is not METHOD TARGET HTTP/1.1.');
  }
  if (target.length > maxTargetBytes) {
    return {
      code: 'headers_too_large',
      message: `The request target is longer than ${maxTargetBytes} bytes.`,
    };
  }
  if (!targetChars.test(target)) return bad('The request target holds characters that a URL does not allow.');
  return { method, target, minor: version === 'HTTP/1.1' ? 1 : 0 };
}

/**
 * Reads a request head. `text` is latin1, from the first byte of the request line to before the blank line
 * (the last CRLF CRLF is not part of it). Linear in its length.
 */
export function parseRequestHead(text: string): RequestHead | HeadError {
  if (illegal.test(text)) return bad('The request head holds characters that HTTP does not allow.');
  let eol = text.indexOf('\r\n');
  if (eol < 0) eol = text.length;
  const line = parseRequestLine(text.slice(0, eol));
  if (isHeadError(line)) return line;
  const { method, target, minor } = line;
  const names: FieldName[] = [];
  const values: string[] = [];
  const failed = readFields(text, eol + 2, names, values);
  if (failed !== null) return failed;
  const framing = readFraming(names, values, minor);
  if (isHeadError(framing)) return framing;

  let host: string | null = null;
  let expectContinue = false;
  let proxyAuthorization: string | null = null;
  let vault: string | null = null;
  for (let i = 0; i < names.length; i++) {
    switch (names[i].role) {
      case role.host:
        if (host !== null) return bad('More than one Host field.');
        host = values[i];
        break;
      case role.expect:
        if (expectContinue || values[i].toLowerCase() !== '100-continue') {
          return { code: 'expectation_failed', message: 'Only Expect: 100-continue is supported.' };
        }
        expectContinue = true;
        break;
      case role.proxyAuthorization:
        if (proxyAuthorization !== null) return bad('More than one Proxy-Authorization field.');
        proxyAuthorization = values[i];
        break;
      case role.vault:
        // Two of them name no vault: what follows refuses it like an unknown one.
        vault = vault === null ? values[i] : '';
        break;
    }
  }
  return {
    method,
    target,
    minor,
    names,
    values,
    host,
    bodyLength: framing.length,
    framed: framing.framed,
    keepAlive: minor === 1 && !framing.close,
    nominated: framing.nominated,
    websocket:
      framing.upgrade &&
      framing.upgradeTo === 'websocket' &&
      method === 'GET' &&
      minor === 1 &&
      framing.length === 0 &&
      webSocketKey({ names, values }) !== null,
    expectContinue: expectContinue && minor === 1 && framing.length !== 0,
    proxyAuthorization,
    vault,
  };
}

const statusLine = /^HTTP\/1\.([01]) ([1-9][0-9]{2})(?: ([^\r\n]*))?$/;

/** Reads a response head; `text` as for a request. null: it breaks the protocol, and the connection with it. */
export function parseResponseHead(text: string): ResponseHead | null {
  if (illegal.test(text)) return null;
  let eol = text.indexOf('\r\n');
  if (eol < 0) eol = text.length;
  const line = statusLine.exec(text.slice(0, eol));
  if (line === null) return null;
  const status = Number(line[2]);
  if (status > 599) return null;
  const minor = line[1] === '1' ? 1 : 0;
  const names: FieldName[] = [];
  const values: string[] = [];
  if (readFields(text, eol + 2, names, values) !== null) return null;
  const framing = readFraming(names, values, minor);
  if (isHeadError(framing)) return null;
  let keepAliveSeconds = -1;
  for (let i = 0; i < names.length; i++) {
    if (names[i].role === role.keepAlive) {
      const hint = /(?:^|[,\s])timeout=([0-9]{1,6})/i.exec(values[i]);
      if (hint !== null) keepAliveSeconds = Number(hint[1]);
    }
  }
  return {
    status,
    reason: line[3] ?? '',
    minor,
    names,
    values,
    bodyLength: framing.framed ? framing.length : untilClose,
    framed: framing.framed,
    keepAlive: minor === 1 ? !framing.close : framing.keepAlive && !framing.close,
    keepAliveSeconds,
    nominated: framing.nominated,
    upgradeTo: framing.upgrade ? framing.upgradeTo : null,
  };
}

/** Reads the lines of a trailer section; null where they are malformed. */
export function parseTrailers(text: string): Fields | null {
  const names: FieldName[] = [];
  const values: string[] = [];
  if (illegal.test(text) || readFields(text, 0, names, values) !== null) return null;
  return { names, values };
}
