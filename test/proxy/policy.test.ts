import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { defaultSettings } from '../../src/actors/vault/model.ts';
import { mintToken } from '../../src/actors/vault/token.ts';
import { openProxy, openTunnel, proxyAuth, startLane, type TestLane, tunnelWire } from '../support/lane.ts';
import { httpUpstream, rawUpstream, upstreamCa } from '../support/upstream.ts';
import { type Answer, eventually, nextAnswer, nextRequest, type Wire, wireOf } from '../support/wire.ts';

const bearer = { type: 'bearer' as const, token: 'KEY' };
const pass = { type: 'passthrough' as const };
const vault = {
  services: [
    { host: 'api.good.test', auth: bearer },
    { host: 'pass.test', auth: pass },
    { host: 'sub.test', auth: pass, substitutions: [{ key: 'KEY', placeholder: '__key__' }] },
    { host: 'off.test', auth: bearer, enabled: false as const },
    { host: 'custom.test', auth: { type: 'bearer' as const, token: 'MISSING' } },
  ],
  credentials: { KEY: 'sk_test_policy' },
};
const at = await startLane(
  {
    v1: vault,
    v2: { ...vault, settings: { unmatched_host_policy: 'deny' } },
    empty: { cleared: true },
    strict: { ...vault, settings: { require_tls: true } },
  },
  { upstreamCa: [upstreamCa.certPem] },
);
t.teardown(() => at.stop());
/** A second by the protocol; here as much more as a busy machine may take. */
const soon = 4000;
const up = await httpUpstream(
  t,
  (request, response) => {
    request.resume();
    response.end(JSON.stringify(request.rawHeaders));
  },
  { tls: false },
);
const ok = (body: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

/** A request in absolute form on the proxy port. */
async function absolute(lane: TestLane, url: string, auth: string, method = 'GET'): Promise<Answer> {
  const client = wireOf(await openProxy(lane));
  client.send(`${method} ${url} HTTP/1.1\r\nHost: x\r\n${auth}\r\n`);
  const answer = await nextAnswer(client, method === 'HEAD');
  client.close();
  return answer;
}
const auth = (vault: string) => proxyAuth(at.tokens[vault], vault);
const url = (host: string, path = '/') => `http://${host}:${up.port}${path}`;
const codeOf = (answer: Answer) => [answer.status, answer.field('x-broker-error')];

t.test('407 keeps the connection open for the retry, and shows how', async (t) => {
  for (const form of ['CONNECT', 'absolute']) {
    const client = wireOf(await openProxy(at));
    const line =
      form === 'CONNECT' ? `CONNECT pass.test:${up.port} HTTP/1.1` : `GET ${url('pass.test')} HTTP/1.1`;
    for (const given of ['', proxyAuth('brk_ses_nonsense', 'v1'), 'Proxy-Authorization: Digest x\r\n']) {
      client.send(`${line}\r\nHost: x\r\n${given}\r\n`);
      const refused = await nextAnswer(client);
      t.match(codeOf(refused), [407, 'proxy_auth_required'], `${form} ${given}`);
      t.match([refused.field('proxy-authenticate'), refused.field('connection')], [/^Basic /, undefined]);
      t.match(refused.json, { error: 'proxy_auth_required', message: /./, request_id: /./ });
    }
    client.send(`${line}\r\nHost: x\r\n${auth('v1')}\r\n`);
    t.match(await client.take('\r\n\r\n'), /^HTTP\/1\.1 200 /, 'on the same connection');
    client.close();
  }
});

t.test('who is let in', async (t) => {
  const agent = at.addSession({ vaults: ['v1', 'v2'], kind: 'agent', id: 'robot' });
  const expired = at.addSession({ vaults: ['v1'], expiresAt: Date.now() - 1 });
  const bearerAuth = (token: string) => `Proxy-Authorization: Bearer ${token}\r\n`;
  const operator = mintToken('operator').token.reveal();
  const cases: [what: string, auth: string, status: number, code?: string][] = [
    ['a session, Basic', proxyAuth(at.tokens.v1, 'v1'), 200],
    ['a session, Basic without a vault', proxyAuth(at.tokens.v1), 200],
    ['a session, Bearer', bearerAuth(at.tokens.v1), 200],
    ['a session, Bearer with its vault', `${bearerAuth(at.tokens.v1)}X-Vault: v1\r\n`, 200],
    ['an agent, Basic', proxyAuth(agent, 'v2'), 200],
    ['an agent, Bearer with a vault', `${bearerAuth(agent)}X-Vault: v1\r\n`, 200],
    ['an agent without a vault', bearerAuth(agent), 407, 'proxy_auth_required'],
    ['a session, another vault', proxyAuth(at.tokens.v1, 'v2'), 403, 'forbidden'],
    ['a session, no such vault', proxyAuth(at.tokens.v1, 'nowhere'), 403, 'forbidden'],
    ['an agent, a vault that it was not given', proxyAuth(agent, 'empty'), 403, 'forbidden'],
    ['a name in another case', proxyAuth(at.tokens.v1, 'V1'), 403, 'forbidden'],
    ['a path as a name', `${bearerAuth(at.tokens.v1)}X-Vault: ../v2\r\n`, 403, 'forbidden'],
    ['two names in one', `${bearerAuth(at.tokens.v1)}X-Vault: v1,v2\r\n`, 403, 'forbidden'],
    ['two names', `${bearerAuth(at.tokens.v1)}X-Vault: v1\r\nX-Vault: v1\r\n`, 403, 'forbidden'],
    ['an empty name', `${bearerAuth(at.tokens.v1)}X-Vault:\r\n`, 403, 'forbidden'],
    ['an expired token', proxyAuth(expired, 'v1'), 407, 'proxy_auth_required'],
    [
      'a token with another checksum',
      proxyAuth(`${at.tokens.v1.slice(0, -1)}x`, 'v1'),
      407,
      'proxy_auth_required',
    ],
    ['an operator', proxyAuth(operator, 'v1'), 407, 'proxy_auth_required'],
    ['no base64', 'Proxy-Authorization: Basic !!!\r\n', 407, 'proxy_auth_required'],
    ['nothing in base64', 'Proxy-Authorization: Basic \r\n', 407, 'proxy_auth_required'],
    ['nothing', 'Proxy-Authorization:\r\n', 407, 'proxy_auth_required'],
    ['two fields', proxyAuth(at.tokens.v1, 'v1').repeat(2), 400, 'invalid_request'],
    ['60 KiB', `Proxy-Authorization: Basic ${'A'.repeat(60_000)}\r\n`, 407, 'proxy_auth_required'],
  ];
  for (const [what, given, ...expected] of cases) {
    const answer = await absolute(at, url('pass.test'), given);
    t.strictSame(codeOf(answer), [expected[0], expected[1]], what);
  }
  const strip = ({ body }: Answer) => body.replace(/"request_id":"[^"]*"/, '');
  t.equal(
    strip(await absolute(at, url('pass.test'), proxyAuth(at.tokens.v1, 'nowhere'))),
    strip(await absolute(at, url('pass.test'), proxyAuth(at.tokens.v1, 'v2'))),
    'a vault that is not there and one that is not yours look alike',
  );
});

t.test('who asks again and again without a token is told to wait, and loses the connection', async (t) => {
  const asked = await startLane({ v1: vault });
  t.teardown(() => asked.stop());
  const wire = wireOf(await openProxy(asked));
  wire.send('GET http://pass.test/ HTTP/1.1\r\nHost: pass.test\r\n\r\n'.repeat(5000));
  const all = await wire.rest();
  const told = all.split('HTTP/1.1 407').length - 1;
  t.ok(told >= 1000 && told < 5000, `${told} times`);
  t.match(all.slice(all.lastIndexOf('HTTP/1.1')), /^HTTP\/1\.1 429 .*Retry-After: 1\r\n/s);
  t.equal((await absolute(asked, url('pass.test'), proxyAuth(asked.tokens.v1))).status, 200, 'a valid token');
});

t.test('wrong tokens from one address are counted; right ones are never refused for them', async (t) => {
  const counting = await startLane({ v1: vault }, { authFailures: 3 });
  t.teardown(() => counting.stop());
  const wrong = () => absolute(counting, url('pass.test'), proxyAuth('wrong'));
  for (let i = 0; i < 3; i++) t.equal((await wrong()).status, 407);
  const refused = await wrong();
  t.match(codeOf(refused), [429, 'rate_limited']);
  const seconds = Number(refused.field('retry-after'));
  t.ok(seconds > 290 && seconds <= 300, `${seconds} s`);
  t.equal((await absolute(counting, url('pass.test'), proxyAuth(counting.tokens.v1))).status, 200);
  const nothing = await absolute(counting, url('pass.test'), '');
  t.equal(nothing.status, 407, 'to show nothing is no failure');
});

t.test(
  'a session that ends: 401 inside the tunnel, then closed; streams and idle tunnels within a second',
  async (t) => {
    const streaming = await rawUpstream(t, async (wire) => {
      const { line } = await nextRequest(wire);
      wire.send(
        line.includes('/ws')
          ? 'HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
          : 'HTTP/1.1 200 OK\r\n\r\ndata',
      );
    });
    const target = `api.good.test:${streaming.port}`;
    const head = 'Host: api.good.test\r\n';
    for (const how of ['revoked', 'expired'] as const) {
      const expiresAt = how === 'expired' ? Date.now() + 1500 : undefined;
      const token = at.addSession({ vaults: ['v1'], expiresAt });
      const open = () => tunnelWire(at, 'v1', target, { token });
      const [asking, idle, stream, socket] = [await open(), await open(), await open(), await open()];
      const blind = wireOf(await openTunnel(at, 'v1', `evil.test:${streaming.port}`, { token }));
      stream.send(`GET /stream HTTP/1.1\r\n${head}\r\n`);
      await stream.take('data');
      socket.send(`GET /ws HTTP/1.1\r\n${head}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
      await socket.take('\r\n\r\n');
      if (expiresAt === undefined) at.revoke(token);
      else await sleep(expiresAt - Date.now() + 1);
      const began = performance.now();
      asking.send(`GET /late HTTP/1.1\r\n${head}\r\n`);
      t.match(codeOf(await nextAnswer(asking)), [401, 'unauthorized'], how);
      await Promise.all([asking, idle, stream, socket, blind].map((wire) => wire.rest()));
      const ms = performance.now() - began;
      t.ok(ms < soon, `${how}: all ended after ${ms.toFixed()} ms`);
      await eventually(
        () => streaming.wires.every((wire) => wire.ended),
        'the ends of the upstream connections',
      );
      t.match((await at.recordsOf('/late')).at(-1), { status: 401, error: 'unauthorized' });
      t.match((await at.recordsOf('/stream')).at(-1), { status: 200, error: 'unauthorized' });
      t.equal((await absolute(at, url('pass.test'), proxyAuth(token))).status, 407, 'and no new ones');
    }
  },
);

t.test('a vault that is deleted takes its tunnels with it', async (t) => {
  const lane = await startLane({ v1: vault, v2: vault });
  t.teardown(() => lane.stop());
  const client = wireOf(await openTunnel(lane, 'v1', `pass.test:${up.port}`));
  lane.publish({ type: 'vault-gone', id: lane.ids.v1 });
  client.send('GET / HTTP/1.1\r\nHost: pass.test\r\n\r\n');
  t.match(codeOf(await nextAnswer(client)), [401, 'unauthorized']);
  await client.rest();
});

t.test('what the vault lets through, and what it refuses', async (t) => {
  const cases: [
    vault: string,
    host: string,
    method: string,
    expected: [number, string?],
    service: string | null,
  ][] = [
    ['v1', 'api.good.test', 'GET', [200], 'api.good.test'],
    ['v1', 'evil.test', 'GET', [200], null],
    ['v2', 'evil.test', 'GET', [403, 'forbidden'], null],
    ['v2', 'api.good.test', 'GET', [200], 'api.good.test'],
    ['empty', 'evil.test', 'GET', [403, 'forbidden'], null],
    ['v1', 'off.test', 'GET', [403, 'service_disabled'], 'off.test'],
    ['v1', 'custom.test', 'GET', [502, 'credential_not_found'], 'custom.test'],
    ['strict', 'api.good.test', 'GET', [403, 'tls_required'], 'api.good.test'],
    ['strict', 'sub.test', 'GET', [403, 'tls_required'], 'sub.test'],
    ['strict', 'pass.test', 'GET', [200], 'pass.test'],
    ['strict', 'evil.test', 'GET', [200], null],
    ['v1', 'api.good.test', 'TRACK', [405, 'method_not_allowed'], 'api.good.test'],
    ['v1', 'api.good.test', 'TRACE', [405, 'method_not_allowed'], 'api.good.test'],
    ['v1', 'sub.test', 'TRACE', [405, 'method_not_allowed'], 'sub.test'],
    ['v1', 'pass.test', 'TRACE', [200], 'pass.test'],
    ['v1', 'api.good.test', 'HEAD', [200], 'api.good.test'],
    ['v2', 'evil.test', 'HEAD', [403, 'forbidden'], null],
  ];
  for (const [i, [vaultName, host, method, [status, code], service]] of cases.entries()) {
    const path = `/policy/${i}`;
    const what = `${vaultName} ${method} ${host}`;
    t.strictSame(
      codeOf(await absolute(at, url(host, `${path}?q=1`), auth(vaultName), method)),
      [status, code],
      what,
    );
    const [record, ...more] = await at.recordsOf(path);
    const expected = {
      vault: vaultName,
      method,
      scheme: 'http',
      host: `${host}:${up.port}`,
      service,
      status,
      error: code ?? null,
    };
    t.match(record, expected, `${what}: its record`);
    t.equal(more.length, 0, 'one record');
  }
});

t.test('403 forbidden says how to propose the host, inside a tunnel too', async (t) => {
  const client = await tunnelWire(at, 'v2', 'evil.test:8443');
  for (const method of ['GET', 'POST']) {
    // A body is read over, so that the connection goes on.
    client.send(`${method} / HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 5\r\n\r\nhello`);
    const refused = await nextAnswer(client);
    t.match(codeOf(refused), [403, 'forbidden']);
    t.strictSame(refused.json.proposal_hint, {
      host: 'evil.test',
      port: 8443,
      endpoint: 'POST http://broker.test/v1/proposals',
      supported_auth_types: ['bearer', 'basic', 'api-key', 'custom', 'passthrough'],
    });
    t.match(refused.json.help, /http:\/\/broker\.test\/v1\/skill\.md/);
  }
  const missing = await absolute(at, url('custom.test'), auth('v1'));
  t.match(missing.json, { key: 'MISSING', message: /MISSING/ });
  // Whoever waits for a 100 may or may not send the body now: only a new connection is unambiguous.
  client.send('POST / HTTP/1.1\r\nHost: evil.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n');
  const expecting = await nextAnswer(client);
  t.match([expecting.status, expecting.field('connection')], [403, 'close']);
  await client.rest();
});

t.test('a change of the vault is there for the very next request, in an open tunnel too', async (t) => {
  const lane = await startLane({ v1: {} }, { upstreamCa: [upstreamCa.certPem] });
  t.teardown(() => lane.stop());
  const tls = await rawUpstream(t, async (wire) => {
    for (;;) {
      const { field } = await nextRequest(wire);
      wire.send(ok(field('authorization') ?? 'none'));
    }
  });
  const client = await tunnelWire(lane, 'v1', `api.good.test:${tls.port}`);
  const ask = async () => {
    client.send('GET / HTTP/1.1\r\nHost: api.good.test\r\n\r\n');
    const { status, body } = await nextAnswer(client);
    return status === 200 ? body : status;
  };
  const service = { host: 'api.good.test', auth: bearer };
  t.equal(await ask(), 'none');
  lane.publish({ type: 'service', vault: lane.ids.v1, service });
  t.equal(await ask(), 502, 'its credential is not there yet');
  for (let i = 0; i < 50; i++) {
    lane.publish({ type: 'credential', vault: lane.ids.v1, key: 'KEY', value: `sk_${i}` });
    const got = await ask();
    if (got !== `Bearer sk_${i}`) t.fail(`round ${i}: ${got}`);
  }
  lane.publish({ type: 'credential', vault: lane.ids.v1, key: 'KEY', value: null });
  t.equal(await ask(), 502, 'a damaged value is never left out');
  lane.publish({ type: 'service', vault: lane.ids.v1, service: { ...service, enabled: false } });
  t.equal(await ask(), 403);
  const denying = { ...defaultSettings, unmatched_host_policy: 'deny' as const };
  lane.publish(
    { type: 'service-gone', vault: lane.ids.v1, host: 'api.good.test' },
    { type: 'vault', id: lane.ids.v1, name: 'v1', cleared: false, settings: denying },
  );
  t.equal(await ask(), 403);
});

t.test('netguard: addresses and names that are refused, before any connection', async (t) => {
  const guarded = await startLane(
    { v1: vault },
    {
      allowPrivateRanges: false,
      networkAllow: ['127.0.0.2/32', '0.0.0.0/0'],
      apiPort: up.port,
      names: {
        'own.test': ['127.0.0.1'],
        'mixed.test': ['127.0.0.2', '169.254.169.254'],
        'six.test': ['127.0.0.2', '::1'],
        'meta.test': ['169.254.169.254'],
      },
    },
  );
  t.teardown(() => guarded.stop());
  const open = await httpUpstream(t, (_, response) => response.end('open'), {
    tls: false,
    host: '127.0.0.2',
  });
  const before = up.connections;
  const ask = async (target: string) =>
    codeOf(await absolute(guarded, `http://${target}/`, proxyAuth(guarded.tokens.v1)));
  t.strictSame(await ask(`127.0.0.2:${open.port}`), [200, undefined], 'what the operator opened');
  for (const target of [
    `127.0.0.1:${up.port}`,
    `localhost:${up.port}`,
    `LOCALHOST.:${up.port}`,
    `own.test:${up.port}`,
    `0.0.0.0:${up.port}`,
    `127.0.0.1:${guarded.port}`,
    `[::1]:${open.port}`,
    `[::ffff:127.0.0.1]:${up.port}`,
    '169.254.169.254',
    'meta.test',
    `mixed.test:${open.port}`,
    `six.test:${open.port}`,
    '[fd00:ec2::254]',
  ])
    t.strictSame(await ask(target), [403, 'network_blocked'], target);
  for (const target of ['2130706433', '0x7f000001', '127.1', '0177.0.0.1', '[::1%25lo]'])
    t.strictSame(await ask(target), [400, 'invalid_request'], target);
  t.equal(up.connections, before, 'nothing was dialled');
  t.equal(open.connections, 1);
});

t.test('netguard: the address that was vetted is the one that is dialled', async (t) => {
  const open = await httpUpstream(t, (_, response) => response.end('open'), {
    tls: false,
    host: '127.0.0.2',
  });
  const other = await rawUpstream(t, () => {}, { tls: false });
  let asked = 0;
  const rebinding = await startLane(
    { v1: vault },
    {
      allowPrivateRanges: false,
      networkAllow: ['127.0.0.2/32'],
      names: {
        // Each second answer is one that must not be reached.
        're.test': (_, __, done) =>
          void setImmediate(done, null, [{ address: asked++ % 2 ? '127.0.0.1' : '127.0.0.2', family: 4 }]),
      },
    },
  );
  t.teardown(() => rebinding.stop());
  for (let i = 0; i < 20; i++) {
    const client = wireOf(await openProxy(rebinding));
    const port = i % 4 < 2 ? open.port : other.port;
    client.send(
      `GET http://re.test:${port}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${proxyAuth(rebinding.tokens.v1)}\r\n`,
    );
    const { status } = await nextAnswer(client);
    t.ok([200, 403, 502].includes(status), `${status}`);
    client.close();
  }
  t.equal(other.connections, 0);
});

t.test('slow names delay those who asked for them, and nobody else', async (t) => {
  const stuck: (() => void)[] = [];
  const lane = await startLane(
    { v1: {}, v2: {} },
    {
      names: {
        'slow.test': (_, __, done) =>
          void stuck.push(() => done(null, [{ address: '127.0.0.1', family: 4 }])),
      },
    },
  );
  t.teardown(() => lane.stop());
  const slow: Wire[] = [];
  for (let i = 0; i < 60; i++) {
    const client = wireOf(await openProxy(lane));
    client.send(`GET http://slow.test:${up.port}/ HTTP/1.1\r\nHost: x\r\n${proxyAuth(lane.tokens.v1)}\r\n`);
    slow.push(client);
  }
  await eventually(() => stuck.length > 0, 'the first look-up');
  await sleep(50);
  const quick = await absolute(lane, url('pass.test'), proxyAuth(lane.tokens.v2));
  t.equal(quick.status, 200);
  t.ok(stuck.length <= 8, `${stuck.length} look-ups of one session at once`);
  const pump = setInterval(() => stuck.shift()?.(), 1);
  for (const client of slow) t.equal((await nextAnswer(client)).status, 200);
  clearInterval(pump);
});

t.test('rate limit: 429 with the seconds to wait, whatever the tunnel', async (t) => {
  const lane = await startLane(
    {
      v1: {},
      slow: { settings: { rate_limit: { rps: 0.25, burst: 1 } } },
      free: { settings: { rate_limit: { rps: 0 } } },
    },
    { limit: { rps: 1, burst: 3, inflight: 0 } },
  );
  t.teardown(() => lane.stop());
  const ask = async (name: string, path = '/') => {
    const answer = await absolute(lane, url('pass.test', path), proxyAuth(lane.tokens[name], name));
    return [answer.status, answer.field('retry-after'), answer.field('x-broker-error')];
  };
  for (let i = 0; i < 3; i++) t.strictSame(await ask('v1'), [200, undefined, undefined]);
  t.strictSame(await ask('v1', '/limited'), [429, '1', 'rate_limited']);
  t.match(await lane.recordsOf('/limited'), [{ status: 429, error: 'rate_limited' }]);
  // The vault's own: a request in four seconds.
  t.strictSame(await ask('slow'), [200, undefined, undefined]);
  t.strictSame(await ask('slow'), [429, '4', 'rate_limited']);
  for (let i = 0; i < 20; i++) t.strictSame(await ask('free'), [200, undefined, undefined]);
  await sleep(1050);
  t.strictSame(await ask('v1'), [200, undefined, undefined], 'after the second that it named');
  // Inside a tunnel the connection goes on.
  const tunnel = wireOf(await openTunnel(lane, 'v1', `pass.test:${up.port}`));
  for (const _ of 'ab') {
    tunnel.send('GET / HTTP/1.1\r\nHost: pass.test\r\n\r\n');
    t.equal((await nextAnswer(tunnel)).status, 429);
  }
});

t.test('in flight: the limit counts what is open, and what ends in any way gives back', async (t) => {
  const lane = await startLane({ v1: {} }, { limit: { rps: 0, burst: 0, inflight: 2 } });
  t.teardown(() => lane.stop());
  const hanging = await rawUpstream(t, () => {}, { tls: false });
  const hang = async () => {
    const client = wireOf(await openProxy(lane));
    client.send(
      `GET http://pass.test:${hanging.port}/ HTTP/1.1\r\nHost: x\r\n${proxyAuth(lane.tokens.v1)}\r\n`,
    );
    return client;
  };
  const ask = async () => (await absolute(lane, url('pass.test'), proxyAuth(lane.tokens.v1))).status;
  for (let round = 0; round < 3; round++) {
    const open = [await hang(), await hang()];
    await eventually(() => hanging.wires.length === 2 * (round + 1), 'both upstream connections');
    const refused = await absolute(lane, url('pass.test'), proxyAuth(lane.tokens.v1));
    t.match([refused.status, refused.field('retry-after')], [429, '1']);
    for (const client of open) client.close();
    await eventually(() => hanging.wires.every((wire) => wire.ended), 'their end');
    t.equal(await ask(), 200, `round ${round}`);
  }
  for (const port of [1, up.port])
    for (let i = 0; i < 5; i++) await absolute(lane, `http://pass.test:${port}/`, proxyAuth(lane.tokens.v1));
  t.equal(await ask(), 200, 'refusals and failures give back, too');
});

t.test('audit: where it cannot be written, nothing goes out; unless the operator said so', async (t) => {
  const before = up.connections;
  at.setAuditHealthy(false);
  const refused = await absolute(at, url('pass.test', '/unaudited'), auth('v1'));
  t.match(codeOf(refused), [503, 'audit_unavailable']);
  t.ok(Number(refused.field('retry-after')) > 0);
  const tunnel = await openTunnel(at, 'v1', 'evil.test:1');
  const gone = new Promise((resolve) => tunnel.once('close', resolve));
  tunnel.resume().end('\x00not HTTP');
  await gone;
  t.equal(up.connections, before);
  at.setAuditHealthy(true);
  t.equal((await absolute(at, url('pass.test'), auth('v1'))).status, 200);
  // What is refused for it takes up none of the limit.
  const limited = await startLane({ v1: vault }, { limit: { rps: 0, burst: 0, inflight: 2 } });
  t.teardown(() => limited.stop());
  const ask = async () => (await absolute(limited, url('pass.test'), proxyAuth(limited.tokens.v1))).status;
  limited.setAuditHealthy(false);
  for (let i = 0; i < 4; i++) t.equal(await ask(), 503);
  limited.setAuditHealthy(true);
  t.equal(await ask(), 200);
  const open = await startLane({ v1: vault }, { auditFailOpen: true });
  t.teardown(() => open.stop());
  open.setAuditHealthy(false);
  t.equal((await absolute(open, url('pass.test'), proxyAuth(open.tokens.v1))).status, 200);
});

t.test('audit: one record a request, with names and numbers and no value', async (t) => {
  const client = wireOf(await openTunnel(at, 'v1', `api.good.test:${up.port}`));
  client.send(
    `POST /audited/__key__?secret=query HTTP/1.1\r\nHost: api.good.test\r\nAuthorization: mine\r\nContent-Length: 5\r\n\r\nhello`,
  );
  const { body } = await nextAnswer(client);
  t.match(body, /Bearer sk_test_policy/, 'the credential was sent');
  const [record, ...more] = await at.recordsOf('/audited/__key__');
  t.equal(more.length, 0);
  t.match(record, {
    time: /^\d{4}-\d\d-\d\dT/,
    kind: 'request',
    request_id: /./,
    vault: 'v1',
    actor: 'session:s0',
    method: 'POST',
    host: `api.good.test:${up.port}`,
    service: 'api.good.test',
    keys: ['KEY'],
    status: 200,
    error: null,
    bytes_in: 5,
    bytes_out: body.length,
  });
  const sub = wireOf(await openTunnel(at, 'v1', `sub.test:${up.port}`));
  sub.send('GET /substituted/__key__ HTTP/1.1\r\nHost: sub.test\r\n\r\n');
  await nextAnswer(sub);
  t.match(await at.recordsOf('/substituted/__key__'), [{ keys: ['KEY'] }], 'its path is the client’s own');
  const all = JSON.stringify(at.records);
  for (const secret of ['sk_test_policy', 'brk_ses_', 'secret=query', 'mine'])
    t.notOk(all.includes(secret), `no ${secret} in any record`);
});

t.test('plain proxy connections: for loopback peers, always, or never', async (t) => {
  const never = await startLane({ v1: vault }, { plain: 'never' });
  t.teardown(() => never.stop());
  const client = wireOf(await openProxy(never));
  client.send(`GET ${url('pass.test')} HTTP/1.1\r\nHost: x\r\n${proxyAuth(never.tokens.v1)}\r\n`);
  t.equal(await client.rest(), '', 'closed without a word');
  const wrapped = wireOf(await openProxy(never, true));
  wrapped.send(`GET ${url('pass.test')} HTTP/1.1\r\nHost: x\r\n${proxyAuth(never.tokens.v1)}\r\n`);
  t.equal((await nextAnswer(wrapped)).status, 200, 'TLS-wrapped ones are served');
});
