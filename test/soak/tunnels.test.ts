import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { type Broker, each, run, startBroker, until } from '../support/broker.ts';
import { reaching, startUpstream, type Upstream } from '../support/tls-upstream.ts';
import { openTunnel, rootOf, type Tunnel } from '../support/tunnel.ts';

/*
 * Ten thousand tunnels held open at once (TUNNELS makes it fewer), and more connections than the system lets a process
 * have. This process holds the other ends: it and the broker each want `ulimit -n` above the number.
 */
const count = Number(process.env.TUNNELS ?? 10_000);
/** What one idle tunnel, with TLS inside, may take of the broker's memory, in KiB. */
const mostEach = 64;
const host = 'tunnels.test';
const secret = `tunnels-${randomBytes(12).toString('hex')}`;

t.setTimeout(900_000);

let upstream: Upstream;

t.before(async () => {
  upstream = await startUpstream(t);
});

async function furnished(t: Test): Promise<Broker> {
  const way = reaching(t);
  const broker = await startBroker(t, { ...way, args: [...way.args, '--rate-limit', '0'] });
  const credentials = { KEY: secret };
  const services = [{ host, auth: { type: 'bearer', token: 'KEY' } }];
  await broker.api('POST', '/v1/credentials', { body: { credentials }, vault: 'default' });
  await broker.api('PUT', '/v1/vaults/default/services', { body: { services } });
  return broker;
}

/** Resident memory of a process, in KiB. */
function resident(pid: number | undefined): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
}

t.test(`${count} idle tunnels, then a request through each`, async (t) => {
  const broker = await furnished(t);
  const rootPem = await rootOf(broker);
  const target = { token: await broker.session(), host, port: upstream.port };
  const tunnels: Tunnel[] = [];
  const open = async () => void tunnels.push(await openTunnel(broker, rootPem, target));
  // The first ones fill caches that are filled once.
  await each(Array(100).fill(0), open, 20);
  const before = resident(broker.process.pid);
  const from = performance.now();
  await each(Array(count - tunnels.length).fill(0), open, 20);
  const seconds = (performance.now() - from) / 1000;
  // Longer than any deadline of a connection on which something is expected.
  await sleep(12_000);
  const kib = (resident(broker.process.pid) - before) / (count - 100);
  t.comment(
    `${count} tunnels opened in ${seconds.toFixed()} s; ${kib.toFixed(1)} KiB of resident memory each`,
  );
  t.ok(kib < mostEach, `${kib.toFixed(1)} KiB each`);
  t.equal(tunnels.filter(({ closed }) => closed).length, 0, 'all are open');

  let answered = 0;
  await each(
    tunnels,
    async (tunnel) => {
      const { status } = await tunnel.request('/');
      if (status === 200) answered++;
    },
    50,
  );
  t.equal(answered, count, 'all were answered');
  t.equal(upstream.seen.filter(({ headers }) => headers.authorization === `Bearer ${secret}`).length, count);
  for (const tunnel of tunnels) tunnel.close();
});

t.test('at the limit of open files: a clear refusal, and the broker goes on', async (t) => {
  const broker = await furnished(t);
  const rootPem = await rootOf(broker);
  const target = { token: await broker.session(), host, port: upstream.port };
  const first = await openTunnel(broker, rootPem, target);
  t.equal((await first.request('/')).status, 200);
  const open = () => readdirSync(`/proc/${broker.process.pid}/fd`).length;
  const limit = open() + 60;
  const lowered = await run('prlimit', ['--pid', String(broker.process.pid), `--nofile=${limit}:${limit}`]);
  t.equal(lowered.code, 0, lowered.stderr);
  // It looks at its limit once a second.
  await sleep(1500);

  const tunnels: Tunnel[] = [];
  let refusal = '';
  while (refusal === '' && tunnels.length < 100) {
    await openTunnel(broker, rootPem, target).then(
      (tunnel) => tunnels.push(tunnel),
      (error) => {
        refusal = error.message;
      },
    );
  }
  t.ok(tunnels.length >= 30, `${tunnels.length} tunnels within ${limit} files`);
  t.match(refusal, /^CONNECT: 503 \{"error":"overloaded","message":".*ulimit -n/);
  await until(
    async () =>
      (await broker.audit()).some(
        ({ error, host: to }) => error === 'overloaded' && String(to).startsWith(host),
      ),
    'its record in the audit',
  );

  const crowd = Array.from({ length: 200 }, () => {
    const socket = net.connect(broker.proxyPort, '127.0.0.1');
    return socket.on('error', () => {});
  });
  await until(() => crowd.filter(({ closed }) => closed).length > 100, 'the system to turn connections away');
  const statuses: number[] = [];
  await each(
    [first, ...tunnels],
    async (tunnel) => void statuses.push((await tunnel.request('/')).status),
    1,
  );
  t.same(statuses, Array(tunnels.length + 1).fill(200), 'who was there before is served');
  for (const socket of crowd) socket.destroy();
  for (const tunnel of tunnels) tunnel.close();
  await until(() => open() < limit / 2, 'the files to be closed');
  t.equal(
    (await (await openTunnel(broker, rootPem, target)).request('/')).status,
    200,
    'there is room again',
  );
  t.equal((await broker.api('GET', '/v1/vaults')).status, 200);
  t.equal(broker.process.exitCode, null);
});
