/** Processes, ports, files; identities and their tokens: what a server is set up as, from the outside. */
import { spawn } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import tls from 'node:tls';
import t, { type Test } from 'tap';
import { launcher, run, startBroker, temporary, until } from '../support/broker.ts';
import { createAuthority } from '../support/upstream.ts';
import { absolute, connect, secured, startUpstream } from './through.ts';

/** The settings that a server would run with. */
async function settings(args: readonly string[], env: Record<string, string> = {}) {
  const { stdout, code, stderr } = await run(launcher, ['server', '--print-config', '--json', ...args], {
    env,
  });
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
}

t.test('settings: defaults, and a flag before the environment before the file', async (t) => {
  const folder = temporary(t);
  const none = await settings([], { XDG_DATA_HOME: folder });
  t.match(none, {
    host: '127.0.0.1',
    port: 14321,
    'proxy-port': 14322,
    'data-dir': join(folder, 'broker'),
    workers: availableParallelism(),
    'proxy-plain': 'loopback',
    'rate-limit': 100,
    'rate-burst': 500,
    'rate-inflight': 256,
    'auth-failures': 50,
    'connect-timeout': 10,
    'tls-timeout': 10,
    'response-timeout': 300,
    'body-timeout': 300,
    'drain-timeout': 30,
    'audit-on-error': 'close',
    'audit-refusal-rate': 10,
  });
  t.equal((await settings([], { HOME: folder }))['data-dir'], join(folder, '.local', 'share', 'broker'));
  const file = join(folder, 'broker.yaml');
  writeFileSync(file, 'port: 1\nproxy-port: 2\nrate-limit: 3\n');
  const found = await settings(['--config', file, '--port', '7'], {
    BROKER_PORT: '8',
    BROKER_PROXY_PORT: '9',
  });
  t.match(found, { port: 7, 'proxy-port': 9, 'rate-limit': 3, 'rate-burst': 500 });
  t.match(await settings([], { BROKER_CONFIG: file, BROKER_HOST: '127.0.0.2' }), {
    port: 1,
    host: '127.0.0.2',
  });
  const secret = await run(launcher, ['server', '--print-config'], {
    env: { BROKER_MASTER_PASSWORD: 'hunter2 hunter2' },
  });
  t.equal(secret.code, 0);
  t.notMatch(secret.stdout + secret.stderr, 'hunter2');
});

t.test('public names, and an API over TLS', async (t) => {
  const folder = temporary(t);
  const authority = createAuthority('api root');
  const { key, cert } = authority.issue(['broker.example', 'localhost', '127.0.0.1']);
  const [keyFile, certFile, caFile] = ['key', 'cert', 'ca'].map((name) => join(folder, `${name}.pem`));
  writeFileSync(keyFile, key);
  writeFileSync(certFile, cert);
  writeFileSync(caFile, authority.certPem);
  const broker = await startBroker(t, {
    args: ['--public-url', 'http://broker.example:8443/', '--public-host', 'proxy.example'],
  });
  t.equal(broker.address, 'http://broker.example:8443');
  const log = broker.printed().stdout;
  t.match(log, /proxy {2}https:\/\/127\.0\.0\.1:\d+ /);
  const names = await listenerNames(broker.proxyPort);
  for (const name of [
    'DNS:localhost',
    'IP Address:127.0.0.1',
    'IP Address:0:0:0:0:0:0:0:1',
    'DNS:proxy.example',
  ])
    t.ok(names.includes(name), `${name} is in ${names}`);

  // A real port, since what is printed is the public address.
  const port = await freePort();
  const directory = join(folder, 'data');
  const child = startServer(t, [
    '--data-dir',
    directory,
    '--port',
    String(port),
    '--proxy-port',
    '0',
    '--workers',
    '1',
    '--metrics-public',
    '--tls-cert',
    certFile,
    '--tls-key',
    keyFile,
  ]);
  await until(
    () =>
      tlsGet(port, caFile).then(
        (status) => status === 200,
        () => false,
      ),
    'the API answers over TLS',
  );
  t.equal(await tlsGet(port, caFile, '/metrics'), 200, 'metrics for anyone, with --metrics-public');
  const owner = {
    BROKER_ADDR: `https://localhost:${port}`,
    BROKER_OPERATOR_TOKEN: readFileSync(join(directory, 'owner.token'), 'utf8').trim(),
    NODE_EXTRA_CA_CERTS: caFile,
  };
  t.match(await run(launcher, ['vault', 'list'], { env: owner }), { code: 0, stdout: /^default/m });
  t.match(await run(launcher, ['vault', 'list'], { env: { ...owner, NODE_EXTRA_CA_CERTS: '' } }), {
    code: 1,
    stderr: /not trusted/,
  });
  await t.rejects(fetch(`http://127.0.0.1:${port}/health`), 'and in no other way');
  child.kill('SIGTERM');
});

function startServer(t: Test, args: readonly string[]) {
  const child = spawn('env', ['-i', `PATH=${process.env.PATH}`, launcher, 'server', ...args], {
    stdio: 'ignore',
  });
  t.teardown(() => child.kill('SIGKILL'));
  return child;
}

async function freePort(): Promise<number> {
  const server = net.createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as net.AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Alternative names in the certificate of the proxy's own port. */
function listenerNames(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
      resolve(socket.getPeerX509Certificate()?.subjectAltName ?? '');
      socket.destroy();
    });
    socket.on('error', reject);
  });
}

function tlsGet(port: number, caFile: string, path = '/ready'): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = https.get(`https://localhost:${port}${path}`, { ca: readFileSync(caFile) }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    asked.on('error', reject);
  });
}

t.test('the CA: root and leaves, and where the root is had', async (t) => {
  const broker = await startBroker(t, { args: ['--allow-private-ranges'], preload: ['names'] });
  const served = await fetch(`${broker.address}/v1/ca.pem`);
  t.equal(served.headers.get('x-broker-proxy-port'), String(broker.proxyPort));
  const root = new X509Certificate(await served.text());
  const years = (Date.parse(root.validTo) - Date.now()) / (365.25 * 86_400_000);
  t.ok(root.ca && Math.abs(years - 10) < 0.1, `a root for ${years.toFixed(2)} years`);
  t.match(root.publicKey.asymmetricKeyDetails, { namedCurve: 'prime256v1' });

  const token = await broker.session();
  const leafOf = async (authority: string) => {
    const socket = net.connect(broker.proxyPort, '127.0.0.1');
    socket.write(
      `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\nProxy-Authorization: Basic ${btoa(`${token}:default`)}\r\n\r\n`,
    );
    await new Promise((resolve) => socket.once('data', resolve));
    const servername = authority.startsWith('[') || /^\d/.test(authority) ? '' : authority.split(':')[0];
    const inner = tls.connect({ socket, servername, rejectUnauthorized: false });
    await new Promise((resolve) => inner.once('secureConnect', resolve));
    const leaf = inner.getPeerX509Certificate() as X509Certificate;
    inner.destroy();
    return leaf;
  };
  const [first, again, byAddress] = [
    await leafOf('a.test:443'),
    await leafOf('a.test:443'),
    await leafOf('127.0.0.9:443'),
  ];
  t.ok(first.verify(root.publicKey) && first.checkIssued(root));
  t.equal(first.subjectAltName, 'DNS:a.test', 'for the name that was asked for');
  t.equal(byAddress.subjectAltName, 'IP Address:127.0.0.9', 'or the address');
  t.equal(first.serialNumber, again.serialNumber, 'minted once');
  const [from, to] = [Date.parse(first.validFrom), Date.parse(first.validTo)];
  t.ok(Math.abs(to - Date.now() - 86_400_000) < 60_000, 'for 24 hours');
  t.ok(Date.now() - from > 6 * 86_400_000, 'and a week back, for clocks that are set back');
});

t.test('one port for TLS-wrapped and plain; the broker itself is out of reach', async (t) => {
  const upstream = await startUpstream(t);
  const broker = await startBroker(t, {
    args: ['--allow-private-ranges', '--network-allow', '127.0.0.0/8'],
    preload: ['names'],
  });
  const token = await broker.session();
  const authority = `api.test:${upstream.port}`;
  t.equal((await connect(broker, authority, { token })).status, 200, 'plain, from loopback');
  const apiPort = broker.address.split(':')[2];
  for (const port of [apiPort, broker.proxyPort])
    t.match(
      (await absolute(broker, `http://127.0.0.1:${port}/`, { token })).json,
      { error: 'network_blocked' },
      `${port}`,
    );
  const never = await startBroker(t, {
    args: ['--proxy-plain', 'never', '--allow-private-ranges'],
    preload: ['names'],
  });
  await t.rejects(
    connect(never, authority, { token: await never.session() }),
    'with --proxy-plain never not',
  );
  const through = await startUpstream(t, { tls: createAuthority('other').issue(['api.test']) });
  const answer = await secured(never, `api.test:${through.port}`, '/', { token: await never.session() });
  t.match(answer.json, { error: 'upstream_tls' }, 'but TLS-wrapped');
});

t.test('identities and tokens: kinds, checksum, life, what may be done with them', async (t) => {
  const broker = await startBroker(t);
  const owner = readFileSync(join(broker.directory, 'owner.token'), 'utf8');
  t.match(owner, /^brk_opr_[0-9a-f]{72}\n$/, 'on one line');
  t.equal(statSync(join(broker.directory, 'owner.token')).mode & 0o777, 0o600);
  t.equal(statSync(broker.directory).mode & 0o777, 0o700);
  const session = await broker.session();
  t.match(session, /^brk_ses_[0-9a-f]{72}$/);
  const days = (iso: string) => (Date.parse(iso) - Date.now()) / 86_400_000;
  const invite = await broker.api<{ invite_url: string; expires_at: string }>('POST', '/v1/agents/invites', {
    body: { vaults: ['default'], name: 'a' },
  });
  t.match(invite.body.invite_url, /\/invite\/brk_inv_[0-9a-f]{72}$/);
  t.ok(Math.abs(days(invite.body.expires_at) - 7) < 0.01, 'an invite lives for 7 days');
  const joined = (await (await fetch(invite.body.invite_url, { method: 'POST' })).json()) as {
    BROKER_SESSION_TOKEN: string;
    expires_at: string;
  };
  t.match(joined.BROKER_SESSION_TOKEN, /^brk_agt_[0-9a-f]{72}$/);
  t.ok(Math.abs(days(joined.expires_at) - 90) < 0.01, 'an agent for 90');
  const forever = await broker.api<{ invite_url: string }>('POST', '/v1/agents/invites', {
    body: { vaults: ['default'], token_ttl_seconds: null },
  });
  t.match(
    await (await fetch(forever.body.invite_url, { method: 'POST' })).json(),
    { expires_at: null },
    'or for ever, where that is said',
  );
  const made = await broker.api<{ id: number; approval_url: string; expires_at: string }>(
    'POST',
    '/v1/proposals',
    { token: session, body: { credentials: [{ action: 'set', key: 'K' }] } },
  );
  t.match(made.body.approval_url, /token=brk_apr_[0-9a-f]{72}$/);
  t.ok(Math.abs(days(made.body.expires_at) - 7) < 0.01);

  const files = readdirSync(broker.directory, { recursive: true, withFileTypes: true }).filter(
    (each) => each.isFile() && each.name !== 'owner.token',
  );
  const approval = made.body.approval_url.split('=')[1];
  for (const file of files) {
    const bytes = readFileSync(join(file.parentPath, file.name), 'latin1');
    for (const token of [session, joined.BROKER_SESSION_TOKEN, owner.trim(), approval])
      t.notOk(bytes.includes(token.slice(8)), `only hashes are in ${file.name}`);
  }
  const authority = 'api.test:443';
  t.match(
    await connect(broker, authority, { token: owner.trim() }),
    { status: 407 },
    "an operator's token doesn't open the proxy",
  );
  t.match(
    await connect(broker, authority, { token: approval }),
    { status: 407 },
    'nor does an approval link',
  );
  t.match(
    await broker.api('POST', `/v1/proposals/${made.body.id}/approve`, {
      token: approval,
      body: { credentials: { K: 'v' } },
    }),
    { status: 401 },
    'which decides nothing',
  );
  const { status } = await broker.api('GET', '/discover', {
    token: `${session.slice(0, -1)}${session.endsWith('0') ? '1' : '0'}`,
  });
  t.equal(status, 401, 'a mistyped one');
});
