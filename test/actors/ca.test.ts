import { execFile } from 'node:child_process';
import { createPublicKey, generateKeyPairSync, X509Certificate } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { caActor } from '../../src/actors/ca.ts';
import { systemClock } from '../../src/actors/core/clock.ts';
import { createSystem } from '../../src/actors/core/system.ts';
import { createLeaf, createRoot, openRoot } from '../../src/actors/x509.ts';
import { manualClock } from '../support/manual-clock.ts';

const hour = 3_600_000;
const dir = mkdtempSync(join(tmpdir(), 'broker-ca-'));
t.teardown(() => rmSync(dir, { recursive: true }));

const pem = createRoot({ commonName: 'Broker test root', now: Date.now() });
const root = openRoot(pem);
const leafKeys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const privatePem = leafKeys.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
const rootFile = join(dir, 'root.pem');
writeFileSync(rootFile, pem.certPem);

const hosts = ['api.example.com', '127.0.0.1', '::1', '::ffff:127.0.0.1', `${'a'.repeat(60)}.example.com`];

function leaf(host: string, extraNames: string[] = [], now = Date.now()): string {
  return createLeaf({ root, key: leafKeys.publicKey, host, extraNames, now });
}

/** Exit code and everything printed. */
function run(command: string, ...args: string[]): Promise<{ code: number; output: string }> {
  return new Promise((resolve, reject) => {
    execFile(command, args, (error, stdout, stderr) => {
      if (error && typeof error.code !== 'number') return reject(error);
      resolve({ code: error ? Number(error.code) : 0, output: stdout + stderr });
    });
  });
}

async function describe(certPem: string): Promise<string> {
  const file = join(dir, 'described.pem');
  writeFileSync(file, certPem);
  return (await run('openssl', 'x509', '-in', file, '-noout', '-text')).output.replace(/\s+/g, ' ');
}

t.test('the root may sign leaves and nothing that signs', async (t) => {
  const text = await describe(pem.certPem);
  t.match(text, 'X509v3 Basic Constraints: critical CA:TRUE, pathlen:0');
  t.match(text, 'X509v3 Key Usage: critical Certificate Sign X509v3 ');
  t.match(text, 'X509v3 Subject Key Identifier');
  t.match(text, 'NIST CURVE: P-256');
  const { validFromDate, validToDate } = new X509Certificate(pem.certPem);
  const years = validToDate.getUTCFullYear() - validFromDate.getUTCFullYear();
  t.ok(years === 10, `valid for ${years} years`);
});

t.test('a leaf is for one server, for a day', async (t) => {
  const now = Date.now();
  const text = await describe(leaf('api.example.com', [], now));
  t.match(text, 'X509v3 Key Usage: critical Digital Signature');
  t.match(text, 'X509v3 Extended Key Usage: TLS Web Server Authentication');
  t.match(text, 'X509v3 Subject Alternative Name: DNS:api.example.com');
  t.match(text, 'X509v3 Authority Key Identifier');
  const cert = new X509Certificate(leaf('api.example.com', [], now));
  t.notOk(cert.ca);
  t.equal(cert.subject, 'CN=api.example.com');
  t.ok(Math.abs(cert.validFromDate.getTime() - (now - 7 * 24 * hour)) < 1000, 'from a week ago');
  t.ok(Math.abs(cert.validToDate.getTime() - (now + 24 * hour)) < 1000, 'for 24 hours');
  t.ok(cert.verify(new X509Certificate(pem.certPem).publicKey));
  t.not(cert.serialNumber, new X509Certificate(leaf('api.example.com', [], now)).serialNumber);
});

t.test('openssl verifies every kind of leaf strictly', async (t) => {
  for (const host of hosts) {
    const file = join(dir, 'leaf.pem');
    writeFileSync(file, leaf(host));
    const check = host.includes(':') || host === '127.0.0.1' ? '-verify_ip' : '-verify_hostname';
    const args = ['verify', '-x509_strict', '-purpose', 'sslserver', '-CAfile', rootFile];
    t.match(await run('openssl', ...args, check, host, file), { code: 0 }, host);
    t.not((await run('openssl', ...args, '-verify_hostname', 'other.example', file)).code, 0, `${host} only`);
  }
});

t.test('a host too long for a common name stands in critical alternative names alone', async (t) => {
  const text = await describe(leaf(hosts[4]));
  t.match(text, `X509v3 Subject Alternative Name: critical DNS:${hosts[4]}`);
  t.notOk(new X509Certificate(leaf(hosts[4])).subject);
});

t.test('clients shake hands by name, by IPv4 and by IPv6', async (t) => {
  for (const [host, address, url] of [
    ['api.example.com', '127.0.0.1', 'api.example.com'],
    ['127.0.0.1', '127.0.0.1', '127.0.0.1'],
    ['::1', '::1', '[::1]'],
  ]) {
    const server = createServer({ cert: leaf(host), key: privatePem }, (_, res) => res.end('hello'));
    await new Promise<void>((resolve) => server.listen(0, address, resolve));
    const { port } = server.address() as AddressInfo;
    const curl = (name: string, ...more: string[]) =>
      run('curl', '-sS', '--noproxy', '*', '--cacert', rootFile, ...more, `https://${name}:${port}/`);
    const resolved = ['--resolve', `api.example.com:${port}:127.0.0.1`];
    t.strictSame(await curl(url, ...resolved), { code: 0, output: 'hello' }, `curl ${host}`);
    const wrong = await curl('other.example', '--resolve', `other.example:${port}:${address}`);
    t.equal(wrong.code, 60, `curl refuses another name than ${host}`);
    const python = await run('python3', '-c', pythonClient, rootFile, address, String(port), host);
    t.strictSame(python, { code: 0, output: 'TLSv1.3\n' }, `python, strict, ${host}`);
    server.close();
  }
});

const pythonClient = `
import socket, ssl, sys
root, address, port, host = sys.argv[1:]
context = ssl.create_default_context(cafile=root)
context.verify_flags |= ssl.VERIFY_X509_STRICT
with socket.create_connection((address, int(port))) as plain:
    with context.wrap_socket(plain, server_hostname=host) as tls:
        print(tls.version())
`;

t.test('any address and any name ends up in the certificate as it is', async () => {
  const label = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?$/);
  const name = fc.array(label, { minLength: 2, maxLength: 6 }).map((labels) => `${labels.join('.')}.test`);
  fc.assert(
    fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), name, (ip, host) => {
      const cert = new X509Certificate(leaf(host, [ip]));
      return cert.checkIP(ip) === ip && cert.checkHost(host) === host && !cert.checkHost(`x${host}`);
    }),
    { numRuns: 100 },
  );
});

t.test('what no certificate can name is refused', async (t) => {
  for (const host of [
    '',
    'bücher.example',
    'a b',
    'a\0b',
    'fe80::1%eth0',
    '[::1]',
    `${'a.'.repeat(127)}com`,
  ]) {
    t.throws(() => leaf(host), RangeError, JSON.stringify(host));
  }
  t.throws(() => createRoot({ commonName: '', now: 0 }), RangeError);
  t.throws(() => createRoot({ commonName: 'x'.repeat(65), now: 0 }), RangeError);
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-384' });
  t.throws(() => createLeaf({ root, key: publicKey, host: 'a.example', now: 0 }), TypeError);
});

t.test('a root and the key of another are refused', async (t) => {
  const other = createRoot({ commonName: 'Other', now: Date.now() });
  t.throws(() => openRoot({ certPem: pem.certPem, keyPem: other.keyPem }), {
    message: /do not belong together/,
  });
  t.throws(() => openRoot({ certPem: leaf('a.example'), keyPem: privatePem }), {
    message: /cannot sign leaves/,
  });
});

t.test('serial numbers are positive and 128 bits long, whatever chance gives', async (t) => {
  for (const octet of [0, 0x80, 0xff]) {
    const { certPem } = createRoot({
      commonName: 'r',
      now: 0,
      random: (size) => new Uint8Array(size).fill(octet),
    });
    t.match(new X509Certificate(certPem).serialNumber, /^[4-7][0-9A-F]{31}$/, `all ${octet}`);
  }
});

t.test('dates from 2050 on are written out', async (t) => {
  const now = Date.UTC(2041, 5, 1);
  const { certPem, keyPem } = createRoot({ commonName: 'Late root', now });
  const { validFromDate, validToDate } = new X509Certificate(certPem);
  t.equal(validFromDate.toISOString(), '2041-05-25T00:00:00.000Z');
  t.equal(validToDate.toISOString(), '2051-06-01T00:00:00.000Z');
  const late = openRoot({ certPem, keyPem });
  const cert = new X509Certificate(
    createLeaf({ root: late, key: leafKeys.publicKey, host: 'a.example', now }),
  );
  t.equal(cert.issuer, 'CN=Late root');
});

t.test('the ca actor', async (t) => {
  const clock = manualClock(Date.now());
  const system = createSystem({ clock });
  t.teardown(() => system.stop());
  const ca = system.spawn(caActor({ root: pem, leafKey: { privatePem }, cacheSize: 2 }));
  const ask = async (host: string) => (await ca.ask('leaf', { host })).certPem;

  t.test('mints a host once, however many ask at once', async (t) => {
    const all = await Promise.all(Array.from({ length: 20 }, () => ask('once.example')));
    t.equal(new Set(all).size, 1);
    const cert = new X509Certificate(all[0]);
    t.ok(cert.publicKey.equals(createPublicKey(privatePem)), 'for the key of the process');
    t.equal(cert.checkHost('once.example'), 'once.example');
  });

  t.test('mints anew when less than two hours are left', async (t) => {
    const first = await ca.ask('leaf', { host: 'old.example' });
    t.equal(first.notAfter, clock.now() + 24 * hour);
    await clock.advance(22 * hour);
    t.equal(await ask('old.example'), first.certPem, 'two hours left');
    await clock.advance(1);
    const second = await ca.ask('leaf', { host: 'old.example' });
    t.not(second.certPem, first.certPem, 'less than two hours left');
    t.equal(second.notAfter, clock.now() + 24 * hour);
  });

  t.test('forgets the least recently used', async (t) => {
    const [a, b] = [await ask('a.example'), await ask('b.example')];
    t.equal(await ask('a.example'), a);
    await ask('c.example');
    t.equal(await ask('a.example'), a, 'used since');
    t.not(await ask('b.example'), b, 'dropped');
  });

  t.test('gives the listener one certificate for all its names', async (t) => {
    const names = ['localhost', '127.0.0.1', '::1', 'broker.internal', 'under_score'];
    const { certPem, notAfter } = await ca.ask('listener', { names });
    const cert = new X509Certificate(certPem);
    t.equal(notAfter, clock.now() + 24 * hour);
    t.equal(cert.subject, 'CN=localhost');
    t.equal(cert.checkHost('broker.internal'), 'broker.internal');
    t.equal(cert.checkIP('::1'), '::1');
    t.match(cert.subjectAltName, 'DNS:under_score');
    t.equal((await ca.ask('listener', { names })).certPem, certPem, 'every lane gets the same');
  });

  t.test('shows the root, never its key', async (t) => {
    t.strictSame(await ca.ask('root', {}), { certPem: pem.certPem });
  });
});

t.test('a clock set back makes the ca actor mint what is valid now', async (t) => {
  let ahead = 8 * 24 * hour;
  const system = createSystem({ clock: { ...systemClock, now: () => Date.now() + ahead } });
  t.teardown(() => system.stop());
  const ca = system.spawn(caActor({ root: pem, leafKey: { privatePem } }));
  await ca.ask('leaf', { host: 'a.example' });
  ahead = 0;
  const { certPem } = await ca.ask('leaf', { host: 'a.example' });
  t.ok(new X509Certificate(certPem).validFromDate.getTime() < Date.now());
});
