import type { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import net from 'node:net';
import { networkInterfaces } from 'node:os';
import tls from 'node:tls';
import t, { type Test } from 'tap';
import { oddCertificate } from '../support/certificate.ts';
import { openProxy, openTlsTunnel, openTunnel, proxyAuth, startLane, tunnelWire } from '../support/lane.ts';
import {
  anyName,
  createAuthority,
  rawUpstream,
  type UpstreamOptions,
  upstreamCa,
} from '../support/upstream.ts';
import { eventually, nextAnswer, nextRequest, wireOf } from '../support/wire.ts';

const name = 'api.good.test';
const hasIpv6 = Object.values(networkInterfaces()).some((list) =>
  list?.some(({ address }) => address === '::1'),
);
const vault = {
  services: [{ host: name, auth: { type: 'bearer' as const, token: 'KEY' } }],
  credentials: { KEY: 'sk_test_tls' },
};
const at = await startLane(
  {
    v1: vault,
    v2: { ...vault, settings: { unmatched_host_policy: 'deny' } },
    blind: { ...vault, settings: { unmatched_tls: 'tunnel' } },
    blinddeny: { ...vault, settings: { unmatched_tls: 'tunnel', unmatched_host_policy: 'deny' } },
  },
  { upstreamCa: [upstreamCa.certPem] },
);
t.teardown(() => at.stop());

const ok = (body: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const get = (host = name) => `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`;

/** Says who is asked, on each request. */
const upstream = (t: Test, options?: UpstreamOptions) =>
  rawUpstream(
    t,
    async (wire) => {
      for (;;) {
        const { field } = await nextRequest(wire);
        wire.send(ok(`${field('host')?.replace(/:\d+$/, '')} ${field('authorization') ?? 'nobody'}`));
      }
    },
    options,
  );

t.test('upstreams whose certificate does not hold: 502, and not one byte of a request', async (t) => {
  const selfSigned = createAuthority(name);
  const stranger = createAuthority('stranger');
  const cases: [what: string, options: tls.TlsOptions][] = [
    ['expired', upstreamCa.issue([name], Date.now() - 3 * 86_400_000)],
    ['not valid yet', upstreamCa.issue([name], Date.now() + 8 * 86_400_000)],
    ['of another name', upstreamCa.issue(['other.test'])],
    ['of another address', { ...upstreamCa.issue(['127.0.0.2', '::1']) }],
    ['of another name, TLS 1.2', { ...upstreamCa.issue(['other.test']), maxVersion: 'TLSv1.2' }],
    ['with the name as its common name only', oddCertificate(upstreamCa, 'upstream root', name)],
    [
      'with the name as its common name, beside an address',
      oddCertificate(upstreamCa, 'upstream root', name, [[7, Buffer.from([127, 0, 0, 1])]]),
    ],
    [
      'with the name as its common name, beside a mail address',
      oddCertificate(upstreamCa, 'upstream root', name, [[1, name]]),
    ],
    [
      'with names that can’t be read',
      oddCertificate(upstreamCa, 'upstream root', name, [[2, `x", DNS:${name}`]]),
    ],
    ['a wildcard that is a part of a label', upstreamCa.issue(['ap*.good.test'])],
    ['by an unknown authority', stranger.issue([name])],
    ['by the broker’s own authority’s look-alike', createAuthority('test root').issue([name])],
    ['a wildcard two levels up', upstreamCa.issue(['*.test'])],
    ['a wildcard for another place', upstreamCa.issue(['api.*.test'])],
    ['a name in the subject only', { ...anyName, cert: selfSigned.certPem, key: selfSigned.keyPem }],
    ['TLS 1.1', { ...anyName, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' }],
    ['that refuses all', { SNICallback: (_, done) => done(new Error('no')) }],
  ];
  for (const [what, options] of cases) {
    const up = await upstream(t, { tls: options });
    // Twice: a session of the first must not spare the second its verification.
    for (const round of [1, 2]) {
      const client = await tunnelWire(at, 'v1', `${name}:${up.port}`);
      client.send(get());
      const answer = await nextAnswer(client);
      t.strictSame([answer.status, answer.json.error], [502, 'upstream_tls'], `${what}, round ${round}`);
      client.close();
    }
    t.equal(up.wires.map((wire) => wire.all).join(''), '', `${what}: nothing was sent`);
  }
  for (const named of ['127.0.0.1', 'IP Address:127.0.0.1']) {
    const up = await upstream(t, { tls: oddCertificate(upstreamCa, 'upstream root', named, [[2, named]]) });
    const client = await tunnelWire(at, 'v1', `127.0.0.1:${up.port}`);
    client.send(get('127.0.0.1'));
    t.equal((await nextAnswer(client)).json.error, 'upstream_tls', 'an address as a name, or as the subject');
    t.equal(up.wires.map((wire) => wire.all).join(''), '');
  }
  const plain = await rawUpstream(t, (wire) => wire.send('HTTP/1.1 400 Bad Request\r\n\r\n'), { tls: false });
  const client = await tunnelWire(at, 'v1', `${name}:${plain.port}`);
  client.send(get());
  t.equal((await nextAnswer(client)).json.error, 'upstream_tls', 'one that speaks no TLS');
  t.notMatch(plain.wires[0].all, /GET|Bearer/);
});

t.test('no environment switches verification off', async (t) => {
  const warned = process.emitWarning;
  process.emitWarning = () => {};
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
  t.teardown(() => {
    delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    process.emitWarning = warned;
  });
  const up = await upstream(t, { tls: createAuthority('stranger').issue([name]) });
  const probe = tls.connect({ port: up.port, host: '127.0.0.1' });
  await once(probe, 'secureConnect');
  probe.destroy();
  const client = await tunnelWire(at, 'v1', `${name}:${up.port}`);
  client.send(get());
  t.equal((await nextAnswer(client)).json.error, 'upstream_tls', 'though node itself would have gone on');
  const good = await upstream(t);
  const other = await tunnelWire(at, 'v1', `${name}:${good.port}`);
  other.send(get());
  t.equal((await nextAnswer(other)).status, 200);
});

t.test('upstreams whose certificate holds', async (t) => {
  for (const [what, host, options] of [
    ['an exact name', name, upstreamCa.issue([name])],
    ['a wildcard of one level', name, upstreamCa.issue(['*.good.test'])],
    [
      'a name beside others, and another subject',
      name,
      oddCertificate(upstreamCa, 'upstream root', 'other', [
        [1, 'mail@other.test'],
        [2, 'a*.good.test'],
        [2, name],
      ]),
    ],
    ['an address', '127.0.0.1', upstreamCa.issue(['127.0.0.1'])],
    ['an IPv6 address', '[::1]', upstreamCa.issue(['::1'])],
    ['TLS 1.2 only', name, { ...anyName, maxVersion: 'TLSv1.2' }],
    ['TLS 1.3 only', name, { ...anyName, minVersion: 'TLSv1.3' }],
    ['HTTP/2 first, HTTP/1.1 too', name, { ...anyName, ALPNProtocols: ['h2', 'http/1.1'] }],
  ] as [string, string, tls.TlsOptions][]) {
    const literal = host.startsWith('[');
    if (literal && !hasIpv6) continue;
    const up = await upstream(t, { tls: options, host: literal ? '::1' : '127.0.0.1' });
    const client = await tunnelWire(at, 'v1', `${host}:${up.port}`, {
      tls: literal ? { checkServerIdentity: () => undefined } : {},
    });
    client.send(get(host));
    t.equal((await nextAnswer(client)).body.split(' ')[0], host, what);
  }
  const h2only = await upstream(t, { tls: { ...anyName, ALPNProtocols: ['h2'] } });
  const client = await tunnelWire(at, 'v1', `${name}:${h2only.port}`);
  client.send(get());
  t.equal((await nextAnswer(client)).status, 502, 'HTTP/2 only: no hang');
});

/** The error that a handshake in a tunnel ends with, or what it came to. */
async function handshake(vault: string, target: string, options: tls.ConnectionOptions): Promise<string> {
  try {
    const socket = await openTlsTunnel(at, vault, target, { tls: options });
    const certificate = socket.getPeerX509Certificate();
    const found = `${socket.getProtocol()} ${socket.alpnProtocol || 'no ALPN'} ${certificate?.subjectAltName}`;
    socket.destroy();
    return found;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  }
}

t.test('the certificate in a tunnel is for its authority, and for nothing else', async (t) => {
  const cases: [target: string, options: tls.ConnectionOptions, found: string][] = [
    [`${name}:443`, {}, `TLSv1.3 http/1.1 DNS:${name}`],
    [`${name}:443`, { servername: 'API.good.TEST' }, `TLSv1.3 http/1.1 DNS:${name}`],
    [`${name}.:443`, { servername: name }, `TLSv1.3 http/1.1 DNS:${name}`],
    [`${name}:443`, { servername: '', checkServerIdentity: () => undefined }, `TLSv1.3 http/1.1 DNS:${name}`],
    [`${name}:443`, { servername: 'evil.test' }, 'ERR_SSL_TLSV1_UNRECOGNIZED_NAME'],
    [`${name}:443`, { servername: 'good.test' }, 'ERR_SSL_TLSV1_UNRECOGNIZED_NAME'],
    ['evil.test:443', { servername: name }, 'ERR_SSL_TLSV1_UNRECOGNIZED_NAME'],
    ['127.0.0.1:443', {}, 'TLSv1.3 http/1.1 IP Address:127.0.0.1'],
    // node's own check knows no IPv6 address.
    ['[::1]:443', { checkServerIdentity: () => undefined }, 'TLSv1.3 http/1.1 IP Address:0:0:0:0:0:0:0:1'],
    ['127.0.0.1:443', { servername: name }, 'ERR_SSL_TLSV1_UNRECOGNIZED_NAME'],
    [`${name}:443`, { ALPNProtocols: ['h2'] }, 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL'],
    [`${name}:443`, { ALPNProtocols: ['h2', 'http/1.1'] }, `TLSv1.3 http/1.1 DNS:${name}`],
    [`${name}:443`, { ALPNProtocols: undefined }, `TLSv1.3 no ALPN DNS:${name}`],
    [`${name}:443`, { maxVersion: 'TLSv1.2' }, `TLSv1.2 http/1.1 DNS:${name}`],
    [
      `${name}:443`,
      { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' },
      'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION',
    ],
  ];
  for (const [target, options, found] of cases)
    t.equal(await handshake('v1', target, options), found, `${target} ${JSON.stringify(options)}`);
});

t.test('the proxy port itself: TLS 1.2 or later, its own certificate', async (t) => {
  const socket = (await openProxy(at, true)) as tls.TLSSocket;
  t.match(socket.getPeerX509Certificate()?.subjectAltName, /DNS:localhost, IP Address:127\.0\.0\.1/);
  socket.destroy();
  const old = tls.connect({
    port: at.port,
    host: '127.0.0.1',
    minVersion: 'TLSv1',
    maxVersion: 'TLSv1.1',
    ciphers: 'ALL:@SECLEVEL=0',
  });
  const [error] = await once(old, 'error');
  t.match(error.code, /PROTOCOL_VERSION/);
});

t.test('a clock that is set back or forward: certificates that are valid then', async (t) => {
  const vaults = { v1: vault };
  const clocked = await startLane(vaults, { upstreamCa: [upstreamCa.certPem] });
  t.teardown(() => clocked.stop());
  const certificates = async () => {
    // OpenSSL looks at the machine's clock, which isn't what is set here.
    const unverified = { rejectUnauthorized: false };
    const outer = tls.connect({ socket: await openProxy(clocked), ...unverified });
    await once(outer, 'secureConnect');
    const inner = await openTlsTunnel(clocked, 'v1', `${name}:443`, { tls: unverified });
    return [outer, inner].map((socket) => socket.getPeerX509Certificate() as X509Certificate);
  };
  const holds = (found: X509Certificate[], now: number) =>
    found.every(({ validFromDate, validToDate }) => +validFromDate <= now && now < +validToDate);

  const real = Date.now;
  t.teardown(() => {
    Date.now = real;
  });
  for (const days of [-2, 2, -9, 0]) {
    t.ok(holds(await certificates(), Date.now()), 'before');
    Date.now = () => real() + days * 86_400_000;
    await eventually(async () => holds(await certificates(), Date.now()), `valid ${days} days from now`);
  }
});

t.test('a tunnel in TLS in a TLS-wrapped proxy connection', async (t) => {
  const up = await upstream(t);
  const client = await tunnelWire(at, 'v1', `${name}:${up.port}`, { wrapped: true });
  for (let i = 0; i < 3; i++) {
    client.send(get());
    t.equal((await nextAnswer(client)).body, `${name} Bearer sk_test_tls`);
  }
});

t.test('a session of one tunnel is not resumed in a tunnel to another host', async (t) => {
  const up = await upstream(t);
  const resumed = async (target: string, session: Buffer): Promise<boolean> => {
    const socket = await openTlsTunnel(at, 'v1', `${target}:${up.port}`, {
      tls: { session, maxVersion: 'TLSv1.2', checkServerIdentity: () => undefined },
    });
    const reused = socket.isSessionReused();
    socket.destroy();
    return reused;
  };
  const first = await openTlsTunnel(at, 'v1', `evil.test:${up.port}`, { tls: { maxVersion: 'TLSv1.2' } });
  const session = first.getSession() as Buffer;
  first.destroy();
  t.equal(await resumed('evil.test', session), true, 'in one to the same host it is');
  t.equal(await resumed(name, session), false);
});

t.test('what CONNECT refuses', async (t) => {
  const cases: [authority: string, extra?: string][] = [
    [name],
    [`${name}:`],
    [`${name}:0`],
    [`${name}:0443`],
    [`${name}:65536`],
    [`${name}:44 3`],
    [`${name}..:443`],
    ['.wild.test:443'],
    [`${name}@evil.test:443`],
    ['::1:443'],
    ['[::1]'],
    ['127.1:443'],
    ['api%2egood.test:443'],
    ['api\xe3\x80\x82good.test:443'],
    [`https://${name}:443`],
    [`/${name}:443`],
    [`${name}:443`, 'Content-Length: 3\r\n'],
    [`${name}:443`, 'Transfer-Encoding: chunked\r\n'],
    [`${name}:443`, 'Content-Length: 0\r\n'],
  ];
  for (const [authority, extra = ''] of cases) {
    const client = wireOf(await openProxy(at));
    client.send(`CONNECT ${authority} HTTP/1.1\r\nHost: x\r\n${extra}${proxyAuth(at.tokens.v1)}\r\nabc`);
    const answer = await nextAnswer(client);
    t.strictSame([answer.status, answer.json.error], [400, 'invalid_request'], `${authority} ${extra}`);
    await client.rest();
  }
});

t.test('a ClientHello in one packet with the CONNECT', async (t) => {
  const up = await upstream(t);
  const probe = net.createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  // A connection that is spliced behind the CONNECT: node's own client at one end, the proxy at the other.
  const proxy = await openProxy(at);
  probe.on('connection', (socket) => {
    socket.once('data', (hello: Buffer) => {
      const head = `CONNECT ${name}:${up.port} HTTP/1.1\r\nHost: x\r\n${proxyAuth(at.tokens.v1)}\r\n`;
      proxy.write(Buffer.concat([Buffer.from(head), hello]));
      let opened = false;
      proxy.on('data', (chunk: Buffer) => {
        const at = opened ? 0 : chunk.indexOf('\r\n\r\n') + 4;
        opened = true;
        socket.write(chunk.subarray(at));
      });
      socket.pipe(proxy);
    });
  });
  const secure = tls.connect({
    port: (probe.address() as net.AddressInfo).port,
    ca: at.rootPem,
    servername: name,
  });
  const client = wireOf(secure);
  client.send(get());
  t.equal((await nextAnswer(client)).status, 200);
  secure.destroy();
  probe.close();
});

t.test('cleartext HTTP in a tunnel is served as HTTP', async (t) => {
  const up = await upstream(t, { tls: false });
  const client = wireOf(await openTunnel(at, 'v1', `${name}:${up.port}`));
  // Even where its first bytes come one at a time.
  for (const byte of 'GET / H') {
    client.send(byte);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  client.send(get().slice('GET / H'.length));
  t.equal((await nextAnswer(client)).body, `${name} Bearer sk_test_tls`);
});

t.test(
  'what is neither TLS nor HTTP is relayed only where the policy passes it and the host has no service',
  async (t) => {
    const echo = await rawUpstream(
      t,
      (wire) => {
        wire.socket.on('data', (chunk) => wire.socket.write(chunk));
        wire.socket.on('end', () => wire.socket.end());
      },
      { tls: false },
    );
    for (const [vaultName, host, relayed] of [
      ['v1', 'evil.test', true],
      ['v1', name, false],
      ['v2', 'evil.test', false],
    ] as const) {
      const before = echo.connections;
      const client = wireOf(await openTunnel(at, vaultName, `${host}:${echo.port}`));
      client.send('SSH-2.0-test\r\n');
      if (relayed) {
        t.equal(await client.take(14), 'SSH-2.0-test\r\n');
        client.send('\x00more');
        t.equal(await client.take(5), '\x00more');
        client.socket.end();
      }
      t.equal(await client.rest(), '');
      t.equal(echo.connections - before, relayed ? 1 : 0, `${vaultName} ${host}`);
      const target = `${host}:${echo.port}`;
      const record = () => at.records.find((r) => r.vault === vaultName && r.host === target);
      await eventually(() => record() !== undefined, 'its record');
      t.match(record(), {
        method: 'CONNECT',
        scheme: 'tcp',
        status: relayed ? 200 : vaultName === 'v2' ? 403 : 400,
        bytes_in: relayed ? 19 : 0,
        bytes_out: relayed ? 19 : 0,
      });
    }
  },
);

t.test('unmatched_tls: tunnel: hosts without a service are not decrypted', async (t) => {
  const up = await upstream(t);
  const through = await openTlsTunnel(at, 'blind', `evil.test:${up.port}`, {
    tls: { ca: upstreamCa.certPem },
  });
  const client = wireOf(through);
  client.send(get('evil.test'));
  t.equal(
    (await nextAnswer(client)).body,
    'evil.test nobody',
    'the upstream’s own certificate, its own answer',
  );
  client.close();
  const other = await openTlsTunnel(at, 'blind', `evil.test:${up.port}`, {
    tls: { ca: upstreamCa.certPem, servername: 'other.test' },
  });
  other.destroy();
  const served = await tunnelWire(at, 'blind', `${name}:${up.port}`);
  served.send(get());
  t.equal((await nextAnswer(served)).body, `${name} Bearer sk_test_tls`, 'one with a service is');
  // A refusal is told inside, and so takes a certificate of the broker's.
  const denied = await tunnelWire(at, 'blinddeny', `evil.test:${up.port}`);
  denied.send(get('evil.test'));
  t.match((await nextAnswer(denied)).json, { error: 'forbidden', proposal_hint: { host: 'evil.test' } });
});
