import { createHash, createHmac, type KeyObject } from 'node:crypto';

/**
 * The format of the audit log: NDJSON segments, in which batches of records are chained by a keyed hash.
 *
 * A segment is a file; its first line is its header. A batch is some lines and one chain line after them:
 *
 *     {"segment":{"version":2,"seq":2,"started":"2026-01-31T09:00:00.000Z","batch":17,"prev":"<hex>"}}
 *     {"time":"2026-01-31T09:00:00.010Z","vault":"default",…}
 *     {"chain":{"seq":17,"count":2,"prev":"<hex>","hash":"<hex>"}}
 *
 * `hash` is HMAC-SHA-256, under a key that is sealed in the store, over the 32 octets of `prev` and the octets of the
 * batch's lines, line feeds and the segment's header included; `count` is the number of these lines. `prev` is the
 * hash of the batch before, also across segments: the header says what the segment goes on from, so that the chain
 * can still be checked when older segments are gone. No record's first member is named `segment` or `chain`.
 *
 * Segments of version 1, which no broker begins any more, have SHA-256 in the place of HMAC: whoever can write the files
 * could make them anew. Where such segments end, and where the chain begins and stands, is kept in the store: see
 * `AuditAnchor`.
 */

/** Where the chain stands: number and hash of the last batch. */
export interface Link {
  readonly seq: number;
  readonly hash: string;
}

/** What the first batch of all goes on from. */
export const genesis: Link = { seq: 0, hash: '0'.repeat(64) };

/** What the store knows of the log, sealed, so that no change of the files alone goes unnoticed. */
export interface AuditAnchor {
  /** The last batch without a key. Behind it all have one. */
  readonly unkeyed: Link;
  /** What the oldest batch that is kept goes on from; what lies before it went by retention. */
  readonly first: Link;
  /** The last batch that is known to be on the disk. */
  readonly head: Link;
  /** Where the log stood when the store had lost all of this: what was missing by then can't be told. */
  readonly lost?: Link;
}

/** The chain's key; null: that of segments of version 1, which have none. */
export type ChainKey = KeyObject | null;

/** The hash of a batch's lines, hex. */
export function batchHash(key: ChainKey, prev: string, lines: Uint8Array): string {
  const hash = key === null ? createHash('sha256') : createHmac('sha256', key);
  return hash.update(prev, 'hex').update(lines).digest('hex');
}

/** Seals the lines of a batch: the chain line to write after them, and where the chain stands then. */
export function seal(last: Link, lines: Uint8Array, key: ChainKey): { link: Link; line: string } {
  const link = { seq: last.seq + 1, hash: batchHash(key, last.hash, lines) };
  return { link, line: chainLine({ ...link, count: countLines(lines), prev: last.hash }) };
}

/** What a chain line says. */
export interface Chain extends Link {
  readonly count: number;
  readonly prev: string;
  /** Batches of which retention took records out, made into one: see `thinnedLine`. */
  readonly thinned?: { readonly from: number; readonly mac: string };
}

export function chainLine({ seq, count, prev, hash, thinned }: Chain): string {
  const [from, mac] = thinned ? [`"from":${thinned.from},`, `,"thinned":"${thinned.mac}"`] : ['', ''];
  return `{"chain":{"seq":${seq},${from}"count":${count},"prev":"${prev}","hash":"${hash}"${mac}}}\n`;
}

/** What a chain line says, given with its line feed; null where it is none. */
export function parseChain(line: string): Chain | null {
  const said = chainPattern.exec(line);
  if (said === null || (said[2] === undefined) !== (said[6] === undefined)) return null;
  const chain = { seq: Number(said[1]), count: Number(said[3]), prev: said[4], hash: said[5] };
  return said[2] === undefined ? chain : { ...chain, thinned: { from: Number(said[2]), mac: said[6] } };
}

const chainPattern =
  /^\{"chain":\{"seq":(\d+),(?:"from":(\d+),)?"count":(\d+),"prev":"([0-9a-f]{64})","hash":"([0-9a-f]{64})"(?:,"thinned":"([0-9a-f]{64})")?\}\}\n$/;

/**
 * The chain line of batches of which retention took records out: what is left of those from `from` on, in one. `hash`
 * is the last one's as it was, so that the chain goes on behind it; `thinned` is the key's word that these lines are
 * what was kept of them: an HMAC over all that the chain line says, and the lines.
 */
export function thinnedLine(key: KeyObject, from: number, prev: string, to: Link, lines: Uint8Array): string {
  const count = countLines(lines);
  const mac = thinnedMac(key, from, prev, to, lines);
  return chainLine({ ...to, count, prev, thinned: { from, mac } });
}

export function thinnedMac(key: KeyObject, from: number, prev: string, to: Link, lines: Uint8Array): string {
  // No batch's input begins like this: that has 32 octets of a hash there, which nobody can choose.
  return createHmac('sha256', key)
    .update(`thinned ${from} ${to.seq} ${prev} ${to.hash}\n`)
    .update(lines)
    .digest('hex');
}

/** Octets that a chain line never exceeds. */
export const chainLineMax = 400;

/** How many line feeds there are. */
export function countLines(bytes: Uint8Array): number {
  let count = 0;
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) count++;
  return count;
}

/** A batch in a segment: its lines, header included, and its chain line with its line feed. */
export interface Batch {
  readonly lines: Buffer;
  readonly chainLine: string;
  /** Octets of the segment up to its end. */
  readonly end: number;
}

/** What a chain line begins with, where it stands behind a line. */
const chainStart = '\n{"chain":';

/**
 * The first complete batch in `bytes`, or null.
 * @param from octets that are known to hold no whole chain line
 * @param offset of `bytes` in the segment
 */
export function firstBatch(bytes: Buffer, from: number, offset: number): Batch | null {
  const chainAt = bytes.indexOf(chainStart, Math.max(0, from - chainLineMax)) + 1;
  const end = chainAt === 0 ? 0 : bytes.indexOf(10, chainAt) + 1;
  if (end === 0) return null;
  const lines = bytes.subarray(0, chainAt);
  return { lines, chainLine: bytes.toString('latin1', chainAt, end), end: offset + end };
}

/** The complete batches of a whole segment, in order. What is left after the last one's `end` is torn. */
function* batches(bytes: Buffer): Generator<Batch, void> {
  for (let at = 0; ; ) {
    const batch = firstBatch(bytes.subarray(at), 0, at);
    if (batch === null) return;
    yield batch;
    at = batch.end;
  }
}

/** Where a segment ends as its last readable chain line says, or null where there is none. */
interface End {
  readonly end: number;
  readonly link: Link;
}

/**
 * The end of a segment; `newest`: of what can be trusted of it after a crash.
 *
 * Pages of one write reach the disk in any order, so that a batch can be torn although its chain line is
 * whole; only the last one is doubted, since damage further in is for `verifyAuditLog` to show, not to cut.
 */
export function lastWhole(bytes: Buffer, key: ChainKey, newest: boolean): End | null {
  let before: (End & { chain: Chain; lines: Buffer }) | null = null;
  let last: (End & { chain: Chain; lines: Buffer }) | null = null;
  for (const { end, lines, chainLine } of batches(bytes)) {
    const chain = parseChain(chainLine);
    if (chain === null) continue;
    before = last;
    last = { end, link: { seq: chain.seq, hash: chain.hash }, chain, lines };
  }
  // One that was thinned came here as a whole file.
  if (last === null || !newest || last.chain.thinned !== undefined) return last;
  if (batchHash(key, last.chain.prev, last.lines) === last.chain.hash) return last;
  return before;
}

/** What a segment's file name says: `20260131T090000000Z-00000002.ndjson` is the second, begun at 9 o'clock UTC. */
export interface SegmentName {
  readonly name: string;
  readonly seq: number;
  /** Milliseconds since the epoch. */
  readonly started: number;
}

export function segmentName(seq: number, started: number): string {
  return `${new Date(started).toISOString().replace(/[-:.]/g, '')}-${String(seq).padStart(8, '0')}.ndjson`;
}

const namePattern = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})Z-(\d{8,})\.ndjson$/;

/** The segments among a directory's entries, oldest first: by number, since the clock may have been set back. */
export function segmentsOf(entries: readonly string[]): SegmentName[] {
  return entries
    .flatMap((name) => {
      const [, year, month, day, hour, minute, second, ms, seq] = namePattern.exec(name) ?? [];
      if (seq === undefined) return [];
      const started = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}.${ms}Z`);
      return [{ name, seq: Number(seq), started }];
    })
    .sort((a, b) => a.seq - b.seq);
}

export interface SegmentHeader {
  readonly seq: number;
  /** Milliseconds since the epoch. */
  readonly started: number;
  /** What the segment's first batch goes on from. */
  readonly last: Link;
  /** Version 2: its batches are chained with the key. */
  readonly keyed: boolean;
}

/** Octets that a header never exceeds. */
export const headerMax = 256;

export function headerLine({ seq, started, last }: Omit<SegmentHeader, 'keyed'>): string {
  const time = new Date(started).toISOString();
  return `{"segment":{"version":2,"seq":${seq},"started":"${time}","batch":${last.seq + 1},"prev":"${last.hash}"}}\n`;
}

const headerPattern =
  /^\{"segment":\{"version":([12]),"seq":(\d+),"started":"([\d:.TZ-]+)","batch":(\d+),"prev":"([0-9a-f]{64})"\}\}$/;

/** Reads the first line of a segment; null where it is no header. */
export function parseHeader(bytes: Buffer): SegmentHeader | null {
  const end = bytes.subarray(0, headerMax).indexOf(10);
  const said = headerPattern.exec(bytes.toString('latin1', 0, Math.max(0, end)));
  const started = Date.parse(said?.[3] ?? '');
  if (said === null || Number.isNaN(started)) return null;
  const last = { seq: Number(said[4]) - 1, hash: said[5] };
  return { seq: Number(said[2]), started, last, keyed: said[1] === '2' };
}
