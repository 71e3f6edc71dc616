/** What takes its time: waiting, events, long replies, and the start and stop of the whole. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { get as getTls } from 'node:https';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { hashToken } from '../../src/actors/vault/token.ts';
import { createLeaf, createRoot, openRoot } from '../../src/actors/x509.ts';
import type { FrontAddress } from '../../src/http/front-options.ts';
import type { Composed } from '../support/compose.ts';
import { by, startBroker, type TestBroker } from './start-front.ts';

/** Reads server-sent events from now on. */
async function listen(broker: TestBroker, token: string, vault?: string) {
  const headers: Record<string, string> = { authorization: `Bearer ${token}` };
  if (vault !== undefined) headers['x-vault'] = vault;
  const response = await fetch(`${broker.baseUrl}/v1/events`, { headers });
  let text = '';
  const ended = (async () => {
    for await (const piece of response.body ?? []) text += Buffer.from(piece).toString();
  })();
  await waitFor(() => text !== '');
  return {
    status: response.status,
    type: response.headers.get('content-type'),
    ended,
    names: () => Array.from(text.matchAll(/^event: (.*)$/gm), ([, name]) => name),
    data: () => Array.from(text.matchAll(/^data: (.*)$/gm), ([, data]) => JSON.parse(data)),
  };
}

async function waitFor(condition: () => boolean, ms = 10_000): Promise<void> {
  for (const end = Date.now() + ms; !condition(); await sleep(10)) {
    if (Date.now() > end) throw new Error('it did not happen in time');
  }
}

const within = <T>(promise: Promise<T>, ms = 10_000) =>
  Promise.race([
    promise,
    sleep(ms, undefined, { ref: false }).then(() => Promise.reject(new Error('too late'))),
  ]);

async function revoke(broker: TestBroker, token: string): Promise<void> {
  const identity = await broker.vault.ask('identify', { hash: hashToken(token) });
  assert.ok(identity?.kind === 'session');
  await broker.vault.ask('session.revoke', { id: identity.id, by });
}

const ask = { services: [{ action: 'set', host: 'a.example', auth: { type: 'passthrough' } }] };

t.test('waiting for a decision', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const token = await broker.session();
  const propose = () => broker.ask('POST', '/v1/proposals', { token, body: ask });
  const look = (id: number, wait: number | string) =>
    broker.ask('GET', `/v1/proposals/${id}?wait=${wait}`, { token });
  await propose();
  await propose();
  await propose();

  const before = performance.now();
  t.match(await look(1, 1), { status: 200, json: { status: 'pending' } }, 'nothing happened');
  t.ok(performance.now() - before >= 950, 'it waited');
  const waiting = look(1, 60);
  await sleep(100);
  await broker.ask('POST', '/v1/proposals/2/reject', { token: broker.operator });
  t.equal(
    await Promise.race([waiting.then(() => 'answered'), sleep(200, 'waiting')]),
    'waiting',
    'another one was decided',
  );
  await broker.ask('POST', '/v1/proposals/1/approve', { token: broker.operator });
  t.match(await within(waiting), { status: 200, json: { status: 'applied' } });
  t.match(await within(look(1, 60)), { json: { status: 'applied' } }, 'decided already');
  t.match(await within(look(99, 60)), { status: 404 });
  for (const wait of ['0', '61', '-1', '1.5', 'x'])
    t.match(await look(1, wait), { status: 400, json: { field: 'wait' } }, wait);

  const other = await broker.session();
  const held = broker.ask('GET', '/v1/proposals/3?wait=60', { token: other });
  await sleep(100);
  await revoke(broker, other);
  t.match(await within(held), { status: 401 }, 'a token that is revoked meanwhile');

  const many = Array.from({ length: 64 }, () => look(3, 60));
  await sleep(200);
  t.match(
    await look(3, 1),
    { status: 429, headers: { 'retry-after': /^\d+$/ } },
    'one token holds 64 at most',
  );
  t.match(await broker.ask('GET', '/v1/proposals/3', { token }), { status: 200 }, 'it may still ask');
  const ended = broker.close();
  const answers = await within(Promise.all(many));
  t.ok(
    answers.every(({ json }) => json.status === 'pending'),
    'all are answered at the stop',
  );
  await within(ended);
});

t.test('events', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const { operator } = broker;
  await broker.ask('POST', '/v1/vaults', { token: operator, body: { name: 'v2' } });
  const token = await broker.session();
  const [all, narrow, mine, others, admin] = await Promise.all([
    listen(broker, operator),
    listen(broker, operator, 'v2'),
    listen(broker, token),
    broker.session().then((each) => listen(broker, each)),
    broker.admin('v2').then((each) => listen(broker, each)),
  ]);
  t.match(all, { status: 200, type: 'text/event-stream' });
  await broker.ask('POST', '/v1/proposals', { token, body: ask });
  await broker.ask('POST', '/v1/proposals/1/reject', { token: operator });
  const denied = {
    type: 'host.denied',
    vault: 'v2',
    actor: null,
    at: '',
    data: { host: 'x.example' },
  } as const;
  broker.vault.tell('notice', denied);
  await waitFor(() => all.names().length === 3 && admin.names().length === 1 && mine.names().length === 2);
  t.same(all.names(), ['proposal.created', 'proposal.rejected', 'host.denied']);
  t.match(all.data()[0], { id: 1, status: 'pending', type: 'proposal.created', vault: 'default', at: /^20/ });
  t.same(narrow.names(), ['host.denied']);
  t.same(mine.names(), ['proposal.created', 'proposal.rejected']);
  t.same(others.names(), []);
  t.same(admin.names(), ['host.denied']);

  for (let i = 0; i < 80; i++) {
    const left = new AbortController();
    const headers = { authorization: `Bearer ${token}` };
    const { status } = await fetch(`${broker.baseUrl}/v1/events`, { headers, signal: left.signal });
    left.abort();
    // One that still counted would be one of 64 at most.
    assert.equal(status, 200, 'streams that were left are forgotten');
  }

  await revoke(broker, token);
  await within(mine.ended);
  t.pass('a revoked token hears no more');
  for (let i = 0; i < 80; i++) {
    assert.equal(
      (await broker.ask('HEAD', '/v1/events', { token: operator })).status,
      200,
      'nor does HEAD count',
    );
  }
  await within(broker.close());
  await within(Promise.all([all.ended, narrow.ended, others.ended, admin.ended]));
  t.pass('the stop ends all');
});

t.test('what the wiring gives: audit, metrics, explain', async (t) => {
  let asked: unknown;
  let made = 0;
  const broker = await startBroker({
    alter: ({ audit }) => ({
      audit: {
        ...audit,
        async *read(query) {
          asked = query;
          for (; made < 500; made++) yield JSON.stringify({ made, pad: 'x'.repeat(100_000) });
        },
      },
    }),
  });
  t.teardown(broker.stop);
  const { operator } = broker;
  const session = await broker.session();
  t.match(await broker.ask('GET', '/metrics'), { status: 401 });
  t.match(await broker.ask('GET', '/metrics', { token: session }), { status: 403 });
  t.match(await broker.ask('GET', '/metrics', { token: operator }), {
    status: 200,
    text: /^broker_lanes_up 1$/m,
    headers: { 'content-type': /^text\/plain; version=0.0.4/ },
  });
  const question = { method: 'POST', url: 'https://a.example/' };
  t.match(await broker.ask('POST', '/v1/explain', { token: session, body: question }), {
    status: 200,
    json: { vault: 'default', method: 'POST', host: 'a.example', decision: 'passthrough' },
  });
  t.match(await broker.ask('POST', '/v1/explain', { token: session, body: {} }), {
    status: 400,
    json: { field: 'url' },
  });

  t.match(await broker.ask('GET', '/v1/audit', { token: session }), { status: 403 });
  t.match(await broker.ask('GET', '/v1/audit?since=yesterday', { token: operator }), {
    status: 400,
    json: { field: 'since' },
  });
  t.match(await broker.ask('GET', '/v1/audit?limit=0', { token: operator }), {
    status: 400,
    json: { field: 'limit' },
  });
  const admin = await broker.admin('default');
  t.match(await broker.ask('GET', '/v1/audit', { token: admin }), { status: 400, json: { field: 'vault' } });
  t.match(await broker.ask('GET', '/v1/audit?vault=v2', { token: admin }), { status: 403 });

  const query = '?vault=default&since=2026-01-31T12:00:00Z&limit=500';
  const slow = await new Promise<IncomingMessage>((resolve) => {
    const headers = { authorization: `Bearer ${admin}` };
    request({ port: broker.port, path: `/v1/audit${query}`, headers, agent: false }, resolve).end();
  });
  await sleep(500);
  const ahead = made;
  t.ok(ahead < 400, `a client that doesn't read holds up the reading (${ahead} of 500)`);
  let octets = 0;
  for await (const piece of slow) octets += piece.length;
  t.equal(made, 500);
  t.ok(octets > 500 * 100_000);
  t.same(asked, { vault: 'default', since: Date.parse('2026-01-31T12:00:00Z'), limit: 500 });
});

t.test('a client that reads slowly gets every octet of a long reply, in its order', async (t) => {
  const line = (i: number) => JSON.stringify({ i, pad: 'ü'.repeat(i % 700) });
  const broker = await startBroker({
    alter: ({ audit }) => ({
      audit: {
        ...audit,
        async *read() {
          for (let i = 0; i < 3000; i++) yield line(i);
        },
      },
    }),
  });
  t.teardown(broker.stop);
  const slow = await new Promise<IncomingMessage>((resolve) => {
    const headers = { authorization: `Bearer ${broker.operator}` };
    // Its buffer takes less than those of TCP.
    const socketPath = join(broker.directory, 'broker.sock');
    request({ socketPath, path: '/v1/audit', headers, agent: false }, resolve).end();
  });
  const pieces: Buffer[] = [];
  for await (const piece of slow) {
    pieces.push(piece);
    await sleep(5);
  }
  const lines = Buffer.concat(pieces).toString().trimEnd().split('\n');
  t.equal(lines.length, 3000);
  t.equal(
    lines.findIndex((text, i) => text !== line(i)),
    -1,
  );
});

t.test('clients that leave at any moment', async (t) => {
  const broker = await startBroker({
    alter: ({ audit, health }) => ({
      health: { ...health, metrics: () => sleep(20, 'late\n') },
      audit: {
        ...audit,
        async *read() {
          for (let i = 0; i < 200; i++) yield 'x'.repeat(50_000);
        },
      },
    }),
  });
  t.teardown(broker.stop);
  const session = await broker.session();
  await broker.ask('POST', '/v1/proposals', { token: session, body: ask });
  const requests = [
    ['GET', '/metrics', broker.operator, ''],
    ['GET', '/v1/audit', broker.operator, ''],
    ['GET', '/v1/events', broker.operator, ''],
    ['GET', '/v1/proposals/1?wait=60', session, ''],
    ['POST', '/v1/credentials', session, `{"credentials":{"A":"${'x'.repeat(60_000)}"}}`],
  ];
  const leave = (i: number) =>
    new Promise<void>((resolve) => {
      const [method, path, token, body] = requests[i % requests.length];
      const socket = connect(broker.port, '127.0.0.1', () => {
        const length =
          body === '' ? '' : `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
        const head = `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n`;
        socket.write(`${head}${length}\r\n${body.slice(0, (i * 7919) % 90_000)}`);
        setTimeout(() => socket.resetAndDestroy(), (i * 31) % 60);
      });
      socket.on('error', () => {}).on('close', () => resolve());
      if (i % 3 > 0) socket.resume();
    });
  for (let round = 0; round < 5; round++) {
    await Promise.all(Array.from({ length: 60 }, (_, i) => leave(round * 60 + i)));
  }
  t.match(await broker.ask('GET', '/health'), { status: 200 });
  await within(broker.close(30_000), 5000);
  t.pass('no request is left that never ends');
  t.same(broker.log, []);
});

t.test('two servers, TLS, stop', async (t) => {
  const first = await startBroker();
  t.teardown(first.stop);
  const at = (wish: Partial<FrontAddress>): Composed => ({
    alter: ({ address }) => ({ address: { ...address, ...wish } }),
  });
  await t.rejects(startBroker(at({ port: first.port })), {
    message: new RegExp(`127\\.0\\.0\\.1 port ${first.port}: .*--port`),
  });
  await t.rejects(startBroker(at({ host: '192.0.2.1' })), { message: /192\.0\.2\.1/ });
  await t.rejects(startBroker(at({ tls: { certFile: '/nowhere.pem', keyFile: '/nowhere.pem' } })), {
    message: /nowhere\.pem.*PEM/,
  });

  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = createRoot({ commonName: 'test root', now: Date.now() });
  const root = openRoot(pem);
  const files = { certFile: join(first.directory, 'cert.pem'), keyFile: join(first.directory, 'key.pem') };
  writeFileSync(files.certFile, createLeaf({ root, key: publicKey, host: '127.0.0.1', now: Date.now() }));
  writeFileSync(files.keyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }));
  const second = await startBroker({
    settings: {
      'tls-cert': files.certFile,
      'tls-key': files.keyFile,
      'public-url': 'https://broker.example/',
    },
  });
  t.teardown(second.stop);
  t.equal(second.baseUrl, 'https://broker.example');
  const headers = await new Promise((resolve, reject) => {
    getTls(
      { host: '127.0.0.1', port: second.port, path: '/health', ca: pem.certPem, agent: false },
      (answer) => {
        answer.resume();
        resolve(answer.headers);
      },
    ).on('error', reject);
  });
  t.match(headers, { 'strict-transport-security': /^max-age=\d+/ });

  const idle = connect(first.port, '127.0.0.1');
  await new Promise((resolve) => idle.once('connect', resolve));
  await within(first.close());
  await t.rejects(first.ask('GET', '/health'), { code: 'ECONNREFUSED' });
  await within(
    new Promise((resolve) =>
      idle
        .once('close', resolve)
        .on('error', () => {})
        .resume(),
    ),
  );
});

t.test('a stop that is out of patience', async (t) => {
  const broker = await startBroker({
    alter: ({ health }) => ({
      health: { ...health, metricsPublic: true, metrics: () => sleep(400, 'late\n') },
    }),
  });
  t.teardown(broker.stop);
  const late = broker.ask('GET', '/metrics').catch((error: NodeJS.ErrnoException) => error.code);
  await sleep(100);
  await within(broker.close(50), 350);
  t.equal(await late, 'ECONNRESET');
  // The reply comes to a connection that is gone; it must not be touched any more.
  await sleep(400);
});
