import { BodyReader, bodyState } from '../../src/proxy/body.ts';
import {
  chunked,
  maxHeadBytes,
  parseResponseHead,
  type ResponseHead,
  untilClose,
} from '../../src/proxy/head.ts';
import { nominated, pairs, passes, stops } from './our-requests.ts';
import type { Field, Message } from './reading.ts';

/** An upstream's bytes as our own parser reads them in one piece, and what the client has to get. */
export interface OurAnswer {
  /** As the upstream wrote them: the interim ones, and the final one if it is whole. */
  readonly raw: Message[];
  /** As the client has to get them. */
  readonly interims: Message[];
  /** Also where it is `truncated`: as far as it goes. */
  final: Message | null;
  /** `broken`: no head that can be passed on. `truncated`: the head went on, the body can't. */
  outcome: 'complete' | 'broken' | 'truncated';
  /** The first byte that is not the answer's. */
  end: number;
  /** The connection can take another request: it is kept alive, and in step. */
  reusable: boolean;
  /** Only the end of the connection shows the outcome. */
  needsEnd: boolean;
}

/** Hop-by-hop and framing fields; what is of no meaning in an answer goes on like any other. */
function passesDown(name: string, drop: ReadonlySet<string>): boolean {
  const lower = name.toLowerCase();
  const alias = lower.replaceAll('_', '-');
  const meaningless = alias === 'host' || alias === 'x-vault' || alias === 'expect';
  return (meaningless || !stops.has(alias)) && !drop.has(lower);
}

function downwards(raw: Message): Message {
  const drop = nominated(raw.fields);
  const trailers = raw.trailers.filter(
    ([name]) => passes(name, false, drop) && name.toLowerCase() !== 'authorization',
  );
  return { ...raw, fields: raw.fields.filter(([name]) => passesDown(name, drop)), trailers };
}

/** The framing that the client gets. */
function framing(head: ResponseHead, bodiless: boolean, minor: number): Field[] {
  const fields: Field[] = [];
  const counted = head.framed && head.bodyLength >= 0;
  if (counted && head.status !== 204) fields.push(['Content-Length', String(head.bodyLength)]);
  const none = head.status === 204 || (bodiless && head.bodyLength !== chunked);
  if (!counted && minor === 1 && !none) fields.push(['Transfer-Encoding', 'chunked']);
  if (minor === 0) fields.push(['Connection', 'close']);
  return fields;
}

/** @param minor the client's version: HTTP/1.`minor` */
export function ourAnswer(bytes: Buffer, method: string, minor: number): OurAnswer {
  const read: OurAnswer = {
    raw: [],
    interims: [],
    final: null,
    outcome: 'broken',
    end: 0,
    reusable: false,
    needsEnd: false,
  };
  let at = 0;
  for (let count = 0; ; count++) {
    const end = bytes.indexOf('\r\n\r\n', at);
    if (end < 0) {
      read.needsEnd = bytes.length - at <= maxHeadBytes;
      return read;
    }
    const head = end - at > maxHeadBytes ? null : parseResponseHead(bytes.latin1Slice(at, end));
    if (head === null || head.status === 101) return read;
    at = end + 4;
    const raw: Message = {
      start: [String(head.status), head.reason],
      fields: pairs(head),
      body: '',
      trailers: [],
    };
    if (head.status >= 200) {
      readBody(read, head, raw, bytes, at, method, minor);
      return read;
    }
    if (count === 32) return read;
    read.raw.push(raw);
    if (minor === 1) read.interims.push(downwards(raw));
  }
}

function readBody(
  read: OurAnswer,
  head: ResponseHead,
  raw: Message,
  bytes: Buffer,
  at: number,
  method: string,
  minor: number,
): void {
  const bodiless = method === 'HEAD' || head.status === 204 || head.status === 304;
  const length = bodiless ? 0 : head.bodyLength;
  const body = new BodyReader(length);
  const content = length === 0 ? null : body.read(bytes.subarray(at), 0, false);
  raw.body = content?.latin1Slice() ?? '';
  if (body.trailers !== null) raw.trailers = pairs(body.trailers);
  read.end = at + body.end;
  const final = downwards(raw);
  final.fields.push(...framing(head, bodiless, minor));
  const asChunks = final.fields.some(([name, value]) => name === 'Transfer-Encoding' && value === 'chunked');
  if (!asChunks) final.trailers = [];
  read.final = final;
  read.outcome = body.state === bodyState.done || length === untilClose ? 'complete' : 'truncated';
  read.reusable = head.keepAlive && body.state === bodyState.done && read.end === bytes.length;
  read.needsEnd = body.state === bodyState.more;
  if (read.outcome === 'complete') read.raw.push(raw);
}
