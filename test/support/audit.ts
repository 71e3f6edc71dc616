import { createHash, createSecretKey } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { AuditAnchor } from '../../src/actors/audit-chain.ts';
import { type AuditLog, type AuditLogOptions, openAuditLog } from '../../src/actors/audit-log.ts';
import { type AuditVerdict, verifyAuditLog } from '../../src/actors/audit-verify.ts';
import { systemClock } from '../../src/actors/core/clock.ts';

/** What tests chain their logs with, where no store keeps a key. */
export const auditKey = createSecretKey(Buffer.alloc(32, 7));

/** What a store would know, by data directory. */
export const anchors = new Map<string, AuditAnchor>();

/** A log whose anchor is kept in this process, as a store would keep it. */
export function openLog(dir: string, options: Partial<AuditLogOptions> = {}): AuditLog {
  return openAuditLog(dir, {
    clock: systemClock,
    key: auditKey,
    anchor: anchors.get(dir) ?? null,
    keep: async (anchor) => void anchors.set(dir, anchor),
    ...options,
  });
}

/** Checks the files by themselves; `anchored`: compared with what is known of them. */
export function checkLog(dir: string, anchored = false): Promise<AuditVerdict> {
  return verifyAuditLog(dir, { key: auditKey, anchor: anchored ? (anchors.get(dir) ?? null) : null });
}

/** Paths of the segments, oldest first. */
export const segmentPaths = (dir: string) => {
  const names = fs.readdirSync(join(dir, 'audit')).sort((a, b) => a.slice(-15).localeCompare(b.slice(-15)));
  return names.map((name) => join(dir, 'audit', name));
};

/** The batches of a segment's text. */
export const batchesOf = (text: string) => text.split(/(?<=^\{"chain".*\n)/m);

/** The same files with every hash made anew, as somebody can who has no key. */
export function rechain(dir: string, change: (lines: string) => string): void {
  let last = '0'.repeat(64);
  for (const path of segmentPaths(dir)) {
    const made = batchesOf(fs.readFileSync(path, 'utf8')).map((text) => {
      const at = text.lastIndexOf('{"chain"');
      const lines = change(text.slice(0, at)).replace(/("batch":\d+,"prev":")[0-9a-f]{64}/, `$1${last}`);
      const hash = createHash('sha256').update(last, 'hex').update(lines).digest('hex');
      const chain = text.slice(at).replace(/"prev".*/, `"prev":"${last}","hash":"${hash}"}}`);
      last = hash;
      return lines + chain;
    });
    fs.writeFileSync(path, made.join(''));
  }
}
