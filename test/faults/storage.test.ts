/** A disk that fills up under a running server, and has room again. A small tmpfs, so this needs the right to mount. */
import { spawnSync } from 'node:child_process';
import { rmSync, statfsSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type Broker, startBroker, temporary, until } from '../support/broker.ts';

function smallDisk(t: Test, mebibytes: number): string {
  const path = temporary(t);
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${mebibytes}m`, 'tmpfs', path], {
    encoding: 'utf8',
  });
  if (mounted.status !== 0) throw new Error(`this test mounts a tmpfs, as root: ${mounted.stderr}`);
  t.teardown(() => spawnSync('umount', ['-l', path]));
  return path;
}

/** Leaves no octet of room. */
function fill(path: string): void {
  const { bavail, bsize } = statfsSync(path);
  if (bavail > 0) writeFileSync(join(path, 'ballast'), Buffer.alloc(bavail * bsize, 1), { flag: 'a' });
}

const write = (broker: Broker, key: string, value: string) =>
  broker.api('POST', '/v1/credentials', { vault: 'default', body: { credentials: { [key]: value } } });

/** One request through the proxy; gives its status. */
async function through(broker: Broker, token: string, url: string): Promise<number> {
  const auth = Buffer.from(`${token}:default`).toString('base64');
  return new Promise((resolve, reject) => {
    const headers = { 'proxy-authorization': `Basic ${auth}`, host: new URL(url).host };
    request({ host: '127.0.0.1', port: broker.proxyPort, path: url, headers }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode ?? 0));
    })
      .on('error', reject)
      .end();
  });
}

t.test(
  'full and back: changes are refused, the rest goes on, nothing acknowledged is lost',
  { timeout: 180_000 },
  async (t) => {
    const disk = smallDisk(t, 24);
    const upstream = createServer((_, answer) => answer.end('ok')).listen(0, '127.0.0.1');
    await new Promise((resolve) => upstream.once('listening', resolve));
    t.teardown(() => upstream.close());
    const url = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/`;
    const directory = join(disk, 'data');
    const args = ['--network-allow', '127.0.0.1', '--audit-on-error', 'open'];
    const broker = await startBroker(t, { directory, args });
    const token = await broker.session();
    t.equal(await through(broker, token, url), 200);
    const kept: string[] = [];
    t.equal((await write(broker, 'FIRST', 'x')).status, 200);
    kept.push('FIRST');

    fill(disk);
    let refused = 0;
    // What LMDB has free in its file may take a few more.
    for (let i = 0; i < 40 && refused < 5; i++) {
      const { status, body } = await write(broker, `K${i}`, 'v'.repeat(60_000));
      if (status === 200) kept.push(`K${i}`);
      else {
        t.match([status, body], [503, { error: 'store_unavailable', applied: false }]);
        refused++;
      }
      fill(disk);
    }
    t.equal(refused, 5, 'a full disk refuses');
    t.equal((await fetch(`${broker.address}/health`)).status, 200);
    t.equal(
      (await broker.api('GET', '/v1/credentials', { vault: 'default' })).status,
      200,
      'what is read is read',
    );
    t.equal(await through(broker, token, url), 200, 'the proxy needs no store');

    rmSync(join(disk, 'ballast'));
    await until(async () => (await write(broker, 'AFTER', 'y')).status === 200, 'changes are taken again');
    kept.push('AFTER');
    const keys = async (of: Broker) =>
      (await of.api<{ keys: string[] }>('GET', '/v1/credentials', { vault: 'default' })).body.keys;
    t.same(await keys(broker), [...kept].sort());
    broker.process.kill('SIGKILL');
    await broker.ended;
    const again = await startBroker(t, { directory, args });
    t.same(await keys(again), [...kept].sort(), 'neither more nor less than was acknowledged');
    const changes = (await again.audit()).filter(
      ({ action, status }) => action === 'credential.set' && status === 200,
    );
    t.same(
      changes.flatMap((record) => record.keys).sort(),
      [...kept].sort(),
      'the audit has each of them once',
    );
    const verified = await again.command(['audit', 'verify']);
    t.equal(verified.code, 0, verified.stdout + verified.stderr);
    const lines = broker
      .printed()
      .stderr.split('\n')
      .filter((line) => line !== '' && !line.startsWith('Write error: '));
    for (const line of lines) t.doesNotThrow(() => JSON.parse(line), line);
  },
);
