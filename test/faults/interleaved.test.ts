/**
 * Requests of many sessions in several vaults, over two lanes, while credentials and services change and lanes end:
 * whoever asks after a change was acknowledged is served by it, nobody by another vault's, and each request that the
 * upstream saw has one record.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startBroker, temporary, until } from '../support/broker.ts';
import { reaching, startUpstream } from '../support/tls-upstream.ts';
import { openTunnel, rootOf } from '../support/tunnel.ts';
import { countBy, endLane, exported, within } from './records-kit.ts';

const requests = Number(process.env.REQUESTS ?? 100_000);
const ends = Number(process.env.LANE_ENDS ?? 20);
const vaults = ['a', 'b', 'c', 'd'];
const clientsPerVault = 4;
const host = 'api.test';

/** What a vault's requests carry, in the order of its changes; all up to `acknowledged` were answered. */
interface Course {
  readonly carried: string[];
  acknowledged: number;
}

t.test(`${requests} requests, ${ends} ends of lanes: none stale, none with another's key`, async (t) => {
  const upstream = await startUpstream(t);
  const sabotage = join(temporary(t), 'sabotage');
  mkdirSync(sabotage);
  const way = reaching(t);
  const broker = await startBroker(t, {
    args: [...way.args, '--rate-limit', '0', '--api-rate', '0'],
    preload: [...way.preload, 'sabotage'],
    env: { BROKER_TEST_SABOTAGE: sabotage },
  });
  const rootPem = await rootOf(broker);
  let left = requests;
  let changes = 0;
  const wrong: string[] = [];
  const statuses = new Map<number, number>();
  const answered: string[] = [];

  async function must(method: string, path: string, vault: string, body: unknown): Promise<void> {
    const { status } = await broker.api(method, path, { vault, body });
    if (status !== 200) throw new Error(`${method} ${path}: ${status}`);
  }

  /** Changes one of two keys, or which of them is used. Each change is acknowledged before the next. */
  async function change(vault: string, course: Course): Promise<void> {
    const values = [`${vault}-0-0`, `${vault}-1-0`];
    let used = 0;
    for (let n = 1; left > 0; n++) {
      const keyed = n % 4 !== 0;
      const which = Math.floor(Math.random() * 2);
      if (keyed) values[which] = `${vault}-${which}-${n}`;
      else used = 1 - used;
      course.carried.push(values[used]);
      if (keyed)
        await must('POST', '/v1/credentials', vault, { credentials: { [`KEY_${which}`]: values[which] } });
      else {
        const services = [{ host, auth: { type: 'bearer', token: `KEY_${used}` } }];
        await must('PUT', `/v1/vaults/${vault}/services`, vault, { services });
      }
      course.acknowledged = course.carried.length - 1;
      changes++;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async function ask(vault: string, client: number, course: Course): Promise<void> {
    const token = await broker.session(vault);
    for (let n = 0; left > 0; ) {
      const tunnel = await within(
        'a tunnel',
        openTunnel(broker, rootPem, { token, vault, host, port: upstream.port }),
      ).catch(() => null);
      if (tunnel === null) await new Promise((resolve) => setTimeout(resolve, 20));
      // Some tunnels are short: their successors may be on the other lane.
      const length = 50 + Math.floor(Math.random() * 1000);
      for (let i = 0; tunnel !== null && !tunnel.closed && i < length && left > 0; i++) {
        left--;
        const path = `/${vault}/${client}/${n++}`;
        const from = course.acknowledged;
        const answer = await within(path, tunnel.request(path)).catch((error: Error) => {
          if (/^no end/.test(error.message)) throw error;
          return null;
        });
        if (answer === null) break;
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
        if (answer.status !== 200) continue;
        answered.push(path);
        const seen = upstream.seen[JSON.parse(answer.body).seen];
        const carried = seen.headers.authorization?.replace(/^Bearer /, '') ?? 'nothing';
        if (seen.url !== path || !course.carried.slice(from).includes(carried))
          wrong.push(`${path} carried ${carried}, not ${course.carried[from]} or what came after it`);
      }
      tunnel?.close();
    }
  }

  const courses = new Map<string, Course>();
  for (const vault of vaults) {
    await broker.api('POST', '/v1/vaults', { body: { name: vault } });
    const credentials = { KEY_0: `${vault}-0-0`, KEY_1: `${vault}-1-0` };
    await must('POST', '/v1/credentials', vault, { credentials });
    const services = [{ host, auth: { type: 'bearer', token: 'KEY_0' } }];
    await must('PUT', `/v1/vaults/${vault}/services`, vault, { services });
    courses.set(vault, { carried: [`${vault}-0-0`], acknowledged: 0 });
  }
  const ending = (async () => {
    for (let end = 0; end < ends && left > 0; end++) {
      const from = requests - ((end + 1) * requests) / (ends + 1);
      await until(() => left <= from, `request ${requests - from}`, 600);
      await endLane(broker, end, () => writeFileSync(join(sabotage, 'throw'), ''));
    }
  })();
  await Promise.all([
    ending,
    ...vaults.flatMap((vault) => {
      const course = courses.get(vault) as Course;
      const clients = Array.from({ length: clientsPerVault }, (_, i) => ask(vault, i, course));
      return [change(vault, course), ...clients];
    }),
  ]);

  t.same(wrong, [], `${answered.length} answers after ${changes} changes`);
  t.same([...statuses.keys()], [200]);
  const records = await exported(broker);
  const ofPath = countBy(records, ({ path }) => path);
  const seen = new Set(upstream.seen.map(({ url }) => url));
  t.same(
    [...seen].filter((path) => ofPath.get(path) !== 1),
    [],
    `${seen.size} requests that the upstream saw have one record each`,
  );
  const wholes = countBy(
    records.filter(({ status }) => status === 200),
    ({ path }) => path,
  );
  t.same(
    answered.filter((path) => wholes.get(path) !== 1),
    [],
    'those that were answered with their status',
  );
  t.comment(`${answered.length} of ${requests} were answered, ${seen.size} seen, ${changes} changes`);
});
