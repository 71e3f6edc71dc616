import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import {
  type Broker,
  collect,
  launcher,
  type Ran,
  run,
  start,
  startBroker,
  temporary,
  until,
} from '../support/broker.ts';
import { reaching, type Seen, startUpstream, type Upstream } from '../support/tls-upstream.ts';
import { openTunnel, rootOf } from '../support/tunnel.ts';
import { gitBackend, gitEnvironment, makeRepositories } from './clients/git-backend.ts';

const work = temporary(t);
const at = (name: string) => fileURLToPath(new URL(`clients/${name}`, import.meta.url));
const secret = (name: string) => `${name}-${randomBytes(12).toString('hex')}`;
const values = {
  GH_TOKEN: secret('gh'),
  USER_NAME: secret('user'),
  USER_PASSWORD: secret('pass word/+&'),
  API_KEY: secret('key'),
  FIRST: secret('first'),
  SECOND: secret('second'),
  ACCOUNT: secret('account/ä'),
};
const base64 = (text: string) => Buffer.from(text).toString('base64');
const basic = base64(`${values.USER_NAME}:${values.USER_PASSWORD}`);
/** What must be found at the upstream, by the type in the host's name. */
const expected: Record<string, (headers: Seen['headers']) => boolean> = {
  bearer: ({ authorization }) => authorization === `Bearer ${values.GH_TOKEN}`,
  basic: ({ authorization }) => authorization === `Basic ${basic}`,
  'api-key': (headers) => headers['x-api-key'] === `Key ${values.API_KEY}`,
  custom: (headers) =>
    headers['x-first'] === values.FIRST && headers['x-both'] === `${values.FIRST};${values.SECOND}`,
  passthrough: ({ authorization }) => authorization === 'Bearer the-clients-own',
};
const types = Object.keys(expected);
const proxyHeaders = ['proxy-authorization', 'proxy-connection', 'x-vault'];

const services = `services:
  - host: bearer.test
    description: With a token
    auth:
      type: bearer
      token: GH_TOKEN
  - host: basic.test
    auth:
      type: basic
      username: USER_NAME
      password: USER_PASSWORD
  - host: api-key.test
    auth:
      type: api-key
      key: API_KEY
      header: X-Api-Key
      prefix: "Key "
  - host: custom.test
    auth:
      type: custom
      headers:
        X-First: "{{ FIRST }}"
        X-Both: "{{ FIRST }};{{SECOND}}"
    substitutions:
      - key: ACCOUNT
        placeholder: __account__
  - host: passthrough.test
    auth:
      type: passthrough
  - host: off.test
    auth:
      type: passthrough
    enabled: false
`;

let broker: Broker;
let upstream: Upstream;
let plain: Upstream;

t.before(async () => {
  makeRepositories(join(work, 'git'), types);
  upstream = await startUpstream(t, { handle: gitBackend(join(work, 'git')) });
  plain = await startUpstream(t, { scheme: 'http' });
  broker = await startBroker(t, reaching(t));
});

/** `vault run -- COMMAND…`, in an environment whose own proxies lead nowhere. */
function vaultRun(command: readonly string[], options: { flags?: string[]; tmp?: string } = {}) {
  const dead = 'http://127.0.0.1:1';
  return start(launcher, ['vault', 'run', ...(options.flags ?? []), '--', ...command], {
    stdin: '',
    cwd: work,
    env: {
      ...gitEnvironment,
      BROKER_ADDR: broker.address,
      BROKER_DATA_DIR: broker.directory,
      TMPDIR: options.tmp ?? work,
      HTTPS_PROXY: dead,
      https_proxy: dead,
      HTTP_PROXY: dead,
      ALL_PROXY: dead,
      all_proxy: dead,
      no_proxy: '*',
      NO_PROXY: '*',
    },
  });
}

function ran(command: readonly string[], flags: string[] = []): Promise<Ran> {
  return collect(vaultRun(command, { flags })).ended;
}

t.test('the values and the services are set, and listed as they were given', async (t) => {
  for (const [key, value] of Object.entries(values)) {
    const set = await broker.command(['vault', 'credential', 'set', key, '--stdin'], { stdin: `${value}\n` });
    t.match(set, { code: 0, stdout: '' }, `${key} is set`);
  }
  writeFileSync(join(work, 's.yaml'), services);
  const set = await broker.command(['vault', 'service', 'set', '-f', 's.yaml'], { cwd: work });
  t.match(set, { code: 0, stderr: /6 services/ });

  const listed = await broker.command(['vault', 'service', 'list']);
  t.equal(listed.stdout, services, 'what was set comes back');
  const again = await broker.command(['vault', 'service', 'set', '-f', '-'], { stdin: listed.stdout });
  t.equal(again.code, 0, 'and is taken again');
  t.equal((await broker.command(['vault', 'service', 'list'])).stdout, services);

  const keys = await broker.command(['vault', 'credential', 'list']);
  t.same(keys.stdout.trim().split('\n'), Object.keys(values).sort(), 'keys, never values');
});

t.test('unmodified clients get through and never see a credential', { timeout: 110_000 }, async (t) => {
  const goClient = join(work, 'go-client');
  const built = await run('go', ['build', '-o', goClient, '.'], {
    seconds: 110,
    cwd: at('go'),
    env: { GOFLAGS: '-mod=mod', GOPROXY: 'off', GOTOOLCHAIN: 'local', CGO_ENABLED: '0' },
  });
  t.equal(built.code, 0, built.stderr);
  const clients: Record<string, readonly string[]> = {
    curl: [at('curl.sh')],
    requests: ['python3', at('client.py')],
    fetch: [process.execPath, at('client.mjs')],
    'net/http': [goClient],
    git: [at('git.sh')],
  };
  const digest = createHash('sha256').update('body '.repeat(1000)).digest('hex');

  for (const [name, command] of Object.entries(clients)) {
    t.test(name, async (t) => {
      const path = (type: string) =>
        name === 'git' ? `git/${type}.git` : 'v1/__account__/items?of=__account__';
      const from = upstream.seen.length;
      const urls = types.map((type) => `https://${type}.test:${upstream.port}/${path(type)}`);
      const result = await ran([...command, ...urls]);
      t.equal(result.code, 0, result.stderr);
      t.equal(
        result.stdout.match(/^(?:HTTP\/1.1 )?200 /gm)?.length,
        name === 'curl' ? 20 : 10,
        'all were answered',
      );
      t.match(result.stdout, /^BROKER_SESSION_TOKEN=brk_ses_/m, 'its environment was looked at');
      for (const found of findings(result)) t.fail(`the client saw ${found}`);

      const seen = upstream.seen.slice(from);
      for (const type of types) {
        const ofType = seen.filter(({ host }) => host === `${type}.test:${upstream.port}`);
        t.ok(
          ofType.length >= 2 && ofType.every(({ headers }) => expected[type](headers)),
          `${type} was injected`,
        );
      }
      t.notOk(
        seen.some(({ headers }) => proxyHeaders.some((header) => header in headers)),
        'nothing of the proxy went on',
      );
      if (name === 'git') {
        const chunked = seen.filter(({ headers }) => headers['transfer-encoding'] === 'chunked');
        t.equal(chunked.length, types.length, 'each push went in chunks');
        return;
      }
      t.ok(
        seen.every((one) => one.method === 'GET' || one.body === digest),
        'bodies went on whole',
      );
      const account = encodeURIComponent(values.ACCOUNT);
      const urlOf = (host: string) => seen.find((one) => one.host.startsWith(host))?.url;
      t.equal(urlOf('custom'), `/v1/${account}/items?of=${account}`, 'placeholders were replaced');
      t.equal(urlOf('bearer'), '/v1/__account__/items?of=__account__', 'but in their own service only');
    });
  }
});

/** Which credentials occur in what a client printed, in any form that one would come in. */
function findings({ stdout, stderr }: Ran): string[] {
  const text = stdout + stderr;
  return Object.entries({ ...values, basic })
    .filter(([, value]) =>
      [value, encodeURIComponent(value), base64(value)].some((form) => text.includes(form)),
    )
    .map(([key]) => key);
}

t.test('a credential would be found in what a client printed', (t) => {
  const stdout = `x${base64(values.API_KEY)}y ${encodeURIComponent(values.ACCOUNT)}`;
  t.same(findings({ code: 0, stdout, stderr: values.FIRST }), ['API_KEY', 'FIRST', 'ACCOUNT']);
  t.end();
});

t.test('an http:// URL goes in absolute form', async (t) => {
  const result = await ran([at('curl.sh'), ...types.map((type) => `http://${type}.test:${plain.port}/`)]);
  t.equal(result.code, 0, result.stderr);
  t.equal(plain.seen.length, 10);
  for (const { host, headers } of plain.seen) t.ok(expected[host.split('.')[0]](headers), host);
  t.same(findings(result), []);
});

t.test('the plain proxy serves clients that speak no TLS to one', async (t) => {
  const from = upstream.seen.length;
  const url = `https://bearer.test:${upstream.port}/`;
  const result = await ran(['sh', '-c', `echo $https_proxy; curl -sS ${url}`], ['--proxy-scheme', 'http']);
  t.match(result, { code: 0, stdout: /^http:\/\/brk_ses_/ });
  t.ok(expected.bearer(upstream.seen[from].headers));
});

t.test('vault run ends as its command does', async (t) => {
  writeFileSync(join(work, 'data'), 'not a program', { mode: 0o644 });
  t.match(await ran(['sh', '-c', 'exit 7']), { code: 7, stderr: '' });
  t.match(await ran(['sh', '-c', 'kill -KILL $$']), { code: 137 });
  t.match(await ran(['no-such-command']), {
    code: 127,
    stderr: /^broker: there is no command no-such-command/,
  });
  t.match(await ran([join(work, 'data')]), { code: 126, stderr: /can't be executed \(EACCES\)/ });
  t.match(await broker.command(['vault', 'run', 'true']), { code: 2, stderr: /Put -- before/ });
  t.match(
    await ran(['true'], ['--ttl', '1s']),
    { code: 1, stderr: /ttl_seconds/ },
    'a refusal: nothing is run',
  );
});

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  t.test(`vault run passes ${signal} on`, async (t) => {
    const short = signal.slice(3);
    const child = vaultRun([
      'sh',
      '-c',
      `trap 'echo got ${short}; exit 3' ${short}; echo ready; while :; do sleep 0.02; done`,
    ]);
    const { printed, ended } = collect(child);
    await until(() => printed().stdout.includes('ready'), 'the child is ready');
    child.kill(signal);
    t.match(await ended, { code: 3, stdout: `ready\ngot ${short}\n` });
  });
}

for (const end of ['by itself', 'by SIGTERM'] as const) {
  t.test(`a session and its files end with a command that ends ${end}`, async (t) => {
    const tmp = temporary(t);
    const done = join(temporary(t), 'done');
    const script = 'echo $BROKER_SESSION_TOKEN; while [ ! -e "$1" ]; do sleep 0.02; done';
    const child = vaultRun(['sh', '-c', script, 'sh', done], { tmp });
    const { printed, ended } = collect(child);
    await until(() => printed().stdout.includes('\n'), 'the child is ready');
    const token = printed().stdout.trim();
    const target = { token, host: 'bearer.test', port: upstream.port };
    const root = await rootOf(broker);

    const [folder] = readdirSync(tmp);
    t.equal(statSync(join(tmp, folder)).mode & 0o777, 0o700);
    t.same(readdirSync(join(tmp, folder)).sort(), ['.curlrc', 'ca-bundle.pem']);
    for (const file of readdirSync(join(tmp, folder)))
      t.equal(statSync(join(tmp, folder, file)).mode & 0o777, 0o600, file);
    const open = await openTunnel(broker, root, target);
    t.equal((await open.request('/')).status, 200, 'the session works while the command runs');

    if (end === 'by SIGTERM') child.kill('SIGTERM');
    else writeFileSync(done, '');
    t.equal((await ended).code, end === 'by SIGTERM' ? 143 : 0);
    t.notOk(existsSync(join(tmp, folder)), 'the files are gone');
    // On a slow machine the tunnel has been closed by now, which comes half a second later.
    const refused = await open.request('/').then(
      ({ status }) => status,
      ({ message }) => message,
    );
    t.match(String(refused), /^401$|ended/, 'the open tunnel is refused at once');
    await t.rejects(openTunnel(broker, root, target), /407/, 'and no other is opened');
    const { body } = await broker.api<{ sessions: unknown[] }>('GET', '/v1/sessions');
    t.same(body.sessions, []);
  });
}
