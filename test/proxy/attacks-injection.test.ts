/** What agents send to get at a credential, at another's, or past the rules; and what upstreams then see. */
import t, { type Test } from 'tap';
import { tunnelWire } from '../support/lane.ts';
import { eventually, nextAnswer, nextRequest, webSocketAccept, webSocketKey } from '../support/wire.ts';
import {
  against,
  bodies,
  changed,
  codes,
  get,
  ok,
  type Row,
  refusedRow,
  runRows,
  servedRow,
  statuses,
} from './attack-kit.ts';
import { type Outcome, openArena } from './attack-runner.ts';

const arena = await openArena(t);
type Look = (t: Test, outcome: Outcome) => void;

/** The fields of the one request that arrived, by a test of their names. */
const arrived = ({ reached }: Outcome, name: RegExp) =>
  reached[0].fields.filter(([found]) => name.test(found));
const only =
  (name: RegExp, ...expected: (readonly [string, string])[]): Look =>
  (t, outcome) =>
    t.strictSame(arrived(outcome, name), expected);

const bearer = ['Authorization', 'Bearer sk_live_good_7Qx/+9z'] as const;
const key = ['X-Api-Key', 'sk_live_wild_5Tr/+7x'] as const;
const custom = ['X-Custom', 'v sk_live_custom_2Zb'] as const;

/** Fields of the client's that collide with the slot: one is left, and it is ours. */
const collisions: Row[] = [
  ...[
    'Authorization: mine',
    'AUTHORIZATION: mine',
    'authorization: a\r\nAuthorization: b',
    'Authorization:',
    'Authorization: Bearer __hdr__',
    'Authorization: mine\r\nConnection: authorization',
    'Connection: Authorization, close',
    'Connection: AUTHORIZATION\r\nConnection: host',
    'Connection: content-length, transfer-encoding, host, authorization',
  ].map((fields) => servedRow(fields, get(`${fields}\r\n`), only(/^authorization$/i, bearer))),
  ...[
    'x-api-key: mine',
    'X_API_KEY: mine',
    'x_api-key: a\r\nX-Api_Key: b\r\nX-API-KEY: c',
    'X-Api-Key:\r\nx-api-key:',
    'Connection: x-api-key\r\nX-Api-Key: mine',
    'Connection: X_Api_Key\r\nX_Api_Key: mine',
  ].map((fields) =>
    servedRow(
      fields,
      get(`${fields}\r\n`, '/', 'a.wild.test'),
      only(/^x[-_]api[-_]key$/i, key),
      'a.wild.test:443',
    ),
  ),
  ...['X-CUSTOM: mine', 'x_custom: mine', 'X-Custom: {{ S_CUSTOM }}', 'Connection: x-custom'].map((fields) =>
    servedRow(
      fields,
      get(`${fields}\r\n`, '/', 'custom.test'),
      only(/^x[-_]custom$/i, custom),
      'custom.test:443',
    ),
  ),
];

/** The same in a trailer. */
const trailers: Row[] = [
  ['api.good.test', 'Authorization: mine'],
  ['pass.test', 'Authorization: mine'],
  ['evil.test', 'Proxy-Authorization: mine'],
  ['a.wild.test', 'X-API-KEY: mine'],
  ['a.wild.test', 'x_api_key: mine'],
  ['custom.test', 'X-Custom: mine'],
  ['custom.test', 'x_custom: mine'],
].map(([host, line]) => ({
  title: `a trailer ${line} to ${host}`,
  attack: {
    connect: `${host}:443`,
    raw: `POST / HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n${line}\r\n\r\n`,
  },
  answers: [200],
  reached: 1,
  look: (t, { reached }) => t.strictSame(reached[0].trailers, []),
}));

/** What may never go on, to any host: of the connection, or of the broker. */
const stripped = [
  'Proxy-Authorization: Basic eDp5',
  'PROXY-AUTHORIZATION: x',
  'Proxy_Authorization: Basic eDp5',
  'Proxy-Authenticate: x',
  'Proxy-Connection: keep-alive',
  'X-Vault: v2',
  'X_Vault: v2',
  'x-VAULT: v2\r\nX-Vault: v1',
  'Keep-Alive: timeout=5',
  'TE: trailers, chunked',
  'Trailer: X-Sum',
  'Upgrade: websocket',
  'Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk',
  'Connection: Upgrade\r\nUpgrade: websocket, h2c',
  'Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket',
  'Connection: Upgrade\r\nUpgrade: WebSocket2',
  'Connection: X-Secret\r\nX-Secret: 1',
  'Connection: close, x-secret\r\nX-SECRET: 1',
  'Connection: keep-alive\r\nConnection: x-secret\r\nX-Secret: 1\r\nx-secret: 2',
  'Transfer_Encoding: chunked',
  'Content_Length: 5',
].flatMap((fields) =>
  ['api.good.test', 'pass.test', 'evil.test'].map((host) =>
    servedRow(
      `${fields.split('\r\n').join(' | ')} to ${host}`,
      get(`${fields}\r\n`, '/', host),
      (t, outcome) => {
        const left = arrived(outcome, /^(?!(host|authorization)$)/i);
        t.strictSame(left, []);
      },
      `${host}:443`,
    ),
  ),
);

const passing: Row[] = [
  ...[
    'Cookie: a=b; c="d"',
    'X-Forwarded-For: 127.0.0.1',
    'Via: 1.1 loop, 1.1 broker',
    'Max-Forwards: 0',
    'If-Match: "x"',
    'Range: bytes=0-',
    'Accept-Encoding: gzip',
    'X-Broker-Error: forbidden',
  ].map((field) => {
    const [name, value] = field.split(': ');
    return servedRow(field, get(`${field}\r\n`), (t, { reached }) => t.equal(reached[0].field(name), value));
  }),
  servedRow(
    'passthrough: Authorization twice, as it came',
    get('authorization: a\r\nAuthorization: b\r\n', '/', 'pass.test'),
    only(/^authorization$/i, ['authorization', 'a'], ['Authorization', 'b']),
    'pass.test:443',
  ),
  servedRow(
    'passthrough: Connection nominates Authorization',
    get('Authorization: a\r\nConnection: authorization\r\n', '/', 'pass.test'),
    only(/^authorization$/i),
    'pass.test:443',
  ),
  ...['a.b.wild.test', 'evilwild.test', 'evil.test'].map((host) =>
    servedRow(
      `${host} is no *.wild.test`,
      get('', '/', host),
      only(/^(authorization|x-api-key|x-custom)$/i),
      `${host}:443`,
    ),
  ),
];

const refused: Row[] = [
  ...['api.good.test', 'a.wild.test', 'custom.test', 'basic.test', 'sub.test'].map(
    (host): Row => ({
      title: `TRACE to ${host}`,
      attack: {
        connect: `${host}:443`,
        raw: `TRACE / HTTP/1.1\r\nHost: ${host}\r\nMax-Forwards: 0\r\n\r\n`,
      },
      answers: [405],
      code: 'method_not_allowed',
    }),
  ),
  {
    title: 'a disabled service, whatever it is asked',
    attack: { connect: 'off.test:443', raw: get('', '/', 'off.test').repeat(3), answers: 3 },
    answers: [403, 403, 403],
    code: 'service_disabled',
  },
  {
    title: 'a host that the other vault denies',
    attack: { vault: 'v2', connect: 'evil.test:443', raw: get('', '/', 'evil.test') },
    answers: [403],
    code: 'forbidden',
    look: (t, { answers }) => t.notMatch(answers[0].body, /good\.test|S_GOOD/),
  },
  refusedRow('a vault named inside the tunnel, twice', get('Host: a\r\nX-Vault: v2\r\n')),
];

const sub = (fields: string, path: string, look?: Look): Row =>
  servedRow(
    `${path} ${fields.trim()}`,
    get(fields, path, 'sub.test'),
    (t, outcome) => look?.(t, outcome),
    'sub.test:443',
  );
const line =
  (expected: string) =>
  (t: Test, { reached }: Outcome) =>
    t.equal(reached[0].line, `GET ${expected} HTTP/1.1`);
const inPath = 'AC_live%2Facct%3F9Lp';
const inQuery = 'AC_live%2Facct%3F9Lp';
const substitutions: Row[] = [
  sub('', '/__acct__/x?y=__acct__', line(`/${inPath}/x?y=${inQuery}`)),
  sub('', '/__acct____acct__', line(`/${inPath}${inPath}`)),
  sub('', '/_%5Facct__', line('/_%5Facct__')),
  sub('', '/__acct%5f_', line('/__acct%5f_')),
  sub('', '/__ac/ct__', line('/__ac/ct__')),
  sub('', '/__Acct__?__ACCT__', line('/__Acct__?__ACCT__')),
  sub('', '/__hdr__?a=__hdr__', line('/__hdr__?a=__hdr__')),
  sub('', '/___acct___', line(`/_${inPath}_`)),
  sub('', '/x?__acct__=1&b=%26__acct__', line(`/x?${inQuery}=1&b=%26${inQuery}`)),
  sub('', '/x??__acct__', line(`/x??${inQuery}`)),
  sub('X-A: a__hdr__b\r\nCookie: c=__hdr__\r\n', '/', (t, { reached }) =>
    t.same([reached[0].field('x-a'), reached[0].field('cookie')], ['ahdr_live_8Ngb', 'c=hdr_live_8Ng']),
  ),
  sub('X-A: __acct__\r\n__hdr__: 1\r\n', '/', (t, outcome) =>
    t.strictSame(arrived(outcome, /^(x-a|__hdr__)$/i), [
      ['X-A', '__acct__'],
      ['__hdr__', '1'],
    ]),
  ),
  sub('Connection: __hdr__\r\nProxy-Authorization: __hdr__\r\nX-Vault: __hdr__\r\n', '/', (t, { reached }) =>
    t.notMatch(JSON.stringify(reached[0].fields), /hdr/),
  ),
  sub(
    'TE: __hdr__\r\nKeep-Alive: __hdr__\r\nTrailer: __hdr__\r\nUpgrade: __hdr__\r\n',
    '/',
    (t, { reached }) => t.notMatch(JSON.stringify(reached[0].fields), /hdr/),
  ),
  {
    title: 'a placeholder in a body and in its trailers stays as it is',
    attack: {
      connect: 'sub.test:443',
      raw:
        'POST / HTTP/1.1\r\nHost: sub.test\r\nTransfer-Encoding: chunked\r\n\r\n' +
        '10\r\n__acct____hdr__!\r\n0\r\nX-T: __hdr__\r\n\r\n',
    },
    answers: [200],
    reached: 1,
    look: (t, { reached }) =>
      t.strictSame([reached[0].body, reached[0].trailers], ['__acct____hdr__!', ['X-T: __hdr__']]),
  },
  servedRow('a placeholder of another service', get('X-A: __hdr__\r\n', '/__acct__'), (t, { reached }) =>
    t.strictSame([reached[0].line, reached[0].field('x-a')], ['GET /__acct__ HTTP/1.1', '__hdr__']),
  ),
  {
    title: 'a placeholder in place of a length',
    attack: { connect: 'sub.test:443', raw: get('Content-Length: __hdr__\r\n', '/', 'sub.test') },
    answers: [400],
    closes: true,
  },
  {
    title: 'a placeholder in the method',
    attack: { connect: 'sub.test:443', raw: get('', '/', 'sub.test').replace('GET', '__hdr__') },
    answers: [200],
    reached: 1,
    look: (t, { reached }) => t.match(reached[0].line, /^__hdr__ \//),
  },
];

runRows(t, arena, [...stripped, ...collisions, ...trailers, ...passing, ...refused, ...substitutions]);

t.test('values that a path cannot hold, whatever stands around them', async (t) => {
  for (const [value, path] of [
    ['.', '/a/__acct__/b'],
    ['.', '/a/.__acct__'],
    ['..', '/a/__acct__;x=1'],
    ['..', '/a/__acct__%2f'],
    ['..', '/a/%2f__acct__'],
    ['%2e%2e', '/a/__acct__'],
    ['%252e', '/a/%2e__acct__'],
    ['..;', '/a/__acct__/'],
    ['..\\x', '/a/__acct__'],
    ['x/../../y', '/__acct__'],
    ['x/..;y', '/__acct__'],
    ['..\0', '/__acct__'],
  ]) {
    await changed(arena, { credentials: { S_ACCT: value } }, { S_ACCT: 'AC_live/acct?9Lp' }, async () => {
      const outcome = await arena.attack({ connect: 'sub.test:443', raw: get('', path, 'sub.test') });
      t.strictSame([codes(outcome), outcome.reached], [['substitution_error'], []], `${value} in ${path}`);
    });
    await arena.holds(1);
  }
});

t.test('values that a field cannot hold: nothing is sent, whatever the slot', async (t) => {
  const hosts = {
    'api.good.test': 'S_GOOD',
    'a.wild.test': 'S_WILD',
    'custom.test': 'S_CUSTOM',
    'sub.test': 'S_HDR',
  };
  const before = {
    S_GOOD: 'sk_live_good_7Qx/+9z',
    S_WILD: 'sk_live_wild_5Tr/+7x',
    S_CUSTOM: 'sk_live_custom_2Zb',
    S_HDR: 'hdr_live_8Ng',
  };
  for (const [host, credential] of Object.entries(hosts)) {
    for (const value of [
      'a\nb',
      'a\rb',
      'a\r\n\r\nGET /smuggled HTTP/1.1',
      'a\0',
      '\x1b[2J',
      '\u4f60',
      '\x7f',
      null,
    ]) {
      await changed(arena, { credentials: { [credential]: value } }, before, async () => {
        const outcome = await arena.attack({
          connect: `${host}:443`,
          raw: get('X-A: __hdr__\r\n', '/', host),
        });
        t.strictSame([statuses(outcome), outcome.reached], [[502], []], `${host}: ${JSON.stringify(value)}`);
        t.notMatch(outcome.answers[0].body, /smuggled|\[2J/);
      });
      await arena.holds(1);
    }
  }
});

t.test('the token of one vault in another, of nobody, expired, revoked', async (t) => {
  const { lane } = arena;
  const expired = lane.addSession({ vaults: ['v1'], expiresAt: Date.now() - 1 });
  const gone = lane.addSession({ vaults: ['v1'] });
  lane.revoke(gone);
  const agent = lane.addSession({ vaults: ['v1'], kind: 'agent' });
  const tries: [token: string, vault: string, status: number, records: number][] = [
    [lane.tokens.v2, 'v1', 403, 1],
    [lane.tokens.v1, 'V1', 403, 1],
    [lane.tokens.v1, 'v1 ', 403, 1],
    [lane.tokens.v1, 'v1,v2', 403, 1],
    [lane.tokens.v1, '../v2', 403, 1],
    [lane.tokens.v1, '__proto__', 403, 1],
    [agent, 'v2', 403, 1],
    [agent, '', 407, 1],
    [expired, 'v1', 407, 1],
    [gone, 'v1', 407, 1],
    [`${lane.tokens.v1}0`, 'v1', 407, 1],
    [lane.tokens.v1.toUpperCase(), 'v1', 407, 1],
    [lane.tokens.v1.slice(0, -1), 'v1', 407, 1],
    ['brk_opr_', 'v1', 407, 1],
    ['', 'v1', 407, 1],
  ];
  for (const [token, vault, status, records] of tries) {
    const outcome = await arena.attack({ connect: 'api.good.test:443', token, vault });
    t.equal(outcome.connect, status, `${token.slice(0, 8)}… in ${vault}`);
    await arena.holds(records);
  }
});

t.test('credentials of a proxy that are none', async (t) => {
  const pair = Buffer.from(`${arena.lane.tokens.v1}:v1`).toString('base64');
  for (const value of [
    'Basic',
    'Basic !!!',
    `Basic ${pair}!`,
    `Basic ${pair}, Basic ${pair}`,
    `Basic\t${pair}`,
    `Digest ${pair}`,
    `Bearer ${pair}`,
    `Negotiate ${pair}`,
    pair,
    `Basic ${'A'.repeat(30_000)}`,
  ]) {
    // In absolute form the runner puts the good ones in behind the request line: two of them are 400.
    const outcome = await arena.attack({
      raw: get(`Proxy-Authorization: ${value}\r\n`, `http://api.good.test:${arena.plainPort}/`),
      closes: true,
    });
    t.strictSame([statuses(outcome), outcome.reached], [[400], []], value.slice(0, 20));
    await arena.holds(0);
  }
});

t.test('a session that ends in the middle: of an upload, of a download, of a WebSocket', async (t) => {
  const { lane } = arena;
  const scripts: [name: string, sent: string, answer: string][] = [
    ['upload', `POST / HTTP/1.1\r\nHost: api.good.test\r\nContent-Length: 100\r\n\r\npart`, ''],
    ['download', get(), 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart'],
    [
      'websocket',
      get(`Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: ${webSocketKey}\r\n`),
      `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${webSocketAccept}\r\n\r\npart`,
    ],
  ];
  for (const [name, sent, answer] of scripts) {
    for (const end of ['revoked', 'expired']) {
      const up = await arena.upstream(async (wire) => {
        await wire.take('\r\n\r\n');
        wire.send(answer);
      });
      // Long enough to get there on a busy machine, short enough to wait for.
      const token = lane.addSession({
        vaults: ['v1'],
        ...(end === 'expired' && { expiresAt: Date.now() + 1500 }),
      });
      const client = await tunnelWire(lane, 'v1', `api.good.test:${up.port}`, { token });
      client.send(sent);
      await (answer === '' ? eventually(() => up.wires.length > 0, 'the upstream') : client.take('part'));
      if (end === 'revoked') lane.revoke(token);
      await eventually(() => client.ended && up.wires[0].ended, `${name}, ${end}: both ends`, 5000);
      t.pass(`${name}, ${end}`);
      await arena.holds(1);
    }
  }
});

t.test('the upstream reflects: its own agent sees it, another vault or service never', async (t) => {
  const outcome = await arena.attack({ connect: 'echo.good.test:443', raw: get('', '/', 'echo.good.test') });
  t.match(bodies(outcome)[0], 'Bearer sk_live_echo_3Wm/+8y');
  await arena.holds(1);
  const redirect = await against(arena, async (wire) => {
    await nextRequest(wire);
    wire.send('HTTP/1.1 307 Go\r\nLocation: https://evil.test/x\r\nContent-Length: 0\r\n\r\n');
  });
  t.strictSame(statuses(redirect), [307], 'a redirect is the client’s to follow');
  await arena.holds(1);
  const up = await arena.upstream(async (wire) => {
    for (;;) {
      await nextRequest(wire);
      wire.send(ok());
    }
  });
  for (const vault of ['v1', 'v2', 'v1']) {
    const client = await tunnelWire(arena.lane, vault, `api.good.test:${up.port}`);
    client.send(get());
    t.equal((await nextAnswer(client)).status, 200);
  }
  t.equal(up.connections, 2, 'each vault has a connection of its own');
  await arena.holds(3);
});
