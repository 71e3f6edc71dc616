import { once } from 'node:events';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import type { Timeouts } from '../../src/proxy/lane.ts';
import {
  freePort,
  openProxy,
  openTunnel,
  proxyAuth,
  startLane,
  type TestLane,
  tunnelWire,
} from '../support/lane.ts';
import { rawUpstream, upstreamCa } from '../support/upstream.ts';
import {
  eventually,
  nextAnswer,
  nextRequest,
  type Wire,
  webSocketAccept,
  webSocketKey,
  wireOf,
} from '../support/wire.ts';

const name = 'api.good.test';
const vault = {
  services: [{ host: name, auth: { type: 'bearer' as const, token: 'KEY' } }],
  credentials: { KEY: 'sk_test_framing' },
};
const at = await startLane({ v1: vault }, { upstreamCa: [upstreamCa.certPem] });
t.teardown(() => at.stop());

const ok = (body: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const get = (path = '/') => `GET ${path} HTTP/1.1\r\nHost: ${name}\r\n\r\n`;

/** Sends one text in a tunnel; the answer to it, and whether the connection ended with it. */
async function refusal(port: number, text: string | Buffer): Promise<[status: number, error: string]> {
  const client = await tunnelWire(at, 'v1', `${name}:${port}`);
  client.send(text);
  const answer = await nextAnswer(client);
  if ((await client.rest()) !== '') throw new Error('more than one answer');
  if (answer.field('connection') !== 'close') throw new Error('it did not say that it closes');
  return [answer.status, answer.json.error];
}

t.test(
  'a head that two parsers could read in two ways: refused, nothing sent, connection closed',
  async (t) => {
    const up = await rawUpstream(t, (wire) => wire.send(ok('')));
    const line = `GET / HTTP/1.1\r\nHost: ${name}\r\n`;
    const cases: [what: string, text: string, status: number, error: string][] = [
      ['no Host', 'GET / HTTP/1.1\r\n\r\n', 400, 'invalid_request'],
      ['two Hosts', `${line}Host: ${name}\r\n\r\n`, 400, 'invalid_request'],
      ['a list as Host', `GET / HTTP/1.1\r\nHost: ${name}, b\r\n\r\n`, 400, 'invalid_request'],
      ['an empty Host', 'GET / HTTP/1.1\r\nHost:\r\n\r\n', 400, 'invalid_request'],
      ['user information in Host', `GET / HTTP/1.1\r\nHost: u@${name}\r\n\r\n`, 400, 'invalid_request'],
      ['another Host', 'GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n', 421, 'misdirected_request'],
      ['another port', `GET / HTTP/1.1\r\nHost: ${name}:1\r\n\r\n`, 421, 'misdirected_request'],
      [
        'another host in absolute form',
        'GET https://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n',
        421,
        'misdirected_request',
      ],
      [
        'another scheme in absolute form',
        `GET http://${name}/ HTTP/1.1\r\nHost: ${name}\r\n\r\n`,
        421,
        'misdirected_request',
      ],
      ['two slashes', `GET //x HTTP/1.1\r\nHost: ${name}\r\n\r\n`, 400, 'invalid_request'],
      ['an asterisk', `GET * HTTP/1.1\r\nHost: ${name}\r\n\r\n`, 400, 'invalid_request'],
      [
        'an authority as target',
        `GET evil.test:443 HTTP/1.1\r\nHost: ${name}\r\n\r\n`,
        400,
        'invalid_request',
      ],
      ['CONNECT', 'CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n', 405, 'method_not_allowed'],
      ['HTTP/2.0 as text', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 505, 'http_version'],
      ['HTTP/0.9', 'GET /\r\n\r\n', 400, 'invalid_request'],
      ['another expectation', `${line}Expect: x\r\n\r\n`, 417, 'expectation_failed'],
      ['two lengths', `${line}Content-Length: 1\r\nContent-Length: 1\r\n\r\nx`, 400, 'invalid_request'],
      [
        'a length and a coding',
        `${line}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`,
        400,
        'invalid_request',
      ],
      [
        'a coding in HTTP/1.0',
        `${line.replace('1.1', '1.0')}Transfer-Encoding: chunked\r\n\r\n`,
        400,
        'invalid_request',
      ],
      ['257 fields', `${line}${'A: b\r\n'.repeat(256)}\r\n`, 431, 'headers_too_large'],
      ['64 KiB of fields', `${line}A: ${'b'.repeat(65_536)}\r\n\r\n`, 431, 'headers_too_large'],
      ['64 KiB and no end', `${line}A: ${'b'.repeat(70_000)}`, 431, 'headers_too_large'],
      [
        '33 KiB of target',
        `GET /${'b'.repeat(33_000)} HTTP/1.1\r\nHost: ${name}\r\n\r\n`,
        431,
        'headers_too_large',
      ],
      // Refused at once: no blank line ever comes.
      ['bare LF', `GET / HTTP/1.1\nHost: ${name}\n\n`, 400, 'invalid_request'],
      ['bare CR', `GET / HTTP/1.1\r\nHost: ${name}\rX: b\r\n\r\n`, 400, 'invalid_request'],
    ];
    for (const [what, text, ...expected] of cases)
      t.strictSame(await refusal(up.port, `${text}${get('/smuggled')}`), expected, what);
    t.equal(up.connections, 0, 'nothing reached the upstream');
  },
);

t.test('what may stand in a head in more than one way is one and the same upstream', async (t) => {
  const up = await rawUpstream(t, async (wire) => {
    for (;;) wire.send(ok(await wire.take('\r\n\r\n')));
  });
  const client = await tunnelWire(at, 'v1', `${name}.:${up.port}`, { tls: { servername: name } });
  const usual = `GET /x HTTP/1.1\r\nHost: ${name}:${up.port}\r\nAuthorization: Bearer sk_test_framing\r\n\r\n`;
  for (const head of [
    `GET /x HTTP/1.1\r\nHost: ${name}:${up.port}`,
    `GET /x HTTP/1.1\r\nHost: ${name}`,
    `GET /x HTTP/1.1\r\nhost:   API.Good.TEST.\t`,
    `GET https://${name}:${up.port}/x HTTP/1.1\r\nHost: ${name}`,
    `\r\nGET /x HTTP/1.1\r\nHost: ${name}`,
  ]) {
    client.send(`${head}\r\n\r\n`);
    t.equal((await nextAnswer(client)).body, usual, head);
  }
  client.send(`OPTIONS * HTTP/1.1\r\nHost: ${name}\r\n\r\n`);
  t.match((await nextAnswer(client)).body, /^OPTIONS \* HTTP\/1\.1\r\n/);
});

t.test('a body that breaks its framing: its upstream never has a whole message', async (t) => {
  const up = await rawUpstream(t, async (wire) => {
    for (;;) {
      await nextRequest(wire);
      wire.send(ok('whole'));
    }
  });
  const head = `POST / HTTP/1.1\r\nHost: ${name}\r\nTransfer-Encoding: chunked\r\n\r\n`;
  for (const body of [
    '3\r\nabcd\r\n0\r\n\r\n',
    '10000000000000003\r\nabc',
    '-3\r\nabc\r\n0\r\n\r\n',
    ' 3\r\nabc\r\n0\r\n\r\n',
    '3;a\nabc\r\n0\r\n\r\n',
    `3;${'a'.repeat(65_536)}\r\nabc\r\n0\r\n\r\n`,
    '3\r\nabc\r\n0\n\n',
    '3\r\nabc\r\n0\r\nContent-Length: 5\r\n\r\n',
    '3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n',
    '3\r\nabc\r\n0\r\nA : b\r\n\r\n',
  ]) {
    const what = JSON.stringify(body.slice(0, 40));
    t.strictSame(await refusal(up.port, `${head}${body}${get('/smuggled')}`), [400, 'invalid_request'], what);
    // The same when its head is with the upstream by the time that it breaks.
    const client = await tunnelWire(at, 'v1', `${name}:${up.port}`);
    const before = up.wires.length;
    client.send(`${head}1\r\nx\r\n`);
    await eventually(
      () => up.wires.length > before && up.wires[before].all.endsWith('x\r\n'),
      'the first chunk',
    );
    client.send(body);
    const answer = await nextAnswer(client);
    t.strictSame([answer.status, answer.json.error], [400, 'invalid_request'], `${what}, late`);
    await client.rest();
    await eventually(() => up.wires[before].ended, 'the end of the upstream connection');
  }
  for (const wire of up.wires) t.notMatch(wire.all, /\r\n0\r\n|whole|smuggled/);
});

t.test('an answer that breaks the protocol: 502, and nothing of it', async (t) => {
  const status = 'HTTP/1.1 200 OK\r\n';
  const cases: [what: string, answer: string][] = [
    [
      'a length and a coding',
      `${status}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n`,
    ],
    ['two lengths', `${status}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc`],
    ['bare LF', 'HTTP/1.1 200 OK\nContent-Length: 3\n\nabc'],
    ['a folded line', `${status}A: b\r\n c\r\nContent-Length: 0\r\n\r\n`],
    ['NUL', `${status}A: \x00\r\nContent-Length: 0\r\n\r\n`],
    ['bare CR', `${status}A: b\rc\r\nContent-Length: 0\r\n\r\n`],
    ['a space before the colon', `${status}A : b\r\nContent-Length: 0\r\n\r\n`],
    ['HTTP/0.9', 'hello'],
    ['HTTP/2.0 as text', 'HTTP/2.0 200 OK\r\n\r\n'],
    ['status 000', 'HTTP/1.1 000 No\r\n\r\n'],
    ['status 999', 'HTTP/1.1 999 No\r\n\r\n'],
    ['a head of 65 KiB', `${status}A: ${'b'.repeat(66_000)}\r\n\r\n`],
    ['a head without an end', `${status}A: ${'b'.repeat(66_000)}`],
    ['257 fields', `${status}${'A: b\r\n'.repeat(257)}\r\n`],
    ['a broken first chunk', `${status}Transfer-Encoding: chunked\r\n\r\nxyz\r\n`],
    ['HTTP/2 frames', '\x00\x00\x12\x04\x00\x00\x00\x00\x00'],
  ];
  for (const [what, answer] of cases) {
    // The upstream keeps its connection open: what can't become an answer isn't waited for.
    const up = await rawUpstream(t, async (wire) => {
      await nextRequest(wire);
      wire.send(answer);
    });
    const client = await tunnelWire(at, 'v1', `${name}:${up.port}`);
    client.send(get());
    const refused = await nextAnswer(client);
    t.strictSame([refused.status, refused.json.error], [502, 'upstream_protocol'], what);
    await eventually(() => up.wires[0].ended, 'the end of the upstream connection');
  }
});

t.test('any split of what a client or an upstream sends makes no difference', async (t) => {
  const chunked =
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x="y"\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nX-T: 1\r\n\r\n';
  const answers = [
    'HTTP/1.1 103 Early\r\nA: b\r\n\r\n',
    ok('fixed'),
    chunked,
    'HTTP/1.1 204 No Content\r\n\r\n',
    ok(''),
  ];
  let places: readonly number[] = [];
  const inPieces = async (wire: Wire, text: string): Promise<void> => {
    const cuts = [...new Set(places.map((place) => place % text.length))].sort((a, b) => a - b);
    for (const [i, cut] of [0, ...cuts].entries()) {
      wire.send(text.slice(cut, cuts[i] ?? text.length));
      // Far enough apart that the kernel does not put them together again.
      await sleep(1);
    }
  };
  const sent: unknown[] = [];
  const up = await rawUpstream(t, async (wire) => {
    for (let n = 1; ; n = n === 4 ? 1 : n + 1) {
      const { line, fields, body, trailers } = await nextRequest(wire);
      sent.push([line, fields, body, trailers]);
      await inPieces(wire, n === 1 ? answers[0] + answers[1] : answers[n]);
    }
  });
  const requests =
    `POST /1 HTTP/1.1\r\nHost: ${name}\r\nContent-Length: 5\r\n\r\nhello` +
    `POST /2 HTTP/1.1\r\nHost: ${name}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;a=b\r\nde\r\n0\r\nX-T: 1\r\n\r\n` +
    `GET /3 HTTP/1.1\r\nHost: ${name}\r\n\r\nGET /4 HTTP/1.1\r\nHost: ${name}\r\n\r\n`;
  const seen = new Set<string>();
  const round = async (given: readonly number[]): Promise<void> => {
    places = given;
    sent.length = 0;
    const client = await tunnelWire(at, 'v1', `${name}:${up.port}`);
    await inPieces(client, requests);
    const got: unknown[] = [];
    for (let i = 0; i < 4; i++) {
      const { line, interim, fields, body, trailers } = await nextAnswer(client);
      got.push([line, interim, fields, body, trailers]);
    }
    client.close();
    seen.add(JSON.stringify({ got, sent }));
  };
  await round([]);
  await fc.assert(fc.asyncProperty(fc.array(fc.nat(), { minLength: 1, maxLength: 12 }), round), {
    numRuns: 25,
  });
  t.equal(seen.size, 1, [...seen].slice(0, 2).join('\n'));
});

/** Short enough to wait for, long enough for what is to come in time on a busy machine. */
const brief = 800;

/** Several at once: each mostly waits. Each has a lane of its own, where only what it waits for is brief. */
t.test('deadlines', { jobs: 8 }, async (t) => {
  const waiting = (
    name: string,
    phases: readonly (keyof Timeouts)[],
    body: (t: Test, lane: TestLane) => Promise<void>,
  ) =>
    void t.test(name, { buffered: true }, async (t) => {
      const lane = await startLane(
        { v1: vault },
        {
          upstreamCa: [upstreamCa.certPem],
          names: { 'two.test': ['127.0.0.9', '127.0.0.1'] },
          timeouts: Object.fromEntries(phases.map((phase) => [phase, brief])),
        },
      );
      t.teardown(() => lane.stop());
      await body(t, lane);
    });
  const closed = (socket: net.Socket) => Promise.race([once(socket, 'end'), once(socket, 'close')]);
  const tunnelTo = (lane: TestLane, port: number) => tunnelWire(lane, 'v1', `${name}:${port}`);
  const timely = async (t: Test, work: Promise<unknown>): Promise<void> => {
    const began = performance.now();
    await work;
    const ms = performance.now() - began;
    t.ok(ms > brief / 2 && ms < 15_000, `${ms.toFixed()} ms`);
  };
  const hello = Buffer.from('1603010200010001fc0303', 'hex');

  waiting('not one byte on the proxy port', ['clientTls'], async (t, lane) =>
    timely(t, closed(await openProxy(lane))),
  );
  waiting('half a ClientHello on the proxy port', ['clientTls'], async (t, lane) => {
    const socket = await openProxy(lane);
    socket.write(hello);
    await timely(t, closed(socket));
  });
  waiting('half a head on the proxy port', ['head'], async (t, lane) => {
    const client = wireOf(await openProxy(lane));
    client.send('GET http://api.good.test/ HT');
    const began = performance.now();
    t.match((await nextAnswer(client)).json, { error: 'request_timeout' });
    t.ok(performance.now() - began > brief / 2);
    await client.rest();
  });
  waiting('a head that comes a byte at a time', ['head'], async (t, lane) => {
    const client = wireOf(await openProxy(lane));
    const drip = setInterval(() => client.send('G'), 50);
    t.match((await nextAnswer(client)).json, { error: 'request_timeout' });
    clearInterval(drip);
    await client.rest();
  });
  waiting('a tunnel with not one byte in it', ['clientTls'], async (t, lane) =>
    timely(t, closed((await openTunnel(lane, 'v1', `${name}:1`)).resume())),
  );
  waiting('half a ClientHello in a tunnel, a byte at a time', ['clientTls'], async (t, lane) => {
    const socket = await openTunnel(lane, 'v1', `${name}:1`);
    let sent = 0;
    const drip = setInterval(() => socket.write(hello.subarray(sent, ++sent)), 50);
    await timely(t, closed(socket.resume()));
    clearInterval(drip);
  });
  waiting('a handshake in a tunnel that stops', ['clientTls'], async (t, lane) => {
    const socket = await openTunnel(lane, 'v1', `${name}:1`);
    // A whole ClientHello of TLS 1.2, so that the server's turn and then ours comes.
    const probe = net.createServer().listen(0, '127.0.0.1');
    await once(probe, 'listening');
    const tls = await import('node:tls');
    const from = tls
      .connect({ port: (probe.address() as net.AddressInfo).port, servername: name })
      .on('error', () => {});
    const [peer] = await once(probe, 'connection');
    const [whole] = await once(peer, 'data');
    from.destroy();
    peer.destroy();
    probe.close();
    socket.write(whole);
    await once(socket, 'data');
    await timely(t, closed(socket.resume()));
  });
  waiting('half a head in a tunnel: 408, and on the books', ['head'], async (t, lane) => {
    const client = await tunnelTo(lane, 1);
    client.send('GET /half HTTP/1.1\r\nHos');
    t.match((await nextAnswer(client)).json, { error: 'request_timeout' });
    await client.rest();
    await eventually(() => lane.records.some(({ error }) => error === 'request_timeout'), 'its record');
  });
  waiting('an idle connection', ['keepAlive'], async (t, lane) => {
    const up = await rawUpstream(t, async (wire) => {
      await nextRequest(wire);
      wire.send(ok('x'));
    });
    const client = await tunnelTo(lane, up.port);
    client.send(get());
    await nextAnswer(client);
    await timely(t, client.rest());
  });
  waiting('an empty line is no request', ['keepAlive'], async (t, lane) => {
    const up = await rawUpstream(t, async (wire) => {
      for (;;) {
        await nextRequest(wire);
        wire.send(ok('x'));
      }
    });
    const client = await tunnelTo(lane, up.port);
    client.send(`${get()}\r\n`);
    await nextAnswer(client);
    t.equal(await client.rest(), '', 'closed as idle, without a 408');
  });
  waiting('an upstream that is silent', ['responseHead'], async (t, lane) => {
    const up = await rawUpstream(t, () => {});
    const client = await tunnelTo(lane, up.port);
    client.send(get());
    t.match((await nextAnswer(client)).json, { error: 'upstream_timeout' });
    await eventually(() => up.wires[0].ended, 'the end of the upstream connection');
  });
  waiting('an upstream that does not ask for an expected body', ['responseHead'], async (t, lane) => {
    const up = await rawUpstream(t, () => {});
    const client = await tunnelTo(lane, up.port);
    client.send(`POST / HTTP/1.1\r\nHost: ${name}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n`);
    t.match((await nextAnswer(client)).json, { error: 'upstream_timeout' });
    await client.rest();
  });
  waiting('a client that stops in its body', ['body'], async (t, lane) => {
    const up = await rawUpstream(t, (wire) => wire.take(100));
    const client = await tunnelTo(lane, up.port);
    client.send(`POST / HTTP/1.1\r\nHost: ${name}\r\nContent-Length: 5\r\n\r\nabc`);
    t.match((await nextAnswer(client)).json, { error: 'request_timeout' });
    await client.rest();
    await eventually(() => up.wires[0].ended, 'the end of the upstream connection');
  });
  waiting('an upstream that stops reading a body', ['body'], async (t, lane) => {
    const up = await rawUpstream(t, (wire) => {
      wire.socket.removeAllListeners('data');
      wire.socket.pause();
    });
    const client = await tunnelTo(lane, up.port);
    client.send(`POST / HTTP/1.1\r\nHost: ${name}\r\nContent-Length: 100000000\r\n\r\n`);
    const piece = Buffer.alloc(1024 * 1024);
    for (let i = 0; i < 32; i++) client.socket.write(piece);
    t.match((await nextAnswer(client)).json, { error: 'upstream_timeout' });
    client.close();
  });
  waiting('an answer that stops in its body', ['body'], async (t, lane) => {
    const up = await rawUpstream(t, async (wire) => {
      await nextRequest(wire);
      wire.send('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc');
    });
    const client = await tunnelTo(lane, up.port);
    client.send(get('/stops'));
    await client.take('abc');
    t.equal(await client.rest(), '');
    t.match(await lane.recordsOf('/stops'), [{ status: 200, error: 'timeout' }]);
    await eventually(() => up.wires[0].ended, 'the end of the upstream connection');
  });
  waiting('a client that stops reading', ['body'], async (t, lane) => {
    const up = await rawUpstream(t, async (wire) => {
      await nextRequest(wire);
      wire.send('HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n');
      wire.socket.write(Buffer.alloc(100_000_000));
    });
    const client = await tunnelTo(lane, up.port);
    client.socket.removeAllListeners('data');
    client.socket.pause();
    client.send(get('/unread'));
    t.match(await lane.recordsOf('/unread'), [{ error: 'timeout' }]);
    await eventually(() => up.wires[0].ended, 'the end of the upstream connection');
  });
  waiting('an upstream that takes no connection', ['connect'], async (t, lane) => {
    // A listener whose thread never accepts, with its queue full: further connections hang.
    const worker = new Worker(
      `const server = require('node:net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
         require('node:worker_threads').parentPort.postMessage(server.address().port);
         setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0));
       });`,
      { eval: true },
    );
    const [port] = await once(worker, 'message');
    const fillers = Array.from({ length: 6 }, () => net.connect(port, '127.0.0.1').on('error', () => {}));
    await sleep(100);
    const client = await tunnelTo(lane, port);
    client.send(get());
    t.match((await nextAnswer(client)).json, { error: 'upstream_timeout' });
    for (const filler of fillers) filler.destroy();
    await worker.terminate();
  });
  waiting('an upstream that never finishes its TLS handshake', ['upstreamTls'], async (t, lane) => {
    const up = await rawUpstream(t, () => {}, { tls: false });
    const client = await tunnelTo(lane, up.port);
    client.send(get());
    t.match((await nextAnswer(client)).json, { error: 'upstream_timeout' });
    await eventually(() => up.wires[0].ended, 'the end of the upstream connection');
  });
  waiting('a relayed connection without a byte', ['relay'], async (t, lane) => {
    const up = await rawUpstream(t, async (wire) => {
      await nextRequest(wire);
      const accept = `Sec-WebSocket-Accept: ${webSocketAccept}\r\n`;
      wire.send(`HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${accept}\r\n`);
    });
    const client = await tunnelTo(lane, up.port);
    const key = `Sec-WebSocket-Key: ${webSocketKey}\r\n`;
    client.send(`GET / HTTP/1.1\r\nHost: ${name}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${key}\r\n`);
    await client.take('\r\n\r\n');
    await timely(t, client.rest());
    await eventually(() => up.wires[0].ended, 'the end of the upstream connection');
  });
  waiting('an address that refuses: the next one is tried', [], async (t, lane) => {
    const up = await rawUpstream(t, (wire) => wire.send(ok('second')), { tls: false });
    const client = wireOf(await openProxy(lane));
    client.send(
      `GET http://two.test:${up.port}/ HTTP/1.1\r\nHost: x\r\n${proxyAuth(lane.tokens.v1, 'v1')}\r\n`,
    );
    t.equal((await nextAnswer(client)).body, 'second');
  });
  waiting('an upstream that refuses, and a name that is none', [], async (t, lane) => {
    for (const target of [`api.good.test:${await freePort()}`, 'no.such.name.invalid:80']) {
      const client = wireOf(await openProxy(lane));
      client.send(`GET http://${target}/ HTTP/1.1\r\nHost: x\r\n${proxyAuth(lane.tokens.v1, 'v1')}\r\n`);
      const answer = await nextAnswer(client);
      t.strictSame([answer.status, answer.json.error], [502, 'upstream_unreachable'], target);
    }
  });
});
