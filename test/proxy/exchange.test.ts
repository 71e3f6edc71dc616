import { createHash, randomBytes } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t, { type Test } from 'tap';
import { openProxy, openTlsTunnel, openTunnel, proxyAuth, startLane, tunnelWire } from '../support/lane.ts';
import {
  httpUpstream,
  rawUpstream,
  type TestUpstream,
  type UpstreamOptions,
  upstreamCa,
} from '../support/upstream.ts';
import { eventually, nextAnswer, nextRequest, type Wire, wireOf } from '../support/wire.ts';

const name = 'api.good.test';
const vault = {
  services: [{ host: name, auth: { type: 'bearer' as const, token: 'KEY' } }],
  credentials: { KEY: 'sk_test_exchange' },
};
const at = await startLane({ v1: vault, v2: vault }, { upstreamCa: [upstreamCa.certPem] });
t.teardown(() => at.stop());
/** A second by the protocol; here as much more as a busy machine may take. */
const soon = 4000;

type Script = (wire: Wire, n: number) => unknown;

/** A scripted upstream, and a client in a tunnel to it. */
async function pair(t: Test, script: Script, options?: UpstreamOptions): Promise<[Wire, TestUpstream]> {
  const up = await rawUpstream(t, script, options);
  const client =
    options?.tls === false
      ? wireOf(await openTunnel(at, 'v1', `${name}:${up.port}`))
      : await tunnelWire(at, 'v1', `${name}:${up.port}`);
  return [client, up];
}

/** Answers every request on a connection by its target. */
const answering =
  (of: (target: string) => string): Script =>
  async (wire) => {
    for (;;) {
      const { line } = await nextRequest(wire);
      wire.send(of(line.split(' ')[1]));
    }
  };
const ok = (body: string, fields = '') =>
  `HTTP/1.1 200 OK\r\n${fields}Content-Length: ${body.length}\r\n\r\n${body}`;
const get = (path = '/', fields = '') => `GET ${path} HTTP/1.1\r\nHost: ${name}\r\n${fields}\r\n`;
const post = (body: string, fields = '') =>
  `POST / HTTP/1.1\r\nHost: ${name}\r\n${fields}Content-Length: ${body.length}\r\n\r\n${body}`;
const chunkedPost = (fields = '') =>
  `POST / HTTP/1.1\r\nHost: ${name}\r\n${fields}Transfer-Encoding: chunked\r\n\r\n`;
const chunk = (body: string) => `${body.length.toString(16)}\r\n${body}\r\n`;

/** The client's connection still serves, on the same upstream connection or another. */
async function stillServes(t: Test, client: Wire, up: TestUpstream, connections: number): Promise<void> {
  client.send(get('/again'));
  t.equal((await nextAnswer(client)).status, 200, 'the connection goes on');
  t.equal(up.connections, connections, `upstream connections: ${connections}`);
}

/** `size` bytes that don't repeat soon, in pieces, to hash while they go. */
async function pour(socket: net.Socket, size: number): Promise<string> {
  const piece = randomBytes(64 * 1024);
  const hash = createHash('sha256');
  for (let sent = 0; sent < size; sent += piece.length) {
    piece.writeUInt32BE(sent, 0);
    const copy = Buffer.from(piece.subarray(0, Math.min(piece.length, size - sent)));
    hash.update(copy);
    if (!socket.write(copy)) await once(socket, 'drain');
  }
  return hash.digest('hex');
}

/** Hashes all that comes on a socket, up to `size` bytes behind the head. */
async function swallow(socket: net.Socket, size: number): Promise<string> {
  const hash = createHash('sha256');
  let head: Buffer | null = Buffer.alloc(0);
  let came = 0;
  await new Promise<void>((resolve, reject) => {
    const take = (content: Buffer): void => {
      hash.update(content);
      came += content.length;
      if (came >= size) resolve();
    };
    socket.on('data', (chunk: Buffer) => {
      if (head === null) return take(chunk);
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf('\r\n\r\n');
      if (end < 0) return;
      take(head.subarray(end + 4));
      head = null;
    });
    socket.on('close', reject);
  });
  return came === size ? hash.digest('hex') : `${came} bytes`;
}

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** The most memory that buffers hold on to while something goes on, above what it was before, in MiB. */
async function growth(work: () => Promise<unknown>): Promise<number> {
  const inUse = () => {
    // Twice: what the first finds is given back while the second runs.
    collect();
    collect();
    return process.memoryUsage().arrayBuffers;
  };
  const before = inUse();
  let most = before;
  const timer = setInterval(() => {
    most = Math.max(most, inUse());
  }, 250);
  await work();
  clearInterval(timer);
  return (most - before) / 1024 / 1024;
}

t.test('64 MiB up and down, byte for byte, at flat memory', async (t) => {
  const size = 64 * 1024 * 1024;
  let sent = '';
  let received = '';
  const up = await httpUpstream(t, async (request, response) => {
    if (request.method === 'POST') {
      const hash = createHash('sha256');
      for await (const piece of request) hash.update(piece);
      received = hash.digest('hex');
      response.end();
    } else {
      response.writeHead(200, { 'content-length': size });
      sent = await pour(response as unknown as net.Socket, size);
      response.end();
    }
  });
  const socket = await openTlsTunnel(at, 'v1', `${name}:${up.port}`);
  const down = await growth(async () => {
    socket.write(get('/'));
    t.equal(await swallow(socket, size), sent, 'down');
  });
  t.ok(down < 16, `buffers grew by ${down.toFixed(1)} MiB on the way down`);
  const sending = await openTlsTunnel(at, 'v1', `${name}:${up.port}`);
  const upwards = await growth(async () => {
    sending.write(`POST / HTTP/1.1\r\nHost: ${name}\r\nContent-Length: ${size}\r\n\r\n`);
    const [poured] = await Promise.all([pour(sending, size), once(sending, 'data')]);
    t.equal(received, poured, 'up');
  });
  t.ok(upwards < 16, `buffers grew by ${upwards.toFixed(1)} MiB on the way up`);
});

t.test('interim answers are passed on, up to 32 of them', async (t) => {
  const [client, up] = await pair(t, async (wire) => {
    for (;;) {
      const { line } = await nextRequest(wire);
      const n = Number(line.split(' ')[1].slice(1));
      wire.send(`${'HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\n'.repeat(n)}${ok('done')}`);
    }
  });
  client.send(get('/2'));
  t.equal(await client.take('\r\n\r\n'), 'HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\n');
  const first = await nextAnswer(client);
  t.match(first, { status: 200, body: 'done', interim: ['HTTP/1.1 103 Early Hints'] });
  client.send(get('/32'));
  t.equal((await nextAnswer(client)).interim.length, 32);
  client.send(get('/33'));
  const refused = await nextAnswer(client);
  t.match([refused.status, refused.json.error], [502, 'upstream_protocol']);
  client.send(get('/0'));
  t.equal((await nextAnswer(client)).status, 200);
  t.equal(up.connections, 2, 'the connection that misbehaved is not used again');
});

t.test('an interim answer reaches the client before the final one exists', async (t) => {
  const [client, up] = await pair(t, async (wire) => {
    await nextRequest(wire);
    wire.send('HTTP/1.1 100 Continue\r\n\r\n');
  });
  client.send(get());
  t.equal(await client.take('\r\n\r\n'), 'HTTP/1.1 100 Continue\r\n\r\n', 'unsolicited');
  up.wires[0].send(ok('late'));
  t.match(await nextAnswer(client), { status: 200, body: 'late' });
});

t.test('Expect: 100-continue', async (t) => {
  const heads: string[] = [];
  const [client] = await pair(t, async (wire) => {
    for (;;) {
      heads.push(await wire.take('\r\n\r\n'));
      if (/Continue-Me: no/.test(heads.at(-1) as string))
        wire.send('HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n');
      else {
        wire.send('HTTP/1.1 100 Continue\r\n\r\n');
        wire.send(ok(await wire.take(5)));
      }
    }
  });
  const head = `POST / HTTP/1.1\r\nHost: ${name}\r\nExpect: 100-Continue\r\nContent-Length: 5\r\n`;
  client.send(`${head}\r\n`);
  t.equal(
    await client.take('\r\n\r\n'),
    'HTTP/1.1 100 Continue\r\n\r\n',
    'the upstream’s own 100 comes back',
  );
  client.send('hello');
  t.match(await nextAnswer(client), { status: 200, body: 'hello' });
  t.match(heads[0], /\r\nExpect: 100-continue\r\n/);

  client.send(`${head}Continue-Me: no\r\n\r\n`);
  const refused = await nextAnswer(client);
  t.match([refused.status, refused.field('connection')], [403, 'close'], 'a final answer in its place');
  await client.rest();

  const other = await tunnelWire(at, 'v1', `${name}:1`);
  other.send(`POST / HTTP/1.1\r\nHost: ${name}\r\nExpect: 200-ok\r\nContent-Length: 5\r\n\r\n`);
  const failed = await nextAnswer(other);
  t.match([failed.status, failed.json.error], [417, 'expectation_failed']);
  await other.rest();
});

t.test('trailers pass both ways, but not those that frame, route or authenticate', async (t) => {
  const [client, up] = await pair(t, async (wire) => {
    const { trailers } = await nextRequest(wire);
    wire.send(
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Grpc-Status\r\n\r\n' +
        `${chunk(JSON.stringify(trailers))}0\r\nGrpc-Status: 0\r\nX-Sum: a\r\nContent-Length: 9\r\n` +
        'Authorization: x\r\nConnection: close\r\nHost: evil.test\r\nx-sum: b\r\n\r\n',
    );
    wire.send(ok((await nextRequest(wire)).line));
  });
  client.send(
    `${chunkedPost('Trailer: X-Check\r\nTE: trailers\r\n')}${chunk('body')}0\r\nX-Check: 1\r\nAuthorization: mine\r\n` +
      'authorization: mine\r\nHost: evil.test\r\nX-Vault: v2\r\nTE: gzip\r\nTransfer_Encoding: chunked\r\nx-check: 2\r\n\r\n',
  );
  const answer = await nextAnswer(client);
  t.same(JSON.parse(answer.body), ['X-Check: 1', 'x-check: 2'], 'of the request');
  t.strictSame(answer.trailers, ['Grpc-Status: 0', 'X-Sum: a', 'x-sum: b'], 'of the answer');
  t.equal(answer.field('trailer'), undefined, 'Trailer itself stops here');
  t.notMatch(up.wires[0].all, /^(te|trailer):/im);
  await stillServes(t, client, up, 1);
});

t.test('HEAD, 204 and 304 have no body, whatever their fields say', async (t) => {
  const answers: Record<string, string> = {
    '/head-length': 'HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n',
    '/head-chunked': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n',
    '/head-none': 'HTTP/1.1 200 OK\r\nX-A: 1\r\n\r\n',
    '/204': 'HTTP/1.1 204 No Content\r\n\r\n',
    '/204-length': 'HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n',
    '/204-chunked': 'HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n',
    '/304': 'HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\nETag: "x"\r\n\r\n',
  };
  const [client, up] = await pair(
    t,
    answering((target) => answers[target] ?? ok('')),
  );
  const ask = async (method: string, target: string) => {
    client.send(`${method} ${target} HTTP/1.1\r\nHost: ${name}\r\n\r\n`);
    return nextAnswer(client, method === 'HEAD');
  };
  t.equal((await ask('HEAD', '/head-length')).field('content-length'), '1234');
  t.equal((await ask('HEAD', '/head-chunked')).field('transfer-encoding'), 'chunked');
  const none = await ask('HEAD', '/head-none');
  t.same([none.field('transfer-encoding'), none.field('content-length')], [undefined, undefined]);
  for (const target of ['/204', '/204-length', '/204-chunked']) {
    const empty = await ask('GET', target);
    t.equal(empty.status, 204);
    // RFC 9112 6.1 and RFC 9110 8.6: neither may stand in a 204.
    t.same([empty.field('transfer-encoding'), empty.field('content-length')], [undefined, undefined], target);
  }
  const same = await ask('GET', '/304');
  t.match([same.status, same.field('content-length'), same.field('etag')], [304, '77', '"x"']);
  // The 204 that announced a body took its connection with it.
  await stillServes(t, client, up, 2);
});

t.test('chunked both ways, of unknown length: each piece goes on as it comes', async (t) => {
  const [client, up] = await pair(t, async (wire, n) => {
    if (n > 0) return wire.send(ok((await nextRequest(wire)).line));
    t.match(await wire.take('\r\n\r\n'), /\r\nTransfer-Encoding: chunked\r\n/);
    wire.send('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
    for (const piece of ['a', 'bc', 'def']) {
      t.equal(await wire.take(`${piece}\r\n`), chunk(piece), 'without its extension');
      wire.send(chunk(piece.toUpperCase()).replace('\r\n', ';x="y;z"\r\n'));
    }
    t.equal(await wire.take('0\r\n\r\n'), '0\r\n\r\n');
    wire.send('0\r\n\r\n');
  });
  client.send(chunkedPost());
  await client.take('\r\n\r\n');
  for (const piece of ['a', 'bc', 'def']) {
    client.send(chunk(piece).replace('\r\n', ';ext=1\r\n'));
    t.equal(await client.take(`${piece.toUpperCase()}\r\n`), chunk(piece.toUpperCase()));
  }
  client.send('0\r\n\r\n');
  t.equal(await client.take('0\r\n\r\n'), '0\r\n\r\n');
  // Who answers before the body is there may never have read it.
  await stillServes(t, client, up, 2);
});

t.test('an answer that ends with its connection: chunked for the client, who keeps his', async (t) => {
  const [client, up] = await pair(t, async (wire, n) => {
    await nextRequest(wire);
    if (n > 0) wire.send(ok('again'));
    else {
      wire.send('HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\npart one, ');
      await sleep(20);
      wire.send('part two');
      wire.socket.end();
    }
  });
  client.send(get());
  const answer = await nextAnswer(client);
  t.match([answer.body, answer.field('transfer-encoding')], ['part one, part two', 'chunked']);
  await stillServes(t, client, up, 2);
});

t.test('an upstream of HTTP/1.0', async (t) => {
  const [client, up] = await pair(t, async (wire, n) => {
    const { line } = await nextRequest(wire);
    t.match(line, /HTTP\/1\.1$/);
    wire.send(n === 0 ? 'HTTP/1.0 200 OK\r\n\r\nold' : 'HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold');
    if (n === 0) wire.socket.end();
  });
  client.send(get());
  t.match(await nextAnswer(client), { line: 'HTTP/1.1 200 OK', body: 'old' });
  client.send(get());
  t.match(await nextAnswer(client), { line: 'HTTP/1.1 200 OK', body: 'old' });
  await stillServes(t, client, up, 3);
});

t.test('a client of HTTP/1.0 gets neither chunks nor interim answers, and its connection ends', async (t) => {
  const up = await rawUpstream(
    t,
    answering((target) =>
      target === '/chunked'
        ? `HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunk('abc')}${chunk('de')}0\r\nX: 1\r\n\r\n`
        : ok('plain'),
    ),
  );
  for (const [target, body] of [
    ['/chunked', 'abcde'],
    ['/', 'plain'],
  ]) {
    const client = await tunnelWire(at, 'v1', `${name}:${up.port}`);
    client.send(`GET ${target} HTTP/1.0\r\nHost: ${name}\r\nConnection: keep-alive\r\n\r\n`);
    const all = await client.rest();
    t.match(all, new RegExp(`^HTTP/1\\.1 200 OK\r\n[^]*\r\n\r\n${body}$`));
    t.notMatch(all, /transfer-encoding|103/i);
  }
});

t.test('an early 200: the body goes on, both ways at once', async (t) => {
  const [client, up] = await pair(t, async (wire, n) => {
    if (n > 0) return wire.send(ok((await nextRequest(wire)).line));
    await wire.take('\r\n\r\n');
    wire.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
    for (let i = 0; i < 50; i++) wire.send(chunk(await wire.take(1000)));
    wire.send('0\r\n\r\n');
  });
  client.send(`POST / HTTP/1.1\r\nHost: ${name}\r\nContent-Length: 50000\r\n\r\n`);
  await client.take('\r\n\r\n');
  for (let i = 0; i < 50; i++) {
    const piece = String(i).padEnd(1000, '.');
    client.send(piece);
    t.equal(await client.take(`${piece}\r\n`), chunk(piece));
  }
  await client.take('0\r\n\r\n');
  // Who answers before the body is there may never have read it.
  await stillServes(t, client, up, 2);
});

t.test('an early 200 that is complete: the rest of the body still goes to the upstream', async (t) => {
  const [client, up] = await pair(t, async (wire, n) => {
    if (n > 0) return wire.send(ok((await nextRequest(wire)).line));
    await wire.take('\r\n\r\n');
    wire.send(ok('early'));
    t.equal(await wire.take(10), '0123456789');
  });
  client.send(`POST / HTTP/1.1\r\nHost: ${name}\r\nContent-Length: 10\r\n\r\n01234`);
  t.equal((await nextAnswer(client)).body, 'early');
  client.send('56789');
  // Who answers before the body is there may never have read it.
  await stillServes(t, client, up, 2);
});

t.test('an early 413, then a reset: the 413 arrives', async (t) => {
  const up = await rawUpstream(t, async (wire) => {
    await wire.take('\r\n\r\n');
    wire.socket.write('HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig', () => wire.socket.destroy());
  });
  for (let i = 0; i < 10; i++) {
    const client = await tunnelWire(at, 'v1', `${name}:${up.port}`);
    client.send(`POST / HTTP/1.1\r\nHost: ${name}\r\nContent-Length: 100000000\r\n\r\n`);
    let open = true;
    client.socket.on('end', () => {
      open = false;
    });
    const upload = (async () => {
      const piece = Buffer.alloc(64 * 1024);
      while (open && !client.socket.destroyed)
        if (!client.socket.write(piece)) await Promise.race([once(client.socket, 'drain'), sleep(50)]);
    })().catch(() => {});
    const answer = await nextAnswer(client);
    if (answer.status !== 413 || answer.body !== 'big' || answer.field('connection') !== 'close')
      t.fail(`round ${i}: ${answer.line} ${answer.body}`);
    open = false;
    client.close();
    await upload;
  }
});

t.test('a client that half-closes is served', async (t) => {
  const [client] = await pair(t, async (wire) => {
    await nextRequest(wire);
    await sleep(100);
    wire.send('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234');
    await sleep(1500);
    wire.send('56789');
  });
  client.send(get());
  client.socket.end();
  t.match(await nextAnswer(client), { status: 200, body: '0123456789' });
  await client.rest();
});

t.test('a client that is gone: the upstream is aborted within a second', async (t) => {
  for (const [how, leave] of [
    ['reset', (c: Wire) => c.socket.destroy()],
    ['closed', (c: Wire) => c.socket.end(() => c.socket.destroy())],
  ] as const) {
    const [client, up] = await pair(t, (wire) => wire.take('\r\n\r\n'));
    client.send(get());
    await eventually(() => up.wires.length === 1 && up.wires[0].all.includes('\r\n\r\n'), 'the request');
    const began = performance.now();
    leave(client);
    await eventually(() => up.wires[0].ended, `${how}: the upstream connection to end`);
    const ms = performance.now() - began;
    t.ok(ms < soon, `${how}: ${ms.toFixed()} ms`);
  }
});

t.test('abort follows abort: a client that leaves in the middle of an answer or of its body', async (t) => {
  const [reader, up1] = await pair(t, async (wire) => {
    await nextRequest(wire);
    wire.send('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npart');
  });
  reader.send(get());
  await reader.take('part');
  reader.close();
  await eventually(() => up1.wires[0].ended, 'the end of the upstream connection', soon);
  const [writer, up2] = await pair(t, (wire) => wire.take(100_000));
  writer.send(`POST / HTTP/1.1\r\nHost: ${name}\r\nContent-Length: 1000\r\n\r\npart`);
  await eventually(() => up2.wires[0]?.all.includes('part'), 'the part');
  writer.close();
  await eventually(() => up2.wires[0].ended, 'the end of the upstream connection', soon);
  // Never an orderly end in the middle of a chunked body: the upstream could take it for the whole.
  const [chunker, up3] = await pair(t, (wire) => wire.take(100_000), { tls: false });
  chunker.send(`${chunkedPost()}${chunk('part')}`);
  await eventually(() => up3.wires[0]?.all.endsWith('part\r\n') === true, 'the part');
  chunker.close();
  await eventually(() => up3.wires[0].ended, 'the end of the upstream connection', soon);
  t.ok(up3.wires[0].all.endsWith('part\r\n'), 'and nothing behind it');
});

t.test('abort follows abort: an upstream that breaks off', async (t) => {
  const short = 'Content-Length: 1000\r\n\r\npart';
  for (const [what, sent] of [
    ['a length', short],
    ['chunks', `Transfer-Encoding: chunked\r\n\r\n${chunk('part')}`],
    ['a chunk', 'Transfer-Encoding: chunked\r\n\r\n100\r\npart'],
    ['trailers', `Transfer-Encoding: chunked\r\n\r\n${chunk('part')}0\r\nX: 1\r\n`],
  ]) {
    for (const how of ['end', 'destroy'] as const) {
      const [client] = await pair(t, async (wire) => {
        await nextRequest(wire);
        wire.socket.write(`HTTP/1.1 200 OK\r\n${sent}`, () => wire.socket[how]());
      });
      client.send(get());
      await t.rejects(nextAnswer(client), /ended before/, `${what}, ${how}: the client can tell`);
      t.ok(!client.all.endsWith('0\r\n\r\n'));
    }
  }
  const [client, up] = await pair(t, async (wire) => {
    await nextRequest(wire);
    wire.socket.destroy();
  });
  client.send(get());
  const answer = await nextAnswer(client);
  t.match([answer.status, answer.json.error], [502, 'upstream_unreachable'], 'before its head');
  t.equal(up.connections, 1, 'and nothing is sent twice');
  const [half] = await pair(t, async (wire) => {
    await nextRequest(wire);
    wire.socket.end('HTTP/1.1 200 OK\r\nX-Half');
  });
  half.send(get());
  t.match((await nextAnswer(half)).json, { error: 'upstream_protocol' }, 'in its head');
});

t.test('a client of HTTP/1.0 can tell that an answer broke off, though only its end frames it', async (t) => {
  const up = await rawUpstream(t, async (wire) => {
    await nextRequest(wire);
    wire.send(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunk('part')}`);
  });
  const client = wireOf(await openProxy(at));
  client.send(`GET https://${name}:${up.port}/ HTTP/1.0\r\n${proxyAuth(at.tokens.v1, 'v1')}\r\n`);
  await client.take('part');
  up.wires[0].socket.end();
  const [error] = await once(client.socket, 'error');
  t.equal(error.code, 'ECONNRESET');
});

t.test('an upstream that half-closes: what it said is delivered', async (t) => {
  const [client, up] = await pair(t, async (wire, n) => {
    await wire.take('\r\n\r\n');
    if (n === 0) wire.socket.end(ok('early'));
    else wire.send(ok('again'));
  });
  client.send(`POST / HTTP/1.1\r\nHost: ${name}\r\nContent-Length: 1000\r\n\r\npart`);
  t.match(await nextAnswer(client), { status: 200, body: 'early' });
  await client.rest();
  const next = await tunnelWire(at, 'v1', `${name}:${up.port}`);
  await stillServes(t, next, up, 2);
});

t.test('Connection: close, from either side', async (t) => {
  const [client, up] = await pair(
    t,
    answering((target) => (target === '/close' ? ok('bye', 'Connection: close\r\n') : ok('hi'))),
  );
  client.send(get('/close'));
  const answer = await nextAnswer(client);
  t.match([answer.body, answer.field('connection')], ['bye', undefined], 'the upstream’s is its own affair');
  await stillServes(t, client, up, 2);
  client.send(get('/', 'Connection: close\r\n'));
  const last = await nextAnswer(client);
  t.match([last.body, last.field('connection')], ['hi', 'close']);
  t.equal(await client.rest(), '');
  const next = await tunnelWire(at, 'v1', `${name}:${up.port}`);
  await stillServes(t, next, up, 2);
});

t.test('a thousand pipelined requests are answered in order, one at a time', async (t) => {
  let most = 0;
  const [client, up] = await pair(t, async (wire) => {
    for (;;) {
      const { line, body } = await nextRequest(wire);
      most = Math.max(most, wire.all.split('HTTP/1.1').length - 1);
      wire.send(ok(`${line} ${body}`));
    }
  });
  let all = '';
  for (let i = 0; i < 1000; i++) all += i % 3 === 0 ? post(`body ${i}`).replace('/', `/${i}`) : get(`/${i}`);
  // In pieces that respect nothing.
  for (let at = 0; at < all.length; at += 7001) client.send(all.slice(at, at + 7001));
  for (let i = 0; i < 1000; i++) {
    const expected = i % 3 === 0 ? `POST /${i} HTTP/1.1 body ${i}` : `GET /${i} HTTP/1.1 `;
    const { body } = await nextAnswer(client);
    if (body !== expected) return t.fail(`${body} in place of ${expected}`);
  }
  t.equal(up.connections, 1);
  t.equal(most, 1000, 'all of them arrived');
});

t.test('server-sent events come without delay', async (t) => {
  const [client, up] = await pair(t, async (wire) => {
    await nextRequest(wire);
    wire.send('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n');
  });
  client.send(get());
  await client.take('\r\n\r\n');
  for (let i = 0; i < 20; i++) {
    up.wires[0].send(`data: ${i}\n\n`);
    t.match(await client.take(`data: ${i}\n\n\r\n`), /data/);
  }
});

t.test('repeated fields keep their order, case and bytes; hop-by-hop ones stop here', async (t) => {
  const [client, up] = await pair(
    t,
    answering(() =>
      ok(
        '',
        'Set-Cookie: a=1; Path=/\r\nX-ONE: 1\r\nset-cookie: b=2, c\r\nx-one:2\r\nX-Empty:\r\nX-High: \xe9\r\nServer: odd\r\n' +
          'Keep-Alive: timeout=50\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\nProxy-Authenticate: Basic\r\n' +
          'Upgrade: h2c\r\nTE: x\r\n',
      ),
    ),
  );
  client.send(
    get(
      '/',
      'x-First: 1\r\nCookie: a=1\r\nX-SECOND:2\r\ncookie: b=2\r\nX-First: 3\r\nX-High: \xe9\r\nX-Empty:\r\nIf-Match: "x"\r\n' +
        'Keep-Alive: x\r\nProxy-Connection: keep-alive\r\nConnection: X-Gone, Keep-Alive\r\nx-gone: 1\r\nTE: trailers\r\n' +
        'X-Vault: v1\r\nProxy-Authorization: Basic xx\r\nUpgrade: h2c\r\nAuthorization: mine\r\n',
    ),
  );
  const answer = await nextAnswer(client);
  t.strictSame(answer.fields, [
    ['Set-Cookie', 'a=1; Path=/'],
    ['X-ONE', '1'],
    ['set-cookie', 'b=2, c'],
    ['x-one', '2'],
    ['X-Empty', ''],
    ['X-High', '\xe9'],
    ['Server', 'odd'],
    ['Content-Length', '0'],
  ]);
  t.equal(
    up.wires[0].all,
    `GET / HTTP/1.1\r\nHost: ${name}:${up.port}\r\nx-First: 1\r\nCookie: a=1\r\nX-SECOND: 2\r\ncookie: b=2\r\nX-First: 3\r\n` +
      'X-High: \xe9\r\nX-Empty: \r\nIf-Match: "x"\r\nAuthorization: Bearer sk_test_exchange\r\n\r\n',
  );
});

t.test('after an answer in one big piece, its upstream connection still reads', async (t) => {
  // 64 KiB in one piece fill the client's side at once, so that its upstream is paused as the answer ends.
  const body = 'x'.repeat(1024 * 1024);
  const [client, up] = await pair(
    t,
    answering(() => ok(body)),
    { tls: false },
  );
  for (let i = 0; i < 10; i++) {
    client.send(get());
    t.equal((await nextAnswer(client)).body.length, body.length);
  }
  t.equal(up.connections, 1);
});

t.test('a reader that stops: its upstream is paused, and goes on when it does', async (t) => {
  let written = 0;
  const size = 96 * 1024 * 1024;
  const [client] = await pair(
    t,
    async (wire) => {
      await nextRequest(wire);
      wire.send(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`);
      const piece = Buffer.alloc(256 * 1024);
      for (; written < size; written += piece.length)
        if (!wire.socket.write(piece)) await once(wire.socket, 'drain');
    },
    { tls: false },
  );
  client.socket.removeAllListeners('data');
  client.socket.pause();
  client.send(get());
  await eventually(() => written > 0, 'the answer to begin');
  let before = -1;
  while (before !== written) {
    before = written;
    await sleep(200);
  }
  t.ok(written < 48 * 1024 * 1024, `the upstream was held at ${(written / 1024 / 1024).toFixed(1)} MiB`);
  let came = 0;
  client.socket.on('data', (piece: Buffer) => {
    came += piece.length;
  });
  client.socket.resume();
  await eventually(() => came > size, 'all of it');
});

t.test('an upstream that stops reading: its client is paused, and goes on when it does', async (t) => {
  const size = 96 * 1024 * 1024;
  const [client, up] = await pair(
    t,
    async (wire) => {
      await wire.take('\r\n\r\n');
      wire.socket.removeAllListeners('data');
      wire.socket.pause();
    },
    { tls: false },
  );
  let sent = 0;
  client.send(`POST / HTTP/1.1\r\nHost: ${name}\r\nContent-Length: ${size}\r\n\r\n`);
  const piece = Buffer.alloc(256 * 1024);
  const upload = (async () => {
    for (; sent < size; sent += piece.length)
      if (!client.socket.write(piece)) await once(client.socket, 'drain');
  })();
  let before = -1;
  while (before !== sent) {
    before = sent;
    await sleep(200);
  }
  t.ok(sent < 48 * 1024 * 1024, `the client was held at ${(sent / 1024 / 1024).toFixed(1)} MiB`);
  up.wires[0].socket.resume();
  await upload;
  t.equal(sent, size);
});

/** The lane's own ends of the connections to it, by the client's port. */
const laneEnds = new Map<number | undefined, net.Socket>();
const note = (message: unknown): void => {
  const { socket } = message as { socket: net.Socket };
  if (socket.localPort === at.port) laneEnds.set(socket.remotePort, socket);
};
subscribe('net.server.socket', note);
t.teardown(() => unsubscribe('net.server.socket', note));

t.test('a slow reader gets the end of an answer, however late it comes for it', async (t) => {
  const slowly = async (halfCloses: boolean): Promise<void> => {
    let sent = 0;
    const up = await rawUpstream(
      t,
      async (wire) => {
        await nextRequest(wire);
        wire.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
        // Until the kernel takes no more of it for the client: what is left then waits in the broker.
        for (; end.writableLength === 0; sent += 32_768) {
          wire.send(chunk('x'.repeat(32_768)));
          await sleep(2);
        }
        wire.send('0\r\n\r\n');
      },
      { tls: false },
    );
    const socket = await openTunnel(at, 'v1', `${name}:${up.port}`);
    const end = laneEnds.get(socket.localPort) as net.Socket;
    socket.removeAllListeners('data');
    socket.pause();
    socket.write(get('/', 'Connection: close\r\n'));
    if (halfCloses) socket.end();
    await eventually(() => end.writableEnded, 'the end of the exchange');
    t.ok(end.writableLength > 0, `${sent} bytes were sent, ${end.writableLength} wait`);
    await sleep(2800);
    const client = wireOf(socket);
    socket.resume();
    t.equal((await nextAnswer(client)).body.length, sent);
    socket.destroy();
  };
  await Promise.all([slowly(false), slowly(true)]);
});

t.test('what a client sends ahead of its turn is bounded', async (t) => {
  const [client] = await pair(t, () => {}, { tls: false });
  const size = 96 * 1024 * 1024;
  const piece = Buffer.from(get().repeat(4000));
  let sent = 0;
  client.socket.on('drain', () => fill());
  const fill = (): void => {
    while (sent < size) {
      sent += piece.length;
      if (!client.socket.write(piece)) return;
    }
  };
  fill();
  let before = -1;
  while (before !== sent) {
    before = sent;
    await sleep(300);
  }
  t.ok(sent < size / 2, `${(sent / 1024 / 1024).toFixed(1)} MiB were taken while the first waits`);
  client.close();
});

t.test('pipelined requests wait for a client that does not read its answers', async (t) => {
  let answered = 0;
  const body = 'x'.repeat(60_000);
  const up = await rawUpstream(
    t,
    answering(() => {
      answered++;
      return ok(body);
    }),
    { tls: false },
  );
  const socket = await openTunnel(at, 'v1', `${name}:${up.port}`);
  socket.removeAllListeners('data');
  socket.pause();
  const requests = 300;
  socket.write(get().repeat(requests));
  let before = -1;
  while (before !== answered) {
    before = answered;
    await sleep(200);
  }
  const end = laneEnds.get(socket.localPort) as net.Socket;
  t.ok(
    end.writableLength < 256 * 1024,
    `${end.writableLength} bytes wait in the broker after ${answered} answers`,
  );
  const client = wireOf(socket);
  socket.resume();
  await client.take(100);
  await eventually(() => answered === requests && client.all.length > requests * body.length, 'all of them');
});
