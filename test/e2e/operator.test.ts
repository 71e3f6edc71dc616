/** Operators, their sign-in, the CA's rotation and the audit commands, over whole processes. */
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import tls from 'node:tls';
import t from 'tap';
import { openLog, rechain } from '../support/audit.ts';
import {
  type Broker,
  collect,
  launcher,
  run,
  start,
  startBroker,
  temporary,
  until,
} from '../support/broker.ts';
import { manualClock } from '../support/manual-clock.ts';
import { keys, onTerminal } from '../support/terminal.ts';
import { reaching, startUpstream } from '../support/tls-upstream.ts';
import { openTunnel, rootOf } from '../support/tunnel.ts';

const password = 'correct horse battery';

/** Of the first three tests; the third ends it. */
const shared = await startBroker(t);

t.test('operators by the command line: made, given a password, signed in, removed', async (t) => {
  const broker = shared;
  const command = (args: string[], stdin = '', token?: string) =>
    broker.command(args, { stdin, env: token === undefined ? {} : { BROKER_OPERATOR_TOKEN: token } });
  const login = (name: string, secret: string) =>
    command(['login', '--name', name, '--stdin'], `${secret}\n`);

  t.match(await command(['operator', 'create', 'ann', '--vault', 'none']), {
    code: 1,
    stderr: /no vault 'none'/,
  });
  t.match(await command(['operator', 'create', 'ann']), { code: 0, stderr: /operator passwd ann/ });
  t.match(await command(['operator', 'create', 'ann']), { code: 1, stderr: /already/ });
  t.match(await command(['operator', 'create', 'x', '--role', 'owner', '--vault', 'default']), { code: 2 });
  t.match(await command(['operator', 'passwd', 'ann', '--stdin'], ''), { code: 1, stderr: /a line each/ });
  t.match(await command(['operator', 'passwd', 'ann']), { code: 2, stderr: /no terminal/ });
  t.match(await command(['operator', 'passwd', 'ann', '--stdin'], `${password}\n`), { code: 0, stdout: '' });

  const signedIn = await login('ann', password);
  t.match(signedIn, { code: 0, stdout: /^brk_opr_[0-9a-f]{72}\n$/, stderr: /BROKER_OPERATOR_TOKEN/ });
  const ann = signedIn.stdout.trim();
  t.equal(
    (await command(['operator', 'list'], '', ann)).stdout,
    'NAME  ROLE   VAULTS\nann   admin  default\n',
  );
  t.match((await command(['operator', 'list'])).stdout, /^owner {2}owner {2}\(all\)$/m);
  t.match(await command(['operator', 'create', 'eve'], '', ann), { code: 1, stderr: /owner/ });
  t.match(await command(['operator', 'remove', 'owner']), { code: 1, stderr: /can't be removed/ });
  const change = ['operator', 'passwd', '--stdin'];
  t.match(await command(change, `wrong\n${password} 2\n`, ann), {
    code: 1,
    stderr: /current password is wrong/,
  });
  t.match(await command(change, `${password}\n${password} 2\n`, ann), { code: 0, stderr: /of ann/ });
  t.equal((await command(['operator', 'remove', 'ann'])).code, 0);
  t.match(await command(['operator', 'list'], '', ann), { code: 1, stderr: /does not accept the token/ });
  t.match(await login('ann', `${password} 2`), { code: 1 });

  const { stdout, stderr } = broker.printed();
  t.notMatch(stdout + stderr + JSON.stringify(await broker.audit()), password);
});

t.test("a value for a key of an agent's that services send somewhere is asked about first", async (t) => {
  const broker = shared;
  const session = await broker.session();
  const post = (path: string, body: unknown, token?: string) =>
    broker.api<{ id: number }>('POST', path, { body, token, vault: 'default' });
  const mine = { credentials: { LATER_REAL: 'mine', UNUSED: 'mine' } };
  t.match(await post('/v1/credentials', mine, session), { status: 200 });
  const services = [
    { action: 'set', host: 'collect.example', auth: { type: 'bearer', token: 'LATER_REAL' } },
  ];
  const brought = {
    services: [
      ...services,
      { ...services[0], host: 'brought.example', auth: { type: 'bearer', token: 'BROUGHT' } },
    ],
    credentials: [{ action: 'set', key: 'BROUGHT', value: 'mine' }],
    message: 'mine',
  };
  const { id } = (await post('/v1/proposals', brought, session)).body;
  const { review } = (await broker.api<{ review: { fingerprint: string } }>('GET', `/v1/proposals/${id}`))
    .body;
  const confirm = review?.fingerprint;
  t.match(await post(`/v1/proposals/${id}/approve`, { credentials: {}, confirm }), { status: 200 });

  const set = (key: string, ...flags: string[]) =>
    broker.command(['vault', 'credential', 'set', key, '--stdin', ...flags], { stdin: 'real' });
  t.match(await set('UNUSED'), { code: 0 }, 'sent nowhere');
  t.match(await set('LATER_REAL'), {
    code: 1,
    stderr: /LATER_REAL.*given by session:\S+, .*send it to collect\.example\..*Nothing was stored.*--yes/,
  });
  t.match(await set('BROUGHT'), { code: 1, stderr: /given by session:\S+, .*brought\.example/ });
  t.match(await set('BROUGHT', '--yes'), { code: 0 });
  t.match(await set('BROUGHT'), { code: 0 }, "it is the operator's now");

  const onTty = async (answer: string) => {
    const terminal = onTerminal(t, [launcher, 'vault', 'credential', 'set', 'LATER_REAL'], {
      BROKER_ADDR: broker.address,
      BROKER_DATA_DIR: broker.directory,
    });
    await terminal.talk(['Value of LATER_REAL (hidden): ', 'real\r'], ['Store it? [y/N] ', `${answer}\r`]);
    return { ...(await terminal.ended), shown: terminal.raw };
  };
  t.match(await onTty('n'), { code: 1, shown: /collect\.example[\s\S]*Nothing was stored/ });
  t.match(await onTty('y'), { code: 0, shown: /Stored LATER_REAL/ });
  t.match(await set('LATER_REAL'), { code: 0 });
});

t.test('a link from the command line signs a browser in, once, over a whole process', async (t) => {
  const broker = shared;
  const { code, stdout } = await broker.command(['login']);
  t.equal(code, 0);
  const link = new URL(stdout.trim());
  t.equal(link.origin, broker.address);
  const page = await fetch(link);
  t.match([page.status, page.headers.get('set-cookie')], [200, null]);
  const post = (fields: Record<string, string>, headers: Record<string, string> = {}) =>
    fetch(`${broker.address}/login`, {
      method: 'POST',
      redirect: 'manual',
      headers: { origin: broker.address, ...headers },
      body: new URLSearchParams(fields),
    });
  const token = link.searchParams.get('token') ?? '';
  const signedIn = await post({ token });
  const cookie = signedIn.headers.get('set-cookie')?.split(';')[0] ?? '';
  t.match([signedIn.status, cookie], [303, /^broker_session=brk_opr_/]);
  t.equal((await fetch(`${broker.address}/v1/vaults`, { headers: { cookie } })).status, 200);
  t.equal((await post({ token })).status, 410);
});

t.test('on a desktop the link is opened in the browser, and is in no argument', async (t) => {
  const broker = shared;
  const folder = temporary(t);
  const seen = join(folder, 'seen');
  const script = `#!/bin/sh\necho "$@" > ${seen}.args\nf=\${1#file://}\nstat -c %a "$f" > ${seen}.mode\ncat "$f" > ${seen}.page\n`;
  writeFileSync(join(folder, 'xdg-open'), script, { mode: 0o755 });
  const terminal = onTerminal(t, [launcher, 'login'], {
    BROKER_ADDR: broker.address,
    BROKER_DATA_DIR: broker.directory,
    DISPLAY: ':9',
    PATH: `${folder}:${process.env.PATH}`,
    TMPDIR: folder,
  });
  t.match(await terminal.ended, { code: 0 });
  const run = onTerminal(t, [launcher, 'vault', 'run', '--', 'true'], {
    BROKER_ADDR: broker.address,
    BROKER_DATA_DIR: broker.directory,
  });
  t.match(await run.ended, { code: 0 });
  t.match(
    run.raw,
    `you decide at ${broker.address}/proposals`,
    'and a session says where its proposals show',
  );
  t.match(
    run.raw,
    `the command can read ${broker.directory}/owner.token`,
    'and that the command is the owner’s equal',
  );
  const [link] = /http:\S+token=\S+/.exec(terminal.raw) ?? [''];
  const read = (name: string) => readFileSync(`${seen}.${name}`, 'utf8');
  t.ok(link !== '' && read('page').includes(`url=${link}"`), 'the page leads there');
  t.equal(read('mode'), '600\n');
  t.match(read('args'), /^file:\/\/\S+\.html\n$/);
  t.same(
    readdirSync(folder).filter((name) => name.startsWith('broker-login')),
    [],
    'and is gone',
  );
});

t.test('on a terminal: asked for twice, and at the start', async (t) => {
  const broker = shared;
  const terminal = (args: string[]) =>
    onTerminal(t, [launcher, ...args], { BROKER_ADDR: broker.address, BROKER_DATA_DIR: broker.directory });
  const answer = async (args: string[], ...answers: [string, string][]) => {
    const asked = terminal(args);
    await asked.talk(...answers);
    const { code } = await asked.ended;
    t.notMatch(asked.raw, 'horse', 'not echoed');
    return { code, shown: asked.raw };
  };
  const setTo = (again: string) =>
    answer(
      ['master-password', 'set'],
      ['New master password: ', `${password}\r`],
      ['New master password, again: ', `${again}\r`],
    );
  t.match(await setTo('other horse'), { code: 1, shown: /not the same/ });
  t.match(await setTo(password), { code: 0, shown: /Set the master password/ });
  broker.process.kill('SIGTERM');
  await broker.ended;

  const args = [
    'server',
    '--data-dir',
    broker.directory,
    '--port',
    '0',
    '--proxy-port',
    '0',
    '--workers',
    '1',
  ];
  const wrong = await answer(args, ['Master password: ', 'wrong horse\r']);
  t.match(wrong, { code: 1, shown: /password is wrong/ });
  const server = terminal(args);
  await server.talk(['Master password: ', `${password}\r`], ['broker is ready', keys.interrupt]);
  t.match(await server.ended, { code: 0 });
});

/** Whether a client that trusts these roots gets through the listener's TLS, and through a tunnel. */
async function trusts(broker: Broker, roots: string, target: { token: string; host: string; port: number }) {
  const listener = await new Promise<boolean>((resolve) => {
    const socket = tls.connect({
      port: broker.proxyPort,
      host: '127.0.0.1',
      servername: 'localhost',
      ca: roots,
    });
    socket.once('secureConnect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
  // More than one: the kernel deals them out over the lanes, and each has leaves of its own.
  const statuses = new Set<number | undefined>();
  for (let i = 0; i < 8; i++) {
    const tunnel = await openTunnel(broker, roots, target).catch(() => null);
    statuses.add((await tunnel?.request('/'))?.status);
    tunnel?.close();
  }
  return { listener, leaf: statuses.has(200) && (statuses.size === 1 || 'on one lane only') };
}

const yes = { listener: true, leaf: true };
const no = { listener: false, leaf: false };

t.test('the CA is rotated under running lanes, and a kill loses nothing of it', async (t) => {
  const upstream = await startUpstream(t);
  const reach = reaching(t);
  const directory = join(temporary(t), 'data');
  let broker = await startBroker(t, { ...reach, directory });
  const target = { token: await broker.session(), host: 'api.test', port: upstream.port };
  const old = await rootOf(broker);
  t.same(await trusts(broker, old, target), yes);

  const rotated = await broker.command(['ca', 'rotate', '--overlap', '30d']);
  t.match(rotated, { code: 0, stderr: /It signs from 20/ });
  t.match(await broker.command(['ca', 'rotate']), { code: 1, stderr: /--now/ });
  t.match(await broker.command(['ca', 'rotate', '--now', '--overlap', '1d']), { code: 2 });
  const both = await rootOf(broker);
  t.equal(both.match(/BEGIN CERT/g)?.length, 2);
  t.ok(both.startsWith(old), 'the one that signs comes first');
  const next = both.slice(old.length);
  const shown = JSON.parse((await broker.command(['ca', 'show', '--json'])).stdout);
  t.match(shown, { subject: String, next: { subject: String, signs_from: String } });
  t.same(await trusts(broker, old, target), yes, 'the old one signs on');
  t.same(await trusts(broker, next, target), no);

  broker.process.kill('SIGKILL');
  await broker.ended;
  broker = await startBroker(t, { ...reach, directory });
  t.equal(await rootOf(broker), both, 'a restart keeps both');
  t.same(await trusts(broker, old, target), yes);

  t.match(await broker.command(['ca', 'rotate', '--now']), { code: 0 });
  t.equal(await rootOf(broker), next + old);
  // The listener's own certificate follows within a sweep; the leaf that the lanes had for this host, at once.
  t.match(await trusts(broker, next, target), { leaf: true });
  await until(
    async () => (await trusts(broker, next, target)).listener,
    'the listener has its new certificate',
    5,
  );
  t.same(await trusts(broker, old, target), no);
  t.match(JSON.parse((await broker.command(['ca', 'show', '--json'])).stdout), {
    sha256: shown.next.sha256,
    previous: { sha256: shown.sha256 },
  });
  const deeds = (await broker.audit()).filter(({ action }) => action === 'ca.rotate');
  t.match(deeds, [{ sha256: shown.next.sha256, actor: 'operator:owner' }, { sha256: shown.next.sha256 }]);
  for (const { bytes } of readdirSync(directory)
    .filter((name) => name.endsWith('.mdb'))
    .map((name) => ({ bytes: readFileSync(join(directory, name)) }))) {
    t.notOk(bytes.includes('PRIVATE KEY'), 'keys are sealed');
  }
  const admin = await broker.api('POST', '/v1/operators', { body: { name: 'ann', password } });
  t.equal(admin.status, 201);
  const { body } = await broker.api<{ token: string }>('POST', '/v1/login', {
    body: { name: 'ann', password },
  });
  t.equal((await broker.api('POST', '/v1/ca/rotate', { token: body.token, body: {} })).status, 403);
  t.equal((await broker.api('POST', '/v1/ca/rotate', { body: { overlap_seconds: -1 } })).status, 400);
});

t.test('audit: tail, follow, export, verify', async (t) => {
  const broker = await startBroker(t);
  const folder = temporary(t);
  await broker.api('POST', '/v1/vaults', { body: { name: 'one' } });
  await until(async () => (await broker.audit()).length > 0, 'the first record');

  const child = start(launcher, ['audit', 'tail', '--follow', '--json', '-n', '1'], {
    env: { BROKER_ADDR: broker.address, BROKER_DATA_DIR: broker.directory },
  });
  t.teardown(() => child.kill('SIGKILL'));
  const tail = collect(child);
  const followed = () =>
    tail
      .printed()
      .stdout.split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line));
  await until(() => followed().length > 0, 'what was there');
  const names = Array.from({ length: 20 }, (_, i) => `v-${i}`);
  for (const name of names) await broker.api('POST', '/v1/vaults', { body: { name } });
  await until(() => followed().length > names.length, 'what came since');
  t.same(
    followed().map(({ vault }) => vault),
    ['one', ...names],
    'each once, in order',
  );

  const since = (await broker.audit()).find(({ vault }) => vault === 'v-5')?.time as string;
  const until_ = (await broker.audit()).find(({ vault }) => vault === 'v-10')?.time as string;
  const file = join(folder, 'out.ndjson');
  const exported = await broker.command(['audit', 'export', '--since', since, '--until', until_, '-o', file]);
  t.equal(exported.code, 0, exported.stderr);
  t.equal(statSync(file).mode & 0o777, 0o600);
  const lines = readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  t.match([lines.at(0).vault, lines.at(-1).vault], ['v-5', 'v-9']);
  const one = await broker.command(['audit', 'export', '--vault', 'v-3']);
  t.match(JSON.parse(one.stdout), { vault: 'v-3' });
  t.match(await broker.command(['audit', 'export', '--since', 'yesterday']), { code: 2 });

  const good = await broker.command(['audit', 'verify', '--json']);
  t.match(
    [good.code, JSON.parse(good.stdout)],
    [0, { ok: true, segments: 1, head: { hash: /^[0-9a-f]{64}$/ } }],
    'while it runs',
  );
  broker.process.kill('SIGTERM');
  await broker.ended;
  t.match(await tail.ended, { code: 1, stderr: /ended it/ });
  const plain = await broker.command(['audit', 'verify']);
  t.match(
    [plain.code, plain.stdout],
    [0, /^whole: \d+ records in 1 segments.*\nhead: batch \d+, [0-9a-f]{64}\n$/],
  );

  const [name] = readdirSync(join(broker.directory, 'audit'));
  const path = join(broker.directory, 'audit', name);
  writeFileSync(path, readFileSync(path, 'utf8').replace('"v-7"', '"v-8"'));
  const bad = await broker.command(['audit', 'verify']);
  t.match(bad, { code: 1, stdout: /^damaged/, stderr: new RegExp(`${name}, line \\d+: the`) });
  t.match(await run(launcher, ['audit', 'verify', '--data-dir', folder]), {
    code: 1,
    stderr: /no audit log/,
  });
});

t.test('audit: a start on a damaged log says so first, from where to where, and goes on', async (t) => {
  const directory = join(temporary(t), 'data');
  const folder = join(directory, 'audit');
  const first = await startBroker(t, { directory });
  t.match(first.printed().stdout, /^broker is ready/);
  for (const name of ['one', 'two']) await first.api('POST', '/v1/vaults', { body: { name } });
  t.equal((await first.audit()).length, 2);
  const [name] = readdirSync(folder);
  // The store learns of it within a second, at the latest with an end in order.
  const killed = readFileSync(join(folder, name));
  first.process.kill('SIGTERM');
  await first.ended;
  t.match(readFileSync(join(folder, name)).subarray(0, killed.length).equals(killed), true);

  rmSync(folder, { recursive: true });
  const offline = await first.command(['audit', 'verify']);
  t.match(offline, {
    code: 1,
    stdout: /^damaged/,
    stderr: /batch(es)? 1 .*missing, from the beginning, to the end/,
  });
  const second = await startBroker(t, { directory });
  t.match(second.printed().stdout, /^The audit log is damaged: .*missing.*\nbroker is ready/);
  t.match(JSON.parse(second.printed().stderr.split('\n')[0]), {
    level: 'error',
    message: /audit log is damaged/,
  });
  t.match(await second.audit(), [{ event: 'audit.damaged', missing: [{ from: 1, before: null }] }]);
  const running = await second.command(['audit', 'verify', '--json']);
  t.match(
    [running.code, JSON.parse(running.stdout)],
    [1, { ok: false, anchored: true, missing: [{ from: 1 }] }],
  );

  // A copy elsewhere can be checked for its order only.
  const copy = join(temporary(t), 'copy');
  cpSync(folder, join(copy, 'audit'), { recursive: true });
  t.match(await second.command(['audit', 'verify', '--data-dir', copy]), {
    code: 0,
    stderr: /only the order/,
  });
});

t.test('audit: wrong tokens at the API are summed up, and none is left out', async (t) => {
  const broker = await startBroker(t);
  const headers = { authorization: `Bearer brk_ses_${'0'.repeat(72)}` };
  for (let i = 0; i < 30; i++) {
    await Promise.all(Array.from({ length: 20 }, () => fetch(`${broker.address}/v1/vaults`, { headers })));
  }
  const refused = (await broker.audit()).filter(({ action }) => action === 'auth.refused');
  t.equal(
    refused.reduce((sum, { count = 1 }) => sum + (count as number), 0),
    600,
  );
  t.ok(refused.length < 300, `${refused.length} records`);
  t.match(refused.at(-1), { kind: 'control', peer: '127.0.0.1', first: /Z$/, last: /Z$/ });
});

t.test('audit: old segments go as the settings say', async (t) => {
  const old = (directory: string) => {
    mkdirSync(directory, { mode: 0o700 });
    const clock = manualClock(Date.now() - 10 * 86_400_000);
    const log = openLog(directory, { clock, maxBytes: 1000 });
    for (let i = 0; i < 5; i++)
      log.append(`{"time":"${new Date(clock.now()).toISOString()}","x":"${'x'.repeat(800)}"}\n`);
    log.close();
    // As brokers wrote it that had no key for it.
    rechain(directory, (lines) => lines.replace('"version":2', '"version":1'));
    return readdirSync(join(directory, 'audit')).length;
  };
  for (const args of [
    ['--audit-retain-days', '3'],
    ['--audit-retain-bytes', '64M'],
  ]) {
    const directory = join(temporary(t), 'data');
    const before = old(directory);
    t.ok(before > 3);
    const broker = await startBroker(t, { directory, args });
    const told = /^The audit log is damaged: [^\n]*without the key[^\n]*\nbroker is ready/;
    t.match(broker.printed().stdout, told, 'no store vouches for a log without a key');
    await broker.api('POST', '/v1/vaults', { body: { name: 'now' } });
    await until(async () => (await broker.audit()).some(({ vault }) => vault === 'now'), 'a record');
    const left = readdirSync(join(directory, 'audit')).length;
    t.ok(left <= 2, `${args.join(' ')}: ${left} of ${before}`);
  }
  for (const bytes of ['0', '1.5G']) {
    const ran = await run(launcher, ['server', '--audit-retain-bytes', bytes, '--print-config']);
    t.equal(ran.code, 2, bytes);
  }
  const print = await run(launcher, ['server', '--audit-retain-bytes', '2G', '--print-config', '--json']);
  t.match(JSON.parse(print.stdout), { 'audit-retain-bytes': 2 * 1024 ** 3, 'audit-retain-days': null });
});
