import { invalid } from '../actors/vault/fields.ts';
import { accept, problem, type Result } from '../actors/vault/problem.ts';
import { administers, foreignVault, ownerProblem } from './caller.ts';
import { createChannel } from './channel.ts';
import type { AuditQuery, AuditVerdict } from './front-options.ts';
import { type Answer, json, stream } from './reply.ts';
import { type Call, type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';
import { auditQuery } from './schemas.ts';
import { createUnderWay } from './under-way.ts';

/** Who follows is told of life by an empty line: proxies on the way drop connections that are silent for long. */
const keepAliveMs = 15_000;
/** UTF-16 units. */
const maxBehind = 1024 * 1024;
/** Reads of one operator at a time: each has its turn of the thread. */
const maxReads = 4;

/** The audit log, as it was written. */
export function auditRoutes({ audit, held, clock }: FrontParts): Route[] {
  /** Reads under way, by the operator's name. */
  const reads = createUnderWay();
  let checking: Promise<AuditVerdict> | null = null;

  /** What is there, and then each record as it is written, until one of both sides has enough. */
  function follow(call: Call<'operator', 'header-if-any'>, query: AuditQuery): Answer {
    const holding = held.hold(call);
    if (!holding.ok) return holding.problem;
    const { over, release } = holding.value;
    const channel = createChannel(maxBehind);
    const unfollow = audit.follow(query, (record) => channel.push(`${record}\n`));
    // Begun in the turn in which following began: no record is between the two, and none is in both.
    const before = begun(lines(audit.read(query)));
    let cancelTimer = clock.setTimer(keepAliveMs, function beat() {
      channel.push('\n');
      cancelTimer = clock.setTimer(keepAliveMs, beat);
    });
    function end(): void {
      channel.end();
      cancelTimer();
      unfollow();
      release();
    }
    over.addEventListener('abort', end, { once: true });
    if (over.aborted) end();
    return stream(both(before, channel), 'application/x-ndjson');
  }

  return [
    route(
      'GET',
      '/v1/audit',
      { auth: 'operator', vault: 'header-if-any', query: auditQuery },
      async (call) => {
        const { identity, query } = call;
        const vault = query.vault ?? call.vault ?? undefined;
        if (vault === undefined && identity.role !== 'owner') {
          return invalid('vault', 'is missing. Name one of your vaults.');
        }
        if (vault !== undefined && !administers(identity, vault)) return foreignVault();
        const since = moment(query.since, 'since');
        if (!since.ok) return since.problem;
        const until = moment(query.until, 'until');
        if (!until.ok) return until.problem;
        const { limit, newest } = query;
        const wanted = { vault, since: since.value, until: until.value, limit, newest };
        if (query.follow === true) {
          if (newest === 'first') return invalid('newest', 'has to be last where the log is followed.');
          return follow(call, wanted);
        }
        if (reads.of(identity.name) >= maxReads) {
          return problem('rate_limited', tooManyReads, undefined, 1);
        }
        reads.add(identity.name, 1, call.incoming.over);
        await audit.settled();
        return stream(lines(audit.read(wanted)), 'application/x-ndjson');
      },
    ),
    route('POST', '/v1/audit/verify', { auth: 'operator', vault: 'none' }, async ({ identity }) => {
      const refusal = ownerProblem(identity);
      if (refusal) return refusal;
      // It reads all of the log: who asks meanwhile gets the same answer.
      checking ??= audit.verify().finally(() => {
        checking = null;
      });
      return json(await checking);
    }),
  ];
}

const tooManyReads = `You read the audit log ${maxReads} times at once already. Let one of them end first.`;

/** Milliseconds since the epoch. */
function moment(text: string | undefined, field: string): Result<number | undefined> {
  const ms = text === undefined ? undefined : Date.parse(text);
  if (ms === undefined || !Number.isNaN(ms)) return accept(ms);
  return { ok: false, problem: invalid(field, 'must be a moment, such as 2026-01-31T12:00:00Z.') };
}

/** Several records a piece: one at a time they would be a packet each. */
async function* lines(records: AsyncIterable<string>): AsyncGenerator<string> {
  let piece = '';
  for await (const record of records) {
    piece += `${record}\n`;
    if (piece.length < 16_384) continue;
    yield piece;
    piece = '';
  }
  yield piece;
}

/** The same, whose first piece is asked for at once. */
function begun(pieces: AsyncGenerator<string>): AsyncGenerator<string> {
  const first = pieces.next();
  // Whoever reads it hears of it; until then it is nobody's failure.
  first.catch(() => {});
  return (async function* () {
    const { value, done } = await first;
    if (!done) yield value;
    yield* pieces;
  })();
}

async function* both(a: AsyncIterable<string>, b: AsyncIterable<string>): AsyncGenerator<string> {
  yield* a;
  yield* b;
}
