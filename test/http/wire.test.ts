/** What comes over the wire: broken, too large, too often, or made up. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { mintToken } from '../../src/actors/vault/token.ts';
import { eventually } from '../support/wire.ts';
import { startBroker } from './start-front.ts';

/** Sends octets as they are; gives what comes back until the other end, or `ms`, is over. */
function raw(port: number, octets: string, ms = 1500): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(octets, 'latin1'));
    const timer = setTimeout(() => socket.destroy(), ms);
    socket.setEncoding('latin1');
    socket.on('data', (piece) => {
      text += piece;
      // One reply is enough where the connection would stay open.
      if (/\r\n\r\n[\s\S]/.test(text)) setTimeout(() => socket.destroy(), 50);
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      clearTimeout(timer);
      resolve(text);
    });
  });
}

t.test('malformed HTTP is refused, and nobody else is disturbed', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const { port } = broker;
  const host = `Host: 127.0.0.1:${port}\r\n`;
  const cases: [about: string, octets: string, expected: RegExp][] = [
    [
      'another Host',
      'GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n',
      /^HTTP\/1.1 421 [\s\S]*"misdirected_request"/,
    ],
    ['two Hosts', `GET /health HTTP/1.1\r\n${host}${host}\r\n`, /^HTTP\/1.1 421 /],
    ['an empty Host', 'GET /health HTTP/1.1\r\nHost: \r\n\r\n', /^HTTP\/1.1 421 /],
    ['no Host', 'GET /health HTTP/1.1\r\n\r\n', /^(HTTP\/1.1 4\d\d [\s\S]*)?$/],
    [
      'two lengths',
      `POST /health HTTP/1.1\r\n${host}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd`,
      /^HTTP\/1.1 400 [\s\S]*Connection: close[\s\S]*"invalid_request"/,
    ],
    [
      'a length and chunks',
      `POST /health HTTP/1.1\r\n${host}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      /^HTTP\/1.1 400 /,
    ],
    [
      'another coding',
      `POST /health HTTP/1.1\r\n${host}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
      /^HTTP\/1.1 400 [\s\S]*"invalid_request"/,
    ],
    ['a signed length', `POST /health HTTP/1.1\r\n${host}Content-Length: +3\r\n\r\nabc`, /^HTTP\/1.1 400 /],
    [
      'a space before the colon',
      `GET /health HTTP/1.1\r\nHost : 127.0.0.1:${port}\r\n\r\n`,
      /^(HTTP\/1.1 4\d\d [\s\S]*)?$/,
    ],
    ['a folded header', `GET /health HTTP/1.1\r\n${host}X: a\r\n b\r\n\r\n`, /^(HTTP\/1.1 4\d\d [\s\S]*)?$/],
    ['a NUL in a header', `GET /health HTTP/1.1\r\n${host}X: a\0b\r\n\r\n`, /^(HTTP\/1.1 4\d\d [\s\S]*)?$/],
    ['HTTP/1.0', `GET /health HTTP/1.0\r\n${host}\r\n`, /^HTTP\/1.1 505 /],
    ['absolute form', `GET http://127.0.0.1:${port}/health HTTP/1.1\r\n${host}\r\n`, /^HTTP\/1.1 505 /],
    ['CONNECT', `CONNECT a.example:443 HTTP/1.1\r\n${host}\r\n`, /^HTTP\/1.1 505 /],
    ['TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', /^(HTTP\/1.1 [45]\d\d [\s\S]*)?$/],
    [
      'a head of 17 KiB',
      `GET /health HTTP/1.1\r\n${host}X: ${'a'.repeat(17 * 1024)}\r\n\r\n`,
      /^HTTP\/1.1 431 [\s\S]*"headers_too_large"/,
    ],
    [
      'a head of 100 KiB',
      `GET /health HTTP/1.1\r\n${host}X: ${'a'.repeat(100 * 1024)}\r\n\r\n`,
      /^HTTP\/1.1 431 [\s\S]*"headers_too_large"/,
    ],
    [
      'a target of 20 KiB',
      `GET /health?${'a'.repeat(20 * 1024)} HTTP/1.1\r\n${host}\r\n`,
      /^HTTP\/1.1 431 [\s\S]*"headers_too_large"/,
    ],
    [
      'a head that does not end',
      `GET /health HTTP/1.1\r\n${host}X: ${'a'.repeat(300 * 1024)}`,
      /^(HTTP\/1.1 431 [\s\S]*)?$/,
    ],
    ['200 headers', `GET /health HTTP/1.1\r\n${host}${'X: a\r\n'.repeat(200)}\r\n`, /^HTTP\/1.1 431 /],
    [
      'a head of 15 KiB',
      `GET /health HTTP/1.1\r\n${host}X: ${'a'.repeat(15 * 1024)}\r\n\r\n`,
      /^HTTP\/1.1 200 /,
    ],
    [
      'Expect',
      `POST /v1/credentials HTTP/1.1\r\n${host}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n`,
      /^HTTP\/1.1 100 Continue/,
    ],
  ];
  await Promise.all(
    cases.map(async ([about, octets, expected]) => t.match(await raw(port, octets), expected, about)),
  );
  t.match(await broker.ask('GET', '/health'), { status: 200 });
  t.same(broker.log, []);
});

t.test('bodies: size, type, encoding', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const token = await broker.session();
  const post = (body: string | Uint8Array, headers?: Record<string, string>) =>
    broker.ask('POST', '/v1/credentials', { token, body, headers });
  const padded = (size: number) => '{"credentials":{"A":"x"}}'.padEnd(size, ' ');
  t.match(await post(padded(1024 * 1024)), { status: 200 }, 'exactly 1 MiB');
  t.match(await post(padded(1024 * 1024 + 1)), { status: 413, json: { error: 'payload_too_large' } });
  t.match(
    await post(padded(1024 * 1024 + 1), {
      'transfer-encoding': 'chunked',
      'content-length': [] as unknown as string,
    }).catch((e) => e),
    { status: 413 },
  );
  const big = fetch(`${broker.baseUrl}/v1/credentials`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: Buffer.alloc(64 * 1024 * 1024, 'x'),
  });
  t.equal((await big).status, 413, '64 MiB (API-001)');
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/json; charset=latin1',
    'application/jsonx',
    '',
  ]) {
    t.match(
      await post(padded(30), { 'content-type': type }),
      { status: 415, json: { error: 'unsupported_media_type' } },
      type,
    );
  }
  t.match(await post(padded(30), { 'content-type': 'Application/JSON; charset="UTF-8"' }), { status: 200 });
  t.match(await post(padded(30), { 'content-encoding': 'gzip' }), { status: 415 });
  t.match(await post('{"credentials":{"A":"1","A":"2"}}'), { status: 400, json: { error: 'invalid_json' } });
  t.match(await post(Buffer.from([0x7b, 0xff, 0x7d])), { status: 400, json: { error: 'invalid_json' } });
  t.match(
    await broker.ask('GET', '/health', { body: 'whatever' }),
    { status: 200 },
    'a body that nobody asked for',
  );
  const stopped = request({
    port: broker.port,
    method: 'POST',
    path: '/v1/credentials',
    headers: { authorization: `Bearer ${token}`, 'content-length': 100 },
  });
  stopped.on('error', () => {});
  stopped.write('{');
  await sleep(50);
  stopped.destroy();
  t.match(await broker.ask('GET', '/health'), { status: 200 }, 'a client that goes away in its body');
});

t.test('wrong tokens are counted, valid ones never refused (ATH-005)', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const token = await broker.session();
  const statuses: number[] = [];
  let retry: string | undefined;
  for (let i = 0; i < 40; i++) {
    const wrong = Array.from({ length: 25 }, (_, n) =>
      n % 2 === 0 ? 'nonsense' : mintToken('session').token.reveal(),
    );
    const answers = await Promise.all(wrong.map((each) => broker.ask('GET', '/discover', { token: each })));
    statuses.push(...answers.map(({ status }) => status));
    retry = answers.at(-1)?.headers['retry-after'];
    assert.equal((await broker.ask('GET', '/discover', { token })).status, 200, 'a valid one in between');
  }
  t.equal(statuses.filter((status) => status === 401).length, 50);
  t.equal(statuses.filter((status) => status === 429).length, 950);
  t.ok(Number(retry) > 0 && Number(retry) <= 300, `Retry-After: ${retry}`);
  t.match(await broker.ask('GET', '/health'), { status: 200 });
  t.match(
    await broker.ask('POST', '/invite/nonsense'),
    { status: 429, json: { error: 'rate_limited' } },
    'links too',
  );
  t.match(await broker.ask('GET', '/approve/1?token=x'), {
    status: 429,
    headers: { 'retry-after': /^\d+$/ },
  });
  t.equal(
    await broker.agent('default').then((agent) => agent.slice(0, 8)),
    'brk_agt_',
    'a valid invite is taken',
  );
  t.equal(broker.records.length, 1002, 'each is audited');
  t.match(broker.records[0], {
    action: 'auth.refused',
    peer: '127.0.0.1',
    target: '/discover',
    error: 'unauthorized',
    request_id: /./,
  });
});

t.test('no path but its own answers, and no method but its own (API-013)', async (t) => {
  const broker = await startBroker({ settings: { 'auth-failures': 0 } });
  t.teardown(broker.stop);
  const paths = [
    '/health',
    '/ready',
    '/v1/ca.pem',
    '/v1/skill.md',
    '/discover',
    '/v1/proposals',
    '/v1/proposals/1',
    '/v1/proposals/1/approve',
    '/v1/proposals/1/reject',
    '/approve/1',
    '/v1/credentials',
    '/v1/credentials/K',
    '/v1/vaults',
    '/v1/vaults/default',
    '/v1/vaults/default/services',
    '/v1/vaults/default/services/a.example',
    '/v1/sessions',
    '/v1/sessions/1',
    '/v1/agents',
    '/v1/agents/invites',
    '/v1/agents/a',
    '/v1/agents/a/rotate',
    '/invite/x',
    '/v1/events',
  ];
  const methods = [
    'GET',
    'HEAD',
    'POST',
    'PUT',
    'PATCH',
    'DELETE',
    'OPTIONS',
    'TRACE',
    'PROPFIND',
    'LOCK',
    'PURGE',
    'REPORT',
  ];
  const variants = (path: string) => [
    `${path}/`,
    `/${path}`,
    path.replace('/', '/%2e/'),
    path.toUpperCase(),
    `${path}%00`,
    `${path};x`,
    `/x/..${path}`,
  ];
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  const status = (method: string, path: string, headers = {}) =>
    new Promise<number>((resolve, reject) => {
      const sent = request({ port: broker.port, agent, method, path, headers }, (answer) => {
        answer.resume();
        answer.on('end', () => resolve(answer.statusCode ?? 0));
      });
      sent.on('error', reject);
      sent.end();
    });
  const odd: string[] = [];
  const open = new Set(['/health', '/ready', '/v1/ca.pem', '/v1/skill.md']);
  for (const path of paths) {
    for (const method of methods) {
      const isOpen = open.has(path) && (method === 'GET' || method === 'HEAD');
      const found = await status(method, path);
      // A page's form is refused for want of an origin before anyone is asked who sends it.
      const refusals = path === '/approve/1' && method === 'POST' ? [403] : [401, 404, 405];
      if (isOpen ? found !== 200 : !refusals.includes(found)) odd.push(`${method} ${path}: ${found}`);
    }
    const asOwner = { authorization: `Bearer ${broker.operator}` };
    const found = await Promise.all(variants(path).map((each) => status('GET', each, asOwner)));
    found.forEach((each, i) => {
      if (each !== 404 && each !== 405) odd.push(`GET ${variants(path)[i]}: ${each}`);
    });
  }
  agent.destroy();
  t.same(odd, []);
  t.match(await broker.ask('OPTIONS', '/v1/proposals'), {
    status: 405,
    headers: { allow: 'POST, GET, HEAD', 'access-control-allow-origin': undefined },
  });
});

t.test('any body is accepted or refused with its field, never a 500 (API-004)', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const session = await broker.session();
  const auth = { type: 'bearer', token: 'K' };
  const substitutions = [{ key: 'K', placeholder: '__k__', in: ['path'] }];
  const service = { host: 'a.example', auth, substitutions, description: 'x', enabled: true };
  const slot = {
    action: 'set',
    key: 'K',
    description: 'x',
    obtain: 'https://a.example',
    obtain_instructions: 'x',
    value: 'v',
  };
  const targets: [method: string, path: string, token: string, body: object][] = [
    [
      'POST',
      '/v1/proposals',
      session,
      { services: [{ action: 'set', ...service }], credentials: [slot], message: 'x', user_message: 'x' },
    ],
    ['POST', '/v1/credentials', session, { credentials: { K: 'v' } }],
    ['PUT', '/v1/vaults/default/services', broker.operator, { services: [service] }],
    [
      'PATCH',
      '/v1/vaults/default',
      broker.operator,
      { require_tls: true, rate_limit: { rps: 1, burst: 1, inflight: 1 } },
    ],
    ['POST', '/v1/sessions', broker.operator, { vault: 'default', ttl_seconds: 60, label: 'x' }],
    [
      'POST',
      '/v1/agents/invites',
      broker.operator,
      { name: 'a', vaults: ['default'], ttl_seconds: 60, token_ttl_seconds: 60 },
    ],
    [
      'POST',
      '/v1/proposals/1/approve',
      broker.operator,
      { credentials: { K: 'v' }, confirm: 'x', confirm_existing: ['K'] },
    ],
  ];
  const refusals = new Set<string>();
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...targets),
      fc.nat(),
      fc.jsonValue(),
      fc.boolean(),
      async ([method, path, token, body], place, value, isNew) => {
        const changed = structuredClone(body);
        const places = placesOf(changed);
        const [holder, name] = places[place % places.length];
        holder[isNew ? `${name}x` : name] = value;
        const answer = await broker.ask(method, path, { token, body: changed });
        assert.ok(answer.status < 500, `${method} ${path} ${JSON.stringify(changed)}: ${answer.text}`);
        if (answer.status !== 400) return;
        refusals.add(answer.json.error);
        assert.ok(answer.json.error !== 'invalid_request' || answer.json.field, answer.text);
      },
    ),
    { numRuns: 600 },
  );
  t.ok(refusals.has('invalid_request'));
  t.same(broker.log, []);
});

/** Every place in a value, as its holder and its name there. */
function placesOf(value: object): [holder: Record<string, unknown>, name: string][] {
  return Object.entries(value).flatMap(([name, inner]) => [
    [value as Record<string, unknown>, name],
    ...(typeof inner === 'object' && inner !== null ? placesOf(inner) : []),
  ]);
}

t.test(
  'a service worker that was planted gives up its place, whatever its path; scripts are told by their content',
  async (t) => {
    const broker = await startBroker();
    t.teardown(broker.stop);
    for (const path of ['/', '/sw.js', '/approve/1', '/assets/x.js', '/nowhere/at/all.js?x=1']) {
      const answer = await broker.ask('GET', path, { headers: { 'service-worker': 'script' } });
      t.match(answer, {
        status: 200,
        headers: {
          'content-type': /^text\/javascript/,
          'service-worker-allowed': '/',
          'cache-control': 'no-store',
        },
        text: /registration\.unregister\(\)/,
      });
    }
    const { text } = await broker.ask('GET', '/login');
    const tags = [
      ...text.matchAll(/(?:src|href)="(\/assets\/[^"]+\.(?:js|css))" integrity="sha256-([^"]+)"/g),
    ];
    t.equal(tags.length, 2);
    for (const [, path, integrity] of tags) {
      const { text: body } = await broker.ask('GET', path);
      t.equal(createHash('sha256').update(body).digest('base64'), integrity, path);
    }
  },
);
/** Makes proposals of about 1 MiB each, and cancels them. */
async function longProposals(broker: Awaited<ReturnType<typeof startBroker>>, token: string, count: number) {
  const headers = Object.fromEntries(Array.from({ length: 31 }, (_, i) => [`X-H${i}`, 'x'.repeat(8000)]));
  const services = Array.from({ length: 4 }, (_, i) => ({
    action: 'set',
    host: `h${i}.example.com`,
    auth: { type: 'custom', headers: { ...headers, 'X-K': 'y{{ KK }}' } },
  }));
  const body = { services, credentials: [{ action: 'set', key: 'KK' }] };
  for (let i = 0; i < count; i++) {
    const made = await broker.ask('POST', '/v1/proposals', { token, body });
    await broker.ask('DELETE', `/v1/proposals/${made.json.id}`, { token });
  }
}

t.test('long lists wait for their readers, so many of one caller at a time', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const token = await broker.session();
  await longProposals(broker, token, 6);

  const list = await broker.ask('GET', '/v1/proposals', { token });
  t.equal(list.status, 200);
  t.equal(list.json.proposals.length, 6);
  t.ok(list.text.length > 5 * 2 ** 20, 'all of it');
  const one = await broker.ask('GET', '/v1/proposals/1', { token });
  t.same(one.json, list.json.proposals[0]);
  const last = await broker.ask('GET', '/v1/proposals/1', { token, headers: { connection: 'close' } });
  t.equal(last.text, one.text);

  const other = await broker.session();
  const sockets: Socket[] = [];
  const ask = () => broker.ask('GET', '/v1/proposals', { token });
  for (let i = 0; i < 4; i++) {
    const socket = connect(broker.port, '127.0.0.1').on('error', () => {});
    socket.write(
      `GET /v1/proposals HTTP/1.1\r\nHost: 127.0.0.1:${broker.port}\r\nAuthorization: Bearer ${token}\r\n\r\n`,
    );
    sockets.push(socket);
    // Its first octets, and no more.
    await new Promise((resolve) => socket.once('readable', resolve));
  }
  t.match(await ask(), { status: 429, json: { error: 'rate_limited' } });
  t.match(await broker.ask('GET', '/v1/proposals', { token: other }), { status: 200 }, 'others are served');
  for (const socket of sockets) socket.destroy();
  await eventually(async () => (await ask()).status === 200, 'served again when they are gone');
});

t.test('cookies of other ports of the host, as many as a browser keeps, shut nobody out', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const cookie = Array.from({ length: 180 }, (_, i) => `c${i}=${'x'.repeat(3500)}`).join('; ');
  t.equal((await broker.ask('GET', '/login', { headers: { cookie } })).status, 200);
  const long = { 'x-long': 'x'.repeat(20_000) };
  t.equal((await broker.ask('GET', '/login', { headers: long })).status, 431, 'what isn’t a cookie counts');
});
