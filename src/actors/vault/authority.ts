import { domainToASCII } from 'node:url';

/** A host in its one canonical form: what is matched, audited, certified and dialled. */
export interface Host {
  /** Lower case, no trailing dot; IPv4 dotted decimal; IPv6 as RFC 5952 has it, in brackets. */
  readonly host: string;
  /** The IP version of an address literal, 0 for a name. */
  readonly literal: 0 | 4 | 6;
}

/** `host:port` (RFC 9110 section 7.2), canonical. */
export interface Authority extends Host {
  /** 1 to 65535. */
  readonly port: number;
}

export type Scheme = 'http' | 'https';

export interface AbsoluteTarget {
  readonly scheme: Scheme;
  readonly authority: Authority;
  /** Origin-form: path and query as given, starting with `/`. */
  readonly path: string;
}

// 253 octets of name, its trailing dot, `:65535`. Longer input is refused unread, so work is bounded.
const maxAuthority = 260;
const maxName = 253;
const maxIpv6 = 45;
// Enough for any name that fits into 253 octets as A-labels; IDNA itself isn't linear.
const maxUnicode = 512;

const label = '[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?';
const nameShape = new RegExp(`^${label}(?:\\.${label})*$`);
const octet = '(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])';
const dottedQuad = new RegExp(`^${octet}(?:\\.${octet}){3}$`);
const hexGroup = /^[0-9a-fA-F]{1,4}$/;
const numericLabel = /^(?:[0-9]+|0x[0-9a-f]*)$/;
const portShape = /^:[1-9][0-9]{0,4}$/;
const absoluteStart = /^http(s?):\/\//i;
// RFC 9112 section 3.2 without `#` and `\`: visible ASCII only.
const pathAndQuery = /^[!"$-[\]-~]*$/;
// `domainToASCII` cuts at `/`, `?` and `#` and decodes `%`: no ASCII but a name's own may reach it.
const unicodeName = /^[A-Za-z0-9_.\u0080-\uffff-]+$/;

/**
 * Parses `host[:port]` as it stands on the wire (RFC 9110 section 7.2, RFC 3986 section 3.2).
 *
 * Strict: labels of letters, digits, `-` and `_`; one trailing dot is dropped; a port is decimal, 1 to
 * 65535, without leading zeros; IPv6 in brackets, no zone. What a resolver might read as a number without
 * its being a canonical IPv4 address (`127.1`, `0x7f000001`) is refused, as are user information, percent
 * signs, lists, white space and everything beyond ASCII.
 *
 * @param text the octets, decoded as latin1
 * @param defaultPort the port when none is given; null where one is required (CONNECT)
 * @returns null if it is malformed
 */
export function parseAuthority(text: string, defaultPort: number | null): Authority | null {
  if (text.length > maxAuthority) return null;
  const end = hostEnd(text);
  const port = end === text.length ? defaultPort : parsePort(text.slice(end));
  if (port === null) return null;
  const found = parseHost(end === text.length ? text : text.slice(0, end));
  return found === null ? null : { host: found.host, port, literal: found.literal };
}

/**
 * Parses the host of a service: as {@link parseAuthority} does, without a port, and with names beyond ASCII
 * taken through IDNA (UTS 46) to A-labels. Such a name may not turn into an address.
 *
 * @param text any string; IPv6 in brackets
 * @returns null if it is malformed
 */
export function canonicalHost(text: string): Host | null {
  if (text.length > maxUnicode) return null;
  if (!unicodeName.test(text) || !/[\u0080-\uffff]/.test(text)) return parseHost(text);
  const found = parseHost(domainToASCII(text));
  return found?.literal === 0 ? found : null;
}

/** The `Host` field to send to `authority` (RFC 9110 section 7.2): the scheme's default port is left out. */
export function hostHeader(scheme: Scheme, authority: Authority): string {
  return authority.port === defaultPort(scheme) ? authority.host : `${authority.host}:${authority.port}`;
}

/**
 * Parses an absolute-form request target (RFC 9112 section 3.2.2) of scheme http or https, any case.
 * User information, a fragment, a backslash, a space or a non-ASCII octet anywhere: refused.
 *
 * @param target the octets, decoded as latin1
 * @returns null if it is malformed
 */
export function parseAbsolute(target: string): AbsoluteTarget | null {
  const start = absoluteStart.exec(target);
  if (start === null) return null;
  const scheme = start[1] === '' ? 'http' : 'https';
  const rest = target.slice(start[0].length);
  const cut = rest.search(/[/?]/);
  const authority = parseAuthority(cut === -1 ? rest : rest.slice(0, cut), defaultPort(scheme));
  if (authority === null) return null;
  if (cut === -1) return { scheme, authority, path: '/' };
  const path = rest.slice(cut);
  if (!pathAndQuery.test(path)) return null;
  return { scheme, authority, path: path.startsWith('/') ? path : `/${path}` };
}

/**
 * Parses an IP address: canonical dotted IPv4, or any RFC 4291 section 2.2 form of IPv6, bare (no brackets)
 * and without a zone.
 *
 * @returns 4 or 16 octets in network order; null for anything else
 */
export function parseIp(text: string): Uint8Array | null {
  if (text.length > maxIpv6) return null;
  if (text.includes(':')) return parseIpv6(text);
  return dottedQuad.test(text) ? writeIpv4(text, new Uint8Array(4), 0) : null;
}

/**
 * Writes 16 octets as RFC 5952 says: lower case, the longest run of two or more zero groups as `::`, the
 * first of equals; IPv4-mapped addresses in dotted form (section 5).
 */
export function formatIpv6(ip: Uint8Array): string {
  if (ip.length !== 16) throw new RangeError(`an IPv6 address has 16 octets, not ${ip.length}`);
  if (isIpv4Mapped(ip)) return `::ffff:${ip.subarray(12).join('.')}`;
  const groups = Array.from({ length: 8 }, (_, i) => (ip[2 * i] << 8) | ip[2 * i + 1]);
  const { at, length } = longestZeroRun(groups);
  const hex = (part: number[]) => part.map((group) => group.toString(16)).join(':');
  if (length < 2) return hex(groups);
  return `${hex(groups.slice(0, at))}::${hex(groups.slice(at + length))}`;
}

/** Whether 16 octets lie in `::ffff:0:0/96`: the IPv4 address of the last four, as a socket sees it. */
export function isIpv4Mapped(ip: Uint8Array): boolean {
  if (ip.length !== 16 || ip[10] !== 0xff || ip[11] !== 0xff) return false;
  return ip.subarray(0, 10).every((byte) => byte === 0);
}

function defaultPort(scheme: Scheme): number {
  return scheme === 'https' ? 443 : 80;
}

// The index after the host: of the port's colon, or the text's length.
function hostEnd(text: string): number {
  if (text.startsWith('[')) return text.indexOf(']') + 1;
  const colon = text.indexOf(':');
  return colon === -1 ? text.length : colon;
}

function parsePort(text: string): number | null {
  if (!portShape.test(text)) return null;
  const port = Number(text.slice(1));
  return port <= 65535 ? port : null;
}

function parseHost(text: string): Host | null {
  if (text.startsWith('[')) {
    const ip = text.endsWith(']') && text.length <= maxIpv6 + 2 ? parseIpv6(text.slice(1, -1)) : null;
    return ip === null ? null : { host: `[${formatIpv6(ip)}]`, literal: 6 };
  }
  const name = text.endsWith('.') ? text.slice(0, -1) : text;
  if (name.length > maxName || !nameShape.test(name)) return null;
  const host = name.toLowerCase();
  const last = host.lastIndexOf('.') + 1;
  // Only a label that starts with a digit can be a number: names end here, cheaply.
  if (host.charCodeAt(last) > 0x39 || !numericLabel.test(host.slice(last))) return { host, literal: 0 };
  return dottedQuad.test(host) ? { host, literal: 4 } : null;
}

function parseIpv6(text: string): Uint8Array | null {
  const ip = new Uint8Array(16);
  let at = 0; // octets written
  let gap = -1; // where `::` stands
  let from = 0;
  if (text.startsWith('::')) {
    gap = 0;
    from = 2;
  }
  while (from < text.length) {
    const colon = text.indexOf(':', from);
    const part = colon === -1 ? text.slice(from) : text.slice(from, colon);
    if (colon === -1 && dottedQuad.test(part)) {
      writeIpv4(part, ip, at);
      at += 4;
      break;
    }
    if (!hexGroup.test(part)) return null;
    const group = Number.parseInt(part, 16);
    ip[at++] = group >> 8;
    ip[at++] = group & 0xff;
    if (colon === -1) break;
    from = colon + 1;
    if (from === text.length) return null;
    if (text[from] === ':') {
      if (gap !== -1) return null;
      gap = at;
      from++;
    }
  }
  // What was written past the end of the array is gone, but `at` has counted it.
  if (gap === -1) return at === 16 ? ip : null;
  if (at > 14) return null;
  const tail = 16 - (at - gap);
  return ip.copyWithin(tail, gap, at).fill(0, gap, tail);
}

// `text` is a dotted quad already.
function writeIpv4(text: string, into: Uint8Array, at: number): Uint8Array {
  let value = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x2e) {
      into[at++] = value;
      value = 0;
    } else {
      value = value * 10 + code - 0x30;
    }
  }
  into[at] = value;
  return into;
}

function longestZeroRun(groups: number[]): { at: number; length: number } {
  let best = { at: 0, length: 0 };
  for (let at = 0; at < groups.length; at++) {
    let length = 0;
    while (groups[at + length] === 0) length++;
    if (length > best.length) best = { at, length };
  }
  return best;
}
