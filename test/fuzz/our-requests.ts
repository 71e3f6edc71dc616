import { type Authority, parseAbsolute, parseAuthority } from '../../src/actors/vault/authority.ts';
import { BodyReader, bodyState } from '../../src/proxy/body.ts';
import { role } from '../../src/proxy/fields.ts';
import {
  chunked,
  type Fields,
  isHeadError,
  maxHeadBytes,
  parseRequestHead,
  type RequestHead,
} from '../../src/proxy/head.ts';
import type { Field, Message } from './reading.ts';

/** One request as our own parser read it. */
interface OurRequest {
  readonly head: RequestHead;
  /** As the client sent it, in the terms of the other parsers. */
  readonly raw: Message;
  /** As it has to arrive upstream. */
  readonly forwarded: Message;
}

/** A client's stream as our own parser reads it in one piece. */
export interface OurRequests {
  readonly messages: OurRequest[];
  /** `closed`: the last message ended the connection; `refused` and `incomplete`: there is one more behind `messages`. */
  end: 'clean' | 'closed' | 'refused' | 'incomplete';
  /** That one more, as far as it may have gone upstream: its head was sound. */
  partial: OurRequest | null;
}

/** What the service of a vault puts in. */
export const slot: Field = ['X-Api-Key', 's3cret'];

// Written out here a second time: from the protocol, not from the code.
export const stops = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  'x-vault',
  'host',
  'content-length',
  'expect',
]);

export function pairs({ names, values }: Fields): Field[] {
  return names.map(({ name }, i) => [name, values[i]]);
}

/** Lower-case names that the Connection fields nominate. */
export function nominated(fields: readonly Field[]): Set<string> {
  const values = fields.filter(([name]) => name.toLowerCase() === 'connection').map(([, value]) => value);
  return new Set(values.flatMap((value) => value.split(',').map((option) => option.trim().toLowerCase())));
}

export function passes(name: string, keyed: boolean, drop: ReadonlySet<string>): boolean {
  const lower = name.toLowerCase();
  // `_` may become `-` at the other end: no name may turn into one that counts.
  const alias = lower.replaceAll('_', '-');
  if (stops.has(lower) || drop.has(lower) || stops.has(alias)) return false;
  return !keyed || alias !== slot[0].toLowerCase();
}

/** The request as the upstream has to get it. */
function forward(head: RequestHead, path: string, raw: Message, keyed: boolean, authority: string): Message {
  const drop = nominated(raw.fields);
  const fields: Field[] = [['Host', authority]];
  for (const field of raw.fields) if (passes(field[0], keyed, drop)) fields.push(field);
  if (keyed) fields.push(slot);
  if (head.bodyLength === chunked) fields.push(['Transfer-Encoding', 'chunked']);
  else if (head.framed) fields.push(['Content-Length', String(head.bodyLength)]);
  if (head.expectContinue) fields.push(['Expect', '100-continue']);
  if (head.websocket) fields.push(['Connection', 'Upgrade'], ['Upgrade', 'websocket']);
  const trailers = raw.trailers.filter(
    ([name]) => passes(name, keyed, drop) && name.toLowerCase() !== 'authorization',
  );
  return { start: [head.method, path], fields, body: raw.body, trailers };
}

/** Path of a request inside a tunnel to `target`, or null where it is refused. */
function pathInside(head: RequestHead, target: Authority): string | null {
  if (head.method === 'CONNECT') return null;
  let path: string | null = head.target;
  if (!path.startsWith('/') || path.startsWith('//')) {
    const absolute = parseAbsolute(path);
    const own =
      absolute?.scheme === 'http' &&
      absolute.authority.host === target.host &&
      absolute.authority.port === target.port;
    if (own) path = absolute.path;
    else if (path !== '*' || head.method !== 'OPTIONS') path = null;
  }
  const host = head.host === null ? null : parseAuthority(head.host, target.port);
  return host?.host === target.host && host.port === target.port ? path : null;
}

/**
 * Reads a client's whole stream, of a tunnel to `authority`, by our own parser.
 *
 * @param keyed the vault has a service with a credential for the host
 */
export function ourRequests(stream: Buffer, authority: string, keyed: boolean): OurRequests {
  const target = parseAuthority(authority, null) as Authority;
  const read: OurRequests = { messages: [], end: 'clean', partial: null };
  let at = 0;
  while (at < stream.length) {
    const start = stream.latin1Slice(at, at + 2) === '\r\n' ? at + 2 : at;
    const end = stream.indexOf('\r\n\r\n', start);
    if (end < 0) {
      const rest = stream.latin1Slice(at);
      read.end = rest.length > maxHeadBytes || /(?<!\r)\n/.test(rest) ? 'refused' : 'incomplete';
      return read;
    }
    const head = end - start > maxHeadBytes ? null : parseRequestHead(stream.latin1Slice(start, end));
    const path = head === null || isHeadError(head) ? null : pathInside(head, target);
    if (path === null) {
      read.end = 'refused';
      return read;
    }
    const one = head as RequestHead;
    const body = new BodyReader(one.bodyLength);
    const rest = stream.subarray(end + 4);
    const content = body.state === bodyState.done ? null : body.read(rest, 0, false);
    const raw: Message = {
      start: [one.method, one.target],
      fields: pairs(one),
      body: content?.latin1Slice() ?? '',
      trailers: body.trailers === null ? [] : pairs(body.trailers),
    };
    const message = { head: one, raw, forwarded: forward(one, path, raw, keyed, authority) };
    const framing = body.trailers?.names.some(
      (name) => name.role === role.contentLength || name.role === role.transferEncoding,
    );
    if (body.state !== bodyState.done || framing) {
      read.end = body.state === bodyState.more ? 'incomplete' : 'refused';
      read.partial = message;
      return read;
    }
    read.messages.push(message);
    at = end + 4 + body.end;
    if (!one.keepAlive) {
      read.end = 'closed';
      return read;
    }
  }
  return read;
}
