/**
 * Records against what upstreams and callers saw: lanes that are killed on and on under load, and kills of the process.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type Broker, startBroker, temporary } from '../support/broker.ts';
import { reaching, startUpstream, type Upstream } from '../support/tls-upstream.ts';
import { openTunnel, rootOf, type Target } from '../support/tunnel.ts';
import { countBy, endLane, exported, within } from './records-kit.ts';

const crashes = Number(process.env.CRASHES ?? 100);
const kills = Number(process.env.KILLS ?? 100);
const host = 'api.test';
let upstream: Upstream;

t.before(async () => {
  upstream = await startUpstream(t);
});

async function start(t: Test, directory: string, sabotage: string): Promise<Broker> {
  const way = reaching(t);
  return startBroker(t, {
    directory,
    args: [...way.args, '--rate-limit', '0', '--api-rate', '0'],
    preload: [...way.preload, 'sabotage'],
    env: { BROKER_TEST_SABOTAGE: sabotage },
    nodeOptions: ['--max-old-space-size=128'],
  });
}

/** The actor of a session as the audit names it, by its token; and how to reach the upstream with it. */
async function newSession(broker: Broker): Promise<{ actor: string; target: Target }> {
  const { body } = await broker.api<{ token: string; id: string }>('POST', '/v1/sessions', {
    body: { vault: 'default' },
  });
  return { actor: `session:${body.id}`, target: { token: body.token, host, port: upstream.port } };
}

/** Requests under paths that begin with `prefix`, each with a number of its own, until told to stop. */
function keepAsking(broker: Broker, rootPem: string, target: Target, prefix: string) {
  let going = true;
  const done = (async () => {
    for (let i = 0; going; ) {
      try {
        const tunnel = await within('a tunnel', openTunnel(broker, rootPem, target));
        for (; going && !tunnel.closed; i++)
          await within('an answer', tunnel.request(`${prefix}/${i}`, i % 3 === 0 ? 'DELETE' : 'GET'));
        tunnel.close();
      } catch (error) {
        if (/^no end/.test((error as Error).message)) throw error;
        i++;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  })();
  // Whoever stops it hears of it; until then it is nobody's failure.
  done.catch(() => {});
  return async () => {
    going = false;
    await done;
  };
}

t.test(`${crashes} lanes end under load: each request that the upstream saw has one record`, async (t) => {
  const sabotage = join(temporary(t), 'sabotage');
  mkdirSync(sabotage);
  const broker = await start(t, join(temporary(t), 'data'), sabotage);
  const rootPem = await rootOf(broker);
  const { target } = await newSession(broker);
  upstream.seen.length = 0;
  const stops = Array.from({ length: 12 }, (_, i) => keepAsking(broker, rootPem, target, `/load/${i}`));
  for (let crash = 0; crash < crashes; crash++) {
    const act = crash % 10 === 9 ? 'hang' : 'throw';
    await endLane(broker, crash, () => writeFileSync(join(sabotage, act), ''));
  }
  await Promise.all(stops.map((stop) => stop()));
  const records = await exported(broker);
  const count = countBy(records, ({ path }) => path);
  const seen = new Set(upstream.seen.map(({ url }) => url));
  t.same(
    [...seen].filter((path) => count.get(path) !== 1),
    [],
    `${seen.size} requests, ${records.filter(({ error }) => error === 'unknown').length} with an outcome that is not known`,
  );
  t.match(await broker.command(['audit', 'verify', '--data-dir', broker.directory]), { code: 0 });
  broker.process.kill('SIGTERM');
  t.match(await broker.ended, { code: 0 });
});

t.test(
  `${kills} kills: changes are all there, and requests that are missing are of sessions that are named`,
  async (t) => {
    const sabotage = join(temporary(t), 'sabotage');
    mkdirSync(sabotage);
    const directory = join(temporary(t), 'data');
    const changed: string[] = [];
    /** Whose requests begin with which path, by round. */
    const rounds: { readonly actor: string; readonly prefix: string }[][] = [];
    upstream.seen.length = 0;
    for (let round = 0; round < kills; round++) {
      const broker = await start(t, directory, sabotage);
      const rootPem = await rootOf(broker);
      const sessions = await Promise.all([0, 1, 2].map(() => newSession(broker)));
      rounds.push(sessions.map(({ actor }, i) => ({ actor, prefix: `/kill/${round}/${i}/` })));
      const stops = sessions.map(({ target }, i) =>
        keepAsking(broker, rootPem, target, `/kill/${round}/${i}`),
      );
      const changing = (async () => {
        for (let i = 0; ; i++) {
          const key = `R${round}_${i}`;
          const body = { credentials: { [key]: 'x' } };
          const { status } = await broker.api('POST', '/v1/credentials', { vault: 'default', body });
          if (status === 200) changed.push(key);
          await broker.api('DELETE', `/v1/credentials/${key}`, { vault: 'default' });
        }
      })().catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 400));
      broker.process.kill('SIGKILL');
      await Promise.all([changing, broker.ended, ...stops.map((stop) => stop())]);
    }
    const broker = await start(t, directory, sabotage);
    const records = await exported(broker);
    const sets = records.filter(({ action }) => action === 'credential.set');
    const count = countBy(sets, ({ keys }) => (keys as string[])[0]);
    t.same(
      changed.filter((key) => count.get(key) !== 1),
      [],
      `${changed.length} changes that were acknowledged are there, once each`,
    );
    const unclean = records.filter(({ event }) => event === 'start.unclean');
    t.equal(unclean.length, kills);
    const paths = countBy(records, ({ path }) => path);
    let missing = 0;
    const unnamed: string[] = [];
    const seen = new Set(upstream.seen.map(({ url }) => url));
    for (const path of seen) {
      if (paths.get(path) === 1) continue;
      missing++;
      const round = Number(path.split('/')[2]);
      const owner = rounds[round].find(({ prefix }) => path.startsWith(prefix));
      const named = unclean[round]?.sessions as string[];
      if ((paths.get(path) ?? 0) > 1 || !named?.includes(owner?.actor ?? '')) unnamed.push(path);
    }
    t.same(unnamed, [], `${seen.size} requests, ${missing} without a record, all of sessions that are named`);
    t.match(await broker.command(['audit', 'verify', '--data-dir', broker.directory]), { code: 0 });
  },
);
