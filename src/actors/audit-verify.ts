import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { batchesOf, edgeOf } from './audit-batches.ts';
import {
  type AuditAnchor,
  type Batch,
  batchHash,
  type Chain,
  type ChainKey,
  chainLine,
  chainLineMax,
  countLines,
  headerMax,
  type Link,
  parseChain,
  parseHeader,
  type SegmentName,
  segmentName,
  segmentsOf,
  thinnedMac,
} from './audit-chain.ts';

/** Batches of which nothing is left. Times are those of the records next to them, ISO 8601. */
interface Missing {
  readonly from: number;
  readonly to: number;
  /** Of the last record before them; null: there is none. */
  readonly after: string | null;
  /** Of the first record behind them; null: there is none, the end of the log is missing. */
  readonly before: string | null;
}

/** What a check of the log found. */
export interface AuditVerdict {
  readonly ok: boolean;
  /** `order`: the key was not at hand, so that it was only checked whether batches follow each other, as they say. */
  readonly checked: 'contents' | 'order';
  /** It was compared with what the store knows of where the log begins and ends. */
  readonly anchored: boolean;
  /** Segments and records that are proven good: all of them where `ok`, else those before the first bad place. */
  readonly segments: number;
  readonly records: number;
  /** Where the chain stands at the end of these; null where there is none. */
  readonly head: Link | null;
  /** The first line (from 1) of the first batch that is wrong, and what is wrong with it. */
  readonly firstBad?: { readonly file: string; readonly line: number; readonly reason: string };
  /** What is missing, in order; the first hundred of such ranges. */
  readonly missing: readonly Missing[];
}

export interface VerifyOptions {
  readonly key: ChainKey;
  /** As of when the check begins, or before; null: it isn't known. */
  readonly anchor: AuditAnchor | null;
  /** Without an anchor: the last batch that may have no key; null: it isn't known. Default: null. */
  readonly unkeyed?: Link | null;
  /** There ought to be an anchor, and isn't. */
  readonly lost?: boolean;
  /** Of older segments than the newest with so many octets only how they follow each other is looked at. Default: none. */
  readonly newestBytes?: number;
}

const tornReason =
  'the file ends within a batch; if the server was killed, its next start cuts this off and notes it';
const lostReason =
  'the store has lost what it knew of where the log ends, so that a missing end cannot be told';
const maxMissing = 100;

/**
 * Checks the whole chain of the log in `<dir>/audit`: every octet of every segment that is there, that they follow
 * each other, and that nothing is missing of what the anchor knows. It may run while the log is being written. Memory
 * doesn't depend on the size of the log.
 * @throws Error (of node:fs) where a file can't be read.
 */
export async function verifyAuditLog(dir: string, options: VerifyOptions): Promise<AuditVerdict> {
  for (let attempt = 1; ; attempt++) {
    try {
      const verdict = await verifyOnce(join(dir, 'audit'), options);
      // A batch may have been on its way to the file: only one that stays torn is.
      if (verdict.firstBad?.reason !== tornReason || attempt === 3) return verdict;
    } catch (error) {
      // Retention deleted a segment after it was listed.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || attempt === 3) throw error;
    }
    await delay(50);
  }
}

async function verifyOnce(folder: string, options: VerifyOptions): Promise<AuditVerdict> {
  const check = new Check(options);
  const names = segmentsOf(await entries(folder, options.anchor !== null || options.lost === true));
  let unread = options.newestBytes ?? Number.POSITIVE_INFINITY;
  const shallow = new Set<SegmentName>();
  for (const segment of names.toReversed()) {
    if (unread <= 0) shallow.add(segment);
    if (Number.isFinite(unread)) unread -= (await stat(join(folder, segment.name))).size;
  }
  for (const segment of names) {
    const path = join(folder, segment.name);
    const begun = check.begin(segment, await edgeOf(path, 'first', headerMax));
    if (!begun) continue;
    if (shallow.has(segment)) {
      check.skip(await edgeOf(path, 'last', chainLineMax));
      continue;
    }
    const batches = batchesOf(path);
    let next = await batches.next();
    for (; !next.done; next = await batches.next()) check.batch(next.value);
    check.end(next.value);
  }
  return check.verdict();
}

/** @param known there was a log: where its folder isn't, all of it is missing */
async function entries(folder: string, known: boolean): Promise<string[]> {
  return readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (known && error.code === 'ENOENT') return [];
    throw error;
  });
}

/** Goes along the chain, and notes what isn't as it has to be. */
class Check {
  readonly #options: VerifyOptions;
  #segments = 0;
  #records = 0;
  #head: Link | null = null;
  #firstBad: AuditVerdict['firstBad'];
  readonly #missing: Missing[] = [];
  /** Where the chain stands, good or bad; null: that can't be told. */
  #last: Link | null = null;
  /** Time of the last record that was seen. */
  #time: string | null = null;
  /** A range that is missing, until the time of the record behind it is known. */
  #open: { from: number; to: number; after: string | null } | null = null;
  #file = 'audit';
  #line = 1;
  #keyed = true;
  #passedHead: boolean;

  constructor(options: VerifyOptions) {
    this.#options = options;
    this.#passedHead = options.anchor === null || options.anchor.head.seq === 0;
  }

  /** Whether the segment can be read on. */
  begin({ name }: SegmentName, start: Buffer): boolean {
    this.#file = name;
    this.#line = 1;
    const header = parseHeader(start);
    if (header === null) {
      this.#bad(start.length === 0 ? tornReason : 'the file does not begin with the header of a segment');
      this.#last = null;
      return false;
    }
    if (name !== segmentName(header.seq, header.started)) this.#bad('the header belongs to another file');
    const { anchor } = this.#options;
    const unkeyed = anchor?.unkeyed ?? this.#options.unkeyed ?? null;
    if (unkeyed !== null && !header.keyed && header.last.seq >= unkeyed.seq) {
      this.#bad('the segment is chained without the key, although the log had one by then');
    }
    this.#keyed = header.keyed;
    this.#goOn(
      header.last,
      'the segment does not go on from the one before it: something between them is missing',
    );
    return true;
  }

  /** Goes on from `link`, which has to be where the chain stands. */
  #goOn(link: Link, reason: string): void {
    const last =
      this.#last ?? (this.#segments === 0 && this.#firstBad === undefined ? this.#beginning(link) : null);
    if (last !== null && (last.seq !== link.seq || last.hash !== link.hash)) {
      if (link.seq > last.seq) this.#gap(last.seq + 1, link.seq);
      this.#bad(reason);
    }
    this.#pass(link);
  }

  /** Where the oldest segment has to begin. Retention may not have deleted yet what it gave up. */
  #beginning(link: Link): Link {
    const first = this.#options.anchor?.first;
    return first === undefined || link.seq < first.seq ? link : first;
  }

  batch({ lines, chainLine: line }: Batch): void {
    const chain = parseChain(line);
    const count = countLines(lines);
    const last = this.#last;
    const expected = (last?.seq ?? -1) + 1;
    if (chain === null) {
      this.#bad('the chain line of this batch is damaged');
      this.#last = null;
    } else {
      const from = chain.thinned?.from ?? chain.seq;
      if (last !== null && from !== expected) {
        if (from > expected) this.#gap(expected, from - 1);
        this.#bad(`batch ${expected} is expected here, not ${from}`);
      } else if (last !== null && chain.prev !== last.hash) {
        this.#bad('this batch does not go on from the one before it');
      } else if (line !== chainLine(this.#asItHasToBe(chain, lines, count))) {
        this.#bad(`the ${count} lines of this batch are not what its chain line says`);
      }
      this.#times(lines);
      this.#pass(chain);
    }
    if (this.#firstBad === undefined) this.#records += this.#line === 1 ? count - 1 : count;
    this.#line += count + 1;
  }

  #asItHasToBe(chain: Chain, lines: Buffer, count: number): Chain {
    const { prev, hash, seq, thinned } = chain;
    const { key } = this.#options;
    if (!this.#keyed) return { ...chain, count, hash: batchHash(null, prev, lines), thinned: undefined };
    if (key === null) return { ...chain, count };
    if (thinned === undefined) return { ...chain, count, hash: batchHash(key, prev, lines) };
    const mac = thinnedMac(key, thinned.from, prev, { seq, hash }, lines);
    return { ...chain, count, thinned: { ...thinned, mac } };
  }

  /** The chain stands at `link`. */
  #pass({ seq, hash }: Link): void {
    this.#last = { seq, hash };
    const { anchor } = this.#options;
    const { unkeyed = null } = this.#options;
    for (const known of anchor === null ? [unkeyed] : [anchor.unkeyed, anchor.first, anchor.head]) {
      if (known?.seq === seq && known.hash !== hash)
        this.#bad(`batch ${seq} is not the one that the store knows`);
    }
    if (anchor !== null && seq >= anchor.head.seq) this.#passedHead = true;
  }

  /** Of this segment only the end is looked at. */
  skip(end: Buffer): void {
    const chain = parseChain(end.toString('latin1', end.lastIndexOf(10, end.length - 2) + 1));
    if (chain === null) this.#bad('the file does not end with a chain line');
    if (chain === null) this.#last = null;
    else this.#pass(chain);
    this.#done();
  }

  /** @param torn octets behind the last batch */
  end(torn: number): void {
    if (torn > 0 || this.#line === 1) this.#bad(tornReason);
    this.#done();
  }

  #done(): void {
    if (this.#firstBad !== undefined) return;
    this.#segments++;
    this.#head = this.#last;
  }

  #times(lines: Buffer): void {
    const first = this.#open === null ? null : timeOf(lines, 'first');
    if (this.#open !== null && first !== null) this.#close(first);
    this.#time = timeOf(lines, 'last') ?? this.#time;
  }

  #gap(from: number, to: number): void {
    if (this.#open !== null) this.#close(null);
    this.#open = { from, to, after: this.#time };
  }

  #close(before: string | null): void {
    if (this.#open !== null && this.#missing.length < maxMissing)
      this.#missing.push({ ...this.#open, before });
    this.#open = null;
  }

  #bad(reason: string): void {
    this.#firstBad ??= { file: this.#file, line: this.#line, reason };
  }

  verdict(): AuditVerdict {
    const { anchor, key } = this.#options;
    if (anchor !== null && !this.#passedHead) {
      const last = this.#last ?? this.#head ?? anchor.first;
      this.#gap(Math.max(last.seq, anchor.first.seq) + 1, anchor.head.seq);
      this.#bad('the end of the log is missing');
    }
    if (this.#options.lost) this.#bad(lostReason);
    if (anchor?.lost !== undefined) this.#bad(`${lostReason}, up to batch ${anchor.lost.seq}`);
    this.#close(null);
    return {
      ok: this.#firstBad === undefined,
      checked: key === null ? 'order' : 'contents',
      anchored: anchor !== null,
      segments: this.#segments,
      records: this.#records,
      head: this.#head,
      ...(this.#firstBad && { firstBad: this.#firstBad }),
      missing: this.#missing,
    };
  }
}

/** The time of the first or the last record among the lines that has one. */
function timeOf(lines: Buffer, which: 'first' | 'last'): string | null {
  const mark = '{"time":"';
  const at = which === 'first' ? lines.indexOf(mark) : lines.lastIndexOf(mark);
  const text = at < 0 ? '' : lines.toString('latin1', at + mark.length, at + mark.length + 24);
  return /^[\d:.TZ-]{20,24}$/.test(text) ? text : null;
}
