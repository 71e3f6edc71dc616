import type { KeyObject } from 'node:crypto';
import { open, rename, rm, stat } from 'node:fs/promises';
import { batchesOf } from './audit-batches.ts';
import { type Batch, batchHash, type Link, parseChain, thinnedLine, thinnedMac } from './audit-chain.ts';

/** Octets of a segment by actor, as it stands in its records (`session:…`); who has next to nothing isn't told apart. */
export type Usage = ReadonlyMap<string, number>;

/** Actors of a segment that are told apart. */
const maxActors = 1024;
/** What is left of batches is put together until it is so much. */
const spanBytes = 256 * 1024;

/** Who a record is of; null: of the broker itself. Quotes within a text are escaped, so that no text can say it. */
function actorOf(line: string): string | null {
  const mark = ',"actor":';
  const at = line.indexOf(mark);
  if (at < 0) return null;
  const start = at + mark.length;
  return line[start] === '"' ? line.slice(start + 1, line.indexOf('"', start + 1)) : 'nobody';
}

/** @throws Error (of node:fs) */
export async function usageOf(path: string): Promise<Usage> {
  const usage = new Map<string, number>();
  for await (const { lines } of batchesOf(path)) {
    for (const line of lines.toString('latin1').split('\n')) {
      const actor = actorOf(line);
      if (actor === null || (!usage.has(actor) && usage.size >= maxActors)) continue;
      usage.set(actor, (usage.get(actor) ?? 0) + line.length + 1);
    }
  }
  return usage;
}

interface Taken {
  records: number;
  octets: number;
  readonly first: string;
  last: string;
}

/** Batches of which something was taken, one behind the other. */
interface Span {
  readonly from: number;
  readonly prev: string;
  readonly kept: string[];
  octets: number;
  readonly taken: Map<string, Taken>;
}

/**
 * Takes records out of a segment, the oldest first, and puts a record `audit.thinned` in their place for each actor:
 * how many, how much, of when. The chain goes on behind it as before, since the key vouches for what is left.
 * @param surplus octets to take, by actor; it is lowered by what was taken
 * @param now ISO 8601
 * @returns false: something in the segment isn't as it was written, so that it was left as it is
 * @throws Error (of node:fs); the segment is as it was then
 */
export async function thin(
  path: string,
  key: KeyObject,
  surplus: Map<string, number>,
  now: string,
): Promise<boolean> {
  const part = `${path}.part`;
  const before = await stat(path);
  const file = await open(part, 'w', 0o600);
  const left = new Map(surplus);
  let span: Span | null = null;
  let last: Link | null = null;

  async function flush(): Promise<void> {
    if (span === null || last === null) return;
    for (const [of, taken] of span.taken) {
      span.kept.push(JSON.stringify({ time: now, kind: 'event', event: 'audit.thinned', of, ...taken }));
    }
    const lines = Buffer.from(`${span.kept.join('\n')}\n`, 'latin1');
    await file.appendFile(lines);
    await file.appendFile(thinnedLine(key, span.from, span.prev, last, lines));
    span = null;
  }

  /** The lines that stay; null: all of them. */
  function sift(lines: string[], taken: Map<string, Taken>): string[] | null {
    const kept = lines.filter((line) => {
      const actor = actorOf(line);
      const most = actor === null ? 0 : (left.get(actor) ?? 0);
      if (actor === null || most <= 0) return true;
      left.set(actor, most - line.length - 1);
      const time = /^\{"time":"([\d:.TZ-]+)"/.exec(line)?.[1] ?? now;
      const known = taken.get(actor) ?? { records: 0, octets: 0, first: time, last: time };
      known.records++;
      known.octets += line.length + 1;
      known.last = time;
      taken.set(actor, known);
      return false;
    });
    return kept.length === lines.length ? null : kept;
  }

  async function take({ lines, chainLine }: Batch): Promise<boolean> {
    const chain = parseChain(chainLine);
    if (chain === null || (last !== null && chain.prev !== last.hash)) return false;
    const said = chain.thinned?.mac ?? chain.hash;
    const due = chain.thinned
      ? thinnedMac(key, chain.thinned.from, chain.prev, chain, lines)
      : batchHash(key, chain.prev, lines);
    if (said !== due) return false;
    const taken: Map<string, Taken> = span?.taken ?? new Map();
    const all = lines.toString('latin1').split('\n').slice(0, -1);
    const kept = sift(all, taken);
    if (kept === null) {
      await flush();
      await file.appendFile(lines);
      await file.appendFile(chainLine);
    } else {
      span ??= { from: chain.thinned?.from ?? chain.seq, prev: chain.prev, kept: [], octets: 0, taken };
      for (const line of kept) span.kept.push(line);
      span.octets += kept.reduce((sum, line) => sum + line.length + 1, 0);
    }
    last = { seq: chain.seq, hash: chain.hash };
    if (span !== null && span.octets >= spanBytes) await flush();
    return true;
  }

  try {
    const batches = batchesOf(path);
    let next = await batches.next();
    for (; !next.done; next = await batches.next()) if (!(await take(next.value))) return false;
    await flush();
    await file.sync();
    const present = await stat(path);
    if (next.value > 0 || present.size !== before.size || present.ino !== before.ino) return false;
    await rename(part, path);
    for (const [actor, octets] of left) surplus.set(actor, octets);
    return true;
  } finally {
    await file.close();
    await rm(part, { force: true });
  }
}
