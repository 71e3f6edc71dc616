import { once } from 'node:events';
import type net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { openProxy, openTunnel, proxyAuth, startLane, tunnelWire } from '../support/lane.ts';
import { rawUpstream, type TestUpstream, type UpstreamOptions, upstreamCa } from '../support/upstream.ts';
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
  credentials: { KEY: 'sk_test_connections' },
};
const at = await startLane({ v1: vault, v2: vault }, { upstreamCa: [upstreamCa.certPem] });
t.teardown(() => at.stop());
/** A second by the protocol; here as much more as a busy machine may take. */
const soon = 4000;

const ok = (body: string, fields = '') =>
  `HTTP/1.1 200 OK\r\n${fields}Content-Length: ${body.length}\r\n\r\n${body}`;
const get = (path = '/', fields = '') => `GET ${path} HTTP/1.1\r\nHost: ${name}\r\n${fields}\r\n`;
const post = (body: string) =>
  `POST / HTTP/1.1\r\nHost: ${name}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

/** Answers each request on each connection by what `of` says, until it says nothing. */
function upstreamOf(
  t: Test,
  of: (line: string, wire: Wire, n: number, body: string) => string | undefined,
  options?: UpstreamOptions,
): Promise<TestUpstream> {
  return rawUpstream(
    t,
    async (wire, n) => {
      for (;;) {
        const { line, body } = await nextRequest(wire);
        const answer = of(line, wire, n, body);
        if (answer === undefined) return;
        wire.send(answer);
      }
    },
    options,
  );
}

const tunnel = (up: TestUpstream, vault = 'v1') => tunnelWire(at, vault, `${name}:${up.port}`);

async function ask(client: Wire, request: string): Promise<[status: number, body: string]> {
  client.send(request);
  const { status, body } = await nextAnswer(client);
  return [status, body];
}

t.test('an upstream connection serves many clients of one vault, and no other vault ever', async (t) => {
  const up = await upstreamOf(t, (_, wire, n) => ok(`${n} ${/Bearer (\S+)/.exec(wire.all)?.[1]}`));
  const [a, b, c] = [await tunnel(up), await tunnel(up), await tunnel(up, 'v2')];
  t.strictSame(await ask(a, get()), [200, '0 sk_test_connections']);
  t.strictSame(await ask(b, get()), [200, '0 sk_test_connections']);
  t.strictSame(await ask(c, get()), [200, '1 sk_test_connections']);
  t.strictSame(await ask(a, get()), [200, '0 sk_test_connections']);
  // Cleartext and TLS, or another name for the same address, are other origins.
  const other = await tunnelWire(at, 'v1', `other.test:${up.port}`);
  other.send(`GET / HTTP/1.1\r\nHost: other.test\r\n\r\n`);
  t.equal((await nextAnswer(other)).body, '2 undefined');
  t.equal(up.connections, 3);
});

t.test('a surplus byte: the connection is not used again, and nobody gets what came', async (t) => {
  const poison = ok('poison');
  const cases: [what: string, of: (wire: Wire) => string][] = [
    ['in one piece with its answer', () => ok('fine') + poison],
    ['one byte', () => `${ok('fine')}\n`],
    [
      'behind the last chunk',
      () => `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfine\r\n0\r\n\r\n${poison}`,
    ],
    [
      'later, on an idle connection',
      (wire) => {
        setTimeout(() => wire.send(poison), 15);
        return ok('fine');
      },
    ],
    ['behind a 304', () => `HTTP/1.1 304 Not Modified\r\nContent-Length: 6\r\n\r\npoison`],
  ];
  for (const [what, of] of cases) {
    const up = await upstreamOf(t, (_, wire, n) => (n === 0 ? of(wire) : ok('clean')));
    const [a, b] = [await tunnel(up), await tunnel(up, 'v2')];
    const [status, body] = await ask(a, get());
    t.ok(status === 304 || body === 'fine', what);
    await sleep(40);
    t.strictSame(await ask(a, get()), [200, 'clean'], `${what}: the next on this connection`);
    t.strictSame(await ask(b, get()), [200, 'clean'], `${what}: another vault`);
    t.ok(up.wires[0].ended, `${what}: it was closed`);
  }
});

t.test(
  'an upstream that closes as the next request comes: an answer or a 502, never two deliveries',
  async (t) => {
    const delivered = new Map<string, number>();
    const up = await upstreamOf(t, (_, wire, __, body) => {
      delivered.set(body, (delivered.get(body) ?? 0) + 1);
      // Closes at once, or in a moment that the next request is likely to hit.
      if (body.startsWith('now')) wire.socket.end(ok('done'));
      else setTimeout(() => wire.socket.destroy(), 2);
      return body.startsWith('now') ? undefined : ok('done');
    });
    const client = await tunnel(up);
    let good = 0;
    const rounds = 60;
    for (let i = 0; i < rounds; i++) {
      const [status] = await ask(client, post(`${i % 2 ? 'now' : 'soon'} ${i}`));
      if (status === 200) good++;
      else t.equal(status, 502);
      if (i % 4 === 0) await sleep(2);
    }
    t.equal(Math.max(...delivered.values()), 1);
    t.ok(good >= rounds / 2, `${good} of ${rounds}`);
    // For certain: the request is read, and then the connection ends without an answer.
    let read = 0;
    const cutting = await upstreamOf(t, (line) => {
      if (line.startsWith('GET /first')) return ok('kept');
      read++;
      cutting.wires[0].socket.destroy();
      return undefined;
    });
    const cut = await tunnel(cutting);
    await ask(cut, get('/first'));
    t.equal((await ask(cut, post('once')))[0], 502);
    await sleep(30);
    t.strictSame([read, cutting.connections], [1, 1]);
  },
);

t.test('an idle connection is kept as long as its upstream says, less a second', async (t) => {
  const up = await upstreamOf(t, (line) =>
    ok('', `Keep-Alive: timeout=${line.includes('/one') ? 1 : line.includes('/two') ? 2 : 60}\r\n`),
  );
  const client = await tunnel(up);
  await ask(client, get('/one'));
  await ask(client, get('/long'));
  t.equal(up.connections, 2, 'one second: not at all');
  await ask(client, get('/two'));
  t.equal(up.connections, 2);
  await eventually(() => up.wires[1].ended, 'the end of an idle connection', 3000);
  await ask(client, get('/long'));
  t.equal(up.connections, 3);
});

const upgrade = (fields = 'Sec-WebSocket-Version: 13\r\n', path = '/socket') =>
  get(
    path,
    `Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: ${webSocketKey}\r\n${fields}`,
  );
const switching = `HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${webSocketAccept}\r\n\r\n`;

t.test('WebSocket: credentials go with the handshake, then bytes go both ways', async (t) => {
  const up = await rawUpstream(t, async (wire) => {
    const request = await nextRequest(wire);
    t.match(request.fields, [
      ['Host', `${name}:${up.port}`],
      ['Sec-WebSocket-Key', webSocketKey],
      ['Sec-WebSocket-Version', '13'],
      ['Authorization', 'Bearer sk_test_connections'],
      ['Connection', 'Upgrade'],
      ['Upgrade', 'websocket'],
    ]);
    // The first bytes of the new protocol in one piece with the head.
    wire.send(`${switching}hello`);
    t.equal(await wire.take(6), '\x00early');
    wire.send(await wire.take(4));
    t.equal(await wire.rest(), 'last words', 'a half-close passes through');
    wire.socket.end('and bye');
  });
  const client = await tunnel(up);
  client.send(upgrade(undefined, '/socket/1'));
  client.send('\x00early');
  const answer = await nextAnswer(client);
  t.equal(answer.status, 101);
  t.strictSame(answer.fields, [
    ['Sec-WebSocket-Accept', webSocketAccept],
    ['Connection', 'Upgrade'],
    ['Upgrade', 'websocket'],
  ]);
  t.equal(await client.take(5), 'hello');
  client.send('ping');
  t.equal(await client.take(4), 'ping');
  await sleep(60);
  t.notOk(
    at.records.some(({ path }) => path === '/socket/1'),
    'its record comes with its end',
  );
  client.socket.end('last words');
  t.equal(await client.rest(), 'and bye');
  t.match(await at.recordsOf('/socket/1'), [
    { status: 101, error: null, bytes_in: 20, bytes_out: 16, keys: ['KEY'] },
  ]);
});

t.test('WebSocket: megabytes both ways, and an end that follows an end', async (t) => {
  const up = await rawUpstream(t, async (wire) => {
    await nextRequest(wire);
    wire.send(switching);
    wire.socket.removeAllListeners('data');
    wire.socket.pipe(wire.socket);
  });
  const client = await tunnel(up);
  client.send(upgrade());
  await nextAnswer(client);
  client.socket.removeAllListeners('data');
  const size = 16 * 1024 * 1024;
  let came = 0;
  client.socket.on('data', (piece: Buffer) => {
    came += piece.length;
  });
  for (let sent = 0; sent < size; sent += 65_536)
    if (!client.socket.write(Buffer.alloc(65_536))) await once(client.socket, 'drain');
  await eventually(() => came === size, 'the echo');
  client.close();
  await eventually(() => up.wires[0].ended, 'the end of the upstream connection', soon);
  const second = await tunnel(up);
  second.send(upgrade());
  await nextAnswer(second);
  await eventually(() => up.wires.length === 2, 'the second connection');
  up.wires[1].socket.destroy();
  await second.rest();
});

t.test('WebSocket: who sends to one that does not read is held, either way', async (t) => {
  const size = 96 * 1024 * 1024;
  const piece = Buffer.alloc(256 * 1024);
  /** Writes until all is out; what it has written so far. */
  const pour = (socket: net.Socket): (() => number) => {
    let sent = 0;
    const fill = (): void => {
      while (sent < size) {
        sent += piece.length;
        if (!socket.write(piece)) return;
      }
    };
    socket.on('drain', fill);
    fill();
    return () => sent;
  };
  for (const sender of ['client', 'upstream']) {
    const up = await rawUpstream(
      t,
      async (wire) => {
        await nextRequest(wire);
        wire.send(switching);
      },
      { tls: false },
    );
    const client = wireOf(await openTunnel(at, 'v1', `${name}:${up.port}`));
    client.send(upgrade());
    await nextAnswer(client);
    const ends = [client.socket, up.wires[0].socket];
    const [from, to] = sender === 'client' ? ends : ends.reverse();
    let came = 0;
    to.removeAllListeners('data');
    to.on('data', (chunk: Buffer) => {
      came += chunk.length;
    });
    to.pause();
    const sent = pour(from);
    let before = -1;
    while (before !== sent()) {
      before = sent();
      await sleep(300);
    }
    t.ok(before < size / 2, `${sender}: held at ${(before / 1024 / 1024).toFixed(1)} MiB`);
    to.resume();
    await eventually(() => came === size, 'all of it');
    client.close();
  }
});

t.test('a relayed connection whose upstream ends and then breaks does not stay open', async (t) => {
  const hasty = await startLane({ v1: {} }, { timeouts: { body: 500 } });
  t.teardown(() => hasty.stop());
  const up = await rawUpstream(
    t,
    async (wire) => {
      await nextRequest(wire);
      wire.send(switching);
      wire.socket.end('bye');
      await sleep(100);
      wire.socket.resetAndDestroy();
    },
    { tls: false },
  );
  const client = wireOf(await openTunnel(hasty, 'v1', `${name}:${up.port}`));
  client.send(upgrade());
  await nextAnswer(client);
  t.equal(await client.rest(), 'bye');
  // The client never closes for its part, and goes on sending: the broker ends it.
  const poke = setInterval(() => client.send('x'), 100);
  await once(client.socket, 'close').catch(() => {});
  clearInterval(poke);
  t.match(await hasty.recordsOf('/socket'), [{ status: 101 }]);
});

t.test('WebSocket: an upgrade that is refused keeps its status, and what follows is a request', async (t) => {
  const lines: string[] = [];
  const up = await upstreamOf(t, (line) => {
    lines.push(line);
    return line.includes('/socket')
      ? 'HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 13\r\nContent-Length: 2\r\n\r\nno'
      : ok('own request');
  });
  const client = await tunnel(up);
  client.send(`${upgrade('Sec-WebSocket-Version: 1337\r\n')}${get('/smuggled')}`);
  t.match(await nextAnswer(client), { status: 426, body: 'no' });
  t.match(await nextAnswer(client), { status: 200, body: 'own request' });
  t.strictSame(lines, ['GET /socket HTTP/1.1', 'GET /smuggled HTTP/1.1']);
  t.equal((up.wires[0].all.match(/Bearer sk_test_connections/g) ?? []).length, 2, 'with its own credentials');
});

t.test('no other upgrade passes: h2c, another method, a body', async (t) => {
  const up = await upstreamOf(t, (line, _, __, body) => ok(`${line}|${body}`));
  const client = await tunnel(up);
  const h2c = get(
    '/',
    'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n',
  );
  t.strictSame(await ask(client, h2c), [200, 'GET / HTTP/1.1|']);
  const body = 'GET /smuggled HTTP/1.1\r\n\r\n';
  for (const protocol of ['foo', 'websocket']) {
    const fields = `Connection: Upgrade\r\nUpgrade: ${protocol}\r\nContent-Length: ${body.length}\r\n`;
    t.strictSame(await ask(client, `${get('/', fields).replace('GET', 'POST')}${body}`), [
      200,
      `POST / HTTP/1.1|${body}`,
    ]);
  }
  t.notMatch(up.wires[0].all, /upgrade|http2-settings/i);
});

t.test('a 101 that nobody asked for is a 502', async (t) => {
  for (const [request, answer] of [
    [get(), switching],
    [upgrade(), switching.replace('WebSocket', 'h2c')],
    [upgrade(), switching.replace('Upgrade: WebSocket\r\n', '')],
    [upgrade(), switching.replace('Connection: Upgrade\r\n', '')],
    [upgrade(), switching.replace(/Sec-WebSocket-Accept: .*\r\n/, '')],
    [upgrade(), switching.replace(webSocketAccept, webSocketKey)],
    [upgrade(), switching.replace(webSocketAccept, webSocketAccept.toLowerCase())],
    [upgrade(), switching.replace('\r\n\r\n', `\r\nSec-WebSocket-Accept: ${webSocketAccept}\r\n\r\n`)],
  ]) {
    const up = await rawUpstream(t, async (wire) => {
      await nextRequest(wire);
      wire.send(answer);
    });
    const client = await tunnel(up);
    client.send(request);
    const refused = await nextAnswer(client);
    t.match([refused.status, refused.json.error], [502, 'upstream_protocol']);
    await eventually(() => up.wires[0].ended, 'the end of the upstream connection');
  }
});

const auth = proxyAuth(at.tokens.v1, 'v1');

t.test('absolute form: http and https, to several hosts on one connection', async (t) => {
  const plain = await upstreamOf(t, (line, wire) => ok(`${line}|${/^host: (.*)\r$/im.exec(wire.all)?.[1]}`), {
    tls: false,
  });
  const secure = await upstreamOf(t, (line, wire) => ok(`${line}|${/^host: (.*)\r$/im.exec(wire.all)?.[1]}`));
  for (const wrapped of [false, true]) {
    const client = wireOf(await openProxy(at, wrapped));
    const absolute = (url: string, fields = '') =>
      `GET ${url} HTTP/1.1\r\nHost: evil.test\r\n${auth}${fields}\r\n`;
    const cases: [url: string, line: string, host: string][] = [
      [`http://${name}:${plain.port}/a?b`, 'GET /a?b HTTP/1.1', `${name}:${plain.port}`],
      [`https://${name}:${secure.port}/c`, 'GET /c HTTP/1.1', `${name}:${secure.port}`],
      [`HTTP://OTHER.test:${plain.port}`, 'GET / HTTP/1.1', `other.test:${plain.port}`],
      [`http://other.test:${plain.port}?q`, 'GET /?q HTTP/1.1', `other.test:${plain.port}`],
    ];
    for (const [url, line, host] of cases) {
      const [status, body] = await ask(client, absolute(url));
      t.strictSame([status, body.split('|')[0]], [200, line], url);
      if (url.includes(name)) t.equal(body.split('|')[1], host, 'the target wins over Host');
    }
  }
  t.match(plain.wires[0].all, /Authorization: Bearer sk_test_connections/);
  t.match(secure.wires[0].all, /Authorization: Bearer sk_test_connections/);
  t.notMatch(plain.wires[1].all, /sk_test_connections|brk_ses/, 'no service, no credential');
  for (const { all } of [...plain.wires, ...secure.wires]) t.notMatch(all, /proxy-authorization|brk_ses/i);
});

t.test('absolute form: what is refused, and with what the connection goes on', async (t) => {
  const send = async (text: string) => {
    const client = wireOf(await openProxy(at));
    client.send(text);
    const answer = await nextAnswer(client);
    await client.rest();
    return [answer.status, answer.json.error, answer.field('x-broker-error')];
  };
  const bad = [400, 'invalid_request', 'invalid_request'];
  for (const target of [
    '/x',
    '*',
    'ftp://api.good.test/',
    'http:/api.good.test/',
    'http://',
    'http:///x',
    'http://user@api.good.test/',
    'http://api%2egood.test/',
    'http://api.good.test:0/',
    'http://127.1/',
    'ws://api.good.test/',
  ])
    t.strictSame(await send(`GET ${target} HTTP/1.1\r\nHost: ${name}\r\n${auth}\r\n`), bad, target);
  t.strictSame(await send(`GET http://${name}/ HTTP/1.1\r\n${auth}\r\n`), bad, 'no Host');
  t.strictSame(
    await send(`GET http://${name}/ HTTP/1.1\r\nHost: a, b\r\n${auth}\r\n`),
    bad,
    'a list as Host',
  );
});

t.test('a stream on the outer connection ends with its session, too', async (t) => {
  const up = await rawUpstream(
    t,
    async (wire) => {
      await nextRequest(wire);
      wire.send('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n');
    },
    { tls: false },
  );
  const token = at.addSession({ vaults: ['v1'] });
  const client = wireOf(await openProxy(at));
  client.send(`GET http://${name}:${up.port}/ HTTP/1.1\r\nHost: ${name}\r\n${proxyAuth(token)}\r\n`);
  await client.take('data: 1\n\n');
  at.revoke(token);
  await eventually(() => client.ended, 'the end of the connection', soon);
  await eventually(() => up.wires[0].ended, 'the end of the upstream connection', soon);
});

t.test('a body that goes on behind a refusal: the answer arrives, and little more is read', async (t) => {
  const limited = await startLane(
    {
      v1: {
        ...vault,
        services: [...vault.services, { host: 'off.test', auth: { type: 'passthrough' }, enabled: false }],
      },
      deny: { settings: { unmatched_host_policy: 'deny' } },
    },
    { upstreamCa: [upstreamCa.certPem] },
  );
  t.teardown(() => limited.stop());
  const early = await rawUpstream(t, async (wire) => {
    await wire.take('\r\n\r\n');
    wire.send('HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig');
    wire.socket.removeAllListeners('data');
    wire.socket.pause();
  });
  const head = (host: string, framing: string, target = '/') =>
    `POST ${target} HTTP/1.1\r\nHost: ${host}\r\n${framing}\r\n\r\n`;
  const endless = 'Content-Length: 1000000000000';
  const inTunnel = (vaultName: string, host: string) =>
    tunnelWire(limited, vaultName, `${host}:${early.port}`);
  const outside = async () => wireOf(await openProxy(limited));
  const rows: [title: string, open: () => Promise<Wire>, sent: string, status: number][] = [
    ['an upstream’s early 413', () => inTunnel('v1', name), head(name, endless), 413],
    ['a host that the policy denies', () => inTunnel('deny', name), head(name, endless), 403],
    ['a service that is off', () => inTunnel('v1', 'off.test'), head('off.test', endless), 403],
    ['another host', () => inTunnel('v1', name), head('other.test', endless), 421],
    ['another expectation', () => inTunnel('v1', name), head(name, `Expect: x\r\n${endless}`), 417],
    ['two lengths', () => inTunnel('v1', name), head(name, `${endless}\r\n${endless}`), 400],
    ['no token', outside, head(name, endless, `http://${name}/`), 407],
    ['origin form on the proxy port', outside, head(name, endless), 400],
    ['a CONNECT with a body', outside, `CONNECT ${name}:443 HTTP/1.1\r\nHost: x\r\n${endless}\r\n\r\n`, 400],
  ];
  // What lies in the buffers of two sockets on loopback is the kernel's, and may be some megabytes.
  const most = 24 * 1024 * 1024;
  await Promise.all(
    rows.map(async ([title, open, sent, status]) => {
      const client = await open();
      client.send(sent);
      const piece = Buffer.alloc(256 * 1024, '0');
      let out = 0;
      let closed = false;
      client.socket.on('close', () => {
        closed = true;
      });
      const pour = (): void => {
        while (!closed && out < 8 * most) {
          out += piece.length;
          if (!client.socket.write(piece)) return;
        }
      };
      client.socket.on('drain', pour);
      pour();
      t.equal((await nextAnswer(client)).status, status, title);
      await eventually(() => closed, `${title}: the end of the connection`);
      t.ok(out < most, `${title}: ${(out / 1024 / 1024).toFixed(1)} MiB went out`);
    }),
  );
});

/** A ClientHello (RFC 8446 4.1.2) with a server name (RFC 6066 3) and nothing else. */
function helloFor(serverName: string): Buffer {
  const sized = (bytes: number, content: Buffer) => {
    const size = Buffer.alloc(bytes);
    size.writeUIntBE(content.length, 0, bytes);
    return Buffer.concat([size, content]);
  };
  const hex = (text: string) => Buffer.from(text, 'hex');
  const names = sized(2, Buffer.concat([hex('00'), sized(2, Buffer.from(serverName))]));
  const extension = Buffer.concat([hex('0000'), sized(2, names)]);
  const body = Buffer.concat([hex(`0303${'00'.repeat(32)}00000213010100`), sized(2, extension)]);
  return Buffer.concat([hex('160301'), sized(2, Buffer.concat([hex('01'), sized(3, body)]))]);
}

t.test('a handshake for another name: its connection is not read for ever', async (t) => {
  const client = await openTunnel(at, 'v1', `${name}:443`);
  const came = wireOf(client);
  client.write(helloFor('evil.test'));
  let closed = false;
  client.on('close', () => {
    closed = true;
  });
  const poke = setInterval(() => client.write('x'), 50);
  t.teardown(() => clearInterval(poke));
  const alert = Buffer.from(await came.take(7), 'latin1');
  t.strictSame([alert[0], alert[6]], [21, 112], 'an alert: unrecognized_name');
  await eventually(() => closed, 'the end of the connection');
});
