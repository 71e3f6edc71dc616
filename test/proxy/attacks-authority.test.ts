/** Whom a request is for: the authority of the CONNECT or of the absolute form, and nothing else. */
import t, { type Test } from 'tap';
import type { TestLaneOptions } from '../support/lane.ts';
import { codes, get, type Row, refusedRow, runRows, servedRow, statuses } from './attack-kit.ts';
import { type Outcome, openAddress, openArena } from './attack-runner.ts';

const own = 'api.good.test';
const names: TestLaneOptions['names'] = {
  'lan.test': ['10.1.2.3'],
  'unspecified.test': ['0.0.0.0'],
  'mapped.test': ['::ffff:127.0.0.1'],
  'carrying.test': ['64:ff9b::7f00:1'],
  'cloud.test': ['169.254.169.254'],
  'azure.test': ['168.63.129.16'],
  'v6.test': ['fd00::1'],
  'zone.test': ['fe80::1%lo'],
  'second.test': [openAddress, '10.0.0.1'],
  'last.test': [openAddress, openAddress, '::1'],
  'none.test': [],
};
const arena = await openArena(t, { names });

const hosts = [
  'evil.test',
  'api.good.test.evil.test',
  'evilapi.good.test',
  'good.test',
  'API.GOOD.TEST.EVIL.TEST',
  'api-good.test',
  'api.good.test:444',
  'api.good.test:80',
  '127.0.0.1',
  '[::1]',
  'xn--api-xyz.good.test',
].map((host) => refusedRow(`Host: ${host}`, get('', '/', host), 421, 'misdirected_request'));
hosts.push(
  ...[
    ' ',
    'api.good.test:',
    'api.good.test:0',
    'api.good.test:0443',
    'api.good.test:443:443',
    'api.good.test:+443',
    'api.good.test:4 43',
    'api.good.test:443a',
    'api.good.test:65536',
    'api.good.test..',
    '.api.good.test',
    'api..good.test',
    'api.good.test/',
    'api.good.test/evil',
    'api.good.test?x',
    'api.good.test#x',
    'api.good.test@evil.test',
    'user@api.good.test',
    'user:password@api.good.test',
    'http://api.good.test',
    '//api.good.test',
    'api.good.test evil.test',
    'api.good.test\tevil.test',
    'api.good.test;evil.test',
    'api.good.test\\evil.test',
    'api%2egood.test',
    'api.good.test%00',
    'api.good.test%20',
    'api.good.test\xa0',
    'api\xb7good.test',
    'api\xe3\x80\x82good\xe3\x80\x82test',
    '"api.good.test"',
    '(api.good.test)',
    '-api.good.test',
    'api-.good.test',
    '*',
    '*.good.test',
    '0x7f000001',
    '127.1',
    '2130706433',
    '0177.0.0.1',
    '[::1',
    '::1',
    '[fe80::1%25lo]',
    '[::1]x',
    '[api.good.test]',
    `${'a'.repeat(64)}.test`,
    `${'a.'.repeat(130)}test`,
  ].map((host) => refusedRow(`Host: ${JSON.stringify(host).slice(0, 60)}`, get('', '/', host))),
  refusedRow('two Hosts alike', get('Host: api.good.test\r\n')),
  refusedRow('two Hosts, another case', get('hOST: evil.test\r\n')),
  refusedRow('two Hosts, the second empty', get('Host:\r\n')),
  refusedRow('Host in front of the colon', `GET / HTTP/1.1\r\nHost : ${own}\r\n\r\n`),
  refusedRow('Host folded', `GET / HTTP/1.1\r\nHost:\r\n ${own}\r\n\r\n`),
  refusedRow('no Host in HTTP/1.0', 'GET / HTTP/1.0\r\n\r\n'),
);
const untouched = (t: Test, { reached }: Outcome): void => {
  t.equal(reached[0].field('host'), `${own}:${arena.tlsPort}`);
  t.equal(reached[0].field('authorization'), 'Bearer sk_live_good_7Qx/+9z');
};
hosts.push(
  ...['API.Good.TEST', 'api.good.test.'].map((host) =>
    servedRow(`Host: ${host} is the same`, get('', '/', host), untouched),
  ),
  servedRow(
    'look-alikes of Host that others route by go on, and change nothing',
    get('X-Forwarded-Host: evil.test\r\nForwarded: host=evil.test\r\nX-Original-URL: /x\r\n'),
    untouched,
  ),
  servedRow('Host in an underscore disguise stops here', get('_Host: a\r\nHos_t: b\r\n'), untouched),
);

const targets = [
  'http://api.good.test/',
  'https://evil.test/',
  'HTTPS://EVIL.TEST/',
  'https://api.good.test:444/',
  'https://api.good.test.evil.test/',
].map((target) => refusedRow(`target ${target}`, get('', target), 421, 'misdirected_request'));
targets.push(
  ...[
    '//api.good.test/',
    '///',
    'https:/api.good.test/',
    'https:///x',
    'https:api.good.test',
    'https://user@api.good.test/',
    'https://user:x@api.good.test/',
    'https://api.good.test\\@evil.test/',
    'https://api.good.test:x/',
    'https://api.good.test:0/',
    'https://api%2egood.test/',
    'https://[::1/',
    'ftp://api.good.test/',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'api.good.test:443',
    'api.good.test/x',
    '*',
    '**',
    '/\\evil.test',
    '\\\\evil.test\\x',
    '/#/x',
    '/x#y',
    '/\xc0\xaf',
  ].map((target) => refusedRow(`target ${JSON.stringify(target)}`, get('', target))),
  ...['evil.test:443', 'api.good.test:443', '/', '*'].map((target) =>
    refusedRow(
      `CONNECT ${target} inside a tunnel`,
      `CONNECT ${target} HTTP/1.1\r\nHost: ${own}\r\n\r\n`,
      405,
      'method_not_allowed',
    ),
  ),
  ...['/%2e%2e/x', '/a/../b', '/a//b', '/a;b=c/..;/d', '/%00', '/a%2fb', '/?a?b', '/;', '/@evil.test'].map(
    (path) =>
      servedRow(`target ${path}: byte for byte`, get('', path), (t, { reached }) =>
        t.equal(reached[0].line, `GET ${path} HTTP/1.1`),
      ),
  ),
);

/** CONNECT authorities that are malformed: no tunnel. */
const authorities = [
  'api.good.test:',
  'api.good.test:0',
  'api.good.test:00443',
  'api.good.test:+443',
  'api.good.test:-1',
  'api.good.test:443x',
  'api.good.test:443:443',
  'api.good.test:0x1bb',
  'api.good.test:4294967739',
  'api.good.test:https',
  ':443',
  '443',
  '/',
  '*',
  '*:443',
  '*.good.test:443',
  'http://api.good.test:443',
  'https://api.good.test:443/',
  'api.good.test:443/',
  'api.good.test/x:443',
  'api.good.test?x:443',
  'api.good.test#:443',
  'user:password@api.good.test:443',
  '@api.good.test:443',
  'api.good.test\\.evil.test:443',
  'api%2egood.test:443',
  'api.good.test%00.evil.test:443',
  'api.good.test,evil.test:443',
  'api..good.test:443',
  '-api.good.test:443',
  `${'a'.repeat(64)}.test:443`,
  `${'a.'.repeat(127)}test:443`,
  'api.good.test\x7f:443',
  'api.good.test\x00:443',
  'm\xfcnchen.test:443',
  '[::1:443',
  '::1]:443',
  '[]:443',
  '[::1]443',
  '[::1]]:443',
  '[:::]:443',
  '[1::2::3]:443',
  '[::12345]:443',
  '[1:2:3:4:5:6:7]:443',
  '[fe80::1%lo]:443',
  '[fe80::1%25lo]:443',
  '[v1.x]:443',
  '[127.0.0.1]:443',
  '[::127.0.0.256]:443',
  '127.1:443',
  '127.0.0.1.1:443',
  '0x7f.0.0.1:443',
  '0x7f000001:443',
  '017700000001:443',
  '127.0.0.01:443',
  '256.0.0.1:443',
  '1.2.3.4.0x5:443',
  '4294967297:443',
  'evil.0x7f000001:443',
];
for (const connect of authorities) {
  t.test(`CONNECT ${JSON.stringify(connect).slice(0, 60)}`, async (t) => {
    const outcome = await arena.attack({ connect, extra: '\r\n' });
    t.equal(outcome.connect, 400);
    await t.resolves(arena.holds(0));
  });
}
for (const extra of [
  'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'Content-Length: 0\r\n\r\n',
  'Host: y\r\n\r\n',
]) {
  t.test(`CONNECT with ${JSON.stringify(extra)}`, async (t) => {
    t.equal((await arena.attack({ connect: 'api.good.test:443', extra })).connect, 400);
    await t.resolves(arena.holds(0));
  });
}

t.test('the server name in the tunnel is another than the CONNECT authority', async (t) => {
  for (const [connect, sni] of [
    ['api.good.test:443', 'evil.test'],
    ['api.good.test:443', 'good.test'],
    ['api.good.test:443', 'xapi.good.test'],
    ['evil.test:443', 'echo.good.test'],
    ['127.0.0.2:443', 'api.good.test'],
    ['a.wild.test:443', 'b.wild.test'],
  ]) {
    const outcome = await arena.attack({ connect, sni, raw: get() });
    t.equal(outcome.tlsError, 'ERR_SSL_TLSV1_UNRECOGNIZED_NAME', `${connect} as ${sni}`);
    t.strictSame(outcome.reached, []);
    await arena.holds(0);
  }
});

t.test('the server name in the tunnel is the CONNECT authority, however it is spelled', async (t) => {
  for (const [connect, sni] of [
    ['api.good.test:443', 'API.Good.TEST'],
    ['API.good.test:443', 'api.good.test'],
    ['API.good.test.:443', null],
  ] as const) {
    const outcome = await arena.attack({ connect, sni, raw: get() });
    t.strictSame(statuses(outcome), [200], `${connect} as ${sni}`);
    t.equal(outcome.reached[0]?.host, own, 'one canonical name goes upstream');
    await arena.holds(1);
  }
});

/** Rows on the proxy port itself; what names no host is nobody's record. */
const absolute = (title: string, raw: string, status: number, records = 0): Row => ({
  title,
  attack: { raw },
  answers: [status],
  closes: status !== 200,
  reached: status === 200 ? 1 : 0,
  records,
});
const plain = `http://api.good.test:${arena.plainPort}`;
const outside = [
  ...[
    'http:///x',
    'http://',
    'http:/api.good.test/',
    'http:api.good.test',
    'http://@api.good.test/',
    'http://user:x@api.good.test/',
    'http://evil.test%2f@api.good.test/',
    'http://api.good.test:port/',
    'http://api.good.test:65536/',
    'http://api.good.test:/',
    'http://127.1/',
    'http://0/',
    'http://0x7f.1/',
    'http://[::1/',
    'http://[::ffff:127.0.0.1%25lo]/',
    'http://api.good.test\\evil.test/',
    'http://api.good.test/\\x',
    'http://api.good.test/#x',
    'http://*/',
    'http://a..b/',
    'ftp://api.good.test/',
    'gopher://127.0.0.1:6379/_x',
    'ws://api.good.test/',
    'file:///etc/passwd',
    '/v1/credentials',
    '*',
    '//api.good.test/',
  ].map((target) => absolute(`target ${target} on the proxy port`, get('', target), 400)),
  absolute('no Host on the proxy port', `GET ${plain}/ HTTP/1.1\r\n\r\n`, 400),
  absolute('two Hosts on the proxy port', get('Host: b\r\n', `${plain}/`), 400),
  absolute('a malformed Host on the proxy port', get('', `${plain}/`, 'a b'), 400),
  absolute('no Host in HTTP/1.0 on the proxy port', `GET ${plain}/ HTTP/1.0\r\n\r\n`, 200, 1),
  absolute('a scheme in capitals', get('', plain.replace('http', 'HTTP')), 200, 1),
  absolute('a query right behind the host', get('', `${plain}?x=/../`), 200, 1),
];

t.test('addresses, and names that lead to them: refused before any connection', async (t) => {
  const guarded = [
    ...['127.0.0.1', '127.255.255.254', '0.0.0.0', '0.1.2.3', '10.0.0.1', '172.16.0.1', '192.168.0.1'],
    ...[
      '169.254.0.1',
      '169.254.170.2',
      '168.63.129.16',
      '192.0.0.192',
      '198.51.100.1',
      '203.0.113.1',
      '192.0.2.1',
    ],
    ...['224.0.0.1', '240.0.0.1', '100.127.255.255', '192.88.99.1', '[::]', '[::1]', '[0:0:0:0:0:0:0:1]'],
    ...['[::127.0.0.1]', '[::ffff:127.0.0.1]', '[::ffff:0:127.0.0.1]', '[::FFFF:A9FE:A9FE]', '[::ffff:0:0]'],
    ...[
      '[64:ff9b::127.0.0.1]',
      '[64:ff9b::a9fe:a9fe]',
      '[64:ff9b:1::1]',
      '[2002:a9fe:a9fe::]',
      '[2002:c0a8:1::1]',
    ],
    ...[
      '[2001::1]',
      '[2001:db8::1]',
      '[fc00::1]',
      '[fdff::1]',
      '[fe80::1]',
      '[febf::1]',
      '[ff02::1]',
      '[100::1]',
    ],
    ...['[2a00::5efe:7f00:1]', '[fd00:ec2::23]', '[fd20:ce::254]', '[4000::1]', 'localhost', 'LocalHost'],
    ...['localhost.', ...Object.keys(names).filter((name) => name !== 'none.test')],
  ];
  for (const host of guarded) {
    const attack = { connect: `${host}:443`, cleartext: true, raw: get('', '/', host) };
    const outcome = await arena.attack(attack);
    t.strictSame([statuses(outcome), codes(outcome)], [[403], ['network_blocked']], host);
    if (host in names) t.notMatch(outcome.answers[0].body, /loopback|private|metadata|\d\.\d/i, 'no finding');
    await arena.holds(1);
  }
});

runRows(t, arena, [...hosts, ...targets, ...outside]);
