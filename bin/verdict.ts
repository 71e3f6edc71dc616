import type { AuditVerdict } from '../src/actors/audit-verify.ts';

/** What is wrong with the audit log, in one line. */
export function damageOf({ firstBad, missing }: Pick<AuditVerdict, 'firstBad' | 'missing'>): string {
  const place = firstBad && `${firstBad.file}, line ${firstBad.line}: ${firstBad.reason}`;
  return [place, ...missing.slice(0, 3).map(missingText), missing.length > 3 ? 'and more is missing' : null]
    .filter((part) => part)
    .join('; ');
}

/** From where to where records are missing. */
function missingText({ from, to, after, before }: AuditVerdict['missing'][number]): string {
  const batches = from === to ? `batch ${from} is missing` : `batches ${from} to ${to} are missing`;
  const since = after === null ? 'from the beginning' : `after ${after}`;
  return `${batches}, ${since}, ${before === null ? 'to the end' : `before ${before}`}`;
}
