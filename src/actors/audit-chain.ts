import { createHash } from 'node:crypto';

/**
 * The format of the audit log: NDJSON segments, in which batches of records are chained by hash.
 *
 * A segment is a file; its first line is its header. A batch is some lines and one chain line after them:
 *
 *     {"segment":{"version":1,"seq":2,"started":"2026-01-31T09:00:00.000Z","batch":17,"prev":"<hex>"}}
 *     {"time":"2026-01-31T09:00:00.010Z","vault":"default",…}
 *     {"chain":{"seq":17,"count":2,"prev":"<hex>","hash":"<hex>"}}
 *
 * `hash` is SHA-256 over the 32 octets of `prev` and the octets of the batch's lines, line feeds and the
 * segment's header included; `count` is the number of these lines. `prev` is the hash of the batch before, also
 * across segments: the header says what the segment goes on from, so that the chain can still be checked
 * when older segments are gone. No record's first member is named `segment` or `chain`.
 *
 * The chain has no key. It shows every change within what is there; whoever can write the files can also
 * make the whole chain anew, or leave its end out. Against that, keep its head (`seq` and `hash`) elsewhere.
 */

/** Where the chain stands: number and hash of the last batch. */
export interface Link {
  readonly seq: number;
  readonly hash: string;
}

/** What the first batch of all goes on from. */
export const genesis: Link = { seq: 0, hash: '0'.repeat(64) };

/** Seals the lines of a batch: the chain line to write after them, and where the chain stands then. */
export function seal(last: Link, lines: Uint8Array): { link: Link; line: string; count: number } {
  const hash = createHash('sha256').update(last.hash, 'hex').update(lines).digest('hex');
  const count = countLines(lines);
  const link = { seq: last.seq + 1, hash };
  const line = `{"chain":{"seq":${link.seq},"count":${count},"prev":"${last.hash}","hash":"${hash}"}}\n`;
  return { link, line, count };
}

/** Octets that a chain line never exceeds. */
export const chainLineMax = 256;

function countLines(bytes: Uint8Array): number {
  let count = 0;
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) count++;
  return count;
}

/** A batch in a segment's bytes: lines in `[start, chainAt)`, chain line in `[chainAt, end)`. */
export interface Batch {
  readonly start: number;
  readonly chainAt: number;
  readonly end: number;
  /** What the chain line says; null where it can't be read. */
  readonly chain: {
    readonly seq: number;
    readonly count: number;
    readonly prev: string;
    readonly hash: string;
  } | null;
}

const chainPattern =
  /^\{"chain":\{"seq":(\d+),"count":(\d+),"prev":"([0-9a-f]{64})","hash":"([0-9a-f]{64})"\}\}\n$/;

/** The complete batches of a segment, in order. What is left after the last one's `end` is torn. */
export function* batches(bytes: Buffer): Generator<Batch, void> {
  let start = 0;
  for (;;) {
    const chainAt = bytes.indexOf('\n{"chain":', start) + 1;
    const end = chainAt === 0 ? 0 : bytes.indexOf(10, chainAt) + 1;
    if (end === 0) return;
    const said = chainPattern.exec(bytes.toString('latin1', chainAt, end));
    const chain = said && { seq: Number(said[1]), count: Number(said[2]), prev: said[3], hash: said[4] };
    yield { start, chainAt, end, chain };
    start = end;
  }
}

/**
 * The end of what can be trusted of the last segment after a crash, or null where that is nothing.
 *
 * Pages of one write reach the disk in any order, so that a batch can be torn although its chain line is
 * whole; only the last one is doubted, since damage further in is for `verifyAuditLog` to show, not to cut.
 */
export function lastWhole(bytes: Buffer): { end: number; link: Link } | null {
  let before: Batch | null = null;
  let last: Batch | null = null;
  for (const batch of batches(bytes)) {
    if (batch.chain === null) continue;
    before = last;
    last = batch;
  }
  if (last !== null && !isIntact(bytes, last)) last = before;
  return last?.chain ? { end: last.end, link: { seq: last.chain.seq, hash: last.chain.hash } } : null;
}

function isIntact(bytes: Buffer, { start, chainAt, chain }: Batch): boolean {
  if (chain === null) return false;
  return (
    seal({ seq: chain.seq - 1, hash: chain.prev }, bytes.subarray(start, chainAt)).link.hash === chain.hash
  );
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
}

export function headerLine({ seq, started, last }: SegmentHeader): string {
  const time = new Date(started).toISOString();
  return `{"segment":{"version":1,"seq":${seq},"started":"${time}","batch":${last.seq + 1},"prev":"${last.hash}"}}\n`;
}

const headerPattern =
  /^\{"segment":\{"version":1,"seq":(\d+),"started":"([\d:.TZ-]+)","batch":(\d+),"prev":"([0-9a-f]{64})"\}\}$/;

/** Reads the first line of a segment; null where it is no header. */
export function parseHeader(bytes: Buffer): SegmentHeader | null {
  const said = headerPattern.exec(bytes.toString('latin1', 0, Math.max(0, bytes.indexOf(10))));
  const started = Date.parse(said?.[2] ?? '');
  if (said === null || Number.isNaN(started)) return null;
  return { seq: Number(said[1]), started, last: { seq: Number(said[3]) - 1, hash: said[4] } };
}
