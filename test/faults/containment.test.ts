/**
 * Whatever a request does wrong costs that request, never its lane: every function of the proxy that a request passes is
 * made to throw, one at a time, while another connection looks on.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { arm, disarm, watch } from '../support/tripwires.ts';
import type { Answer, Wire } from '../support/wire.ts';

// After the wires are laid.
const { openProxy, openTunnel, proxyAuth, startLane, tunnelWire } = await import('../support/lane.ts');
const { rawUpstream, upstreamCa } = await import('../support/upstream.ts');
const { eventually, nextAnswer, nextRequest, webSocketAccept, webSocketKey, wireOf } = await import(
  '../support/wire.ts'
);

/** `EACH=all`: each point in each kind of request that passes it, instead of once. */
const everywhere = process.env.EACH === 'all';
/** `STEP=25`: each 25th point only. */
const step = Number(process.env.STEP ?? 1);

const failures: unknown[] = [];
const log: string[] = [];
/** Lines about failures; those over a rate are left out. */
let said = 0;
const write = process.stderr.write.bind(process.stderr);
process.stderr.write = ((text: string) => {
  if (typeof text === 'string' && text.includes('Something failed in a lane')) log.push(text);
  else write(text);
  return true;
}) as typeof process.stderr.write;

const name = 'api.good.test';
const at = await startLane(
  {
    v1: {
      services: [
        { host: name, auth: { type: 'bearer', token: 'KEY' } },
        {
          host: 'sub.test',
          auth: { type: 'passthrough' },
          substitutions: [{ key: 'KEY', placeholder: '__k__' }],
        },
        { host: 'off.test', auth: { type: 'passthrough' }, enabled: false },
      ],
      credentials: { KEY: 'sk_test_value' },
      settings: { unmatched_tls: 'tunnel' },
    },
  },
  { upstreamCa: [upstreamCa.certPem], limit: { rps: 0, burst: 0, inflight: 1 }, auditRefusalRate: 0 },
);
t.teardown(() => at.stop());

const seen: string[] = [];
const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
const script = async (wire: Wire) => {
  for (;;) {
    const { line, fields } = await nextRequest(wire);
    const path = line.split(' ')[1];
    seen.push(path);
    if (path.includes('/close')) return wire.socket.end(`HTTP/1.1 200 OK\r\n\r\nto the end`);
    if (path.includes('/break')) return wire.socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart');
    if (path.includes('/bad')) return wire.socket.end('HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n');
    if (path.includes('/chunks'))
      wire.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n');
    else if (path.includes('/large'))
      wire.send(`HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n${'x'.repeat(3_000_000)}`);
    else if (path.includes('/wait')) await sleep(20);
    else if (fields.some(([field]) => field.toLowerCase() === 'upgrade')) {
      wire.send(
        `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${webSocketAccept}\r\n\r\n`,
      );
      wire.send(await wire.take(4));
      return wire.socket.end();
    } else wire.send(`HTTP/1.1 103 Early Hints\r\n\r\n${ok}`);
  }
};
const secure = await rawUpstream(t, script);
const plain = await rawUpstream(t, script, { tls: false });
const echo = await rawUpstream(t, async (wire) => wire.socket.end(await wire.take(4)), { tls: false });

const get = (path: string, fields = '', host = name) =>
  `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${fields}\r\n`;
/** What its answer was; null: the connection ended first. */
const answerTo = async (client: Wire, sent: string): Promise<Answer | null> => {
  client.send(sent);
  return nextAnswer(client).catch(() => null);
};
let token = at.tokens.v1;
const tunnel = (host = name, port = secure.port) => tunnelWire(at, 'v1', `${host}:${port}`, { token });
const absolute = (path: string, auth = proxyAuth(token, 'v1')) =>
  `GET http://${name}:${plain.port}${path} HTTP/1.1\r\nHost: ${name}\r\n${auth}\r\n`;

/** Kinds of requests; each may fail as it likes, and gives the answer that it was given last. */
const kinds: Record<string, (path: string) => Promise<Answer | null>> = {
  get: async (path) => answerTo(await tunnel(), get(path)),
  'two in a row': async (path) => {
    const client = await tunnel();
    await answerTo(client, get(`${path}/first`));
    return answerTo(client, get(path));
  },
  pipelined: async (path) => {
    const client = await tunnel();
    await answerTo(client, get(`${path}/first`) + get(path));
    return nextAnswer(client).catch(() => null);
  },
  chunks: async (path) =>
    answerTo(
      await tunnel(),
      `POST ${path}/chunks HTTP/1.1\r\nHost: ${name}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n`,
    ),
  'a body in pieces': async (path) => {
    const client = await tunnel();
    client.send(`PUT ${path} HTTP/1.1\r\nHost: ${name}\r\nContent-Length: 4\r\n\r\nok`);
    await sleep(5);
    return answerTo(client, 'ay');
  },
  large: async (path) => answerTo(await tunnel(), get(`${path}/large`)),
  'to the end': async (path) => answerTo(await tunnel(), get(`${path}/close`)),
  'broken off': async (path) => answerTo(await tunnel(), get(`${path}/break`)),
  'a bad answer': async (path) => answerTo(await tunnel(), get(`${path}/bad`)),
  'absolute, plain': async (path) => answerTo(wireOf(await openProxy(at)), absolute(path)),
  'absolute, wrapped': async (path) => answerTo(wireOf(await openProxy(at, true)), absolute(path)),
  'without a token': async (path) => answerTo(wireOf(await openProxy(at)), absolute(path, '')),
  substituted: async (path) =>
    answerTo(
      await tunnel('sub.test', secure.port),
      get(`${path}/__k__?k=__k__`, 'X-K: __k__\r\n', 'sub.test'),
    ),
  refused: async (path) =>
    answerTo(
      await tunnel('off.test'),
      `POST ${path} HTTP/1.1\r\nHost: off.test\r\nContent-Length: 2\r\n\r\nok`,
    ),
  misdirected: async (path) => answerTo(await tunnel(), get(path, '', 'other.test')),
  'no HTTP': async () => answerTo(await tunnel(), 'GET / HTTP/9\r\n\r\n'),
  WebSocket: async (path) => {
    const client = await tunnel();
    const fields = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: ${webSocketKey}\r\n`;
    const answer = await answerTo(client, get(path, fields));
    if (answer?.status === 101) client.send('ping');
    await client.rest();
    return answer;
  },
  undecrypted: async () => {
    const client = wireOf(await openTunnel(at, 'v1', `raw.test:${echo.port}`, { token }));
    client.send('\x00raw');
    await client.rest();
    return null;
  },
  'a client that leaves': async (path) => {
    const client = await tunnel();
    client.send(get(`${path}/wait`));
    await sleep(5);
    client.socket.destroy();
    return null;
  },
};

const watcher = await tunnel();
let turn = 0;
let fell = 0;
let i = 0;
process.on('uncaughtException', (error) => failures.push(error));
process.on('unhandledRejection', (error) => failures.push(error));

/** null: it failed, or isn't there after so many ms. */
function within<T>(work: Promise<T>, ms: number): Promise<T | null> {
  return Promise.race([work.catch(() => null), sleep(ms, null)]);
}

/** One request of a kind, and what has to hold after it. */
async function run(kind: string, point: string | null): Promise<string[]> {
  const path = `/${++turn}`;
  token = at.addSession({ vaults: ['v1'], slot: 7 + turn });
  seen.length = 0;
  if (point !== null) arm(point);
  // A connection that ends before its first byte: a client that keeps its own side open waits.
  const answer = await within(kinds[kind](path), 1500);
  await sleep(5);
  const fired = disarm();
  for (const client of at.clients) if (client !== outer) client.destroy();
  const wrong: string[] = [];
  // Another's connection goes on, and the record of its request comes behind all that there are.
  token = at.tokens.v1;
  const control = `/control/${turn}`;
  if ((await within(answerTo(watcher, get(control)), 1500))?.status !== 200)
    wrong.push('another connection fell');
  const recorded = () => at.records.some((record) => record.path === control);
  await eventually(recorded, 'the control’s record', 1000).catch(() => wrong.push('nothing is recorded'));
  // The session's only place is free.
  token = at.addSession({ vaults: ['v1'], slot: 7 + turn });
  const free = async () => {
    const client = await tunnel();
    const found = await answerTo(client, get(`/free/${turn}`));
    client.close();
    return found?.status === 200;
  };
  // A client that is gone may only have closed its side: that takes a second to find out.
  for (const end = performance.now() + 4000; !(await within(free(), 4000)); await sleep(20)) {
    if (performance.now() > end) {
      wrong.push('its place was not given back');
      break;
    }
  }
  for (const one of new Set(seen.filter((target) => target.startsWith(path)))) {
    const count = at.records.filter(
      (record) => `${record.path}`.split('?')[0] === one.replaceAll('sk_test_value', '__k__').split('?')[0],
    ).length;
    if (count !== 1) wrong.push(`${count} records of ${one}`);
  }
  if (answer?.field('x-broker-error') === 'internal' && !at.records.some(({ error }) => error === 'internal'))
    wrong.push('500 without a record');
  if (failures.length > 0) wrong.push(`the lane would have died: ${(failures[0] as Error).stack}`);
  said += log.length;
  if (log.some((line) => line.includes('sk_test'))) wrong.push('a value in the log');
  if (answer !== null && !fired && point !== null) wrong.push('it was not passed this time');
  failures.length = 0;
  log.length = 0;
  at.records.length = 0;
  return wrong;
}

// The watcher's connection is not the tests' to end.
const outer = [...at.clients].at(-1);
const points = new Map<string, string[]>();
for (const kind of Object.keys(kinds)) {
  const passed = watch();
  const path = `/dry/${kind.replace(/\W/g, '-')}`;
  token = at.addSession({ vaults: ['v1'], slot: 7 + turn });
  await kinds[kind](path).catch((error) => failures.push(error));
  await sleep(5);
  for (const point of passed()) points.set(point, [...(points.get(point) ?? []), kind]);
  for (const client of at.clients) if (client !== outer) client.destroy();
}
at.records.length = 0;
if (failures.length > 0) throw failures[0];

for (const kind of Object.keys(kinds)) {
  t.test(`a throw anywhere costs one request: ${kind}`, async (t) => {
    t.strictSame(await run(kind, null), [], 'none');
    for (const [point, passing] of points) {
      if (everywhere ? !passing.includes(kind) : passing[0] !== kind) continue;
      if (i++ % step !== 0) continue;
      const wrong = (await run(kind, point)).filter((what) => what !== 'it was not passed this time');
      t.strictSame(wrong, [], point);
      if (wrong.length > 0 && ++fell === 8) throw new Error('enough');
    }
  });
}

t.test('nothing is left of them', async (t) => {
  watcher.close();
  await eventually(() => at.clients.size === 0, 'the clients’ ends');
  await eventually(
    () => secure.open.size + plain.open.size + echo.open.size <= 0 || idleOnly(),
    'the upstreams’ ends',
  );
  t.ok(points.size > 150, `${points.size} points`);
  t.ok(said >= 20 / step, `${said} lines in the log`);
});

/** What is left belongs to sessions that are there: one idle connection each at most. */
function idleOnly(): boolean {
  return secure.open.size + plain.open.size + echo.open.size <= turn * 2 + 30;
}
