/**
 * Each request has its record, and each change: however a lane ends, however the process ends.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import type http from 'node:http';
import net from 'node:net';
import { join } from 'node:path';
import tls from 'node:tls';
import t, { type Test } from 'tap';
import { type Broker, startBroker, temporary, until } from '../support/broker.ts';
import { reaching, startUpstream, type Upstream } from '../support/tls-upstream.ts';
import { laneOf, openOnBothLanes, openTunnel, rootOf, type Target } from '../support/tunnel.ts';

type Record = globalThis.Record<string, unknown>;

const host = 'api.test';
const folder = join(temporary(t), 'sabotage');
const held: http.ServerResponse[] = [];
let upstream: Upstream;

t.before(async () => {
  mkdirSync(folder);
  upstream = await startUpstream(t, {
    handle(request, response) {
      if (request.headers.upgrade === 'websocket') {
        const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
        const accept = createHash('sha1').update(key).digest('base64');
        request.socket.write(
          `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
        );
        return true;
      }
      if (request.url?.startsWith('/held') !== true) return false;
      held.push(response);
      return true;
    },
  });
});

async function start(t: Test, directory?: string): Promise<{ broker: Broker; target: Target }> {
  const way = reaching(t);
  const broker = await startBroker(t, {
    directory,
    args: [...way.args, '--rate-limit', '0'],
    preload: [...way.preload, 'sabotage'],
    env: { BROKER_TEST_SABOTAGE: folder },
    nodeOptions: ['--max-old-space-size=128'],
  });
  await broker.api('POST', '/v1/credentials', {
    body: { credentials: { TOKEN: 'value' } },
    vault: 'default',
  });
  const services = [{ host, auth: { type: 'bearer', token: 'TOKEN' } }];
  await broker.api('PUT', '/v1/vaults/default/services', { body: { services } });
  return { broker, target: { token: await broker.session(), host, port: upstream.port } };
}

/** A tunnel that is relayed undecrypted, with a TLS handshake through it: the socket. */
async function openBlind(broker: Broker, token: string, vault: string): Promise<net.Socket> {
  const socket = net.connect(broker.proxyPort, '127.0.0.1');
  const basic = Buffer.from(`${token}:${vault}`).toString('base64');
  socket.write(
    `CONNECT blind.test:${upstream.port} HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic ${basic}\r\n\r\n`,
  );
  await once(socket, 'data');
  const inner = tls.connect({ socket, servername: 'blind.test', rejectUnauthorized: false });
  inner.on('error', () => {});
  await once(inner, 'secureConnect');
  return socket;
}

t.test('lanes that die', async (t) => {
  const { broker, target } = await start(t);
  await broker.api('POST', '/v1/vaults', { body: { name: 'blind' } });
  await broker.api('PATCH', '/v1/vaults/blind', { body: { unmatched_tls: 'tunnel' } });
  for (const act of ['throw', 'memory', 'hang']) {
    await t.test(`by ${act}: a record of each request that one had, and one only`, (t) =>
      killLane(t, broker, target, act),
    );
  }
  t.match(await broker.command(['audit', 'verify', '--data-dir', broker.directory]), { code: 0 });
  broker.process.kill('SIGTERM');
  t.match(await broker.ended, { code: 0 });
});

async function killLane(t: Test, broker: Broker, target: Target, act: string): Promise<void> {
  upstream.seen.length = 0;
  held.length = 0;
  await until(async () => (await fetch(`${broker.address}/ready`)).status === 200, 'all lanes serve');
  const before = (await broker.audit()).length;
  const audit = async () => (await broker.audit()).slice(before);

  const tunnels = await openOnBothLanes(broker, target, 14);
  const lanes = await Promise.all(tunnels.map(laneOf));
  const onEach = [0, 14].map((from) => tunnels.slice(from, from + 14));
  for (const [lane, [busy, upgraded, ...rest]] of onEach.entries()) {
    for (const [i, tunnel] of rest.entries())
      void tunnel.request(`/held/${lane}/${i}?secret=no`, 'DELETE').catch(() => {});
    const upgrade = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n`;
    void upgraded.request(`/socket/${lane}`, 'GET', upgrade).catch(() => {});
    void (async () => {
      for (let i = 0; ; i++) await busy.request(`/busy/${lane}/${i}`);
    })().catch(() => {});
  }
  const blind = await openBlind(broker, await broker.session('blind'), 'blind');
  await until(() => held.length === 24, 'the upstream has all that are held');
  await until(() => upstream.seen.filter(({ url }) => url.startsWith('/busy')).length > 200, 'busy');

  writeFileSync(join(folder, act), '');
  let failure: Record | undefined;
  await until(async () => {
    failure = (await audit()).find(({ event }) => event === 'lane.failed');
    return failure !== undefined;
  }, 'the lane has ended');
  const lane = lanes
    .slice(0, 1)
    .concat(lanes[14])
    .findIndex((id) => id.endsWith(`${failure?.lane}`));
  await until(
    async () => (await audit()).filter(({ error }) => error === 'unknown').length >= 13,
    'what it had under way is on record',
  );
  for (const response of held) response.end();
  for (const tunnel of tunnels) tunnel.close();
  const blindDied = blind.destroyed || blind.readableEnded;
  blind.destroy();
  let records: Record[] = [];
  await until(async () => {
    records = (await audit()).filter(({ kind }) => kind === 'request');
    return records.filter(({ path }) => /^\/(held|socket)/.test(String(path))).length >= 26;
  }, 'the other lane has recorded its own');
  await until(async () => (await audit()).some(({ scheme }) => scheme === 'tcp'), 'the blind tunnel');
  records = (await audit()).filter(({ kind }) => kind === 'request');

  const session = records.find(({ method }) => method === 'TRACE')?.actor;
  const unknown = records.filter(({ error }) => error === 'unknown');
  const deletes = unknown.filter(({ method }) => method === 'DELETE');
  t.equal(deletes.length, 12);
  t.equal(new Set(deletes.map(({ path }) => path)).size, 12, 'one of each');
  for (const record of deletes) {
    t.match(record, { vault: 'default', actor: session, host: `${host}:${upstream.port}`, service: host });
    t.match(record, { status: null, keys: ['TOKEN'], bytes_in: null, bytes_out: null, ms: null });
    t.match(String(record.path), new RegExp(`^/held/${lane}/\\d+$`));
  }
  t.match(
    unknown.filter(({ path }) => String(path).startsWith('/socket')),
    [{ method: 'GET', path: `/socket/${lane}`, keys: ['TOKEN'] }],
    'the upgraded connection',
  );
  t.match(
    records.filter(({ scheme }) => scheme === 'tcp'),
    [{ method: 'CONNECT', host: `blind.test:${upstream.port}`, error: blindDied ? 'unknown' : null }],
    'the tunnel that is relayed',
  );
  const count = new Map<unknown, number>();
  for (const { path } of records) count.set(path, (count.get(path) ?? 0) + 1);
  const seen = upstream.seen.map(({ url }) => url.split('?')[0]).filter((path) => path !== '/lane');
  t.same(
    seen.filter((path) => count.get(path) !== 1),
    [],
    `${seen.length} requests that the upstream saw have one record each`,
  );
}

t.test('changes that were acknowledged are in the audit after a kill', async (t) => {
  const directory = join(temporary(t), 'data');
  const acknowledged: string[] = [];
  for (let round = 0; round < 4; round++) {
    const { broker } = await start(t, directory);
    const changeOn = async (writer: number) => {
      for (let i = 0; ; i++) {
        const key = `R${round}_${writer}_${i}`;
        const body = { credentials: { [key]: 'x' } };
        const { status } = await broker.api('POST', '/v1/credentials', { vault: 'default', body });
        if (status === 200) acknowledged.push(key);
      }
    };
    const before = acknowledged.length;
    const writing = Array.from({ length: 4 }, (_, writer) => changeOn(writer).catch(() => {}));
    await until(() => acknowledged.length >= before + 40 + 13 * round, 'changes');
    broker.process.kill('SIGKILL');
    await Promise.all([...writing, broker.ended]);
  }
  const { broker } = await start(t, directory);
  const count = new Map<string, number>();
  for (const { action, keys } of await broker.audit()) {
    if (action !== 'credential.set') continue;
    for (const key of keys as string[]) count.set(key, (count.get(key) ?? 0) + 1);
  }
  t.same(
    acknowledged.filter((key) => count.get(key) !== 1),
    [],
    `${acknowledged.length} changes are in the audit, once each`,
  );
  t.match(await broker.command(['audit', 'verify', '--data-dir', broker.directory]), { code: 0 });
});

t.test('a start after a kill says who had requests under way, and what of each lane is whole', async (t) => {
  const directory = join(temporary(t), 'data');
  const { broker, target } = await start(t, directory);
  upstream.seen.length = 0;
  held.length = 0;
  const rootPem = await rootOf(broker);
  const created = (await broker.audit()).length;
  const busy = await openTunnel(broker, rootPem, target);
  const idle = await openTunnel(broker, rootPem, { ...target, token: await broker.session() });
  const waiting = await openTunnel(broker, rootPem, { ...target, token: await broker.session() });
  await idle.request('/idle');
  const sessions = (await broker.audit())
    .slice(created)
    .filter(({ action }) => action === 'session.create')
    .map(({ target }) => `session:${target}`);
  // Longer than a session counts as active after its last record is written.
  await new Promise((resolve) => setTimeout(resolve, 3000));
  void waiting.request('/held', 'DELETE').catch(() => {});
  void (async () => {
    for (let i = 0; ; i++) await busy.request(`/busy/${i}`);
  })().catch(() => {});
  await until(() => held.length === 1 && upstream.seen.length > 100, 'requests');
  const from = Date.now();
  broker.process.kill('SIGKILL');
  await broker.ended;
  t.equal(readdirSync(join(directory, 'running')).length, 2, 'a file for each lane');

  const { broker: next } = await start(t, directory);
  const records = await next.audit();
  const unclean = records.filter(({ event }) => event === 'start.unclean') as unknown as {
    readonly lanes: { lane: number; whole_until: string }[];
    readonly sessions: string[];
  }[];
  t.equal(unclean.length, 1);
  const [{ lanes, sessions: named }] = unclean;
  t.same(
    lanes.map(({ lane }) => lane),
    [0, 1],
  );
  const whole = Math.max(...lanes.map(({ whole_until }) => Date.parse(whole_until)));
  t.ok(whole > from - 5000 && whole <= Date.now(), 'until shortly before the end');
  t.ok(named.includes(sessions[1]), 'the session whose request was under way is named');
  t.notOk(named.includes(sessions[0]), 'the one that was idle is not');
  const recorded = new Set(records.map(({ path }) => path));
  const missing = upstream.seen.filter(({ url }) => !recorded.has(url) && url !== '/held');
  t.ok(
    missing.length === 0 || named.length === 2,
    `${missing.length} are missing, of a session that is named`,
  );
  t.match(next.printed().stderr, /did not end in order/);

  next.process.kill('SIGTERM');
  t.match(await next.ended, { code: 0 });
  t.same(readdirSync(join(directory, 'running')), [], 'a stop in order leaves none');
  const { broker: last } = await start(t, directory);
  t.equal(
    (await last.audit()).filter(({ event }) => event === 'start.unclean').length,
    1,
    'and is not unclean',
  );
});

t.test('a stop while the log can\u2019t be written says how many records are lost', async (t) => {
  const { broker, target } = await start(t);
  const rootPem = await rootOf(broker);
  const tunnel = await openTunnel(broker, rootPem, target);
  await tunnel.request('/before');
  await broker.audit();
  const folder = join(broker.directory, 'audit');
  renameSync(folder, `${folder}.away`);
  writeFileSync(folder, '');
  const { status } = await tunnel.request('/during');
  tunnel.close();
  broker.process.kill('SIGTERM');
  const { code, stderr } = await broker.ended;
  t.equal(status, 200, 'the log was thought to be well when it came');
  t.equal(code, 74);
  const said = stderr.split('\n').find((line) => line.includes('audit records are lost')) ?? '{}';
  t.match(JSON.parse(said), { level: 'error', records: 1 });
});
