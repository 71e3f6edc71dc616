import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import tls from 'node:tls';
import t from 'tap';
import { type Broker, startBroker, temporary, until } from '../support/broker.ts';
import { reaching, startUpstream, type Upstream } from '../support/tls-upstream.ts';
import { laneOf, openOnBothLanes, openTunnel, rootOf, type Target, type Tunnel } from '../support/tunnel.ts';

const folder = join(temporary(t), 'sabotage');
let upstream: Upstream;
let broker: Broker;
let target: Target;

t.before(async () => {
  mkdirSync(folder);
  upstream = await startUpstream(t);
  const way = reaching(t);
  broker = await startBroker(t, {
    args: [...way.args, '--rate-limit', '0'],
    preload: [...way.preload, 'sabotage'],
    env: { BROKER_TEST_SABOTAGE: folder },
    // The limit is each thread's own; without one a thread would have to fill gigabytes first.
    nodeOptions: ['--max-old-space-size=128'],
  });
  const host = 'api.test';
  const services = [{ host, auth: { type: 'bearer', token: 'TOKEN' } }];
  await broker.api('POST', '/v1/credentials', {
    body: { credentials: { TOKEN: 'value' } },
    vault: 'default',
  });
  await broker.api('PUT', '/v1/vaults/default/services', { body: { services } });
  target = { token: await broker.session(), host, port: upstream.port };
});

/** The lanes that failed so far, as the audit has them. */
async function failures(): Promise<{ readonly lane: number; readonly reason: string }[]> {
  const records = await broker.audit();
  return records.filter(({ event }) => event === 'lane.failed') as { lane: number; reason: string }[];
}

/** Requests through one tunnel, one after the other, until told to stop or until it breaks. */
function keepAsking(tunnel: Tunnel): { count: number; broke: boolean; stop(): Promise<void> } {
  let going = true;
  const asking = { count: 0, broke: false, stop: () => done };
  const done = (async () => {
    try {
      while (going) {
        const { status } = await tunnel.request('/');
        if (status !== 200) throw new Error(String(status));
        asking.count++;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    } catch {
      asking.broke = true;
    }
  })();
  asking.stop = () => {
    going = false;
    return done;
  };
  return asking;
}

t.test('a session that one lane gave is resumed by all', async (t) => {
  const ca = await rootOf(broker);
  const connect = async (session?: Buffer) => {
    const socket = tls.connect({ port: broker.proxyPort, host: '127.0.0.1', ca, session });
    const [given] =
      session === undefined ? await once(socket, 'session') : await once(socket, 'secureConnect');
    const reused = socket.isSessionReused();
    socket.destroy();
    return { reused, session: given as Buffer };
  };
  const { session } = await connect();
  // The kernel deals them out by their ports: one lane would get them all once in thirty thousand times.
  for (let i = 0; i < 16; i++) t.equal((await connect(session)).reused, true);
});

for (const [act, reason] of [
  ['throw', /^Error$/],
  // It may be silent for so long before its end that it counts as hung.
  ['memory', /^(ERR_WORKER_OUT_OF_MEMORY|unresponsive)$/],
  ['hang', /^unresponsive$/],
] as const) {
  t.test(`a lane that ends by ${act} takes its own connections along, and is soon back`, async (t) => {
    const root = await rootOf(broker);
    const tunnels = await openOnBothLanes(broker, target, 3);
    const lanes = await Promise.all(tunnels.map(laneOf));
    const asking = tunnels.map(keepAsking);
    const before = (await failures()).length;
    const ready = async () => (await fetch(`${broker.address}/ready`)).status === 200;
    const printedBefore = broker.printed().stderr.length;

    writeFileSync(join(folder, act), '');
    await until(
      () => /a lane ended/.test(broker.printed().stderr.slice(printedBefore)),
      'the end is noticed',
    );
    // A thread that hangs is one that misses four beats, a second: what counts is the time from then on.
    const noticed = performance.now();
    const counts = asking.map(({ count }) => count);
    await until(ready, 'all lanes are back');
    const took = performance.now() - noticed;
    t.comment(`back after ${Math.round(took)} ms`);

    await until(async () => (await failures()).length > before, 'the audit says so');
    const [failure] = (await failures()).slice(before);
    const lost = lanes.find((_, i) => asking[i].broke);
    t.equal(lost?.at(-1), failure.lane.toString(36), 'the record names the lane');
    t.match(failure.reason, reason, 'and why');
    t.equal((await failures()).length, before + 1, 'once');
    for (const [i, lane] of lanes.entries()) {
      t.equal(
        asking[i].broke,
        lane === lost,
        lane === lost ? 'its tunnels ended' : "the other lane's did not",
      );
      if (lane !== lost) t.ok(asking[i].count > counts[i], 'and went on meanwhile');
    }
    await Promise.all(asking.map(({ stop }) => stop()));

    let reborn: Tunnel | undefined;
    await until(async () => {
      const tunnel = await openTunnel(broker, root, target);
      const lane = await laneOf(tunnel);
      if (lane.at(-1) === lost?.at(-1) && lane !== lost) reborn = tunnel;
      else tunnel.close();
      return reborn !== undefined;
    }, 'a connection goes to the new lane');
    t.equal((await reborn?.request('/'))?.status, 200, 'which has the whole state');
    t.equal(upstream.seen.at(-1)?.headers.authorization, 'Bearer value');
    for (const tunnel of [...tunnels, ...(reborn ? [reborn] : [])]) tunnel.close();
  });
}

t.test('the broker stops in order after all that', async (t) => {
  broker.process.kill('SIGTERM');
  t.match(await broker.ended, { code: 0 });
});
