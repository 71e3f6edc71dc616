import { createHash } from 'node:crypto';
import type { Access } from './lane-state.ts';
import type { Refusal } from './refusal-sums.ts';

/** What is known of a request before anything of it goes upstream: names, never a value. */
export interface RequestFacts {
  /** Wall clock at the start, ms. */
  readonly time: number;
  readonly requestId: string;
  /** Who asked, and for which vault; null: that is not known. */
  readonly access: Access | null;
  /** The address of a caller that is not known by a token. */
  readonly peer?: string | null;
  readonly method: string;
  readonly scheme: 'http' | 'https' | 'tcp';
  /** `host` or `host:port` where the port is not the scheme's. */
  readonly host: string;
  /** As the client wrote it, placeholders and all, without the query. */
  readonly path: string;
  readonly service: string | null;
  readonly keys: readonly string[];
}

/** How it ended. */
export interface Outcome {
  /** Something of it left the broker, be it a look-up: it has a record of its own, whatever else comes. */
  readonly sent: boolean;
  readonly status: number;
  /** The broker's error code, or what ended the exchange early; null where all went well. */
  readonly error: string | null;
  /** How often the request was sent upstream; absent: once at most. */
  readonly attempts?: number;
  /** Keys whose values stood in the answer; absent or null: none did. */
  readonly reflected?: ReadonlySet<string> | null;
  /** The answer was coded, and passed without being looked into, or not to its end. */
  readonly unlooked?: boolean;
  /** Body bytes from and to the client. */
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly milliseconds: number;
}

/** Facts that say who asked: of a sum for several callers. */
export const unnamed: Pick<RequestFacts, 'access' | 'peer'> = { access: null, peer: null };

/** What a refused request is counted as where there are many. */
export function refusalOf({ time, access, peer }: RequestFacts, { error }: Outcome): Refusal {
  if (access === null) return { time, caller: `address ${peer ?? ''}`, known: false, kind: `${error}` };
  const { session, vault } = access;
  return { time, caller: `${session.kind} ${session.id}`, known: true, kind: `${vault.name} ${error}` };
}

/** Octets of keys that are named; a service may use some dozens, of 128 each. */
const maxKeys = 1024;

/** The end of the array of keys, with the number of those that aren't named. */
function keysOf(keys: readonly string[]): string {
  if (keys.length === 0) return ']';
  const all = `"${keys.join('","')}"`;
  if (all.length <= maxKeys) return `${all}]`;
  let named = 0;
  for (let length = keys[0].length; length + 2 <= maxKeys; length += keys[named].length + 3) named++;
  return `"${keys.slice(0, named).join('","')}"],"keys_more":${keys.length - named}`;
}

/** Octets of a path that are kept. It is as long as its writer likes; methods and hosts are short where they are read. */
const maxPath = 1024;
/** And of its JSON, where an octet may become six. */
const maxPathText = 2048;

/**
 * The first part of a request's record, an unclosed JSON object: what `recordTail` or `unknownTail` is written behind.
 * Some six thousand octets at most: names, labels and keys have bounds, and a long path is cut.
 */
export function recordHead(f: RequestFacts): string {
  return `{"time":"${isoTime(f.time)}",${headMembers(f)}`;
}

/** The rest of it: ASCII. */
export function recordTail(o: Outcome): string {
  return `${tailMembers(o)}}\n`;
}

/** A record's members but for its time. */
export function membersOf(f: RequestFacts, o: Outcome): string {
  return headMembers(f) + tailMembers(o);
}

function headMembers(f: RequestFacts): string {
  return (
    `"kind":"request","request_id":"${f.requestId}",` +
    `${f.access === null ? nobody(f.peer) : namesOf(f.access)},"method":${json(f.method)},"scheme":"${f.scheme}",` +
    `"host":${json(f.host)},${pathMembers(f.path)},"service":${f.service === null ? 'null' : json(f.service)},` +
    `"keys":[${keysOf(f.keys)}`
  );
}

function tailMembers(o: Outcome): string {
  const attempts = o.attempts !== undefined && o.attempts > 1 ? `"attempts":${o.attempts},` : '';
  return (
    `,"status":${o.status},"error":${o.error === null ? 'null' : `"${o.error}"`},${attempts}` +
    (o.reflected ? `"reflected":["${[...o.reflected].slice(0, mostReflected).join('","')}"],` : '') +
    (o.unlooked ? '"unlooked":true,' : '') +
    `"bytes_in":${o.bytesIn},"bytes_out":${o.bytesOut},"ms":${o.milliseconds.toFixed(1)}`
  );
}

/** Octets that no tail exceeds. */
export const maxTailBytes = 1536;
/** Keys of at most 128 octets that a tail names. */
const mostReflected = 8;

/** The rest of the record of a request whose lane died over it. */
export const unknownTail = ',"status":null,"error":"unknown","bytes_in":null,"bytes_out":null,"ms":null}\n';

/** Who it was, as `actor` has it. */
export function actorOf(session: Access['session']): string {
  return `${session.kind}:${session.id}`;
}

/** What is cut off a path can still be told from another by its hash. */
function pathMembers(path: string): string {
  if (path.length <= maxPath) {
    const text = json(path);
    if (text.length <= maxPathText) return `"path":${text}`;
  }
  const hash = createHash('sha256').update(path, 'latin1').digest('hex');
  return `"path":${cutPath(path)},"path_length":${path.length},"path_sha256":"${hash}"`;
}

function cutPath(path: string): string {
  const text = json(path.slice(0, maxPath));
  return text.length <= maxPathText ? text : json(path.slice(0, maxPathText / 8));
}

const plainText = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;

/** JSON of a text; most are plain and need no more than quotes. Control characters never stand raw. */
function json(text: string): string {
  if (plainText.test(text)) return `"${text}"`;
  return JSON.stringify(text).replace(
    /[\x7f-\x9f]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Timestamps of one second are made once, but for their milliseconds. */
let stampedSecond = 0;
let stamp = '';
function isoTime(ms: number): string {
  const second = Math.floor(ms / 1000);
  if (second !== stampedSecond) {
    stampedSecond = second;
    stamp = new Date(second * 1000).toISOString().slice(0, -4);
  }
  const rest = ms - second * 1000;
  return `${stamp}${rest < 10 ? '00' : rest < 100 ? '0' : ''}${rest}Z`;
}

/** The members that say who asked, made once for all requests of a tunnel. */
function namesOf(access: Access): string {
  const { session, vault } = access;
  const known = access.auditNames;
  if (known !== null && known.label === session.label) return known.text;
  const label = session.label === null ? 'null' : json(session.label);
  const text = `"vault":${json(vault.name)},"actor":${json(actorOf(session))},"label":${label}`;
  access.auditNames = { label: session.label, text };
  return text;
}

function nobody(peer: string | null | undefined): string {
  return `"vault":null,"actor":null,"label":null${peer ? `,"peer":${json(peer)}` : ''}`;
}
