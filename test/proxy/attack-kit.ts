import type { Test } from 'tap';
import type { Service } from '../../src/actors/vault/model.ts';
import { nextRequest, type Wire } from '../support/wire.ts';
import type { Arena, Attack, Outcome } from './attack-runner.ts';

/** A GET as any client makes it, with more fields. */
export const get = (fields = '', path = '/', host = 'api.good.test') =>
  `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${fields}\r\n`;

/** An answer as any upstream makes it. */
export const ok = (body = '') => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

export const statuses = (outcome: Outcome) => outcome.answers.map(({ status }) => status);
export const codes = (outcome: Outcome) =>
  outcome.answers.map((answer) => answer.field('x-broker-error') ?? null);
export const bodies = (outcome: Outcome) => outcome.answers.map(({ body }) => body);

/** An upstream's script: reads one request, then sends this. */
export const answering = (answer: string) => async (wire: Wire) => {
  await nextRequest(wire);
  wire.send(answer);
};

/** An upstream that misbehaves, asked once. */
export async function against(
  arena: Arena,
  script: (wire: Wire, n: number) => unknown,
  attack: Attack = {},
): Promise<Outcome> {
  const up = await arena.upstream(script);
  return arena.attack({ connect: `api.good.test:${up.port}`, raw: get(), ...attack });
}

/** A service or credential otherwise than the fixtures have it, while `work` goes on. */
export async function changed<T>(
  { lane }: Arena,
  change: { service?: Service; credentials?: Record<string, string | null> },
  before: Record<string, string>,
  work: () => Promise<T>,
): Promise<T> {
  const set = (credentials: Record<string, string | null>) =>
    lane.publish(
      ...Object.entries(credentials).map(
        ([key, value]) => ({ type: 'credential', vault: lane.ids.v1, key, value }) as const,
      ),
    );
  if (change.service) lane.publish({ type: 'service', vault: lane.ids.v1, service: change.service });
  set(change.credentials ?? {});
  try {
    return await work();
  } finally {
    set(before);
  }
}

/** One attack in a table: bytes, and what must come of them. */
export interface Row {
  readonly title: string;
  readonly attack: Attack;
  /** Statuses of the answers, in order. Refusals end the connection where nothing else is said. */
  readonly answers: readonly number[];
  /** The code of the last answer; null: it is an upstream's. */
  readonly code?: string | null;
  readonly closes?: boolean;
  /** Requests that an upstream got whole. */
  readonly reached?: number;
  readonly records?: number;
  readonly look?: (t: Test, outcome: Outcome) => void;
}

/** Carries out each row, and looks at the five things that hold after each. */
export function runRows(t: Test, arena: Arena, rows: readonly Row[]): void {
  for (const { title, attack, answers, code, closes, reached = 0, records, look } of rows) {
    t.test(title, async (t) => {
      const outcome = await arena.attack({ answers: answers.length, ...attack, ...(closes && { closes }) });
      t.strictSame(statuses(outcome), answers);
      if (code !== undefined) t.equal(codes(outcome).at(-1), code);
      if (closes) t.ok(outcome.closed, 'the connection has ended');
      t.equal(outcome.reached.length, reached, 'requests that arrived');
      look?.(t, outcome);
      await t.resolves(arena.holds(records ?? answers.length));
    });
  }
}

/** Refused in a tunnel to api.good.test, where nothing more is read. */
export const refusedRow = (title: string, raw: string, status = 400, code = 'invalid_request'): Row => ({
  title,
  attack: { connect: 'api.good.test:443', raw },
  answers: [status],
  code,
  closes: true,
});

/** Served through a tunnel to api.good.test: one request upstream, which is looked at. */
export const servedRow = (
  title: string,
  raw: string,
  look?: (t: Test, outcome: Outcome) => void,
  connect = 'api.good.test:443',
): Row => ({ title, attack: { connect, raw }, answers: [200], code: null, reached: 1, look });
