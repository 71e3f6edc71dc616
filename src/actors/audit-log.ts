import {
  closeSync,
  constants,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import {
  chainLineMax,
  genesis,
  headerLine,
  type Link,
  lastWhole,
  type SegmentName,
  seal,
  segmentName,
  segmentsOf,
} from './audit-chain.ts';
import { type AuditQuery, matches, readRecords } from './audit-read.ts';
import type { Clock } from './core/clock.ts';

const dayMs = 24 * 3_600_000;

export interface AuditLogOptions {
  readonly clock: Clock;
  /** A segment that would grow over this many octets is closed and another begun. Default 64 MiB. */
  readonly maxBytes?: number;
  /** So is one of this age, in milliseconds. Default one day. */
  readonly maxAgeMs?: number;
  /** Most octets kept, the segment being written counted as full; older segments go, whole. Default: no bound. */
  readonly retainBytes?: number;
  /** A segment goes when its newest record is older than this many days. Default: no bound. */
  readonly retainDays?: number;
  /** Every batch is on the disk before `append` returns, not just in the system's cache. Default false. */
  readonly fsync?: boolean;
}

export interface AuditLog {
  /**
   * Writes records as one batch, synchronously and whole: after a throw nothing of it counts as written, and
   * the same lines may be given again.
   * @param lines complete NDJSON lines, each with its line feed, as text or as its UTF-8.
   * @throws Error (of node:fs, with its `code`) where the disk refuses.
   */
  append(...lines: readonly (string | Uint8Array)[]): void;
  /** Records that are written, without line feeds, newest last. */
  read(query: AuditQuery): AsyncIterable<string>;
  /**
   * Calls `listener` with each record that is written from now on and that `query` (its limit aside) asks for. What is
   * read in the same turn of the event loop is all that was written before. The function returned ends it.
   */
  follow(query: AuditQuery, listener: (record: string) => void): () => void;
  close(): void;
}

interface Segment extends SegmentName {
  readonly path: string;
  readonly fd: number;
  readonly dev: number;
  readonly ino: number;
  /** Octets up to the end of the last whole batch. */
  size: number;
  /** A write failed: there may be octets behind `size`. */
  dirty: boolean;
}

/**
 * Opens the log in `<dir>/audit` (made if missing, 0700; files 0600) for its one writer, goes on with the
 * chain where it stands, and cuts off what a crash left torn; a record `audit.recovered` says so.
 * @throws Error (of node:fs) where the directory or its last segment can't be read or mended.
 */
export function openAuditLog(dir: string, options: AuditLogOptions): AuditLog {
  const { clock, maxBytes = 64 * 2 ** 20, maxAgeMs = dayMs, fsync = false } = options;
  const folder = join(dir, 'audit');
  let segment: Segment | null = null;
  let lastSeq = 0;
  let last: Link = genesis;
  /** Lines of our own for the next batch. */
  let notes = '';
  let closed = false;
  /** A batch is put together in it. */
  let scratch = Buffer.alloc(0);
  const followers = new Set<(records: string) => void>();

  mkdirSync(folder, { recursive: true, mode: 0o700 });
  recover();

  function recover(): void {
    for (const name of segmentsOf(readdirSync(folder)).reverse()) {
      const path = join(folder, name.name);
      const bytes = readFileSync(path);
      const whole = lastWhole(bytes);
      const cut = bytes.length - (whole?.end ?? 0);
      if (cut > 0) note({ event: 'audit.recovered', segment: name.name, cut_bytes: cut });
      if (whole === null) {
        // Torn in its first batch: nothing to go on from. Put aside, since it might be damage of another kind.
        if (cut > 0) renameSync(path, `${path}.torn`);
        else unlinkSync(path);
        continue;
      }
      last = whole.link;
      lastSeq = name.seq;
      segment = attach(name, openSync(path, 'r+'), whole.end);
      if (cut > 0) ftruncateSync(segment.fd, whole.end);
      break;
    }
    retain();
    try {
      append('');
    } catch {
      // The note stays for the next batch, whose writer learns what ails the disk.
    }
  }

  function note(record: object): void {
    notes += `${JSON.stringify({ time: new Date(clock.now()).toISOString(), ...record })}\n`;
  }

  function attach(name: SegmentName, fd: number, size: number): Segment {
    const { dev, ino } = fstatSync(fd);
    return { ...name, path: join(folder, name.name), fd, dev, ino, size, dirty: false };
  }

  function begin(): Segment {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const started = clock.now();
    const seq = lastSeq + 1;
    const name = segmentName(seq, started);
    const fd = openSync(join(folder, name), 'wx', 0o600);
    lastSeq = seq;
    if (fsync) syncFolder();
    return attach({ name, seq, started }, fd, 0);
  }

  /** A new file outlives a power cut only when its directory entry is on the disk. */
  function syncFolder(): void {
    const fd = openSync(folder, constants.O_RDONLY);
    try {
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
  }

  /**
   * Whether the file at the segment's path is still the one that we write, as we left it. One that was moved,
   * deleted or changed would take our records out of sight; the chain goes on in a new segment instead.
   */
  function isOurs({ path, dev, ino, size, dirty }: Segment): boolean {
    const there = statSync(path, { throwIfNoEntry: false });
    if (there === undefined || there.dev !== dev || there.ino !== ino) return false;
    return there.size === size || (dirty && there.size > size);
  }

  /** The segment for a batch of so many octets: the present one, or the next. */
  function ready(octets: number): Segment {
    if (segment !== null && !isOurs(segment)) release(segment);
    if (segment !== null) {
      mend(segment);
      const full =
        segment.size + octets + chainLineMax > maxBytes || clock.now() - segment.started >= maxAgeMs;
      if (full && segment.size > 0) release(segment);
    }
    if (segment !== null) return segment;
    segment = begin();
    retain();
    return segment;
  }

  function mend(torn: Segment): void {
    if (torn.dirty) ftruncateSync(torn.fd, torn.size);
    torn.dirty = false;
  }

  function release({ fd }: Segment): void {
    segment = null;
    closeSync(fd);
  }

  function append(...lines: readonly (string | Uint8Array)[]): void {
    if (closed) throw new Error('The audit log is closed.');
    const records = [notes, ...lines].map(octets);
    const length = records.reduce((sum, { length }) => sum + length, 0);
    if (length === 0) return;
    const current = ready(length);
    const header = octets(current.size === 0 ? headerLine({ ...current, last }) : '');
    const whole = header.length + length;
    // The same memory for each batch: to allocate some anew, many times a second, is work for the collector.
    if (scratch.length < whole + chainLineMax) scratch = Buffer.allocUnsafeSlow(2 * whole + chainLineMax);
    let at = 0;
    for (const piece of [header, ...records]) {
      scratch.set(piece, at);
      at += piece.length;
    }
    const { link, line } = seal(last, scratch.subarray(0, whole));
    const end = whole + scratch.write(line, whole);
    current.dirty = true;
    for (let done = 0; done < end; ) {
      done += writeSync(current.fd, scratch, done, end - done, current.size + done);
    }
    if (fsync) fdatasyncSync(current.fd);
    current.dirty = false;
    current.size += end;
    last = link;
    notes = '';
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

  /** Deletes whole segments, oldest first, never the present one. What can't go now is tried with the next one. */
  function retain(): void {
    const { retainBytes = Number.POSITIVE_INFINITY, retainDays = Number.POSITIVE_INFINITY } = options;
    const names = segmentsOf(readdirSync(folder));
    const sizes = names.map(({ name }) => statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0);
    let total = sizes.slice(0, -1).reduce((sum, size) => sum + size, maxBytes);
    for (const [i, { name }] of names.slice(0, -1).entries()) {
      // A segment's records are older than the start of the one after it.
      const stale = clock.now() - names[i + 1].started > retainDays * dayMs;
      if (!stale && total <= retainBytes) return;
      try {
        unlinkSync(join(folder, name));
      } catch {
        return;
      }
      total -= sizes[i];
    }
  }

  async function* read(query: AuditQuery): AsyncGenerator<string> {
    const { since = Number.NEGATIVE_INFINITY } = query;
    const present = segment;
    const names = segmentsOf(readdirSync(folder));
    const wanted = names.filter((_, i) => i + 1 === names.length || names[i + 1].started >= since);
    const segments = wanted.map(({ name, seq }) => {
      const path = join(folder, name);
      if (seq === present?.seq) return { path, size: present.size };
      return { path, size: statSync(path, { throwIfNoEntry: false })?.size ?? 0 };
    });
    yield* readRecords(segments, query);
  }

  function close(): void {
    closed = true;
    if (segment === null) return;
    const { fd, path, size } = segment;
    try {
      mend(segment);
      if (size === 0) unlinkSync(path);
      else fdatasyncSync(fd);
    } catch {
      // The next start mends it.
    }
    release(segment);
  }

  return { append, read, follow, close };
}

/** As UTF-8. A last line without its line feed gets one: the chain's lines must stand alone. */
function octets(lines: string | Uint8Array): Uint8Array {
  const bytes = typeof lines === 'string' ? Buffer.from(lines) : lines;
  return bytes.length === 0 || bytes[bytes.length - 1] === 10 ? bytes : Buffer.concat([bytes, lineFeed]);
}

const lineFeed = Buffer.from('\n');
