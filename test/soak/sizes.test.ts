import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type http from 'node:http';
import https from 'node:https';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { gitBackend, gitEnvironment, makeRepositories } from '../e2e/clients/git-backend.ts';
import { type Broker, launcher, run, startBroker, temporary } from '../support/broker.ts';
import { reaching, type Seen, startUpstream, type Upstream } from '../support/tls-upstream.ts';
import { rootOf } from '../support/tunnel.ts';

/*
 * Bodies larger than any memory: what the broker's process takes while they go through is looked at in /proc, four times
 * a second. BODY_GIB and PUSH_MIB make them smaller.
 */
const bodyBytes = Math.floor(Number(process.env.BODY_GIB ?? 10) * 1024 ** 3);
const pushMebibytes = Number(process.env.PUSH_MIB ?? 1024);
/** What the process may grow by over a whole body, in MiB: buffers under way and garbage that waits to be collected. */
const mostGrowth = 64;
const host = 'sizes.test';
const secret = `sizes-${randomBytes(12).toString('hex')}`;

t.setTimeout(900_000);

const work = temporary(t);
/** Digests of what the upstream sent down, by path. */
const poured = new Map<string, string>();
let broker: Broker;
let upstream: Upstream;

t.before(async () => {
  makeRepositories(join(work, 'git'), ['large']);
  const backend = gitBackend(join(work, 'git'));
  upstream = await startUpstream(t, { handle: (...given) => backend(...given) || serveBody(...given) });
  broker = await startBroker(t, reaching(t));
  await broker.api('POST', '/v1/credentials', {
    body: { credentials: { KEY: secret } },
    vault: 'default',
  });
  const service = { host, auth: { type: 'bearer', token: 'KEY' } };
  const set = await broker.api('POST', '/v1/vaults/default/services', { body: { services: [service] } });
  t.equal(set.status, 200, JSON.stringify(set.body));
});

/** GET /down/SIZE: that many bytes, for who has the credential. What comes up is digested by the upstream itself. */
function serveBody(request: http.IncomingMessage, response: http.ServerResponse): boolean {
  const { url = '', headers } = request;
  if (url === '/up') falter(request);
  if (!url.startsWith('/down/') || headers.authorization !== `Bearer ${secret}`) return false;
  const size = Number(url.split('/')[2]);
  response.writeHead(200, { 'content-length': size });
  pour(response, size).then((digest) => {
    poured.set(url, digest);
    response.end();
  });
  return true;
}

/** `size` bytes of which no two pieces are alike, as fast as they are taken; their digest. */
async function pour(to: Writable, size: number): Promise<string> {
  const piece = randomBytes(256 * 1024);
  const digest = createHash('sha256');
  for (let sent = 0; sent < size; sent += piece.length) {
    const copy = Buffer.from(piece.subarray(0, Math.min(piece.length, size - sent)));
    copy.writeDoubleLE(sent, 0);
    digest.update(copy);
    if (!to.write(copy)) await once(to, 'drain');
  }
  return digest.digest('hex');
}

/** Reads nothing for a while, four times: what is sent meanwhile has to wait where it comes from. */
function falter(from: Readable): void {
  const every = bodyBytes / 5;
  let [came, next] = [0, every];
  from.on('data', (chunk) => {
    came += chunk.length;
    if (came < next) return;
    next += every;
    from.pause();
    setTimeout(() => from.resume(), 1500);
  });
}

async function swallow(from: Readable): Promise<string> {
  const digest = createHash('sha256');
  falter(from);
  from.on('data', (chunk) => digest.update(chunk));
  await once(from, 'end');
  return digest.digest('hex');
}

/** A request of node's own client through the broker, in a tunnel. */
async function request(path: string, options: https.RequestOptions = {}): Promise<http.ClientRequest> {
  const proxy = `http://${await broker.session()}:default@127.0.0.1:${broker.proxyPort}`;
  const agent = new https.Agent({ proxyEnv: { HTTPS_PROXY: proxy }, ca: await rootOf(broker) } as object);
  return https.request(`https://${host}:${upstream.port}${path}`, { agent, ...options });
}

/** Resident memory of the broker's process, in MiB. */
function resident(): number {
  const status = readFileSync(`/proc/${broker.process.pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024;
}

/** Runs it, and fails where the broker took much more memory meanwhile than before. */
async function flat(t: Test, bytes: number, work: () => Promise<unknown>): Promise<void> {
  const before = resident();
  let most = before;
  const timer = setInterval(() => {
    most = Math.max(most, resident());
  }, 250);
  const from = performance.now();
  await work();
  clearInterval(timer);
  const seconds = (performance.now() - from) / 1000;
  const speed = (bytes / 1024 ** 2 / seconds).toFixed();
  t.comment(
    `${(bytes / 1024 ** 3).toFixed(2)} GiB in ${seconds.toFixed()} s, ${speed} MiB/s; ${before.toFixed()} MiB resident before, at most ${most.toFixed()}`,
  );
  t.ok(most - before < mostGrowth, `the broker grew by ${(most - before).toFixed()} MiB`);
}

async function down(t: Test, size: number): Promise<void> {
  const path = `/down/${size}`;
  const sent = await request(path);
  sent.end();
  const [response] = await once(sent, 'response');
  t.equal(response.statusCode, 200);
  const digest = await swallow(response);
  t.equal(poured.get(path), digest, 'all of it came, as it was sent');
}

async function up(t: Test, size: number): Promise<void> {
  const sent = await request('/up', { method: 'POST' });
  const answered = once(sent, 'response');
  const digest = await pour(sent, size);
  sent.end();
  const [response] = await answered;
  t.equal(response.statusCode, 200);
  response.resume();
  const { headers, body } = upstream.seen.at(-1) as Seen;
  t.equal(body, digest, 'all of it came, as it was sent');
  t.equal(headers['transfer-encoding'], 'chunked', 'of a length that nobody said');
  t.equal(headers.authorization, `Bearer ${secret}`);
}

t.test('what the process takes for a body of any size', async (t) => {
  // The first ones fill the caches and the allocator's arenas: memory that is taken once.
  const warmUp = Math.min(bodyBytes, 512 * 1024 ** 2);
  await down(t, warmUp);
  await up(t, warmUp);
  await t.test('down', (t) => flat(t, bodyBytes, () => down(t, bodyBytes)));
  await t.test('up, in chunks', (t) => flat(t, bodyBytes, () => up(t, bodyBytes)));
});

t.test('git pushes it in chunks', async (t) => {
  const folder = join(work, 'clone');
  const script = fileURLToPath(new URL('push-large.sh', import.meta.url));
  const url = `https://${host}:${upstream.port}/git/large.git`;
  const from = upstream.seen.length;
  await flat(t, pushMebibytes * 1024 ** 2, async () => {
    const pushed = await run(launcher, ['vault', 'run', '--', script, url, folder, String(pushMebibytes)], {
      seconds: 600,
      env: { ...gitEnvironment, BROKER_ADDR: broker.address, BROKER_DATA_DIR: broker.directory },
    });
    t.equal(pushed.code, 0, pushed.stderr);
    t.notMatch(pushed.stdout + pushed.stderr, secret);
    const there = await run('git', ['--git-dir', join(work, 'git', 'large.git'), 'rev-parse', 'main:large']);
    t.equal(there.stdout, pushed.stdout, 'the repository has the file');
  });
  const pushes = upstream.seen
    .slice(from)
    .filter(
      ({ url, headers }) => /git-receive-pack$/.test(url) && headers['transfer-encoding'] === 'chunked',
    );
  t.equal(pushes.length, 1, 'in one request of a length that nobody said');
  t.ok(upstream.seen.slice(from).every(({ headers }) => headers.authorization === `Bearer ${secret}`));
});
