import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { type Broker, startBroker, temporary, until } from '../support/broker.ts';
import { reaching, startUpstream } from '../support/tls-upstream.ts';
import { rootOf } from '../support/tunnel.ts';
import { createAuthority } from '../support/upstream.ts';
import type { Hold, Report, Slice } from './agents.ts';
import { auditProblems, type Sighting } from './audit-check.ts';
import { auditOf, metric, openFiles, residentMiB, threads } from './broker-state.ts';
import { startCalm } from './calm.ts';
import { furnish, type Member } from './furnish.ts';
import { startTalker } from './process.ts';
import { SecretSearch } from './secret-search.ts';
import type { Said } from './upstream.ts';
import { services, vaultsOf } from './values.ts';

export interface RunOptions {
  readonly seed: number;
  readonly requests: number;
  /** In so many slices, each compared with the calm before it. */
  readonly rounds: number;
  /** Requests a second at most. */
  readonly rate: number;
  /** Of each hostile agent at the same time. */
  readonly tracks: number;
  /** Of the agent that behaves, in each calm. */
  readonly samples: number;
  /** Of the hostile agents' process and of their upstreams'. */
  readonly niceness: number;
}

/** What a run measured; what it found wrong is asserted. */
export interface Measured {
  /** 99th percentiles of the agent that behaves, in ms. */
  readonly rounds: readonly { readonly idle: number; readonly busy: number }[];
  /** Requests by kind, and answers by status and error code. */
  readonly kinds: Readonly<Record<string, number>>;
  readonly answers: Readonly<Record<string, number>>;
  /** Answers that showed a value where the service lets them. */
  readonly shown: number;
  readonly sightings: number;
  readonly records: number;
  readonly receivedBytes: number;
  /** Of the broker after the first round, and at the end. */
  readonly residentMiB: readonly [number, number];
}

/** Requests of one session under way. */
const inflight = 64;

const p99 = (times: number[]): number => times.sort((a, b) => a - b)[Math.floor(times.length * 0.99)];

function addUp(into: Record<string, number>, counts: Readonly<Record<string, number>>): void {
  for (const [name, count] of Object.entries(counts)) into[name] = (into[name] ?? 0) + count;
}

/** Three agents send hostile requests, a fourth one behaves; what may not come of it is asserted. */
export async function runHostile(t: Test, options: RunOptions): Promise<Measured> {
  const { seed, requests, rounds, rate, tracks, samples, niceness } = options;
  const authority = createAuthority('hostile upstreams');
  const names = services.map(({ host }) => host).filter((host) => !host.startsWith('*'));
  const upstreams = startTalker(
    t,
    './upstream.ts',
    'BROKER_TEST_CERTIFICATE',
    authority.issue(names),
    niceness,
  );
  const [secure, plain] = (await upstreams.next<Extract<Said, { ports: unknown }>>()).ports;
  const own = await startUpstream(t);
  const way = reaching(t);
  const ca = join(temporary(t), 'ca.pem');
  writeFileSync(ca, readFileSync(way.args[1], 'utf8') + authority.certPem);
  const broker = await startBroker(t, {
    args: [
      ...['--upstream-ca', ca, '--allow-private-ranges'],
      ...['--rate-limit', '0', '--rate-inflight', String(inflight)],
    ],
    preload: way.preload,
  });
  const members = await furnish(broker, seed);
  const before = { files: openFiles(broker), threads: threads(broker) };
  const attackers = startTalker(
    t,
    './agents.ts',
    'BROKER_TEST_HOSTILE',
    {
      ...{ seed, tracks, agents: members.slice(0, 3) },
      ...{ proxyPort: broker.proxyPort, rootPem: await rootOf(broker), ports: { secure, plain } },
    },
    niceness,
  );
  const calm = await startCalm(t, broker, own, {
    own: { ...members[3], host: 'calm.test', port: own.port },
    shared: { ...members[3], host: 'bearer.test', port: secure },
    value: vaultsOf(seed)[1].values.CALM,
  });

  const reports: Report[] = [];
  const measured: Measured['rounds'][number][] = [];
  const resident: number[] = [];
  await calm.measure(samples, () => true);
  for (let round = 0; round < rounds; round++) {
    const idle = p99(await calm.measure(samples, () => true));
    const [from, to] = [round, round + 1].map((part) => Math.floor((requests * part) / rounds));
    attackers.tell({ from, to, rate } satisfies Slice);
    let over = false;
    const report = attackers.next<Report>().finally(() => {
      over = true;
    });
    const busy = p99(await calm.measure(samples, () => over));
    reports.push(await report);
    measured.push({ idle, busy });
    resident.push(residentMiB(broker));
  }
  const problems = reports.flatMap((report) => report.problems);
  t.strictSame(problems.slice(0, 20), [], `${requests} requests, ${problems.length} problems`);
  t.strictSame(calm.wrong.slice(0, 20), [], `${calm.asked} answers to the agent that behaves`);
  attackers.tell({ hold: inflight + 1 } satisfies Hold);
  const limited = { 200: inflight, 429: 1 };
  t.strictSame(
    await attackers.next(),
    [limited, limited, limited],
    'every place under the limit is free again',
  );
  t.equal(await metric(broker, 'broker_lanes_up'), 2, 'lanes');
  t.equal(threads(broker), before.threads, 'threads');

  calm.close();
  await Promise.all([attackers.end(), upstreams.end()]);
  // Kept connections of the agent that behaves are left: its upstream is still there.
  const kept = 2;
  await until(
    async () =>
      (await metric(broker, 'broker_open_connections')) <= kept && openFiles(broker) <= before.files + kept,
    'connections are closed',
    30,
  ).catch(async (error) => t.fail(`${error.message}: ${await metric(broker, 'broker_open_connections')}`));
  const said = upstreams.said as Said[];
  const hers = own.seen.map(({ method, url, host }) => ({ method, host, path: url }));
  const sightings = [...said.filter((each): each is Sighting => 'method' in each), ...hers];
  const records = await auditOf(broker);
  t.strictSame(credentialsTaken(said, seed), [], 'no upstream got a credential for a part of a body');
  t.strictSame(
    records.filter(({ event }) => event === 'lane.failed'),
    [],
    'no lane died',
  );
  checkAudit(t, records, sightings, reports, members);
  t.equal(upstreams.complaints, '', 'the upstreams');
  t.equal(attackers.complaints, '', 'the agents');
  t.strictSame(oddLines(broker), [], 'the log has JSON only, and no error');
  const counts = { kinds: {}, answers: {} };
  for (const { kinds, answers } of reports) {
    addUp(counts.kinds, kinds);
    addUp(counts.answers, answers);
  }
  return {
    ...{ rounds: measured, ...counts, sightings: sightings.length },
    shown: reports.reduce((sum, { shown }) => sum + shown, 0),
    records: records.filter(({ kind }) => kind === 'request').length,
    receivedBytes: reports.reduce((sum, { received }) => sum + received, 0),
    residentMiB: [resident[0], residentMiB(broker)],
  };
}

/** Values that stood in what upstreams took for a body that another request announced. */
function credentialsTaken(said: readonly Said[], seed: number): string[] {
  const search = new SecretSearch(
    vaultsOf(seed).flatMap(({ name, values }) =>
      Object.entries(values).map(([key, value]) => [`${name}/${key}`, value] as const),
    ),
  );
  return said.flatMap((each) => ('took' in each ? [...search.in(Buffer.from(each.took, 'latin1'))] : []));
}

function checkAudit(
  t: Test,
  records: readonly Record<string, unknown>[],
  sightings: readonly Sighting[],
  reports: readonly Report[],
  members: readonly Member[],
): void {
  const names = members.map(({ vault, actor }) => `${vault} ${actor}`);
  const breaches = auditProblems({
    records: records.filter(({ kind }) => kind === 'request') as never[],
    sightings,
    answered: new Map(reports.flatMap(({ answered }) => Object.entries(answered))),
    reflected: new Set(reports.flatMap(({ audited }) => audited)),
    senderOf(id, host) {
      if (/^c\d/.test(id)) return names[3];
      const index = /^[a-z](\d+)/.exec(id)?.[1] ?? /^f(\d+)\.fuzz/.exec(host)?.[1];
      return index === undefined ? null : names[Number(index) % 3];
    },
  });
  t.strictSame(
    breaches.slice(0, 20),
    [],
    `${sightings.length} requests seen, ${breaches.length} breaches of the audit`,
  );
}

/** Lines of its log that aren't JSON, or tell of an error. */
function oddLines(broker: Broker): string[] {
  return broker
    .printed()
    .stderr.split('\n')
    .filter((line) => {
      if (line === '') return false;
      try {
        return JSON.parse(line).level === 'error';
      } catch {
        return true;
      }
    })
    .slice(0, 20);
}
