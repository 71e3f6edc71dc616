import { once } from 'node:events';
import net from 'node:net';
import tls from 'node:tls';
import fc from 'fast-check';
import t from 'tap';
import { Accumulator } from '../../src/proxy/accumulator.ts';
import { BodyReader, bodyState, join, lastChunk } from '../../src/proxy/body.ts';
import { ChunkedDecoder } from '../../src/proxy/chunked.ts';
import { maxClientHello, readClientHello } from '../../src/proxy/client-hello.ts';
import { fieldName, role } from '../../src/proxy/fields.ts';
import {
  chunked,
  isHeadError,
  maxFields,
  parseRequestHead,
  parseResponseHead,
  parseTrailers,
  type RequestHead,
  untilClose,
} from '../../src/proxy/head.ts';

const latin1 = (text: string) => Buffer.from(text, 'latin1');
const host = 'Host: api.good.test';
const line = 'GET / HTTP/1.1';

/** Cuts a buffer at the given places (any numbers; taken modulo its length). */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [...new Set(places.map((p) => p % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...at].map((from, i) => bytes.subarray(from, at[i] ?? bytes.length)).filter((b) => b.length > 0);
}

function accepted(text: string): RequestHead {
  const head = parseRequestHead(text);
  if (isHeadError(head)) throw new Error(`${JSON.stringify(text)}: ${head.message}`);
  return head;
}

t.test('request heads: what is read', async (t) => {
  const head = accepted(
    `POST /a?b=%2f HTTP/1.1\r\n${host}:8443\r\nX-A:  1\t\r\nx-a:2\r\nContent-Length: 5\r\n` +
      'Connection: keep-alive , X-Hop,\r\nProxy-Authorization: Basic eA==\r\nX-Vault: v\r\nX-O: \xe9\r\nX-E:',
  );
  t.match(head, {
    method: 'POST',
    target: '/a?b=%2f',
    minor: 1,
    host: 'api.good.test:8443',
    bodyLength: 5,
    framed: true,
    keepAlive: true,
    nominated: ['x-hop'],
    websocket: false,
    expectContinue: false,
    proxyAuthorization: 'Basic eA==',
    vault: 'v',
  });
  t.strictSame(
    head.names.map(({ name }, i) => `${name}=${head.values[i]}`),
    [
      'Host=api.good.test:8443',
      'X-A=1',
      'x-a=2',
      'Content-Length=5',
      'Connection=keep-alive , X-Hop,',
      'Proxy-Authorization=Basic eA==',
      'X-Vault=v',
      'X-O=\xe9',
      'X-E=',
    ],
    'order, case and bytes above 0x7f are kept; the white space around values goes',
  );
  const table: [head: string, part: Partial<RequestHead>][] = [
    [line, { host: null, bodyLength: 0, framed: false, keepAlive: true }],
    [`GET / HTTP/1.0\r\n${host}`, { minor: 0, keepAlive: false }],
    [`GET / HTTP/1.0\r\n${host}\r\nConnection: keep-alive`, { keepAlive: false }],
    [`${line}\r\nConnection: a, CLOSE`, { keepAlive: false }],
    [`${line}\r\nContent-Length: 0`, { bodyLength: 0, framed: true }],
    [`${line}\r\nTransfer-Encoding: Chunked`, { bodyLength: chunked, framed: true }],
    ['CONNECT [::1]:443 HTTP/1.1', { method: 'CONNECT', target: '[::1]:443' }],
    ['OPTIONS * HTTP/1.1', { target: '*' }],
    ["M-SEARCH /|^`{}<>%zz?'a HTTP/1.1", { method: 'M-SEARCH' }],
    [
      `${line}\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==`,
      { websocket: true },
    ],
    [`${line}\r\nUpgrade: websocket`, { websocket: false }],
    [`${line}\r\nConnection: upgrade\r\nUpgrade: h2c`, { websocket: false }],
    [`${line}\r\nConnection: upgrade\r\nUpgrade: websocket, h2c`, { websocket: false }],
    [`${line}\r\nConnection: upgrade\r\nUpgrade: websocket\r\nUpgrade: websocket`, { websocket: false }],
    [`${line}\r\nConnection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 1`, { websocket: false }],
    ['POST / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket', { websocket: false }],
    ['GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket', { websocket: false }],
    [`${line}\r\nExpect: 100-Continue\r\nContent-Length: 1`, { expectContinue: true }],
    [`${line}\r\nExpect: 100-continue`, { expectContinue: false }],
    ['GET / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1', { expectContinue: false }],
    [`${line}\r\nX-Vault: a\r\nX-Vault: b`, { vault: '' }],
    [`${line}\r\nX: ${'v'.repeat(60_000)}`, { host: null }],
  ];
  for (const [text, part] of table) t.match(accepted(text), part, text.slice(0, 80));
});

t.test('request heads: what is refused', async (t) => {
  const many = (n: number) => `${line}${'\r\nX: 1'.repeat(n)}`;
  const table: [head: string, code: string][] = [
    ['', 'invalid_request'],
    ['GET', 'invalid_request'],
    ['GET /', 'invalid_request'],
    ['GET / ', 'invalid_request'],
    [' GET / HTTP/1.1', 'invalid_request'],
    ['GET  / HTTP/1.1', 'invalid_request'],
    ['GET /  HTTP/1.1', 'invalid_request'],
    ['GET / HTTP/1.1 ', 'invalid_request'],
    ['GET /a b HTTP/1.1', 'invalid_request'],
    ['GET\t/ HTTP/1.1', 'invalid_request'],
    ['GET / http/1.1', 'invalid_request'],
    ['GET / HTTP/1.1x', 'invalid_request'],
    ['GET / HTTP/1.2', 'http_version'],
    ['GET / HTTP/2.0', 'http_version'],
    ['GET / HTTP/0.9', 'http_version'],
    ['PRI * HTTP/2.0', 'http_version'],
    ['G(T / HTTP/1.1', 'invalid_request'],
    [`${'M'.repeat(33)} / HTTP/1.1`, 'invalid_request'],
    ['GET /# HTTP/1.1', 'invalid_request'],
    ['GET /a\\b HTTP/1.1', 'invalid_request'],
    ['GET /\xe9 HTTP/1.1', 'invalid_request'],
    [`GET /${'a'.repeat(32 * 1024)} HTTP/1.1`, 'headers_too_large'],
    [many(maxFields + 1), 'headers_too_large'],
    [`${line}\r\n${host}\r\n${host}`, 'invalid_request'],
    [`${line}\r\n${host}\r\nhost: other.test`, 'invalid_request'],
    [`${line}\r\nX\x00Y: b`, 'invalid_request'],
    [`${line}\r\nX: a\x00b`, 'invalid_request'],
    [`${line}\r\nX: a\x01b`, 'invalid_request'],
    [`${line}\r\nX: a\x7fb`, 'invalid_request'],
    [`${line}\r\nX: a\rb`, 'invalid_request'],
    [`${line}\r\nX: a\nb`, 'invalid_request'],
    [`${line}\nX: a`, 'invalid_request'],
    [`${line}\r\nX: a\r`, 'invalid_request'],
    [`${line}\r\nX\xff: b`, 'invalid_request'],
    [`${line}\r\nX Y: b`, 'invalid_request'],
    [`${line}\r\nX : b`, 'invalid_request'],
    [`${line}\r\n: b`, 'invalid_request'],
    [`${line}\r\nXY`, 'invalid_request'],
    [`${line}\r\nX: a\r\n b`, 'invalid_request'],
    [`${line}\r\nX: a\r\n\tb: c`, 'invalid_request'],
    [`${line}\r\n X: a`, 'invalid_request'],
    [`${line}\r\nContent-Length: 3\r\nContent-Length: 3`, 'invalid_request'],
    [`${line}\r\nContent-Length: 3, 3`, 'invalid_request'],
    [`${line}\r\nContent-Length: 3\r\nTransfer-Encoding: chunked`, 'invalid_request'],
    [`${line}\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked`, 'invalid_request'],
    [`GET / HTTP/1.0\r\nTransfer-Encoding: chunked`, 'invalid_request'],
    [`${line}\r\nExpect: 200-ok`, 'expectation_failed'],
    [`${line}\r\nExpect: 100-continue\r\nExpect: 100-continue`, 'expectation_failed'],
    [`${line}\r\nProxy-Authorization: a\r\nProxy-Authorization: a`, 'invalid_request'],
  ];
  for (const length of ['', '-1', '+1', '003', '0x3', '1e1', '1.0', '3 3', '9007199254740992', '1_0'])
    table.push([`${line}\r\nContent-Length: ${length}`, 'invalid_request']);
  for (const coding of ['', 'gzip', 'gzip, chunked', 'chunked, gzip', 'xchunked', '"chunked"', 'chunked;q=1'])
    table.push([`${line}\r\nTransfer-Encoding: ${coding}`, 'invalid_request']);
  for (const [text, code] of table) {
    const found = parseRequestHead(text);
    t.equal(isHeadError(found) ? found.code : 'accepted', code, JSON.stringify(text.slice(0, 90)));
  }
  t.notOk(isHeadError(parseRequestHead(many(maxFields))), 'as many fields as are allowed');
});

t.test('request heads: what was accepted reads the same when it is written again', async () => {
  const token = fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}$/);
  const value = fc.stringMatching(/^[!-~\x80-\xff]{0,8}$/);
  const field = fc.tuple(token, value);
  fc.assert(
    fc.property(token, fc.array(field, { maxLength: 8 }), (method, fields) => {
      const text = `${method} /p HTTP/1.1${fields.map(([n, v]) => `\r\n${n}: ${v}`).join('')}`;
      const head = parseRequestHead(text);
      if (isHeadError(head)) return;
      const again = `${head.method} ${head.target} HTTP/1.1${head.names.map((n, i) => `\r\n${n.name}: ${head.values[i]}`).join('')}`;
      if (again !== text) throw new Error(`${JSON.stringify(text)} became ${JSON.stringify(again)}`);
    }),
  );
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
      const head = parseRequestHead(`GET / HTTP/1.1\r\nX: ${text}`);
      // Whatever came in: no line of what goes out holds a control character.
      if (!isHeadError(head))
        return !head.values.some((v) => [...v].some((c) => (c < ' ' && c !== '\t') || c === '\x7f'));
    }),
  );
});

t.test('response heads', async (t) => {
  const table: [head: string, part: object | null][] = [
    [
      'HTTP/1.1 200 OK',
      { status: 200, reason: 'OK', bodyLength: untilClose, framed: false, keepAlive: true },
    ],
    ['HTTP/1.1 200', { reason: '' }],
    ['HTTP/1.1 200 ', { reason: '' }],
    ['HTTP/1.1 599 Odd \xe9', { status: 599, reason: 'Odd \xe9' }],
    ['HTTP/1.1 200 OK\r\nContent-Length: 3', { bodyLength: 3, framed: true }],
    ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked', { bodyLength: chunked }],
    ['HTTP/1.1 200 OK\r\nConnection: close', { keepAlive: false }],
    ['HTTP/1.0 200 OK', { minor: 0, keepAlive: false }],
    ['HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1', { keepAlive: true }],
    ['HTTP/1.1 200 OK\r\nKeep-Alive: max=2, timeout=7', { keepAliveSeconds: 7 }],
    ['HTTP/1.1 200 OK\r\nKeep-Alive: xtimeout=7', { keepAliveSeconds: -1 }],
    ['HTTP/1.1 200 OK\r\nConnection: X-Hop', { nominated: ['x-hop'] }],
    ['HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: WebSocket', { upgradeTo: 'websocket' }],
    ['HTTP/1.1 101 S\r\nUpgrade: websocket', { upgradeTo: null }],
    ['HTTP/1.1 099 OK', null],
    ['HTTP/1.1 000 OK', null],
    ['HTTP/1.1 600 OK', null],
    ['HTTP/1.1 999 OK', null],
    ['HTTP/1.1 20 OK', null],
    ['HTTP/1.1 2000 OK', null],
    ['HTTP/1.1  200 OK', null],
    ['HTTP/2.0 200 OK', null],
    ['HTTP/0.9 200 OK', null],
    ['http/1.1 200 OK', null],
    ['hello', null],
    ['', null],
    ['HTTP/1.1 200 OK\nX: a', null],
    ['HTTP/1.1 200 OK\r\nX: a\r\n b', null],
    ['HTTP/1.1 200 OK\r\nX : a', null],
    ['HTTP/1.1 200 OK\r\nX: a\x00', null],
    ['HTTP/1.1 200 OK\r\nX: a\rb', null],
    ['HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3', null],
    ['HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked', null],
    ['HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked', null],
    ['HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked', null],
    [`HTTP/1.1 200 OK${'\r\nX: 1'.repeat(maxFields)}`, { status: 200 }],
    [`HTTP/1.1 200 OK${'\r\nX: 1'.repeat(maxFields + 1)}`, null],
  ];
  for (const [text, part] of table) {
    const head = parseResponseHead(text);
    if (part === null) t.equal(head, null, JSON.stringify(text.slice(0, 70)));
    else t.match(head, part, text.slice(0, 70));
  }
});

t.test('trailers', async (t) => {
  const trailers = parseTrailers('A: 1\r\nB:2');
  t.strictSame(
    [trailers?.names.map(({ name }) => name), trailers?.values],
    [
      ['A', 'B'],
      ['1', '2'],
    ],
  );
  for (const text of ['A', 'A : 1', 'A: 1\n', ' A: 1', 'A: \x00', `A: 1${'\r\nB: 1'.repeat(maxFields)}`])
    t.equal(parseTrailers(text), null, JSON.stringify(text.slice(0, 20)));
});

t.test('field names', async (t) => {
  t.equal(fieldName('X Y'), null);
  t.equal(fieldName(''), null);
  const known = fieldName('cOnTeNt-Length');
  t.match(known, { name: 'cOnTeNt-Length', lower: 'content-length', role: role.contentLength, alias: null });
  t.equal(fieldName('cOnTeNt-Length'), known, 'the same spelling is looked up');
  t.match(fieldName('Transfer_Encoding'), { role: role.endToEnd, alias: 'transfer-encoding' });
  for (const name of [
    'Keep-Alive',
    'Proxy-Connection',
    'TE',
    'Trailer',
    'HTTP2-Settings',
    'Proxy-Authenticate',
  ])
    t.not(fieldName(name)?.role, role.endToEnd, `${name} stops here`);
  for (let i = 0; i < 5000; i++) fieldName(`x-${i}`);
  t.not(fieldName('cOnTeNt-Length'), known, 'the cache starts again past its limit');
});

/** All that a decoder says of a body that comes in these pieces. */
function decode(pieces: readonly Buffer[]): {
  content: string;
  rest: string;
  state: string;
  trailers: unknown;
} {
  const decoder = new ChunkedDecoder();
  let content = '';
  const stateOf = () => (decoder.failed ? 'failed' : decoder.done ? 'done' : 'more');
  for (const [i, piece] of pieces.entries()) {
    let at = 0;
    while (decoder.next(piece, at)) {
      content += piece.latin1Slice(decoder.start, decoder.end);
      at = decoder.end;
    }
    if (stateOf() !== 'more') {
      const rest = decoder.failed ? '' : Buffer.concat([piece.subarray(decoder.end), ...pieces.slice(i + 1)]);
      const trailers = decoder.trailers && [
        decoder.trailers.names.map((n) => n.name),
        decoder.trailers.values,
      ];
      return { content, rest: rest.toString('latin1'), state: stateOf(), trailers };
    }
  }
  return { content, rest: '', state: 'more', trailers: null };
}

t.test('chunked: what is read and what fails', async (t) => {
  const size = (digits: string) => `${digits}\r\n`;
  const table: [body: string, state: string, content: string, rest?: string][] = [
    ['3\r\nabc\r\n0\r\n\r\n', 'done', 'abc', ''],
    ['3\r\nabc\r\n0\r\n\r\nGET', 'done', 'abc', 'GET'],
    ['0\r\n\r\n', 'done', ''],
    ['A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n', 'done', '01234567890123456789'],
    ['3;a="b;c"\r\nabc\r\n0\r\n\r\n', 'done', 'abc'],
    ['3;a=b;c\r\nabc\r\n0;x\r\n\r\n', 'done', 'abc'],
    ['000000000003\r\nabc\r\n0\r\n\r\n', 'done', 'abc'],
    ['0\r\nA: 1\r\nB: 2\r\n\r\nX', 'done', '', 'X'],
    [`0\r\nA: ${'v'.repeat(16_000)}\r\n\r\n`, 'done', ''],
    ['3\r\nab', 'more', 'ab'],
    ['3\r\nabc', 'more', 'abc'],
    ['0\r\nA: 1\r\n', 'more', ''],
    ['0\r\n\r', 'more', ''],
    ['', 'more', ''],
    ['\r\n', 'failed', ''],
    [';a\r\n', 'failed', ''],
    [' 3\r\nabc', 'failed', ''],
    ['3 \r\nabc', 'failed', ''],
    ['-3\r\nabc', 'failed', ''],
    ['+3\r\nabc', 'failed', ''],
    ['0x3\r\nabc', 'failed', ''],
    ['g\r\n', 'failed', ''],
    [size('10000000000000003'), 'failed', ''],
    [size('1000000000000'), 'failed', ''],
    [size('0000000000003'), 'failed', ''],
    ['3\nabc\r\n0\r\n\r\n', 'failed', ''],
    ['3\rabc\r\n0\r\n\r\n', 'failed', ''],
    ['3;a\nabc', 'failed', ''],
    ['3;a="\r\nabc', 'failed', ''],
    ['3;a\x00\r\nabc', 'failed', ''],
    [`3;${'a'.repeat(4096)}\r\nabc`, 'failed', ''],
    ['3\r\nabcd\r\n0\r\n\r\n', 'failed', 'abc'],
    ['3\r\nabc\n0\r\n\r\n', 'failed', 'abc'],
    ['3\r\nabc\r0\r\n\r\n', 'failed', 'abc'],
    ['3\r\nabc\r\n0\n\n', 'failed', 'abc'],
    ['0\r\n\nA: 1\r\n\r\n', 'failed', ''],
    ['0\r\nA\r\n\r\n', 'failed', ''],
    ['0\r\nA: 1\r\n b\r\n\r\n', 'failed', ''],
    ['0\r\nA: 1\nB: 2\r\n\r\n', 'failed', ''],
    [`0\r\nA: ${'v'.repeat(16 * 1024)}\r\n\r\n`, 'failed', ''],
    [`0\r\n${'A: 1\r\n'.repeat(maxFields + 1)}\r\n`, 'failed', ''],
  ];
  for (const [body, state, content, rest] of table) {
    const whole = decode([latin1(body)]);
    const name = JSON.stringify(body.slice(0, 40));
    t.match(whole, { state, content, ...(rest === undefined ? {} : { rest }) }, name);
    t.strictSame(
      decode([...latin1(body)].map((byte) => Buffer.from([byte]))),
      whole,
      `${name}, byte by byte`,
    );
  }
  t.strictSame(decode([latin1('0\r\nA: 1\r\nB: 2\r\n\r\n')]).trailers, [
    ['A', 'B'],
    ['1', '2'],
  ]);
});

/** A chunked body with chunks of any size, extensions, trailers and what follows it. */
const encoded = fc
  .record({
    chunks: fc.array(fc.uint8Array({ minLength: 1, maxLength: 40 }), { maxLength: 6 }),
    extension: fc.constantFrom('', ';a', ';a="x;y"'),
    trailers: fc.constantFrom('', 'A: 1\r\n', 'A: 1\r\nBb: two\r\n'),
    rest: fc.constantFrom('', 'GET / HTTP/1.1\r\n', '\r\n'),
  })
  .map(({ chunks, extension, trailers, rest }) => ({
    content: Buffer.concat(chunks).toString('latin1'),
    rest,
    bytes: Buffer.concat([
      ...chunks.map((c) =>
        Buffer.concat([latin1(`${c.length.toString(16)}${extension}\r\n`), c, latin1('\r\n')]),
      ),
      latin1(`0${extension}\r\n${trailers}\r\n${rest}`),
    ]),
  }));
const places = fc.array(fc.nat(), { maxLength: 12 });

t.test('chunked: any split of the stream gives the same result', async () => {
  fc.assert(
    fc.property(encoded, places, ({ bytes, content, rest }, at) => {
      const found = decode(cut(bytes, at));
      if (found.state !== 'done' || found.content !== content || found.rest !== rest)
        throw new Error(JSON.stringify(found));
    }),
    { numRuns: 500 },
  );
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), encoded, places, (noise, { bytes }, at) => {
      // Garbage in any place: cut or not, both are of one opinion.
      const spoiled = Buffer.concat([bytes.subarray(0, bytes.length >> 1), noise, bytes]);
      const whole = decode([spoiled]);
      const split = decode(cut(spoiled, at));
      if (split.state !== whole.state || split.rest !== whole.rest || split.content !== whole.content)
        throw new Error(`${JSON.stringify(whole)} ${JSON.stringify(split)}`);
    }),
    { numRuns: 500 },
  );
});

/** What a body reader sends on of a stream that comes in these pieces, its own end included. */
function relay(pieces: readonly Buffer[], length: number, asChunks: boolean): { out: string; rest: string } {
  const reader = new BodyReader(length);
  const out: Buffer[] = [];
  let rest = '';
  for (const piece of pieces) {
    if (reader.state === bodyState.done) {
      rest += piece.toString('latin1');
      continue;
    }
    const content = reader.read(piece, 0, asChunks);
    if (content !== null) out.push(Buffer.from(content));
    rest += piece.subarray(reader.end).toString('latin1');
  }
  if (asChunks && reader.state === bodyState.done) out.push(latin1(lastChunk('')));
  return { out: Buffer.concat(out).toString('latin1'), rest };
}

t.test('bodies: framed anew, whatever the split', async (t) => {
  fc.assert(
    fc.property(encoded, places, ({ bytes, content, rest }, at) => {
      const pieces = cut(bytes, at);
      const again = relay(pieces, chunked, true);
      const decoded = decode([latin1(again.out)]);
      if (decoded.content !== content || decoded.state !== 'done' || again.rest !== rest)
        throw new Error(JSON.stringify({ again, decoded }));
      if (relay(pieces, chunked, false).out !== content) throw new Error('as content');
    }),
    { numRuns: 500 },
  );
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 80 }), fc.nat(80), places, (bytes, cap, at) => {
      const length = Math.min(cap, bytes.length);
      const all = Buffer.from(bytes);
      const { out, rest } = relay(cut(all, at), length, false);
      if (out !== all.latin1Slice(0, length) || rest !== all.latin1Slice(length)) throw new Error(out);
      if (relay(cut(all, at), untilClose, false).out !== all.latin1Slice()) throw new Error('until close');
    }),
  );
  t.equal(new BodyReader(0).state, bodyState.done, 'an empty body is done before its first byte');
  t.equal(String(join('a', latin1('b'), 'c')), 'abc');
  t.equal(join('a', null, 'c'), 'ac');
});

t.test('accumulator: what goes in comes out, and what was given out stays as it was', async () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ minLength: 1, maxLength: 600 }), { maxLength: 20 }), (chunks) => {
      const held = new Accumulator();
      const given = chunks.map((c) => Buffer.from(c));
      let expected = Buffer.alloc(0);
      for (const chunk of given) {
        held.push(chunk);
        expected = Buffer.concat([expected, chunk]);
        if (!held.view().equals(expected) || held.length !== expected.length) throw new Error('view');
      }
      if (!given.every((c, i) => c.equals(chunks[i]))) throw new Error('it wrote into what it was given');
      if (!held.take().equals(expected) || held.length !== 0) throw new Error('take');
    }),
  );
});

/** The first bytes that node's own client sends for a handshake. */
async function clientHello(options: tls.ConnectionOptions): Promise<Buffer> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as net.AddressInfo;
  const client = tls.connect({ ...options, host: '127.0.0.1', port }).on('error', () => {});
  const [socket] = await once(server, 'connection');
  const [bytes] = await once(socket, 'data');
  client.destroy();
  socket.destroy();
  server.close();
  return bytes;
}

/** A handshake message again, in records of `size` bytes each. */
function records(hello: Buffer, size: number): Buffer {
  const message = hello.subarray(5);
  const out: Buffer[] = [];
  for (let at = 0; at < message.length; at += size) {
    const part = message.subarray(at, at + size);
    out.push(Buffer.from([0x16, 3, 1, part.length >> 8, part.length & 255]), part);
  }
  return Buffer.concat(out);
}

t.test('ClientHello: the server name, in whole or in pieces', async (t) => {
  const hello = await clientHello({ servername: 'Api.Good.test', minVersion: 'TLSv1.2' });
  const named = { kind: 'hello', serverName: 'api.good.test' };
  t.strictSame(readClientHello(hello), named);
  t.strictSame(
    readClientHello(Buffer.concat([hello, latin1('more')])),
    named,
    'what follows is not looked at',
  );
  for (const size of [300, 100, 33])
    t.strictSame(readClientHello(records(hello, size)), named, `records of ${size}`);
  const none = await clientHello({ servername: '', maxVersion: 'TLSv1.2' });
  t.strictSame(readClientHello(none), { kind: 'hello', serverName: null });
  for (let n = 0; n < hello.length; n++)
    if (readClientHello(hello.subarray(0, n)).kind !== 'incomplete') t.fail(`the first ${n} bytes`);
  const trailing = Buffer.from(hello);
  trailing.write('api.good.tes.', trailing.indexOf('Api.Good.test'), 'latin1');
  t.match(readClientHello(trailing), { serverName: 'api.good.tes' }, 'one trailing dot goes');

  const malformed: [what: string, bytes: Buffer][] = [
    ['not a handshake record', latin1('GET / HTTP/1.1\r\n')],
    ['another version of records', Buffer.concat([Buffer.from([0x16, 2]), hello.subarray(2)])],
    [
      'another message than ClientHello',
      Buffer.concat([hello.subarray(0, 5), Buffer.from([2]), hello.subarray(6)]),
    ],
    ['an empty record', Buffer.from([0x16, 3, 1, 0, 0])],
    ['a record over its limit', Buffer.from([0x16, 3, 1, 0x48, 0])],
    ['a message over the limit', Buffer.from([0x16, 3, 1, 0, 4, 1, 0, 0x80, 1])],
    ['a message of no content', Buffer.from([0x16, 3, 1, 0, 4, 1, 0, 0, 0])],
  ];
  for (const [what, bytes] of malformed) t.strictSame(readClientHello(bytes), { kind: 'malformed' }, what);
});

t.test('ClientHello: no garbage makes it throw, and no fragmentation makes it slow', async (t) => {
  const hello = await clientHello({ servername: 'api.good.test' });
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 8 }), fc.nat(), (changes, end) => {
      const spoiled = Buffer.from(hello);
      for (const [at, byte] of changes) spoiled[at % spoiled.length] = byte;
      const found = readClientHello(spoiled.subarray(0, end % (spoiled.length + 1)));
      return found.kind !== 'hello' || found.serverName === null || found.serverName.length < 300;
    }),
    { numRuns: 1000 },
  );
  // A message of 32 KiB in records of one byte each: 192 KiB on the wire, all of them legal.
  const long = Buffer.alloc(5 + maxClientHello - 4);
  long.set([0x16, 3, 1, 0, 0, 1, 0, (maxClientHello - 8) >> 8, (maxClientHello - 8) & 255]);
  const dribbled = records(long, 1);
  const before = performance.now();
  for (let i = 0; i < 20; i++) readClientHello(dribbled);
  const each = (performance.now() - before) / 20;
  t.ok(each < 50, `${each.toFixed(1)} ms for one look`);
});
