import { randomBytes } from 'node:crypto';
import { lstatSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { collect, launcher, start, startBroker, temporary, until } from '../support/broker.ts';
import { reaching, startUpstream, type Upstream } from '../support/tls-upstream.ts';
import { openTunnel, rootOf } from '../support/tunnel.ts';

let upstream: Upstream;

t.before(async () => {
  upstream = await startUpstream(t);
});

t.test('a start says where everything is and what to do next', async (t) => {
  const from = performance.now();
  const broker = await startBroker(t);
  const took = performance.now() - from;
  t.comment(`ready after ${Math.round(took)} ms`);

  const { stdout, stderr } = broker.printed();
  t.match(stdout, `  API    ${broker.address}\n`);
  t.match(stdout, `  proxy  https://127.0.0.1:${broker.proxyPort} `);
  t.match(stdout, `  data   ${broker.directory}\n`);
  t.equal(stderr, '', 'and nothing to worry about');
  t.equal((await fetch(`${broker.address}/health`)).status, 200);
  t.equal((await fetch(`${broker.address}/ready`)).status, 200);

  const commands = stdout.match(/^ {2}bin\/broker .*$/gm) ?? [];
  t.equal(commands.length, 3, 'three commands');
  t.match(stdout, 'Or in a browser, by the link that this prints: bin/broker login');
  writeFileSync(join(broker.directory, 'services.yaml'), 'services: []\n');
  const [credential, service, command] = commands.map((line) => line.trim().split(' ').slice(1));
  const as = { cwd: broker.directory, env: { BROKER_ADDR: '', BROKER_DATA_DIR: '' } };
  t.match(
    await broker.command([...credential, '--stdin'], { ...as, stdin: 'value' }),
    { code: 0 },
    'which work',
  );
  t.match(await broker.command(service, as), { code: 0 });
  const true_ = [...command.slice(0, command.indexOf('--')), '--', 'true'];
  t.match(await broker.command(true_, as), { code: 0 });
});

t.test('what is stored outlives the server', async (t) => {
  const directory = join(temporary(t), 'data');
  const options = { ...reaching(t), directory };
  const value = randomBytes(8).toString('hex');
  const services = [{ host: 'api.test', auth: { type: 'bearer', token: 'TOKEN' } }];

  const first = await startBroker(t, options);
  await first.api('POST', '/v1/credentials', { body: { credentials: { TOKEN: value } }, vault: 'default' });
  await first.api('PUT', '/v1/vaults/default/services', { body: { services } });
  const token = await first.session();
  const root = await rootOf(first);
  first.process.kill('SIGTERM');
  t.match(await first.ended, { code: 0 });

  const second = await startBroker(t, options);
  t.equal(await rootOf(second), root, 'agents need not be told of another root');
  const tunnel = await openTunnel(second, root, { token, host: 'api.test', port: upstream.port });
  t.equal((await tunnel.request('/')).status, 200, 'sessions go on');
  t.equal(upstream.seen.at(-1)?.headers.authorization, `Bearer ${value}`);
  tunnel.close();
});

t.test('a stop finishes what is in flight', async (t) => {
  const slow = await startUpstream(t);
  const broker = await startBroker(t, reaching(t));
  const root = await rootOf(broker);
  const target = { token: await broker.session(), host: 'api.test', port: slow.port };
  const [busy, idle] = await Promise.all([
    openTunnel(broker, root, target),
    openTunnel(broker, root, target),
  ]);
  const answer = busy.request('/hold');
  await until(() => slow.seen.length === 1, 'the request is under way');

  broker.process.kill('SIGTERM');
  await until(() => idle.closed, 'idle connections end');
  await t.rejects(openTunnel(broker, root, target), 'no connection is taken any more');
  t.equal((await fetch(`${broker.address}/ready`)).status, 503, 'and whoever asks is told');
  t.equal(broker.printed().code, null, 'it waits');
  slow.release();
  t.match(await answer, { status: 200, headers: { 'content-type': 'application/json' } });
  t.match(await broker.ended, { code: 0 });
  t.match(broker.printed().stderr, /"message":"stopping","signal":"SIGTERM"/);
});

t.test('a second signal ends it at once', async (t) => {
  const slow = await startUpstream(t);
  const broker = await startBroker(t, reaching(t));
  const target = { token: await broker.session(), host: 'api.test', port: slow.port };
  const tunnel = await openTunnel(broker, await rootOf(broker), target);
  const answer = tunnel.request('/hold');
  await until(() => slow.seen.length === 1, 'the request is under way');
  broker.process.kill('SIGINT');
  await until(() => broker.printed().stderr.includes('stopping'), 'the first signal is heard');
  broker.process.kill('SIGINT');
  await t.rejects(answer);
  t.match(await broker.ended, { code: 1 }, 'and not 0, as after a drain');
});

t.test('secrets stay where they belong, and files are private', async (t) => {
  const broker = await startBroker(t, reaching(t));
  const value = `secret-${randomBytes(12).toString('hex')}`;
  const value2 = `secret-${randomBytes(12).toString('hex')}`;
  const at = `https://api.test:${upstream.port}`;
  const services = [
    {
      host: 'api.test',
      auth: { type: 'basic', username: 'TOKEN', password: 'TOKEN' },
      substitutions: [{ key: 'TOKEN', placeholder: '__token__', in: ['path', 'query', 'header'] }],
    },
    { host: '127.0.0.9', auth: { type: 'bearer', token: 'TOKEN' } },
  ];
  const set = start(launcher, ['vault', 'credential', 'set', 'TOKEN', '--stdin'], {
    env: { BROKER_ADDR: broker.address, BROKER_DATA_DIR: broker.directory },
  });
  const said = collect(set);
  await until(() => readProc(set.pid, 'cmdline').includes('main.ts'), 'the command reads its input');
  set.stdin?.write(value);
  t.notMatch(readProc(set.pid, 'cmdline') + readProc(set.pid, 'environ'), value);
  set.stdin?.end();
  t.match(await said.ended, { code: 0 });
  await broker.api('PUT', '/v1/vaults/default/services', { body: { services } });

  const tokens = join(temporary(t), 'tokens');
  const script = `echo $BROKER_SESSION_TOKEN >${tokens}; curl -sS ${at}/__token__?a=__token__; curl -sS https://127.0.0.9:1/ $0`;
  const ran = start(launcher, ['vault', 'run', '--', 'sh', '-c', script, `${at}/again`], {
    stdin: '',
    env: { BROKER_ADDR: broker.address, BROKER_DATA_DIR: broker.directory, HTTPS_PROXY: '' },
  });
  const child = collect(ran);
  const seen = new Set<string>();
  await until(() => {
    seen.add(readProc(ran.pid, 'cmdline')).add(readProc(ran.pid, 'environ'));
    return ran.exitCode !== null;
  }, 'the child has ended');
  const { stdout, stderr } = await child.ended;
  t.match(stdout, /upstream_unreachable/, 'a failure with the value at hand was among it');
  t.equal(
    upstream.seen.at(-1)?.headers.authorization,
    `Basic ${Buffer.from(`${value}:${value}`).toString('base64')}`,
  );
  t.match(upstream.seen.at(-2)?.url, `/${value}?a=${value}`);

  const proposed = {
    services: [],
    credentials: [{ action: 'set', key: 'LATER', value: value2 }],
    message: 'x',
  };
  const session = await broker.session();
  const created = await broker.api<{ id: number; approval_url: string }>('POST', '/v1/proposals', {
    body: proposed,
    token: session,
  });
  t.equal(created.status, 201);
  const views = await Promise.all([
    broker.api('GET', `/v1/proposals/${created.body.id}`, { token: session }),
    broker.api('GET', '/discover', { token: session }),
    broker.api('POST', '/v1/explain', { token: session, body: { method: 'GET', url: at } }),
    broker.api('GET', '/v1/credentials', { token: session }),
  ]);
  const audit = JSON.stringify(await broker.audit());
  t.match(audit, '/__token__', 'requests are in the audit');
  broker.process.kill('SIGTERM');
  const { stdout: out, stderr: log } = await broker.ended;

  const owner = readFileSync(join(broker.directory, 'owner.token'), 'utf8').trim();
  const approval = String(new URL(created.body.approval_url).searchParams.get('token'));
  const inUse = [readFileSync(tokens, 'utf8').trim(), session, owner, approval];
  const forms = [value, value2].flatMap((one) => [
    one,
    encode(one, 'base64'),
    encode(one, 'hex'),
    encode(`${one}:${one}`, 'base64'),
  ]);
  const secrets = [...forms, ...inUse];
  const texts = new Map<string, string>([
    ['the answers to agents', JSON.stringify(views)],
    ["the child's output", stdout + stderr],
    ["the server's output", out + log],
    ['the audit', audit],
    ['process tables', [...seen].join('\n')],
  ]);
  for (const { path, mode, isDirectory } of walk(broker.directory)) {
    t.equal(mode, isDirectory ? 0o700 : 0o600, path);
    if (!isDirectory && !path.endsWith('owner.token')) texts.set(path, readFileSync(path, 'latin1'));
  }
  t.ok(
    [...texts.keys()].some((path) => path.endsWith('data.mdb')) && texts.size > 8,
    'the files were looked at',
  );
  for (const [where, text] of texts) {
    t.notOk(
      secrets.some((one) => one.length < 16 || text.includes(one)),
      `no secret in ${where}`,
    );
  }
});

t.test('the process table shows no token of the server', async (t) => {
  const broker = await startBroker(t);
  const shown = readProc(broker.process.pid, 'cmdline') + readProc(broker.process.pid, 'environ');
  t.match(shown, broker.directory, 'it was read');
  t.notMatch(shown, /brk_/);
  t.notMatch(shown, readFileSync(join(broker.directory, 'master.key'), 'utf8').trim());
});

function encode(text: string, encoding: 'base64' | 'hex'): string {
  return Buffer.from(text).toString(encoding).replace(/=+$/, '');
}

/** A file of the process in the process table; nothing once it has ended. */
function readProc(pid: number | undefined, name: 'cmdline' | 'environ'): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return '';
  }
}

function walk(path: string): { path: string; mode: number; isDirectory: boolean }[] {
  const stat = lstatSync(path);
  const isDirectory = stat.isDirectory();
  const below = isDirectory ? readdirSync(path).flatMap((name) => walk(join(path, name))) : [];
  return [{ path, mode: stat.mode & 0o777, isDirectory }, ...below];
}
