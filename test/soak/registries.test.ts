import { createHash, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { type Registry, startVerdaccio } from '../e2e/clients/verdaccio.ts';
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
import { createAuthority } from '../support/upstream.ts';

/*
 * Package managers as they come, against registries that let nobody in without a credential, which only the broker has.
 */

const npmHost = 'npm.test';
const pipHost = 'pip.test';
const user = { name: 'tester', password: `pip-${randomBytes(12).toString('hex')}` };
const work = temporary(t);
const at = (name: string) => fileURLToPath(new URL(`../e2e/clients/${name}`, import.meta.url));
const digestOf = (file: string) => createHash('sha256').update(readFileSync(file)).digest('hex');

/** The registries' own authority, which neither the broker nor any client knows but by its file. */
const authority = createAuthority('registries');
const certificate = authority.issue([npmHost, pipHost, '127.0.0.1']);
const caFile = join(work, 'ca.pem');

let broker: Broker;
let npm: Registry;
let pipPort: number;
/** Of the data in `outer` and in `inner`. */
let wheelDigests: string[];

t.before(async () => {
  writeFileSync(caFile, authority.certPem);
  const args = ['--upstream-ca', caFile, '--allow-private-ranges'];
  [npm, pipPort, broker] = await Promise.all([
    startVerdaccio(t, join(work, 'verdaccio'), certificate),
    startPypi(t),
    startBroker(t, { args, preload: ['names'] }),
  ]);
  const credentials = { NPM_TOKEN: npm.token, PIP_USER: user.name, PIP_PASSWORD: user.password };
  const services = [
    { host: npmHost, auth: { type: 'bearer', token: 'NPM_TOKEN' } },
    { host: pipHost, auth: { type: 'basic', username: 'PIP_USER', password: 'PIP_PASSWORD' } },
  ];
  await broker.api('POST', '/v1/credentials', { body: { credentials }, vault: 'default' });
  const set = await broker.api('PUT', '/v1/vaults/default/services', { body: { services } });
  t.equal(set.status, 200, JSON.stringify(set.body));
});

/** A package index with `outer` in it, which needs `inner`. */
async function startPypi(t: Test): Promise<number> {
  const folder = join(work, 'wheels');
  mkdirSync(folder);
  const made = await run('python3', [at('wheel.py'), folder, 'outer', 'inner>=1', 'inner', '']);
  t.equal(made.code, 0, made.stderr);
  wheelDigests = made.stdout.trim().split('\n');
  writeFileSync(join(work, 'pip-cert.pem'), certificate.cert);
  writeFileSync(join(work, 'pip-key.pem'), certificate.key);
  const server = start('python3', [
    at('pypi.py'),
    folder,
    join(work, 'pip-cert.pem'),
    join(work, 'pip-key.pem'),
  ]);
  t.teardown(() => server.kill('SIGKILL'));
  server.stdin?.write(`${user.name}\n${user.password}\n`);
  const { printed } = collect(server);
  await until(() => {
    const { code, stderr, stdout } = printed();
    if (code !== null) throw new Error(`the package index ended with ${code}: ${stderr}`);
    return stdout.includes('\n');
  }, 'the package index to listen');
  return Number(printed().stdout);
}

/** Nothing of the user's or the system's settings, caches or proxies. */
const settings = {
  HOME: join(work, 'home'),
  npm_config_userconfig: join(work, 'home', '.npmrc'),
  npm_config_globalconfig: join(work, 'home', 'npmrc'),
  npm_config_cache: join(work, 'npm-cache'),
  npm_config_update_notifier: 'false',
  npm_config_fetch_retries: '0',
  PIP_CONFIG_FILE: '/dev/null',
  PIP_FIND_LINKS: '',
  PIP_NO_CACHE_DIR: '1',
  PIP_DISABLE_PIP_VERSION_CHECK: '1',
  PIP_ROOT_USER_ACTION: 'ignore',
  PIP_RETRIES: '0',
};

function vaultRun(command: readonly string[], cwd: string): Promise<Ran> {
  return run(launcher, ['vault', 'run', '--', ...command], {
    seconds: 60,
    cwd,
    env: { ...settings, BROKER_ADDR: broker.address, BROKER_DATA_DIR: broker.directory },
  });
}

/** What no client may have printed, nor been left with. */
function keepsSecrets(t: Test, ran: Ran): void {
  for (const secret of [npm.token, user.password]) {
    t.notOk((ran.stdout + ran.stderr).includes(secret), 'no credential was seen');
    t.notOk((ran.stdout + ran.stderr).includes(Buffer.from(`${user.name}:${secret}`).toString('base64')));
  }
}

/** A folder with a package in it, of 3 MB that no compression makes smaller. */
function makePackage(name: string, dependencies: Record<string, string>): string {
  const folder = join(work, 'packages', name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name, version: '1.0.0', dependencies }));
  writeFileSync(join(folder, 'data'), randomBytes(3_000_000));
  return folder;
}

t.test('npm publishes to a registry and installs from it', async (t) => {
  const registry = ['--registry', `https://${npmHost}:${npm.port}/`];
  // npm publishes nothing without a token of its own: any will do, the broker overrides it.
  const placeholder = `--//${npmHost}:${npm.port}/:_authToken=placeholder`;
  for (const [name, dependencies] of [
    ['inner', {}],
    ['outer', { inner: '^1.0.0' }],
  ] as const) {
    const published = await vaultRun(
      ['npm', 'publish', placeholder, ...registry],
      makePackage(name, dependencies),
    );
    t.equal(published.code, 0, published.stderr);
    keepsSecrets(t, published);
  }

  const folder = join(work, 'npm-with');
  mkdirSync(folder);
  const installed = await vaultRun(
    ['npm', 'install', 'outer', '--no-audit', '--no-fund', ...registry],
    folder,
  );
  t.equal(installed.code, 0, installed.stderr);
  keepsSecrets(t, installed);
  for (const name of ['outer', 'inner']) {
    const [there, here] = [join(work, 'packages', name), join(folder, 'node_modules', name)];
    t.equal(digestOf(join(here, 'data')), digestOf(join(there, 'data')), `${name} came as it was published`);
  }
  t.match(readFileSync(join(folder, 'package-lock.json'), 'utf8'), `https://${npmHost}:${npm.port}/inner/`);
  t.match(
    (await broker.audit()).filter(({ host }) => host === `${npmHost}:${npm.port}`).map(({ keys }) => keys),
    [['NPM_TOKEN'], ['NPM_TOKEN'], ['NPM_TOKEN']],
  );
});

t.test('npm gets nothing without the broker', async (t) => {
  const folder = join(work, 'npm-without');
  mkdirSync(folder);
  // The registry itself, whose certificate is known and good: what is missing is the credential.
  const registry = ['--registry', `https://127.0.0.1:${npm.port}/`, '--cafile', caFile];
  const refused = await run('npm', ['install', 'outer', '--no-audit', '--no-fund', ...registry], {
    seconds: 60,
    cwd: folder,
    env: { ...settings, npm_config_cache: join(work, 'npm-cache-without') },
  });
  t.not(refused.code, 0);
  t.match(refused.stderr, /E401|E403|authoriz/i);
  t.notOk(existsSync(join(folder, 'node_modules', 'outer')));
});

t.test('pip installs from an index', async (t) => {
  const folder = join(work, 'pip-with');
  const index = ['--index-url', `https://${pipHost}:${pipPort}/simple/`];
  const pip = ['python3', '-m', 'pip', 'install', '--target', folder];
  const installed = await vaultRun([...pip, ...index, 'outer'], work);
  t.equal(installed.code, 0, installed.stdout + installed.stderr);
  keepsSecrets(t, installed);
  t.same(
    ['outer', 'inner'].map((name) => digestOf(join(folder, name, 'data'))),
    wheelDigests,
    'as they were made',
  );
  const ofIndex = (await broker.audit()).filter(({ host }) => host === `${pipHost}:${pipPort}`);
  t.ok(ofIndex.length >= 4, 'two listings and two files');
  for (const { keys } of ofIndex) t.same(keys, ['PIP_USER', 'PIP_PASSWORD']);
});

t.test('pip gets nothing without the broker', async (t) => {
  const folder = join(work, 'pip-without');
  const index = ['--index-url', `https://127.0.0.1:${pipPort}/simple/`, '--cert', caFile, '--no-input'];
  const refused = await run('python3', ['-m', 'pip', 'install', '--target', folder, ...index, 'outer'], {
    seconds: 60,
    cwd: work,
    env: settings,
  });
  t.not(refused.code, 0);
  t.match(refused.stdout + refused.stderr, /401|No matching distribution/);
  t.notOk(existsSync(join(folder, 'outer')));
});
