import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { run, temporary } from '../support/broker.ts';
import { openProxy, openTunnel, proxyAuth, startLane, tunnelWire } from '../support/lane.ts';
import { httpUpstream, rawUpstream, upstreamCa } from '../support/upstream.ts';
import { eventually, nextAnswer, nextRequest, type Wire, wireOf } from '../support/wire.ts';

/*
 * What HTTP promises to clients that are seldom met: those that half-close, that spell their own methods, that open a
 * tunnel long before they use it; and what curl and Go do that the other tests only write by hand.
 */

const name = 'api.good.test';
const slowName = 'slow.good.test';
const auth = { type: 'bearer' as const, token: 'KEY' };
const vault = {
  services: [name, slowName].map((host) => ({ host, auth })),
  credentials: { KEY: 'sk_test_semantics' },
};
/** How long the look-up of the slow name takes, in ms: longer than a half-closed client is waited for without a sign. */
const lookUp = 1500;
const options = {
  upstreamCa: [upstreamCa.certPem],
  names: {
    [slowName]: (_host: string, _options: unknown, done: (error: null, found: object[]) => void) => {
      setTimeout(() => done(null, [{ address: '127.0.0.1', family: 4 }]), lookUp);
    },
  },
} as Parameters<typeof startLane>[1];
const at = await startLane({ v1: vault }, options);
t.teardown(() => at.stop());

const ok = (body: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const get = (path = '/') => `GET ${path} HTTP/1.1\r\nHost: ${name}\r\n\r\n`;
/** What a half-closed client is waited for without a sign of it, and more. */
const slow = 2500;

/** A tunnel to an upstream, by each way there is to the proxy. */
const ways: Record<string, (port: number) => Promise<Wire>> = {
  'a tunnel with TLS in it': (port) => tunnelWire(at, 'v1', `${name}:${port}`),
  'TLS in a TLS-wrapped tunnel': (port) => tunnelWire(at, 'v1', `${name}:${port}`, { wrapped: true }),
  'a tunnel without TLS': async (port) => wireOf(await openTunnel(at, 'v1', `${name}:${port}`)),
};

for (const [way, open] of Object.entries(ways)) {
  const tls = way === 'a tunnel without TLS' ? (false as const) : undefined;

  t.test(`a half-closed client gets its answer, however late: ${way}`, async (t) => {
    const up = await rawUpstream(
      t,
      async (wire) => {
        await nextRequest(wire);
        await sleep(slow);
        wire.send(ok('late'));
      },
      { tls },
    );
    const client = await open(up.port);
    client.send(get('/late'));
    client.socket.end();
    const answer = await nextAnswer(client);
    t.match(answer, { status: 200, body: 'late' });
    t.same([...new Set(answer.interim)], ['HTTP/1.1 100 Continue'], 'it was asked whether it still reads');
    t.equal(await client.rest(), '');
    t.match(await at.recordsOf('/late', 1), [{ status: 200, error: null }]);
    at.records.length = 0;
  });

  t.test(`a client that is gone ends its request within a second: ${way}`, async (t) => {
    const up = await rawUpstream(t, (wire) => wire.take(1_000_000), { tls });
    const client = await open(up.port);
    client.send(get());
    await eventually(() => up.wires[0]?.all.includes('\r\n\r\n') === true, 'the request');
    client.socket.end(() => client.socket.destroy());
    await eventually(() => up.wires[0].ended, 'the end of the upstream connection', 4000);
  });
}

t.test('a half-closed client of HTTP/1.0 gets no interim answer', async (t) => {
  const up = await rawUpstream(
    t,
    async (wire) => {
      await nextRequest(wire);
      wire.send(ok('soon'));
    },
    { tls: false },
  );
  const client = wireOf(await openProxy(at));
  client.send(`GET http://${name}:${up.port}/ HTTP/1.0\r\n${proxyAuth(at.tokens.v1, 'v1')}\r\n`);
  client.socket.end();
  t.match(await nextAnswer(client), { status: 200, body: 'soon', interim: [] });
});

t.test('a client that half-closes behind its body, before there is an upstream, is answered', async (t) => {
  const up = await rawUpstream(t, async (wire) => {
    const { body } = await nextRequest(wire);
    wire.send(ok(`got ${body}`));
  });
  const head = `POST /early HTTP/1.1\r\nHost: ${slowName}\r\n`;
  for (const [framing, body] of [
    ['Content-Length: 4', 'body'],
    ['Transfer-Encoding: chunked', '4\r\nbody\r\n0\r\n\r\n'],
  ]) {
    // Each connection of its own: an upstream that is open already would take the body at once.
    const lane = await startLane({ v1: vault }, options);
    const client = await tunnelWire(lane, 'v1', `${slowName}:${up.port}`);
    client.send(`${head}${framing}\r\n\r\n${body}`);
    client.socket.end();
    t.match(await nextAnswer(client), { status: 200, body: 'got body' }, framing);
    t.equal(await client.rest(), '');
    await lane.stop();
  }
});

t.test('a client that half-closes within its body, before there is an upstream, is cut off', async (t) => {
  const up = await rawUpstream(t, (wire) => wire.take(1_000_000));
  for (const [framing, body] of [
    ['Content-Length: 5', 'body'],
    ['Transfer-Encoding: chunked', '4\r\nbody\r\n'],
  ]) {
    const lane = await startLane({ v1: vault }, options);
    const client = await tunnelWire(lane, 'v1', `${slowName}:${up.port}`);
    client.send(`POST /cut HTTP/1.1\r\nHost: ${slowName}\r\n${framing}\r\n\r\n${body}`);
    client.socket.end();
    t.notMatch(await client.rest(), /HTTP\/1.1 200/, framing);
    t.match(await lane.recordsOf('/cut'), [{ error: 'client_closed' }]);
    await eventually(() => up.wires.every(({ ended }) => ended), 'the end of the upstream connection');
    for (const { all } of up.wires) t.notOk(all.endsWith('0\r\n\r\n'), 'and its upstream can tell');
    await lane.stop();
  }
});

t.test('any method is HTTP in a tunnel without TLS, even a byte at a time', async (t) => {
  const up = await rawUpstream(
    t,
    async (wire) => {
      for (;;) wire.send(ok((await nextRequest(wire)).line));
    },
    { tls: false },
  );
  for (const line of [
    'get / HTTP/1.1',
    'M-SEARCH /* HTTP/1.1',
    'Foo_1 /x HTTP/1.1',
    'VERSION-CONTROL /y HTTP/1.1',
  ]) {
    for (const piecemeal of [false, true]) {
      const client = wireOf(await openTunnel(at, 'v1', `${name}:${up.port}`));
      const text = `${line}\r\nHost: ${name}\r\n\r\n`;
      if (piecemeal) {
        client.socket.setNoDelay(true);
        for (const byte of text.slice(0, 24)) {
          client.send(byte);
          await sleep(2);
        }
        client.send(text.slice(24));
      } else client.send(text);
      t.equal((await nextAnswer(client)).body, line);
      client.close();
    }
  }
});

t.test('a tunnel may be opened long before it is used, up to the time of an idle connection', async (t) => {
  const answering = async (wire: Wire) => {
    await nextRequest(wire);
    wire.send(ok('at last'));
  };
  const up = await rawUpstream(t, answering);
  const patient = await startLane({ v1: vault }, { ...options, timeouts: { head: 300, clientTls: 300 } });
  t.teardown(() => patient.stop());
  const client = await tunnelWire(patient, 'v1', `${name}:${up.port}`);
  await sleep(1500);
  client.send(get());
  t.equal((await nextAnswer(client)).body, 'at last');

  const hasty = await startLane({ v1: vault }, { ...options, timeouts: { keepAlive: 300 } });
  t.teardown(() => hasty.stop());
  t.equal(await (await tunnelWire(hasty, 'v1', `${name}:${up.port}`)).rest(), '');
});

/** The environment by which a program goes through the lane and trusts its root. */
function led(t: Test): Record<string, string> {
  const root = join(temporary(t), 'root.pem');
  writeFileSync(root, at.rootPem);
  const proxy = `http://${at.tokens.v1}:v1@127.0.0.1:${at.port}`;
  return { HTTPS_PROXY: proxy, https_proxy: proxy, SSL_CERT_FILE: root, CURL_CA_BUNDLE: root, no_proxy: '' };
}

t.test('curl and Expect: 100-continue', async (t) => {
  const bodies: string[] = [];
  const up = await httpUpstream(t, (request, response) => {
    request.setEncoding('latin1').on('data', (text) => bodies.push(text));
    request.on('end', () => response.end('taken'));
  });
  up.server.on('checkContinue', (request, response) => {
    if (request.url === '/refuse') response.writeHead(413, { 'content-length': 4 }).end('huge');
    else {
      response.writeContinue();
      up.server.emit('request', request, response);
    }
  });
  const curl = (path: string) =>
    run(
      'curl',
      [
        '-sSi',
        '--suppress-connect-headers',
        '--expect100-timeout',
        '60',
        '-H',
        'Expect: 100-continue',
        '-d',
        'the body',
        `https://${name}:${up.port}${path}`,
      ],
      { env: led(t), seconds: 40 },
    );
  const taken = await curl('/take');
  t.match(taken.stdout, /^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 200 OK\r\n[\s\S]*taken$/, taken.stderr);
  t.same(bodies, ['the body']);
  const refused = await curl('/refuse');
  t.match(refused.stdout, /^HTTP\/1.1 413 [\s\S]*huge$/, refused.stderr);
  t.same(bodies, ['the body'], 'and no body was sent');
});

t.test('Go sends trailers and gets them', { timeout: 120_000 }, async (t) => {
  const program = join(temporary(t), 'trailers');
  const source = fileURLToPath(new URL('../e2e/clients/trailers', import.meta.url));
  const settings = { GOFLAGS: '-mod=mod', GOPROXY: 'off', GOTOOLCHAIN: 'local', CGO_ENABLED: '0' };
  const built = await run('go', ['build', '-o', program, '.'], { seconds: 110, cwd: source, env: settings });
  t.equal(built.code, 0, built.stderr);
  const up = await httpUpstream(t, async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    response.writeHead(200, { trailer: 'X-Sum' });
    response.write(`${body}, ${request.trailers['x-sum']}`);
    response.addTrailers({ 'X-Sum': 'of the answer' });
    response.end();
  });
  const ran = await run(program, [`https://${name}:${up.port}/`], { env: led(t), seconds: 40 });
  t.equal(ran.stdout, '200 one two, of the request; X-Sum: of the answer\n', ran.stderr);
});
