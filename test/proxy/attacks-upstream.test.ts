/** Upstreams that break the protocol, answer for others, or would have a connection become something else. */
import t, { type Test } from 'tap';
import { tunnelWire } from '../support/lane.ts';
import {
  eventually,
  nextAnswer,
  nextRequest,
  type Wire,
  webSocketAccept,
  webSocketKey,
} from '../support/wire.ts';
import { against, answering, bodies, codes, get, ok, statuses } from './attack-kit.ts';
import { type Outcome, openArena } from './attack-runner.ts';

const arena = await openArena(t);
const shown = (text: string) => {
  const line = JSON.stringify(text);
  return line.length > 90 ? `${line.slice(0, 80)}… (${text.length})` : line;
};
const chunked = (body: string) => `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body}`;

const broken = [
  'HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm="broker"\r\nContent-Length: 2\r\n\r\nno',
  'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc',
  'HTTP/1.1 200 OK\r\nContent-Length: 3\r\ncontent-length: 3\r\n\r\nabc',
  'HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\nabc',
  'HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc',
  'HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\nabc',
  'HTTP/1.1 200 OK\r\nContent-Length: 0x3\r\n\r\nabc',
  'HTTP/1.1 200 OK\r\nContent-Length: 3 3\r\n\r\nabc',
  'HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nabc',
  'HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551619\r\n\r\nabc',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nabc',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n',
  'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'HTTP/1.1 200 OK\r\nA: b\r\n\tc\r\n\r\n',
  'HTTP/1.1 200 OK\r\n A: b\r\n\r\n',
  'HTTP/1.1 200 OK\r\nA\r\n\r\n',
  'HTTP/1.1 200 OK\r\n: b\r\n\r\n',
  'HTTP/1.1 200 OK\r\nA B: c\r\n\r\n',
  'HTTP/1.1 200 OK\r\nA\xff: c\r\n\r\n',
  'HTTP/1.1 200 OK\r\nA: \x01\r\n\r\n',
  'HTTP/1.1 200 OK\r\nA: \x7f\r\n\r\n',
  'HTTP/1.1 200 OK\r\nSet-Cookie: a=b\rSet-Cookie: c=d\r\n\r\n',
  'HTTP/1.1 200 OK\r\nSet-Cookie: a=b\nX: y\r\n\r\n',
  'HTTP/1.1 200 OK\rContent-Length: 0\r\r',
  'HTTP/1.1 200 O\x00K\r\n\r\n',
  'HTTP/1.1 200 O\rK\r\n\r\n',
  `HTTP/1.1 200 OK\r\n${'A: b\r\n'.repeat(300)}\r\n`,
  `HTTP/1.1 200 OK\r\nA: ${'b'.repeat(70_000)}\r\n\r\n`,
  `HTTP/1.1 200 ${'b'.repeat(70_000)}\r\n\r\n`,
  'HTTP/1.1 20 OK\r\n\r\n',
  'HTTP/1.1 2000 OK\r\n\r\n',
  'HTTP/1.1 +200 OK\r\n\r\n',
  'HTTP/1.1 600 No\r\n\r\n',
  'HTTP/1.1  200 OK\r\n\r\n',
  'HTTP/1.1\t200 OK\r\n\r\n',
  'HTTP/1.2 200 OK\r\n\r\n',
  'HTTP/11 200 OK\r\n\r\n',
  'HTTP/0.9 200 OK\r\n\r\n',
  'http/1.1 200 OK\r\n\r\n',
  'ICY 200 OK\r\n\r\n',
  '\r\nHTTP/1.1 200 OK\r\n\r\n',
  '\x00HTTP/1.1 200 OK\r\n\r\n',
  ' HTTP/1.1 200 OK\r\n\r\n',
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  '\x00\x00\x12\x04\x00\x00\x00\x00\x00',
  'HTTP/1.1 100 Continue\r\n\r\njunk',
  'HTTP/1.1 103 Early\r\nContent-Length: 5\r\n\r\nhello',
  `${'HTTP/1.1 102 Wait\r\n\r\n'.repeat(33)}${ok('late')}`,
  'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n',
  chunked('+3\r\nabc\r\n0\r\n\r\n'),
  chunked('0x3\r\nabc\r\n0\r\n\r\n'),
  chunked(' 3\r\nabc\r\n0\r\n\r\n'),
  chunked('3 \r\nabc\r\n0\r\n\r\n'),
  chunked('-3\r\nabc\r\n0\r\n\r\n'),
  chunked('xyz\r\n'),
  chunked('ffffffffffffffff\r\nabc'),
  chunked('3\nabc\r\n0\r\n\r\n'),
  chunked(`3;${'a'.repeat(5000)}\r\nabc\r\n0\r\n\r\n`),
];
for (const answer of broken) {
  t.test(`an answer: ${shown(answer)}`, async (t) => {
    const outcome = await against(arena, answering(answer));
    t.strictSame([statuses(outcome), codes(outcome)], [[502], ['upstream_protocol']]);
    await t.resolves(arena.holds(1));
  });
}

/** What breaks off once a part of it is out: the client must not take it for the whole. */
const truncated = [
  chunked('3\r\nabc\r\n'),
  chunked('3\r\nabc\r\n5\r\nab'),
  chunked('3\r\nabc\r\n0\r\n'),
  chunked('3\r\nabc\r\n0\r\nX: y\r\n'),
  'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc',
];
for (const answer of truncated) {
  t.test(`an answer that breaks off: ${shown(answer)}`, async (t) => {
    const script = async (wire: Wire) => {
      await nextRequest(wire);
      wire.socket.end(answer);
    };
    const outcome = await against(arena, script, { closes: true });
    t.strictSame([outcome.answers, outcome.closed], [[], true], 'nothing that could be taken for whole');
    await t.resolves(arena.holds(1));
  });
}

/** Answers that are sound, or are taken for what their status says. */
const sound: [answer: string, status: number, body: string, look?: (t: Test, outcome: Outcome) => void][] = [
  ['HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok', 200, 'ok'],
  ['HTTP/1.1 299 \xe4\xf6 odd\r\nContent-Length: 2\r\n\r\nok', 299, 'ok'],
  ['HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\nabc', 204, ''],
  ['HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n', 204, ''],
  [`HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n${ok('poison')}`, 304, ''],
  [`HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n${ok('poison')}`, 200, ''],
  [chunked(`2\r\nok\r\n0\r\n\r\n${ok('poison')}`), 200, 'ok'],
  [`${'HTTP/1.1 103 Early\r\nLink: x\r\n\r\n'.repeat(32)}${ok('late')}`, 200, 'late'],
  [
    'HTTP/1.1 200 OK\r\nX-Broker-Error: forbidden\r\nContent-Length: 2\r\n\r\nok',
    200,
    'ok',
    (t, outcome) => t.strictSame(codes(outcome), [null, null], 'nobody else says what only the broker says'),
  ],
  [
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Broker-Error: forbidden\r\nX-Sum: 1\r\n\r\n',
    200,
    'ok',
    (t, { answers }) => t.strictSame(answers[0].trailers, ['X-Sum: 1']),
  ],
  [
    'HTTP/1.1 401 No\r\nProxy-Authenticate: Basic realm="evil"\r\nProxy_Authenticate: Basic\r\nX_Broker_Error: unauthorized\r\n' +
      'Proxy-Status: broker; error=x\r\nProxy-Authentication-Info: x\r\nTransfer_Encoding: x\r\nContent-Length: 2\r\n\r\nno',
    401,
    'no',
    (t, { answers }) =>
      t.strictSame(
        answers[0].fields.map(([name]) => name),
        ['Content-Length'],
      ),
  ],
  [
    'HTTP/1.1 200 OK\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\nKeep-Alive: x\r\nContent-Length: 2\r\n\r\nok',
    200,
    'ok',
    (t, { answers }) =>
      t.strictSame(
        answers[0].fields.map(([name]) => name),
        ['Content-Length'],
      ),
  ],
  [
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nContent-Length: 9\r\nSet-Cookie: a=b\r\n\r\n',
    200,
    'ok',
    (t, { answers }) => t.strictSame(answers[0].trailers, ['Set-Cookie: a=b']),
  ],
];
for (const [answer, status, body, look] of sound) {
  t.test(`an answer, and one behind it: ${shown(answer)}`, async (t) => {
    const up = await arena.upstream(async (wire, n) => {
      await answering(n === 0 ? answer : ok('own'))(wire);
      for (;;) await answering(ok('own'))(wire);
    });
    const outcome = await arena.attack({
      connect: `api.good.test:${up.port}`,
      raw: get() + get(),
      answers: 2,
    });
    t.strictSame(
      [statuses(outcome), bodies(outcome)],
      [
        [status, 200],
        [body, 'own'],
      ],
    );
    if (answer.includes('poison')) t.equal(up.connections, 2, 'the connection is not used again');
    look?.(t, outcome);
    await t.resolves(arena.holds(2));
  });
}

t.test('a connection whose last answer may have a body after all is not used again', async (t) => {
  for (const fields of ['Content-Length: 30', 'Transfer-Encoding: chunked']) {
    const up = await arena.upstream(async (wire, n) => {
      await answering(n === 0 ? `HTTP/1.1 204 No\r\n${fields}\r\n\r\n` : ok('own'))(wire);
      for (;;) await answering(n === 0 ? ok('poison') : ok('own'))(wire);
    });
    const connect = `api.good.test:${up.port}`;
    const outcome = await arena.attack({ connect, raw: get() + get(), answers: 2 });
    t.strictSame(bodies(outcome), ['', 'own'], fields);
    t.equal(up.connections, 2);
    await arena.holds(2);
  }
});

t.test('HEAD: what comes behind its answer is nobody’s', async (t) => {
  const up = await arena.upstream(async (wire, n) => {
    await answering(n === 0 ? `HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison` : ok('own'))(wire);
    for (;;) await answering(ok('own'))(wire);
  });
  const client = await tunnelWire(arena.lane, 'v1', `api.good.test:${up.port}`);
  client.send(get().replace('GET', 'HEAD'));
  t.equal((await nextAnswer(client, true)).field('content-length'), '6');
  client.send(get());
  t.equal((await nextAnswer(client)).body, 'own');
  t.notMatch(client.all, 'poison');
  await arena.holds(2);
});

t.test('a reset at each stage: 502 or a cut, never half an answer', async (t) => {
  for (const [stage, sent] of [
    ['before a byte', ''],
    ['in the status line', 'HTTP/1.1 2'],
    ['in the head', 'HTTP/1.1 200 OK\r\nA: b'],
    ['after an interim answer', 'HTTP/1.1 100 Continue\r\n\r\n'],
  ]) {
    const script = async (wire: Wire) => {
      await nextRequest(wire);
      wire.socket.write(sent === '' ? Buffer.alloc(0) : sent, () => wire.socket.destroy());
    };
    const outcome = await against(arena, script);
    t.strictSame(statuses(outcome), [502], stage);
    t.notMatch(outcome.answers[0].body, /ECONN|EPIPE|127\.0\.0\.2/, 'no words of a library, no address');
    await arena.holds(1);
  }
});

const upgrade = (fields: string, method = 'GET', body = '') =>
  `${method} / HTTP/1.1\r\nHost: api.good.test\r\n${fields}\r\n${body}`;
const websocket = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: ${webSocketKey}\r\nSec-WebSocket-Version: 13\r\n`;
const switched = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${webSocketAccept}\r\n\r\n`;
for (const [title, raw] of [
  ['POST', upgrade(websocket, 'POST')],
  ['a body by length', upgrade(`${websocket}Content-Length: 3\r\n`, 'GET', 'abc')],
  ['a body in chunks', upgrade(`${websocket}Transfer-Encoding: chunked\r\n`, 'GET', '0\r\n\r\n')],
  ['HTTP/1.0', upgrade(websocket).replace('/1.1', '/1.0')],
  ['h2c', upgrade('Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n')],
  ['two protocols', upgrade('Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n')],
  ['two fields', upgrade('Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: websocket\r\n')],
  ['no Connection', upgrade('Upgrade: websocket\r\n')],
  ['another protocol', upgrade('Connection: Upgrade\r\nUpgrade: tcp\r\n')],
  ['Connection nominates the field only', upgrade('Connection: X-Upgrade\r\nUpgrade: websocket\r\n')],
]) {
  t.test(`an upgrade that is none: ${title}; the upstream takes it for one`, async (t) => {
    const script = async (wire: Wire) => {
      const request = await nextRequest(wire);
      t.same([request.field('upgrade'), request.field('connection')], [undefined, undefined]);
      wire.send(switched);
    };
    const outcome = await against(arena, script, { raw });
    t.strictSame([statuses(outcome), codes(outcome)], [[502], ['upstream_protocol']]);
    await t.resolves(arena.holds(1));
  });
}

for (const [title, answer] of [
  ['another protocol', switched.replace('websocket', 'h2c')],
  ['no protocol', switched.replace('Upgrade: websocket\r\n', '')],
  ['no Connection', switched.replace('Connection: Upgrade\r\n', '')],
  ['two protocols', switched.replace('websocket', 'websocket, h2c')],
  ['two fields', switched.replace('\r\n\r\n', '\r\nUpgrade: websocket\r\n\r\n')],
  ['no Sec-WebSocket-Accept', switched.replace(/Sec-WebSocket-Accept: .*\r\n/, '')],
  ['the Sec-WebSocket-Accept of another handshake', switched.replace(webSocketAccept, webSocketKey)],
]) {
  t.test(`an upgrade is answered with 101 and ${title}`, async (t) => {
    const outcome = await against(arena, answering(answer), { raw: upgrade(websocket) });
    t.strictSame([statuses(outcome), codes(outcome)], [[502], ['upstream_protocol']]);
    await t.resolves(arena.holds(1));
  });
}

t.test(
  'an upgrade that is refused: what waits behind it is a request, with nothing of the tunnel',
  async (t) => {
    for (const refusal of ['400 No', '403 No', '426 Upgrade Required', '200 OK', '501 No']) {
      const up = await arena.upstream(async (wire) => {
        await answering(`HTTP/1.1 ${refusal}\r\nContent-Length: 0\r\n\r\n`)(wire);
        for (;;) await answering(ok('own'))(wire);
      });
      const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: api.good.test\r\nAuthorization: mine\r\n\r\n';
      const outcome = await arena.attack({
        connect: `api.good.test:${up.port}`,
        raw: upgrade(websocket) + smuggled,
        answers: 2,
      });
      t.strictSame(statuses(outcome), [Number(refusal.slice(0, 3)), 200]);
      t.notMatch(up.wires.map(({ all }) => all).join(''), 'mine', 'it was read as a request of its own');
      await arena.holds(2);
    }
  },
);

t.test('an upgrade that is granted: bytes are bytes, and are not read as requests', async (t) => {
  const up = await arena.upstream(async (wire) => {
    await answering(switched)(wire);
    await wire.rest();
    wire.socket.end();
  });
  const client = await tunnelWire(arena.lane, 'v1', `api.good.test:${up.port}`);
  client.send(upgrade(websocket) + get('', '/bytes'));
  await client.take('\r\n\r\n');
  await eventually(() => up.wires[0].all.endsWith(get('', '/bytes')), 'the bytes as they were sent');
  t.equal(
    (up.wires[0].all.match(/sk_live_good/g) ?? []).length,
    1,
    'the credential went with the handshake only',
  );
  client.close();
  await arena.holds(1);
});
