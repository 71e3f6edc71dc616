/**
 * What a thousand writes of one agent do to everybody else on the main thread, as a ratio to the idle figure of the same
 * run, and in commits; and what a disk does that takes long for each flush.
 */
import { spawn } from 'node:child_process';
import { Agent, request } from 'node:http';
import t, { type Test } from 'tap';
import { openLmdbStore } from '../../src/actors/vault/lmdb-store.ts';
import { type Broker, startBroker, until } from '../support/broker.ts';

const unlimited = [
  '--api-rate',
  '0',
  '--quota-agent-keys',
  '0',
  '--quota-agent-bytes',
  '0',
  '--quota-vault-keys',
  '0',
];

/** One call on a kept connection of `agent`'s; gives its status. */
function call(
  broker: Broker,
  agent: Agent,
  method: string,
  path: string,
  token = '',
  body = '',
): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = {
      ...(token !== '' && { authorization: `Bearer ${token}` }),
      ...(body !== '' && { 'content-type': 'application/json' }),
    };
    const asked = request(broker.address + path, { agent, method, headers }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode ?? 0));
    });
    asked.on('error', reject).end(body);
  });
}

function keptConnections(t: Test, most: number): Agent {
  const agent = new Agent({ keepAlive: true, maxSockets: most });
  t.teardown(() => agent.destroy());
  return agent;
}

/** Asks `/health` every 10 ms until told to stop; gives how long each took, ascending, in ms. */
function watch(broker: Broker, agent: Agent): () => Promise<number[]> {
  const asked: Promise<number>[] = [];
  const timer = setInterval(() => {
    const from = performance.now();
    asked.push(call(broker, agent, 'GET', '/health').then(() => performance.now() - from));
  }, 10);
  return async () => {
    clearInterval(timer);
    return (await Promise.all(asked)).sort((a, b) => a - b);
  };
}

const at = (times: readonly number[], part: number) => times[Math.floor((times.length - 1) * part)];
const figures = (times: readonly number[]) =>
  [0.5, 0.99, 1].map((part) => at(times, part).toFixed(1)).join(' / ');
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Writes of one agent, all at once; beside them `/health` and an operator's session, made and revoked. */
async function underLoad(t: Test, broker: Broker, writes: number) {
  const token = await broker.session();
  const [mine, others] = [keptConnections(t, 200), keptConnections(t, 4)];
  const idle = watch(broker, others);
  await pause(1500);
  const before = await idle();
  const busy = watch(broker, others);
  const from = performance.now();
  const statuses = Promise.all(
    Array.from({ length: writes }, (_, i) =>
      call(broker, mine, 'POST', '/v1/credentials', token, `{"credentials":{"K${i}":"v${i}"}}`),
    ),
  );
  let isOver = false;
  const taken: number[] = [];
  const operator = (async () => {
    while (!isOver) {
      const start = performance.now();
      await broker.session();
      taken.push(performance.now() - start);
      await pause(20);
    }
  })();
  const all = await statuses;
  const took = performance.now() - from;
  isOver = true;
  await operator;
  const during = await busy();
  taken.sort((a, b) => a - b);
  t.comment(
    `idle: ${figures(before)}; during: ${figures(during)}; operator: ${figures(taken)} ms (p50 / p99 / max)`,
  );
  t.comment(`${writes} writes took ${Math.round(took)} ms`);
  t.same(
    [...new Set(all)].sort(),
    [200],
    `each write is acknowledged: ${all.filter((status) => status !== 200).length} were not`,
  );
  return { before, during, operator: taken, took };
}

/** Number of commits so far, as the store counts them. */
async function commitsOf(directory: string): Promise<number> {
  const store = await openLmdbStore(directory);
  let commits = 0;
  for await (const { key, value } of store.load('meta')) {
    if (key === 'revision') commits = (value as { revision: number }).revision;
  }
  await store.close();
  return commits;
}

t.test(
  'a thousand writes at once: others are served, and few of them are a commit of their own',
  { timeout: 120_000 },
  async (t) => {
    const broker = await startBroker(t, { args: unlimited });
    const { before, during, operator } = await underLoad(t, broker, 1000);
    t.ok(at(during, 0.99) < 60 * Math.max(1, at(before, 0.99)), 'the 99th percentile of /health');
    const { body } = await broker.api<{ keys: string[] }>('GET', '/v1/credentials', { vault: 'default' });
    t.equal(body.keys.length, 1000);
    const records = (await broker.audit()).filter(({ action }) => action === 'credential.set');
    t.equal(records.length, 1000, 'each is in the audit');
    broker.process.kill('SIGTERM');
    await broker.ended;
    const commits = (await commitsOf(broker.directory)) - operator.length;
    t.comment(`${commits} commits`);
    t.ok(commits < 500, `${commits} commits`);
  },
);

t.test(
  'a disk that takes 100 ms for each flush: nobody but the writers waits for it',
  { timeout: 120_000 },
  async (t) => {
    const broker = await startBroker(t, { args: unlimited });
    const delayMs = 100;
    const tracer = spawn('strace', [
      ...['-f', '-qq', '-o', '/dev/null', '-e', 'trace=fdatasync'],
      ...['-e', `inject=fdatasync:delay_exit=${delayMs * 1000}`, '-p', String(broker.process.pid)],
    ]);
    let said = '';
    tracer.stderr.on('data', (text) => {
      said += text;
    });
    t.teardown(() => tracer.kill('SIGKILL'));
    // Under it a commit takes so long: that is how one sees that it has begun.
    await until(async () => {
      if (tracer.exitCode !== null) throw new Error(`strace is needed, and may not trace: ${said}`);
      const from = performance.now();
      await broker.session();
      return performance.now() - from >= delayMs;
    }, 'flushes are slow');
    const { during, operator } = await underLoad(t, broker, 200);
    t.ok(at(during, 0.75) < delayMs / 2, 'three of four of /health take far less than one flush');
    t.ok(at(operator, 0.5) < 8 * delayMs, 'an operator waits for a few flushes, not for all that wait');
  },
);
