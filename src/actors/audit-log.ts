import type { KeyObject } from 'node:crypto';
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  unlinkSync,
} from 'node:fs';
import { join } from 'node:path';
import { Anchoring } from './audit-anchoring.ts';
import {
  type AuditAnchor,
  chainLineMax,
  genesis,
  headerLine,
  type Link,
  lastWhole,
  parseHeader,
  type SegmentHeader,
  type SegmentName,
  seal,
  segmentName,
  segmentsOf,
} from './audit-chain.ts';
import { type AuditQuery, matches, readRecords } from './audit-read.ts';
import { headerOf, Segment } from './audit-segment.ts';
import { thin, type Usage, usageOf } from './audit-thinning.ts';
import type { Clock } from './core/clock.ts';

const dayMs = 24 * 3_600_000;
/** Segments that are kept where their octets are bounded: a thinned one may be small. */
const maxSegments = 4096;

export interface AuditLogOptions {
  readonly clock: Clock;
  /** What the chain is made with. */
  readonly key: KeyObject;
  /** What the store knows of the log; null: nothing yet. */
  readonly anchor: AuditAnchor | null;
  /** Without an anchor: the last batch that may have no key. Default: as the log says. */
  readonly unkeyed?: Link | null;
  /** There ought to be an anchor, and isn't: the next ones say so, until retention is past it. */
  readonly lost?: boolean;
  /** Keeps in the store where the log stands; called within a second of each batch. A rejection: it is tried again. */
  readonly keep: (anchor: AuditAnchor) => Promise<void>;
  /** A segment that would grow over this many octets is closed and another begun. Default 64 MiB. */
  readonly maxBytes?: number;
  /** So is one of this age, in milliseconds. Default one day. */
  readonly maxAgeMs?: number;
  /**
   * Most octets kept, the segment being written counted as full. An actor with more than an eighth of it loses its own
   * records first, then older segments go, whole. Default: no bound.
   */
  readonly retainBytes?: number;
  /** A segment goes when its newest record is older than this many days. Default: no bound. */
  readonly retainDays?: number;
}

export interface AuditLog {
  /**
   * Writes records as one batch, synchronously and whole: after a throw nothing of it counts as written, and
   * the same lines may be given again.
   * @param lines complete NDJSON lines, each with its line feed, as text or as its UTF-8.
   * @throws Error (of node:fs, with its `code`) where the disk refuses.
   */
  append(...lines: readonly (string | Uint8Array)[]): void;
  /** Records that are written, without line feeds, in memory that depends neither on the log nor on the query. */
  read(query: AuditQuery): AsyncIterable<string>;
  /**
   * Calls `listener` with each record that is written from now on and that `query` (its limit aside) asks for. What is
   * read in the same turn of the event loop is all that was written before. The function returned ends it.
   */
  follow(query: AuditQuery, listener: (record: string) => void): () => void;
  /** Where the log begins and stands now. */
  anchor(): AuditAnchor;
  /** Brings all that is written to the disk, has `keep` keep the anchor, and deletes what retention gave up. */
  settle(): Promise<void>;
  close(): void;
}

/**
 * Opens the log in `<dir>/audit` (made if missing, 0700; files 0600) for its one writer, goes on with the
 * chain where it stands, and cuts off what a crash left torn; a record `audit.recovered` says so. Where less is there
 * than the anchor knows, the chain goes on behind what is missing, so that it can be told for ever.
 * @throws Error (of node:fs) where the directory or its last segment can't be read or mended.
 */
export function openAuditLog(dir: string, options: AuditLogOptions): AuditLog {
  const { clock, key, maxBytes = 64 * 2 ** 20, maxAgeMs = dayMs } = options;
  const folder = join(dir, 'audit');
  let segment: Segment | null = null;
  let lastSeq = 0;
  let last: Link = genesis;
  let unkeyed: Link = options.anchor?.unkeyed ?? genesis;
  let first: Link = options.anchor?.first ?? genesis;
  let lost: Link | undefined = options.anchor?.lost;
  /** Segments that retention gave up; they go once the store knows. */
  const given: string[] = [];
  /** How much of each segment is whose, as far as it was needed. */
  const usages = new Map<string, Usage>();
  let balancing: Promise<void> | null = null;
  /** Lines of our own for the next batch. */
  let notes = '';
  let closed = false;
  /** A batch is put together in it. */
  let scratch = Buffer.alloc(0);
  const followers = new Set<(records: string) => void>();
  const anchor = (): AuditAnchor => ({ unkeyed, first, head: last, ...(lost && { lost }) });
  const anchoring = new Anchoring({
    clock,
    folder,
    keep: options.keep,
    anchor,
    written: () => segment?.fd ?? null,
    onKept: removeGiven,
  });

  mkdirSync(folder, { recursive: true, mode: 0o700 });
  recover();

  function recover(): void {
    const names = segmentsOf(readdirSync(folder));
    lastSeq = names.at(-1)?.seq ?? 0;
    const known = options.anchor?.head ?? genesis;
    for (const name of names.toReversed()) {
      const path = join(folder, name.name);
      const bytes = readFileSync(path);
      const header = parseHeader(bytes);
      const keyed = header === null || header.keyed;
      // A crash tears what was written last: one segment, or the first batch of the one behind it.
      const newest = name.seq === lastSeq;
      const whole = lastWhole(bytes, keyed ? key : null, newest);
      // The anchor is kept after the disk has what it speaks of: what is missing of that was not torn by a crash.
      if (whole !== null && whole.link.seq < known.seq) break;
      if (whole === null && !newest) break;
      const cut = newest ? bytes.length - (whole?.end ?? 0) : 0;
      if (cut > 0) note({ event: 'audit.recovered', segment: name.name, cut_bytes: cut });
      if (whole === null) {
        // Torn in its first batch: nothing to go on from. Put aside, since it might be damage of another kind.
        if (cut > 0) renameSync(path, `${path}.torn`);
        else unlinkSync(path);
        continue;
      }
      last = whole.link;
      if (cut > 0) truncateSync(path, whole.end);
      const isOther = last.seq === known.seq && last.hash !== known.hash;
      if (keyed && !isOther) segment = new Segment(folder, name, 'r+', whole.end);
      break;
    }
    if (last.seq <= known.seq) last = known;
    if (options.anchor === null) {
      const headers = segmentsOf(readdirSync(folder)).map(({ name }) => headerOf(join(folder, name)));
      first = headers[0]?.last ?? genesis;
      unkeyed = options.unkeyed ?? endOfUnkeyed(headers);
      if (options.lost) lost = last;
    }
    retain();
    try {
      append('');
    } catch {
      // The note stays for the next batch, whose writer learns what ails the disk.
    }
  }

  /** Of a log that no store knows: where its segments without a key end. */
  function endOfUnkeyed(headers: readonly (SegmentHeader | null)[]): Link {
    const newest = headers.findLastIndex((header) => header !== null && !header.keyed);
    if (newest < 0) return genesis;
    return headers.slice(newest + 1).find((header) => header !== null)?.last ?? last;
  }

  function note(record: object): void {
    notes += `${JSON.stringify({ time: new Date(clock.now()).toISOString(), ...record })}\n`;
  }

  function begin(): Segment {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const started = clock.now();
    const seq = lastSeq + 1;
    const begun = new Segment(folder, { name: segmentName(seq, started), seq, started }, 'wx', 0);
    lastSeq = seq;
    return begun;
  }

  /** The segment for a batch of so many octets: the present one, or the next. */
  function ready(octets: number): Segment {
    if (segment !== null && !segment.isOurs) release(segment);
    if (segment !== null) {
      segment.mend();
      const full =
        segment.size + octets + chainLineMax > maxBytes || clock.now() - segment.name.started >= maxAgeMs;
      if (full && segment.size > 0) release(segment);
    }
    if (segment !== null) return segment;
    segment = begin();
    retain();
    return segment;
  }

  function release(done: Segment): void {
    segment = null;
    anchoring.close(done.fd, () => done.close());
  }

  function append(...lines: readonly (string | Uint8Array)[]): void {
    if (closed) throw new Error('The audit log is closed.');
    const records = [notes, ...lines].map(octets);
    const length = records.reduce((sum, { length }) => sum + length, 0);
    if (length === 0) return;
    const current = ready(length);
    const header = octets(current.size === 0 ? headerLine({ ...current.name, last }) : '');
    const whole = header.length + length;
    // The same memory for each batch: to allocate some anew, many times a second, is work for the collector.
    if (scratch.length < whole + chainLineMax) scratch = Buffer.allocUnsafeSlow(2 * whole + chainLineMax);
    let at = 0;
    for (const piece of [header, ...records]) {
      scratch.set(piece, at);
      at += piece.length;
    }
    const { link, line } = seal(last, scratch.subarray(0, whole), key);
    current.write(scratch.subarray(0, whole + scratch.write(line, whole)));
    last = link;
    notes = '';
    anchoring.changed();
    if (followers.size === 0) return;
    const text = scratch.toString('utf8', header.length, whole);
    for (const follower of followers) follower(text);
  }

  function follow(query: AuditQuery, listener: (record: string) => void): () => void {
    const follower = (records: string): void => {
      for (const line of records.split('\n')) if (line !== '' && matches(line, query)) listener(line);
    };
    followers.add(follower);
    return () => followers.delete(follower);
  }

  /** Gives up whole segments that are too old, and sees to it that what there is fits. */
  function retain(): void {
    const { retainBytes = Number.POSITIVE_INFINITY, retainDays = Number.POSITIVE_INFINITY } = options;
    const names = keptSegments();
    // A segment's records are older than the start of the one after it.
    const fresh = names.findIndex((_, i) => !(clock.now() - names[i + 1]?.started > retainDays * dayMs));
    giveUp(names, fresh);
    if (sizeOf(names.slice(fresh)) > retainBytes)
      balancing ??= balance(retainBytes).finally(() => (balancing = null));
  }

  function keptSegments(): SegmentName[] {
    return segmentsOf(readdirSync(folder)).filter(({ name }) => !given.includes(name));
  }

  /** Octets, the newest segment counted as full. */
  function sizeOf(names: readonly SegmentName[]): number {
    const sizes = names.slice(0, -1).map(({ name }) => fileSize(name));
    return sizes.reduce((sum, size) => sum + size, maxBytes);
  }

  function fileSize(name: string): number {
    return statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0;
  }

  /**
   * Makes room: whoever has more than an eighth of it loses records of their own first, their oldest; then the oldest
   * segments go, whole. It reads and writes in pieces, beside everything else.
   */
  async function balance(retainBytes: number): Promise<void> {
    await shareOut(retainBytes).catch(() => {
      // A disk that refuses keeps what is on it; whole segments can still go.
    });
    if (closed) return;
    const names = keptSegments();
    let total = sizeOf(names);
    let count = 0;
    while (count < names.length - 1 && (total > retainBytes || names.length - count > maxSegments)) {
      total -= fileSize(names[count++].name);
    }
    giveUp(names, count);
  }

  async function shareOut(retainBytes: number): Promise<void> {
    const names = keptSegments().slice(0, -1);
    for (const name of usages.keys()) if (!names.some((one) => one.name === name)) usages.delete(name);
    const used = new Map<string, number>();
    for (const { name } of names) {
      const usage = usages.get(name) ?? (await usageOf(join(folder, name)));
      usages.set(name, usage);
      for (const [actor, octets] of usage) used.set(actor, (used.get(actor) ?? 0) + octets);
    }
    const surplus = new Map([...used].map(([actor, octets]) => [actor, octets - retainBytes / 8]));
    for (const [actor, octets] of surplus) if (octets <= 0) surplus.delete(actor);
    for (const { name } of names) {
      const over = sizeOf(keptSegments()) - retainBytes;
      if (over <= 0 || surplus.size === 0 || closed) return;
      const path = join(folder, name);
      const usage = usages.get(name) ?? new Map();
      if (![...surplus.keys()].some((actor) => usage.has(actor)) || !headerOf(path)?.keyed) continue;
      await thin(path, key, surplus, new Date(clock.now()).toISOString());
      usages.delete(name);
      for (const [actor, octets] of surplus) if (octets <= 0) surplus.delete(actor);
    }
  }

  /** Gives up the first `count` of these segments, but never the last. */
  function giveUp(names: readonly SegmentName[], count: number): void {
    for (const [i, { name }] of names.slice(0, Math.min(count, names.length - 1)).entries()) {
      const next = names[i + 1];
      const isBegun = segment?.name.seq === next.seq && segment.size === 0;
      const kept = isBegun ? last : headerOf(join(folder, next.name))?.last;
      // What the next one goes on from isn't known: nobody could tell later that nothing more is missing.
      if (kept === undefined) return;
      first = kept;
      if (lost !== undefined && lost.seq <= first.seq) lost = undefined;
      given.push(name);
      anchoring.changed();
    }
  }

  /** The store knows that they are gone, so that nobody misses them. */
  function removeGiven(kept: AuditAnchor): void {
    if (kept.first.seq !== first.seq) return;
    while (given.length > 0) {
      try {
        unlinkSync(join(folder, given[0]));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') return;
      }
      given.shift();
    }
  }

  async function* read(query: AuditQuery): AsyncGenerator<string> {
    const { since = Number.NEGATIVE_INFINITY } = query;
    const present = segment;
    const names = segmentsOf(readdirSync(folder));
    const wanted = names.filter((_, i) => i + 1 === names.length || names[i + 1].started >= since);
    // What is written meanwhile isn't read: a read has an end.
    const segments = wanted.map(({ name, seq }) => {
      const path = join(folder, name);
      return seq === present?.name.seq ? { path, size: present.size } : { path };
    });
    yield* readRecords(segments, query);
  }

  function close(): void {
    closed = true;
    anchoring.stop();
    if (segment === null) return;
    try {
      segment.mend();
      if (segment.size === 0) unlinkSync(join(folder, segment.name.name));
      segment.close();
    } catch {
      // The next start mends it.
    }
    segment = null;
  }

  async function settle(): Promise<void> {
    await balancing;
    await anchoring.now();
  }

  return { append, read, follow, anchor, settle, close };
}

/** As UTF-8. A last line without its line feed gets one: the chain's lines must stand alone. */
function octets(lines: string | Uint8Array): Uint8Array {
  const bytes = typeof lines === 'string' ? Buffer.from(lines) : lines;
  return bytes.length === 0 || bytes[bytes.length - 1] === 10 ? bytes : Buffer.concat([bytes, lineFeed]);
}

const lineFeed = Buffer.from('\n');
