/** Messages that two parsers could read in two ways: refused, or one and the same on both sides. */
import t from 'tap';
import { get, type Row, refusedRow, runRows, servedRow } from './attack-kit.ts';
import { openArena } from './attack-runner.ts';

const arena = await openArena(t);
const shown = (text: string) => {
  const line = JSON.stringify(text);
  return line.length > 70 ? `${line.slice(0, 60)}… (${text.length})` : line;
};
const post = (fields: string, body = 'abc') =>
  `POST / HTTP/1.1\r\nHost: api.good.test\r\n${fields}\r\n\r\n${body}`;
const chunks = '3\r\nabc\r\n0\r\n\r\n';
const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: api.good.test\r\n\r\n';

const codings = [
  'Transfer-Encoding: chunked\r\nContent-Length: 13',
  'Transfer-Encoding: chunked, chunked',
  'Transfer-Encoding: chunked, identity',
  'Transfer-Encoding: identity',
  'Transfer-Encoding: identity, chunked',
  'Transfer-Encoding: chunked;q=1',
  'Transfer-Encoding: chunked,',
  'Transfer-Encoding: ,chunked',
  'Transfer-Encoding: chunk',
  "Transfer-Encoding: 'chunked'",
  'Transfer-Encoding: \x0bchunked',
  'Transfer-Encoding: \x0cchunked',
  'Transfer-Encoding: chunked\x00',
  'Transfer-Encoding: chunked\xa0',
  'Transfer-Encoding: chun\xe7ked',
  'Transfer-Encoding: chunked\r\n\t',
  'Transfer-Encoding: \r\nTransfer-Encoding: chunked',
  'Transfer-Encoding: chunked\r\nTransfer-Encoding: x',
  'transfer-encoding: CHUNKED\r\ncontent-length: 0',
  'Content-Length: 13\r\nTransfer-Encoding:chunked',
  'Transfer-Encoding\t: chunked',
  'Transfer-Encoding\x0b: chunked',
  'Transfer-Encoding\x00: chunked',
  'Transfer-Enc\xf6ding: chunked',
  ' Transfer-Encoding: chunked',
  '\tTransfer-Encoding: chunked',
  'X: 1\r\n Transfer-Encoding: chunked',
  'Transfer-Encoding:\nchunked',
  'X: 1\nTransfer-Encoding: chunked',
  'X: 1\rTransfer-Encoding: chunked',
].map((fields) => refusedRow(`a coding: ${shown(fields)}`, post(fields, chunks)));
codings.push(
  refusedRow(
    'a coding in HTTP/1.0',
    post('Transfer-Encoding: chunked', chunks).replace('HTTP/1.1', 'HTTP/1.0'),
  ),
);

const lengths = [
  '3, 3',
  '3,3',
  '3, 4',
  '3\r\nContent-Length: 3',
  '3\r\ncontent-length: 30',
  '3\r\nContent-Length:',
  '+3',
  '-0',
  '00',
  '03',
  '3;',
  '3 3',
  '3.0',
  '3e0',
  '0b11',
  '1_0',
  '"3"',
  '',
  '\t',
  'abc',
  '3\x00',
  '3\x0b',
  '3\xa0',
  '\xef\xbc\x93',
  '3\r\n 4',
  '9007199254740993',
  '9223372036854775808',
  '18446744073709551619',
  '9'.repeat(400),
].map((value) => refusedRow(`a length: ${shown(value)}`, post(`Content-Length: ${value}`)));

const fields = [
  ': b',
  'X(Y): b',
  '"X": b',
  'X\tY: b',
  'X\t: b',
  'X=Y: b',
  'X/Y: b',
  '[X]: b',
  '@: b',
  'X\rY: b',
  'X\x7f: b',
  'X\x80: b',
  '\xa0X: b',
  'X',
  ' X: b',
  'X: a\x00b',
  'X: a\x08b',
  'X: a\x0bb',
  'X: a\x0cb',
  'X: a\x1bb',
  'X: a\x7fb',
  'X: a\rb',
  'X: a\nb',
  'X: a\r\r\nY: b',
  'X: a\r \nY: b',
  'X: a\n\rY: b',
  'X: a\r\n\u0020\r\nY: b',
  'X: \r\n\t\r\n\tb',
].map((line) => refusedRow(`a field: ${shown(line)}`, get(`${line}\r\n`)));
fields.push(
  refusedRow('white space before the first field', 'GET / HTTP/1.1\r\n Host: api.good.test\r\n\r\n'),
  refusedRow('a head that ends in CR LF LF', 'GET / HTTP/1.1\r\nHost: api.good.test\r\n\n'),
  refusedRow('a head that ends in LF CR LF', 'GET / HTTP/1.1\r\nHost: api.good.test\n\r\n'),
  refusedRow('bare CR everywhere', 'GET / HTTP/1.1\rHost: api.good.test\r\r'),
  refusedRow('257 fields', get('A: b\r\n'.repeat(256)), 431, 'headers_too_large'),
  refusedRow('Expect: something else', get('Expect: 200-ok\r\n'), 417, 'expectation_failed'),
  refusedRow('Expect: twice', get('Expect: 100-continue\r\n'.repeat(2)), 417, 'expectation_failed'),
  refusedRow('Expect: a list', get('Expect: 100-continue, x\r\n'), 417, 'expectation_failed'),
  refusedRow('two Proxy-Authorization', get('Proxy-Authorization: Basic eDp5\r\n'.repeat(2))),
);

const host = '\r\nHost: api.good.test\r\n\r\n';
const lines = [
  `GET /${host}`,
  `GET${host}`,
  `GET / http/1.1${host}`,
  `GET / HTTP/1,1${host}`,
  `GET / HTTP /1.1${host}`,
  `GET / XTTP/1.1${host}`,
  `GET / HTTP/+1.1${host}`,
  `GET /\tHTTP/1.1${host}`,
  `GET\t/ HTTP/1.1${host}`,
  `\tGET / HTTP/1.1${host}`,
  ` GET / HTTP/1.1${host}`,
  `GET / HTTP/1.1\t${host}`,
  `GET / HTTP/1.1\x0b${host}`,
  `GET /a b HTTP/1.1${host}`,
  `GET /\x00 HTTP/1.1${host}`,
  `GET /\x7f HTTP/1.1${host}`,
  `GET /\xe4 HTTP/1.1${host}`,
  `GET /#f HTTP/1.1${host}`,
  `GET  HTTP/1.1${host}`,
  `GET ?x HTTP/1.1${host}`,
  `GET x HTTP/1.1${host}`,
  `GET //evil.test/ HTTP/1.1${host}`,
  `G(T / HTTP/1.1${host}`,
  `G\xcbT / HTTP/1.1${host}`,
  `${'M'.repeat(33)} / HTTP/1.1${host}`,
  `\r\n\r\nGET / HTTP/1.1${host}`,
  `\rGET / HTTP/1.1${host}`,
  `\xef\xbb\xbfGET / HTTP/1.1${host}`,
  // No blank line will ever follow these: they are not waited for.
  'GET /\r\n',
  'GET / HTTP/1.1\r\nHost: api.good.test\r\nX: \x00',
  'GET / HTTP/1.1\r\nHost: api.good.test\r\nX: a\rb',
  'SSH-2.0-OpenSSH_9.6\r\n',
  'EHLO evil.test\r\n',
  '\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00',
  '\x80\x2e\x01\x03\x01',
].map((raw) => refusedRow(`a request line: ${shown(raw.replace(host, ''))}`, raw));
for (const version of ['0.9', '1', '1.10', '01.1', '2.0', '3.0', '9.9'])
  lines.push(refusedRow(`HTTP/${version}`, `GET / HTTP/${version}${host}`, 505, 'http_version'));

const sizes = [
  '+3\r\nabc\r\n0\r\n\r\n',
  '0x3\r\nabc\r\n0\r\n\r\n',
  '3 \r\nabc\r\n0\r\n\r\n',
  '3\t\r\nabc\r\n0\r\n\r\n',
  '3 ;a\r\nabc\r\n0\r\n\r\n',
  '3\x00\r\nabc\r\n0\r\n\r\n',
  '3_0\r\nabc\r\n0\r\n\r\n',
  '3.\r\nabc\r\n0\r\n\r\n',
  '3g\r\nabc\r\n0\r\n\r\n',
  'xyz\r\nabc\r\n0\r\n\r\n',
  '\r\n3\r\nabc\r\n0\r\n\r\n',
  ';a\r\nabc\r\n0\r\n\r\n',
  '3\nabc\n0\n\n',
  '3\rabc\r\n0\r\n\r\n',
  '3\r\r\nabc\r\n0\r\n\r\n',
  '3\r\nab\r\n0\r\n\r\n',
  '3\r\nabc\n0\r\n\r\n',
  '3\r\nabc\r0\r\n\r\n',
  '3\r\nabc0\r\n\r\n',
  '3\r\nabc\r\n\r\n0\r\n\r\n',
  '7fffffffffffffff\r\nabc\r\n0\r\n\r\n',
  'ffffffffffffffff\r\nabc\r\n0\r\n\r\n',
  'fffffffffffffffff\r\nabc\r\n0\r\n\r\n',
  '100000003\r\n'.padStart(30, '0'),
  '3;a="\n"\r\nabc\r\n0\r\n\r\n',
  '3;a="\r\nabc\r\n0\r\n\r\n',
  '3;a=\x00\r\nabc\r\n0\r\n\r\n',
  '3;a\r\r\nabc\r\n0\r\n\r\n',
  `3;${'a'.repeat(5000)}\r\nabc\r\n0\r\n\r\n`,
  '3\r\nabc\r\n-0\r\n\r\n',
  '3\r\nabc\r\n0\r\n\n',
  '3\r\nabc\r\n0\r\nX: y\n\n',
  '3\r\nabc\r\n0\r\nX: y\r\r',
  '3\r\nabc\r\n0\r\nX\r\n\r\n',
  '3\r\nabc\r\n0\r\nX : y\r\n\r\n',
  '3\r\nabc\r\n0\r\n X: y\r\n\r\n',
  '3\r\nabc\r\n0\r\nX: y\r\n z\r\n\r\n',
  '3\r\nabc\r\n0\r\nX: \x00\r\n\r\n',
  '3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n',
  `3\r\nabc\r\n0\r\n${'X: y\r\n'.repeat(3000)}\r\n`,
  `3\r\nabc\r\n0\r\n${smuggled}`,
].map((body) => refusedRow(`chunks: ${shown(body)}`, post('Transfer-Encoding: chunked', body)));

const trailer = (line: string): Row =>
  servedRow(
    `a trailer that does not go on: ${shown(line)}`,
    post('Transfer-Encoding: chunked', `3\r\nabc\r\n0\r\n${line}\r\nX-Sum: 1\r\n\r\n`),
    (t, { reached }) => t.strictSame(reached[0].trailers, ['X-Sum: 1']),
  );
const alike: Row[] = [
  ...[
    'Authorization: mine',
    'authorization: mine',
    'Host: evil.test',
    'X-Vault: v2',
    'Proxy-Authorization: Basic eDp5',
    'Connection: close',
    'Keep-Alive: 1',
    'Upgrade: h2c',
    'TE: trailers',
    'Trailer: x',
    'Transfer_Encoding: chunked',
    'Content_Length: 5',
    'Expect: 100-continue',
  ].map(trailer),
  ...['Transfer-Encoding: chunked', 'Transfer-Encoding:chunked', 'TRANSFER-ENCODING: \tChunked\t '].map(
    (line) =>
      servedRow(`a coding that is one: ${shown(line)}`, post(line, chunks), (t, { reached }) =>
        t.equal(reached[0].body, 'abc'),
      ),
  ),
  ...['3;a=b;c\r\nabc\r\n0;z\r\n\r\n', '003\r\nabc\r\n000\r\n\r\n', '3;a="\\\\"\r\nabc\r\n0\r\n\r\n'].map(
    (body) =>
      servedRow(
        `chunks read over: ${shown(body)}`,
        post('Transfer-Encoding: chunked', body),
        (t, { reached }) => t.equal(reached[0].body, 'abc'),
      ),
  ),
  servedRow('obs-text and tabs in a value, byte for byte', get('X: a\t\x80\xff b\r\n'), (t, { reached }) =>
    t.equal(reached[0].field('x'), 'a\t\x80\xff b'),
  ),
  servedRow('one empty line before the request', `\r\n${get()}`),
  servedRow('a field without a value', get('X:\r\nY:  \t\r\n'), (t, { reached }) =>
    t.same([reached[0].field('x'), reached[0].field('y')], ['', '']),
  ),
  {
    title: 'a body that is a request, by length and in chunks: the body of one request each',
    attack: {
      connect: 'api.good.test:443',
      raw:
        post(`Content-Length: ${smuggled.length}`, smuggled) +
        post('Transfer-Encoding: chunked', `${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`),
    },
    answers: [200, 200],
    reached: 2,
    look: (t, { reached }) => t.strictSame([reached[0].body, reached[1].body], [smuggled, smuggled]),
  },
  {
    title: 'what follows a refused head is not read',
    attack: { connect: 'api.good.test:443', raw: post('Content-Length: +3', '') + smuggled.repeat(3) },
    answers: [400],
    closes: true,
  },
  {
    title: 'what follows Connection: close is not read',
    attack: { connect: 'api.good.test:443', raw: get('Connection: close\r\n') + smuggled },
    answers: [200],
    closes: true,
    reached: 1,
  },
  {
    title: 'what follows a request of HTTP/1.0 is not read',
    attack: { connect: 'api.good.test:443', raw: get().replace('/1.1', '/1.0') + smuggled },
    answers: [200],
    closes: true,
    reached: 1,
  },
  {
    title: 'a GET with chunks, then another request',
    attack: {
      connect: 'api.good.test:443',
      raw: get('Transfer-Encoding: chunked\r\n').concat(chunks, get('', '/own')),
    },
    answers: [200, 200],
    reached: 2,
    look: (t, { reached }) => t.strictSame([reached[0].body, reached[1].line], ['abc', 'GET /own HTTP/1.1']),
  },
];

/** The same on the proxy port itself, where a head that can't be read is nobody's, and in a tunnel without TLS. */
const target = `http://api.good.test:${arena.plainPort}/`;
const elsewhere = [...codings, ...lengths, ...fields]
  .filter((_, i) => i % 4 === 0)
  .flatMap(({ title, attack, ...rest }, i): Row[] => {
    const raw = attack.raw as string;
    const outside = { ...rest, title: `on the proxy port: ${title}`, records: 0 };
    const cleartext = { ...rest, title: `without TLS: ${title}` };
    return i % 2 === 0
      ? [{ ...outside, attack: { raw: raw.replace(' / ', ` ${target} `) } }]
      : [{ ...cleartext, attack: { connect: 'api.good.test:80', cleartext: true, raw } }];
  });

runRows(t, arena, [...codings, ...lengths, ...fields, ...lines, ...sizes, ...alike, ...elsewhere]);
