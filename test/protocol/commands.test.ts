/** Environment variables and the operator's command line, at a running broker, from the outside. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type Broker, each, startBroker, temporary } from '../support/broker.ts';

let broker: Broker;
let folder: string;

t.before(async () => {
  folder = temporary(t);
  broker = await startBroker(t);
});

// biome-ignore lint/suspicious/noExplicitAny: answers of many shapes
type Json = any;

const run = (args: string, stdin?: string) => broker.command(args.split(' '), { stdin });
const ok = async (t: Test, args: string, stdin?: string) => {
  const ran = await run(args, stdin);
  t.equal(ran.code, 0, `${args}${ran.code === 0 ? '' : `: ${ran.stderr}`}`);
  return ran.stdout;
};
const get = async (path: string, vault?: string) => (await broker.api<Json>('GET', path, { vault })).body;

/** All commands that there are to be. */
const commands = [
  ...['server', 'login', 'status', 'version', 'completion', 'backup', 'restore'],
  ...['operator create', 'operator passwd', 'operator list', 'operator remove'],
  ...[
    'vault create',
    'vault list',
    'vault show',
    'vault set',
    'vault delete',
    'vault run',
    'vault explain',
    'vault discover',
  ],
  ...['set', 'list', 'enable', 'disable', 'remove', 'clear'].map((name) => `vault service ${name}`),
  ...['set', 'list', 'delete'].map((name) => `vault credential ${name}`),
  ...['list', 'show', 'approve', 'reject'].map((name) => `vault proposal ${name}`),
  ...['agent invite', 'agent list', 'agent rotate', 'agent remove'],
  ...['audit tail', 'audit verify', 'audit export', 'ca show', 'ca export', 'ca rotate'],
  ...['master-password set', 'master-password change', 'master-password remove'],
];

t.test('every command that there is to be explains itself, with an example', async (t) => {
  await each(commands, async (name) => {
    const { code, stdout, stderr } = await run(`${name} --help`);
    t.match({ code, stderr }, { code: 0, stderr: '' }, name);
    t.match(stdout.slice(stdout.indexOf('Examples:')), `broker ${name}`, `${name}: an example`);
  });
  const json = [
    'operator list',
    'vault create x',
    'vault list',
    'vault show',
    'vault service list',
    'vault credential list',
    'vault proposal list',
    'vault discover',
    'vault explain http://a.test/',
    'agent list',
    'ca show',
    'status',
    'version',
    'audit verify',
  ];
  await each(json, async (args) => {
    const stdout = await ok(t, `${args} --json`);
    t.doesNotThrow(() => JSON.parse(stdout), args);
  });
});

t.test('environment variables of an agent', async (t) => {
  const print = 'process.stdout.write(JSON.stringify(process.env))';
  const inherited = {
    HTTP_PROXY: 'http://other:1',
    all_proxy: 'http://other:1',
    no_proxy: '*',
    BROKER_OPERATOR_TOKEN: readFileSync(join(broker.directory, 'owner.token'), 'utf8').trim(),
    KEPT: '1',
  };
  const script = 'cp "$CURL_CA_BUNDLE" bundle; cp "$CURL_HOME/.curlrc" curlrc; exec "$0" -e "$1"';
  const ran = await broker.command(
    ['vault', 'run', '--ttl', '90s', '--label', 'a test', '--', 'sh', '-c', script, process.execPath, print],
    { cwd: folder, env: inherited },
  );
  const env: Record<string, string> = JSON.parse(ran.stdout);
  const token = env.BROKER_SESSION_TOKEN;
  t.match(env, {
    BROKER_ADDR: broker.address,
    NO_PROXY: 'localhost,127.0.0.1',
    no_proxy: 'localhost,127.0.0.1',
    NODE_USE_ENV_PROXY: '1',
    KEPT: '1',
  });
  t.match(token, /^brk_ses_/);
  for (const name of ['HTTPS_PROXY', 'HTTP_PROXY', 'https_proxy', 'http_proxy'])
    t.equal(env[name], `https://${token}:default@127.0.0.1:${broker.proxyPort}`, name);
  const bundle = env.SSL_CERT_FILE;
  for (const name of [
    'NODE_EXTRA_CA_CERTS',
    'REQUESTS_CA_BUNDLE',
    'CURL_CA_BUNDLE',
    'GIT_SSL_CAINFO',
    'DENO_CERT',
    'AWS_CA_BUNDLE',
    'PIP_CERT',
    'CARGO_HTTP_CAINFO',
    'npm_config_cafile',
    'GRPC_DEFAULT_SSL_ROOTS_FILE_PATH',
    'GIT_PROXY_SSL_CAINFO',
  ])
    t.equal(env[name], bundle, name);
  t.notOk(
    'all_proxy' in env || 'BROKER_OPERATOR_TOKEN' in env,
    "nothing leads past the broker, and no operator's token goes along",
  );
  const root = await (await fetch(`${broker.address}/v1/ca.pem`)).text();
  const certificates = readFileSync(join(folder, 'bundle'), 'utf8');
  t.ok(certificates.includes(root.trim()), 'the root of the broker is in the bundle');
  t.ok((certificates.match(/BEGIN CERTIFICATE/g) ?? []).length > 20, "and the system's");
  t.match(readFileSync(join(folder, 'curlrc'), 'utf8'), `proxy-cacert = "${bundle}"`);
  t.notOk(existsSync(bundle) || existsSync(env.CURL_HOME), 'removed when the command has ended');
  t.match(await broker.api('GET', '/discover', { token }), { status: 401 }, 'and the session revoked');

  const plain = await broker.command([
    'vault',
    'run',
    '--proxy-scheme',
    'http',
    '--',
    process.execPath,
    '-e',
    print,
  ]);
  t.match(JSON.parse(plain.stdout).HTTPS_PROXY, /^http:\/\/brk_ses_/);
  t.match(
    await broker.command(['vault', 'run', '--', 'sh', '-c', 'exit 7']),
    { code: 7 },
    'ends with its code',
  );
  t.match(await run('vault run -- no-such-command'), { code: 127 });
  t.match(await run(`vault run -- ${folder}`), { code: 126 });
  t.same((await get('/v1/sessions')).sessions, [], 'none is left behind');
});

t.test('vault service: set, list, enable, disable, remove, clear', async (t) => {
  await ok(t, 'vault create ops');
  await ok(t, 'vault credential set K --vault ops --stdin', 'value\n');
  t.equal(await ok(t, 'vault service list --vault ops'), '', 'nothing where there is none');
  const file = join(folder, 'services.yaml');
  const yaml = `services:
  - host: a.test
    description: "yes"
    auth:
      type: bearer
      token: K
  - host: "*.b.test"
    auth:
      type: custom
      headers:
        X-Key: "{{ K }}: #1"
    substitutions:
      - key: K
        placeholder: __k__
        in:
          - header
    enabled: false
`;
  writeFileSync(file, yaml);
  for (const round of [1, 2]) {
    await ok(t, `vault service set -f ${file} --vault ops`);
    const listed = await ok(t, 'vault service list --vault ops');
    await ok(t, 'vault service set -f - --vault ops', listed);
    t.equal(await ok(t, 'vault service list --vault ops'), listed, `comes back unchanged, ${round}`);
  }
  const { services } = await get('/v1/vaults/ops/services');
  t.match(services, [
    { host: 'a.test', description: 'yes' },
    { host: '*.b.test', enabled: false },
  ]);
  t.equal((await get('/v1/vaults/default/services')).services.length, 0, 'no other vault');
  await broker.command(['vault', 'service', 'enable', '*.b.test', '--vault', 'ops']);
  await ok(t, 'vault service disable a.test --vault ops');
  t.match((await get('/v1/vaults/ops/services')).services, [{ enabled: false }, { enabled: undefined }]);
  await ok(t, 'vault service remove a.test --vault ops');
  t.match((await get('/v1/vaults/ops/services')).services, [{ host: '*.b.test' }]);
  t.match(
    await run('vault service clear --vault ops'),
    { code: 2, stderr: /--yes/ },
    'asks, and there is nobody',
  );
  await ok(t, 'vault service clear --vault ops --yes');
  t.match(await get('/v1/vaults/ops'), { cleared: true, counters: { services: 0 } });
});

t.test('vaults, credentials, proposals, agents', async (t) => {
  await ok(t, 'vault set ops unmatched_host_policy=deny rate_limit.rps=7 require_tls=true');
  t.match(await get('/v1/vaults/ops'), {
    unmatched_host_policy: 'deny',
    rate_limit: { rps: 7 },
    require_tls: true,
  });
  t.match(await ok(t, 'vault show ops'), /unmatched_host_policy: deny/);
  t.match(await ok(t, 'vault list'), /^ops .*cleared/m);

  const value = join(folder, 'value');
  writeFileSync(value, 'line 1\nline 2\n');
  await ok(t, `vault credential set FROM_FILE --vault ops --from-file ${value}`);
  await ok(t, 'vault credential set FROM_STDIN --vault ops --stdin', 'x\n');
  t.match(
    await run('vault credential set K=secret --vault ops'),
    { code: 2 },
    'never a value on the command line',
  );
  t.match(await ok(t, 'vault credential list --vault ops'), /^FROM_FILE\nFROM_STDIN\nK$/m);
  await ok(t, 'vault credential delete FROM_FILE --vault ops');
  t.same((await get('/v1/credentials', 'ops')).keys, ['FROM_STDIN', 'K']);

  const token = await broker.session('ops');
  const propose = async (...keys: string[]) => {
    const body = { credentials: keys.map((key) => ({ action: 'set', key })), message: 'to \u001b[2Jread' };
    return (await broker.api<Json>('POST', '/v1/proposals', { token, body })).body.id as number;
  };
  const [one, two, three] = [await propose('P1'), await propose('P2', 'P3'), await propose('P4')];
  t.match(await ok(t, 'vault proposal list --status pending --vault ops'), new RegExp(`^${one}\\b`, 'm'));
  t.notMatch(await ok(t, `vault proposal show ${one}`), '\u001b', 'an agent can do nothing to the terminal');
  t.match(await run(`vault proposal approve ${one} --stdin`, ''), { code: 1, stderr: /No value for P1/ });
  await ok(t, `vault proposal approve ${one} --stdin`, 'bare\n');
  await ok(t, `vault proposal approve ${two} --stdin`, 'P2=two\nP3=three=3\n');
  await broker.command(['vault', 'proposal', 'reject', String(three), '--reason', 'Not now.']);
  for (const [id, status] of [
    [one, 'applied'],
    [two, 'applied'],
    [three, 'rejected'],
  ])
    t.match(await get(`/v1/proposals/${id}`), { status });

  const invited = JSON.parse(await ok(t, 'agent invite ci --vault ops --json'));
  t.match(invited.invite_url, /\/invite\/brk_inv_/);
  await fetch(invited.invite_url, { method: 'POST' });
  t.match(await ok(t, 'agent list'), /^ci /m);
  t.match(JSON.parse(await ok(t, 'agent rotate ci --json')), { token: /^brk_agt_/ });
  await ok(t, 'agent remove ci');
  t.same((await get('/v1/agents')).agents, []);
  t.match(await ok(t, 'audit tail -n 1000'), /proposal\.approve/);
  t.match(await ok(t, 'vault explain https://a.test/ --vault ops'), /forbidden/);
  t.match(await ok(t, 'vault discover --vault ops'), /P1/);
  t.match(await ok(t, 'status'), /./);
  t.match(await ok(t, 'login'), new RegExp(`${broker.address}/login\\?token=`));
  t.match(await ok(t, 'login --code'), /^[0-9]{6}\n$/);
  await ok(t, 'vault delete ops --yes');
});

t.test('which broker, and how it ends', async (t) => {
  const nowhere = { BROKER_ADDR: 'http://127.0.0.1:1' };
  t.match(await broker.command(['vault', 'list'], { env: nowhere }), {
    code: 1,
    stdout: '',
    stderr: /^broker: No broker answers.*\n$/,
  });
  t.match(
    await broker.command(['vault', 'list', '--address', broker.address], { env: nowhere }),
    { code: 0 },
    '--address before BROKER_ADDR',
  );
  t.match(
    await broker.command(['vault', 'list', '--data-dir', broker.directory], {
      env: { BROKER_DATA_DIR: '/nowhere' },
    }),
    { code: 0 },
  );
  t.match(
    await run('vault list --nope'),
    { code: 2, stdout: '', stderr: /^broker: [^\n]+\n$/ },
    'used wrongly',
  );
  t.match(await run('vault show nowhere'), { code: 1, stdout: '', stderr: /^broker: [^\n]+\n$/ }, 'failed');
});
