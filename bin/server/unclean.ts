import { type AuditProtocol, auditLine } from '../../src/actors/audit.ts';
import type { Clock } from '../../src/actors/core/clock.ts';
import type { Ref } from '../../src/actors/core/protocol.ts';
import type { LeftBehind } from '../../src/workers/run-files.ts';
import type { log } from './log.ts';

/** Sessions that one record names; more are named by further records. */
const maxNamed = 1000;

/**
 * Says in the audit, and in the server's log, that the last run ended otherwise than in order: up to when each life of
 * a lane has all of its records in the log, and which sessions had requests under way or records that had yet to be
 * written. What is missing behind those times is theirs.
 */
export async function recordUnclean(
  left: LeftBehind,
  { clock, log: say, audit }: { clock: Clock; log: typeof log; audit: Ref<AuditProtocol> },
): Promise<void> {
  const time = new Date(clock.now()).toISOString();
  const lanes = left.files
    .map(({ lane, until }) => ({ lane, whole_until: new Date(until).toISOString() }))
    .sort((a, b) => a.lane - b.lane);
  const sessions = [...new Set(left.files.flatMap((file) => file.sessions))].sort();
  say('warn', 'the last run did not end in order: records of its last moments may be missing', {
    lanes: lanes.length,
    sessions: sessions.length,
  });
  for (let from = 0; from === 0 || from < sessions.length; from += maxNamed) {
    const named = sessions.slice(from, from + maxNamed);
    const record = { time, kind: 'event', event: 'start.unclean', lanes, sessions: named };
    audit.tell('append', { lines: auditLine(record), count: 1 });
  }
  // What can't be written now is said again by the next start.
  if ((await audit.ask('flush', {})).written) left.remove();
}
