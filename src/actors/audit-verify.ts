import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { batches, type Link, parseHeader, seal, segmentName, segmentsOf } from './audit-chain.ts';

/** What a check of the log found. */
export interface AuditVerdict {
  readonly ok: boolean;
  /** Segments and records that are proven good: all of them where `ok`, else those before the first bad place. */
  readonly segments: number;
  readonly records: number;
  /** Where the chain stands at the end of these; null where there is none. Kept elsewhere, it proves the end too. */
  readonly head: Link | null;
  /** The first line (from 1) of the first batch that is wrong, and what is wrong with it. */
  readonly firstBad?: { readonly file: string; readonly line: number; readonly reason: string };
}

const tornReason =
  'the file ends within a batch; if the server was killed, its next start cuts this off and notes it';

/**
 * Checks the whole chain of the log in `<dir>/audit`: every octet of every segment that is there, and that
 * the segments follow each other. It may run while the log is being written.
 * @throws Error (of node:fs) where a file can't be read.
 */
export async function verifyAuditLog(dir: string): Promise<AuditVerdict> {
  for (let attempt = 1; ; attempt++) {
    try {
      const verdict = await verifyOnce(join(dir, 'audit'));
      // A batch may have been on its way to the file: only one that stays torn is.
      if (verdict.firstBad?.reason !== tornReason || attempt === 3) return verdict;
    } catch (error) {
      // Retention deleted a segment after it was listed.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || attempt === 3) throw error;
    }
    await delay(50);
  }
}

async function verifyOnce(folder: string): Promise<AuditVerdict> {
  let segments = 0;
  let records = 0;
  let head: Link | null = null;
  for (const { name } of segmentsOf(await readdir(folder))) {
    const bad = (line: number, reason: string): AuditVerdict => {
      return { ok: false, segments, records, head, firstBad: { file: name, line, reason } };
    };
    const bytes = await readFile(join(folder, name));
    if (bytes.length === 0) return bad(1, tornReason);
    const header = parseHeader(bytes);
    if (header === null) return bad(1, 'the file does not begin with the header of a segment');
    if (name !== segmentName(header.seq, header.started)) return bad(1, 'the header belongs to another file');
    if (head !== null && (header.last.seq !== head.seq || header.last.hash !== head.hash)) {
      return bad(1, 'the segment does not go on from the one before it: something between them is missing');
    }
    let last: Link = header.last;
    let line = 1;
    let end = 0;
    let inSegment = -1;
    for (const batch of batches(bytes)) {
      const sealed = seal(last, bytes.subarray(batch.start, batch.chainAt));
      const { chain } = batch;
      if (chain === null) return bad(line, 'the chain line of this batch is damaged');
      if (chain.seq !== sealed.link.seq)
        return bad(line, `batch ${sealed.link.seq} is expected here, not ${chain.seq}`);
      if (chain.prev !== last.hash) return bad(line, 'this batch does not go on from the one before it');
      if (bytes.toString('latin1', batch.chainAt, batch.end) !== sealed.line) {
        return bad(line, `the ${sealed.count} lines of this batch are not what its chain line says`);
      }
      last = sealed.link;
      line += sealed.count + 1;
      inSegment += sealed.count;
      end = batch.end;
    }
    if (end < bytes.length) return bad(line, tornReason);
    segments += 1;
    records += inSegment;
    head = last;
  }
  return { ok: true, segments, records, head };
}
