/** Backup and restore, and the master password, over whole processes. */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type Broker, launcher, run, startBroker, temporary } from '../support/broker.ts';
import { reaching, startUpstream, type Upstream } from '../support/tls-upstream.ts';
import { openTunnel, rootOf } from '../support/tunnel.ts';

const password = 'correct horse battery';
const secret = 'sk-live-0123456789abcdef';
const host = 'api.test';

/** A broker that gives `secret` to the upstream. */
async function configured(
  t: Test,
  upstream: Upstream,
  options: Parameters<typeof startBroker>[1],
): Promise<Broker> {
  const broker = await startBroker(t, options);
  const service = { host: `${host}:${upstream.port}`, auth: { type: 'bearer', token: 'KEY' } };
  const set = await broker.api('POST', '/v1/credentials', {
    vault: 'default',
    body: { credentials: { KEY: secret } },
  });
  const put = await broker.api('PUT', '/v1/vaults/default/services', { body: { services: [service] } });
  t.same([set.status, put.status], [200, 200]);
  return broker;
}

async function brokered(t: Test, broker: Broker, upstream: Upstream, token: string): Promise<void> {
  const tunnel = await openTunnel(broker, await rootOf(broker), { token, host, port: upstream.port });
  const { status } = await tunnel.request('/');
  tunnel.close();
  t.equal(status, 200);
  t.equal(upstream.seen.at(-1)?.headers.authorization, `Bearer ${secret}`, 'with the credential');
}

async function stop(broker: Broker): Promise<void> {
  broker.process.kill('SIGTERM');
  await broker.ended;
}

const restore = (file: string, directory: string, ...args: string[]) =>
  run(launcher, ['restore', file, '--data-dir', directory, ...args]);

t.test('a backup of a working broker, restored elsewhere, works on', async (t) => {
  const upstream = await startUpstream(t);
  const reach = reaching(t);
  const broker = await configured(t, upstream, reach);
  const folder = temporary(t);
  const file = join(folder, 'broker.backup');
  const session = await broker.session();
  await brokered(t, broker, upstream, session);

  // Two services that always change together: a snapshot between the two would show.
  let isDone = false;
  const writing = (async () => {
    for (let i = 0; !isDone; i++) {
      const services = ['a.test', 'b.test'].map((name) => ({
        host: name,
        description: `${i}`,
        auth: { type: 'passthrough' },
      }));
      await broker.api('POST', '/v1/vaults/default/services', { body: { services } });
    }
  })();
  const made = await broker.command(['backup', file]);
  isDone = true;
  await writing;
  t.equal(made.code, 0, made.stderr);
  t.equal(statSync(file).mode & 0o777, 0o600);
  t.same(readdirSync(folder), ['broker.backup'], 'no half file');
  const bytes = readFileSync(file);
  const key = readFileSync(join(broker.directory, 'master.key'), 'utf8').trim();
  for (const text of [secret, session, key, 'api.test', 'PRIVATE KEY', 'broker CA']) {
    t.notOk(bytes.includes(text), `${text.slice(0, 12)} isn’t readable in it`);
  }
  t.notOk(bytes.includes(Buffer.from(key, 'hex')));
  t.same(
    readdirSync(broker.directory).filter((name) => name.startsWith('.')),
    [],
  );
  const over = await broker.command(['backup', file]);
  t.match([over.code, over.stderr], [1, /is there already/]);
  t.ok(readFileSync(file).equals(bytes));
  t.ok((await broker.audit()).some(({ action }) => action === 'backup.create'));

  const admin = await broker.api<{ token: string }>('POST', '/v1/operators', {
    body: { name: 'ann', password },
  });
  t.equal(admin.status, 201);
  const login = await broker.api<{ token: string }>('POST', '/v1/login', { body: { name: 'ann', password } });
  const { token } = login.body;
  t.equal((await broker.api('POST', '/v1/backup', { token })).status, 403, 'owners only');
  t.equal((await broker.api('POST', '/v1/backup', { token: session })).status, 403);

  const target = join(folder, 'restored');
  t.match(await restore(file, broker.directory), { code: 1, stderr: /not empty/ }, 'a broker runs there');
  t.match(await restore(file, target), { code: 1, stderr: /--master-key/ });
  const wrong = join(folder, 'wrong.key');
  writeFileSync(wrong, `${'0'.repeat(64)}\n`);
  t.match(await restore(file, target, '--master-key', wrong), { code: 1, stderr: /not the key/ });
  writeFileSync(wrong, secret);
  t.match(await restore(file, target, '--master-key', wrong), { code: 1, stderr: /no master key/ });
  t.match(await restore(join(folder, 'none'), target), { code: 1, stderr: /ENOENT/ });
  t.match(await restore(wrong, target), { code: 1, stderr: /not a backup/ });
  const cut = join(folder, 'cut.backup');
  writeFileSync(cut, bytes.subarray(0, -1));
  t.notOk(existsSync(target), 'nothing of that left anything');
  const copy = join(folder, 'copy.key');
  writeFileSync(copy, `${key}\n`);
  t.match(await restore(cut, target, '--master-key', copy), { code: 1, stderr: /damaged or cut short/ });
  t.notOk(existsSync(join(target, 'data.mdb')));
  const done = await restore(file, target, '--master-key', copy);
  t.match([done.code, done.stderr], [0, /Restored/]);
  t.match(await restore(file, target, '--master-key', copy), { code: 1, stderr: /not empty/ });

  const owner = readFileSync(join(broker.directory, 'owner.token'), 'utf8').trim();
  await stop(broker);
  const second = await startBroker(t, { ...reach, directory: target });
  t.notMatch(second.printed().stderr, /damaged/);
  const { body } = await second.api<{ services: { host: string; description?: string }[] }>(
    'GET',
    '/v1/vaults/default/services',
  );
  const pair = body.services.filter(({ host: name }) => /^[ab]\.test$/.test(name));
  t.equal(
    new Set(pair.map(({ description }) => description)).size,
    Math.min(pair.length, 1),
    'both, or none',
  );
  t.not(pair.length, 1);
  await brokered(t, second, upstream, session);
  t.equal(
    (await second.api('GET', '/v1/vaults', { token: owner })).status,
    401,
    'the old owner.token isn’t in it',
  );
});

t.test('the master password: set, asked for at each start, and what a backup opens with', async (t) => {
  const upstream = await startUpstream(t);
  const reach = reaching(t);
  const folder = temporary(t);
  const directory = join(folder, 'data');
  const broker = await configured(t, upstream, { ...reach, directory });
  const session = await broker.session();
  const before = join(folder, 'before.backup');
  t.equal((await broker.command(['backup', before])).code, 0);
  const key = join(folder, 'copy.key');
  writeFileSync(key, readFileSync(join(directory, 'master.key')));

  const say = (text: string, ...args: string[]) =>
    broker.command(['master-password', ...args, '--stdin'], { stdin: text });
  t.match(await say('short\n', 'set'), { code: 1, stderr: /8 to 1024/ });
  t.match(await say(`${password}\n`, 'remove'), { code: 1, stderr: /no master password/ });
  t.match(await say(`${password}\n`, 'set'), { code: 0, stderr: /--master-password-file/ });
  t.notOk(existsSync(join(directory, 'master.key')));
  t.match(await say(`${password}\n`, 'set'), { code: 1, stderr: /master-password change/ });
  t.match(await say(`wrong password\nanother one\n`, 'change'), { code: 1, stderr: /is wrong/ });
  t.match(await say(`${password}\n`, 'change'), { code: 1, stderr: /a line each/ });
  const after = join(folder, 'after.backup');
  t.equal((await broker.command(['backup', after])).code, 0);
  const refused = await broker.api('PUT', '/v1/master-password', { token: session, body: { new: password } });
  t.equal(refused.status, 403);
  await stop(broker);
  const all =
    Object.values(broker.printed()).join() +
    JSON.stringify(
      readdirSync(join(directory, 'audit')).map((name) =>
        readFileSync(join(directory, 'audit', name), 'utf8'),
      ),
    );
  t.notMatch(all, password);

  const server = (env: Record<string, string>, ...args: string[]) =>
    run(launcher, ['server', '--data-dir', directory, '--port', '0', '--proxy-port', '0', ...args], { env });
  const snapshot = () => readFileSync(join(directory, 'data.mdb'));
  const untouched = snapshot();
  t.match(await server({}), { code: 1, stderr: /--master-password-file/ });
  t.match(await server({ BROKER_MASTER_PASSWORD: 'wrong password' }), {
    code: 1,
    stderr: /password is wrong/,
  });
  const file = join(folder, 'password');
  t.match(await server({}, '--master-password-file', file), { code: 1, stderr: /can't be read/ });
  writeFileSync(file, '\n');
  t.match(await server({}, '--master-password-file', file), { code: 1, stderr: /is empty/ });
  t.ok(snapshot().equals(untouched), 'nothing was touched');
  writeFileSync(file, `${password}\n`);
  const print = await run(launcher, ['server', '--print-config'], {
    env: { BROKER_MASTER_PASSWORD: password },
  });
  t.match(print.stdout, /master-password: \(set\)/);
  t.notMatch(print.stdout, password);

  const again = await startBroker(t, { ...reach, directory, env: { BROKER_MASTER_PASSWORD: password } });
  await brokered(t, again, upstream, session);
  await stop(again);
  const byFile = await startBroker(t, {
    ...reach,
    directory,
    args: [...reach.args, '--master-password-file', file],
  });
  await brokered(t, byFile, upstream, session);
  const removed = await byFile.command(['master-password', 'remove', '--stdin'], { stdin: password });
  t.equal(removed.code, 0, removed.stderr);
  t.equal(readFileSync(join(directory, 'master.key'), 'utf8'), readFileSync(key, 'utf8'));
  await stop(byFile);
  t.match(await server({ BROKER_MASTER_PASSWORD: password }), { code: 1, stderr: /opens with its key file/ });

  // Each backup opens with what the broker had when it was made.
  const target = (name: string) => join(folder, name);
  t.match(await restore(after, target('r1'), '--master-key', key), { code: 1, stderr: /master password/ });
  t.match(
    await run(launcher, ['restore', after, '--data-dir', target('r1')], {
      env: { BROKER_MASTER_PASSWORD: 'wrong' },
    }),
    {
      code: 1,
      stderr: /master password is not/,
    },
  );
  t.notOk(existsSync(target('r1')));
  t.equal((await restore(after, target('r1'), '--master-password-file', file)).code, 0);
  t.same(
    readdirSync(target('r1')).sort(),
    ['broker.lock', 'data.mdb'],
    'no key file where a password opens it',
  );
  t.equal((await restore(before, target('r2'), '--master-key', key)).code, 0);
  const restored = await startBroker(t, {
    ...reach,
    directory: target('r1'),
    args: [...reach.args, '--master-password-file', file],
  });
  await brokered(t, restored, upstream, session);
});
