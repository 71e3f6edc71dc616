import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type Broker, each, launcher, type Ran, run, startBroker, temporary } from '../support/broker.ts';

let broker: Broker;
/** A data directory as a server left it. */
const left = join(temporary(t), 'data');

t.before(async () => {
  const first = await startBroker(t, { directory: left });
  await first.api('POST', '/v1/credentials', { body: { credentials: { KEPT: 'value' } }, vault: 'default' });
  first.process.kill('SIGTERM');
  await first.ended;
  broker = await startBroker(t);
  await broker.command(['vault', 'credential', 'set', 'KNOWN', '--stdin'], { stdin: 'value' });
  await broker.command(['vault', 'service', 'set', '-f', '-'], { stdin: file('host: api.test') });
});

/** A service file whose one service has these lines, and what it needs else. */
function file(...lines: string[]): string {
  const service = lines.some((line) => line.startsWith('auth:'))
    ? lines
    : [...lines, 'auth: {type: bearer, token: KNOWN}'];
  return `services:\n  - ${service.join('\n    ')}\n`;
}

/** Said in one or two lines, on standard error alone, without a trace. */
function wellSaid(
  t: Test,
  name: string,
  { code, stdout, stderr }: Ran,
  expected: { code: number; stderr: RegExp },
): void {
  t.match({ code, stdout, stderr }, { ...expected, stdout: /^$/ }, name);
  t.match(stderr, /^broker: [^\n]+\n([^\n]+\n)?$/, `${name}: one or two lines`);
  t.notMatch(stderr, /\n\s+at |Error:|node:internal|undefined|\[object/, `${name}: no trace`);
}

t.test('commands', async (t) => {
  const set = ['vault', 'service', 'set', '-f', '-'];
  const tooLarge = `services: []\n# ${'x'.repeat(1024 * 1024)}`;
  const cases: [
    name: string,
    args: readonly string[],
    stdin: string,
    expected: { code: number; stderr: RegExp },
  ][] = [
    [
      'malformed YAML',
      set,
      'services:\n  - host: [a\n',
      { code: 1, stderr: /standard input, line \d+, column \d+: / },
    ],
    ['a duplicate key', set, file('host: a.test', 'host: b.test'), { code: 1, stderr: /line 3, column 5/ }],
    ['no services', set, 'hosts: []\n', { code: 1, stderr: /`hosts` is unknown. Only `services:`/ }],
    [
      'an empty file',
      set,
      '',
      { code: 1, stderr: /is empty. To remove all services, write `services: \[\]`/ },
    ],
    ['not text', set, '\ud800', { code: 1, stderr: /services/ }],
    ['too large', set, tooLarge, { code: 1, stderr: /larger than 1 MiB/ }],
    [
      'a missing file',
      ['vault', 'service', 'set', '-f', '/no/such'],
      '',
      { code: 1, stderr: /There is no file \/no\/such/ },
    ],
    [
      'an unknown field',
      set,
      file('host: a.test', 'hots: b.test'),
      { code: 1, stderr: /services\[0\]\.hots/ },
    ],
    [
      'an unknown type',
      set,
      file('host: a.test', 'auth: {type: oauth}'),
      { code: 1, stderr: /services\[0\]\.auth\.type: .*passthrough/ },
    ],
    [
      'a placeholder that is a word',
      set,
      file('host: a.test', 'substitutions: [{key: KNOWN, placeholder: account}]'),
      { code: 1, stderr: /services\[0\]\.substitutions\[0\]\.placeholder: .*__account_sid__/ },
    ],
    [
      'a key that is not there',
      set,
      file('host: a.test', 'auth: {type: bearer, token: MISSING}'),
      { code: 1, stderr: /services\[0\]\.auth\.token.*MISSING/ },
    ],
    [
      'a wildcard above a public suffix',
      set,
      file("host: '*.co.uk'"),
      { code: 1, stderr: /services\[0\]\.host/ },
    ],
    [
      'an unknown vault',
      ['vault', 'service', 'list', '--vault', 'nowhere'],
      '',
      { code: 1, stderr: /nowhere|vault/ },
    ],
    [
      'an unknown vault to set',
      [...set, '--vault', 'nowhere'],
      file('host: a.test'),
      { code: 1, stderr: /vault/ },
    ],
    [
      'an unknown vault to run in',
      ['vault', 'run', '--vault', 'nowhere', '--', 'true'],
      '',
      { code: 1, stderr: /vault/ },
    ],
    ['a bad vault name', ['vault', 'create', 'No Such'], '', { code: 2, stderr: /1 to 64 of a-z/ }],
    [
      'a bad setting',
      ['vault', 'set', 'default', 'unmatched_host_policy=sometimes'],
      '',
      { code: 1, stderr: /unmatched_host_policy/ },
    ],
    [
      'a value on the command line',
      ['vault', 'credential', 'set', 'KEY=value'],
      '',
      { code: 2, stderr: /never stands on the command line/ },
    ],
    [
      'no terminal to ask on',
      ['vault', 'credential', 'set', 'KEY'],
      '',
      { code: 2, stderr: /--stdin or --from-file/ },
    ],
    [
      'an empty value',
      ['vault', 'credential', 'set', 'KEY', '--stdin'],
      '\n',
      { code: 1, stderr: /empty; nothing was stored/ },
    ],
    [
      'a value that is too large',
      ['vault', 'credential', 'set', 'KEY', '--stdin'],
      'x'.repeat(65_537),
      { code: 1, stderr: /64 KiB/ },
    ],
    [
      'a credential that is in use',
      ['vault', 'credential', 'delete', 'KNOWN'],
      '',
      { code: 1, stderr: /KNOWN is used by api.test/ },
    ],
    [
      'a proposal that is not there',
      ['vault', 'proposal', 'approve', '99'],
      '',
      { code: 1, stderr: /proposal/ },
    ],
    ['clearing without a word', ['vault', 'service', 'clear'], '', { code: 2, stderr: /--yes/ }],
    ['an unknown command', ['vault', 'destroy'], '', { code: 2, stderr: /no command `vault destroy`/ }],
    ['an unknown option', ['vault', 'list', '--all'], '', { code: 2, stderr: /no option --all/ }],
  ];
  await each(cases, async ([name, args, stdin, expected]) => {
    wellSaid(t, name, await broker.command(args, { stdin }), expected);
  });

  const wrongToken = { BROKER_OPERATOR_TOKEN: `brk_opr_${'A'.repeat(50)}` };
  wellSaid(t, 'a wrong token', await broker.command(['vault', 'list'], { env: wrongToken }), {
    code: 1,
    stderr: /does not accept the token from BROKER_OPERATOR_TOKEN/,
  });
  const nowhere = { BROKER_ADDR: 'http://127.0.0.1:1' };
  wellSaid(t, 'no broker', await broker.command(['vault', 'list'], { env: nowhere }), {
    code: 1,
    stderr: /No broker answers at http:\/\/127.0.0.1:1. Start one with `broker server`/,
  });
  const empty = { BROKER_DATA_DIR: temporary(t) };
  wellSaid(t, 'no token', await broker.command(['vault', 'list'], { env: empty }), {
    code: 1,
    stderr: /There is no .*owner.token. Name the broker's data directory/,
  });

  t.same((await broker.command(['vault', 'list', '--json'])).stdout.match(/"name": "(.*)"/g), [
    '"name": "default"',
  ]);
  t.equal((await broker.command(['vault', 'credential', 'list'])).stdout, 'KNOWN\n');
  const { body } = await broker.api('GET', '/v1/vaults/default/services');
  t.match(body, { services: [{ host: 'api.test' }] }, 'nothing of all that was taken');
  t.equal((body.services as unknown[]).length, 1);
});

/** `broker server` with a directory of its own and free ports, where the flags don't say otherwise. */
function server(t: Test, args: readonly string[], env: Record<string, string> = {}): Promise<Ran> {
  const given = (flag: string) => args.includes(flag);
  const flags = [
    ...(given('--data-dir') ? [] : ['--data-dir', join(temporary(t), 'data')]),
    ...(given('--port') ? [] : ['--port', '0']),
    ...(given('--proxy-port') ? [] : ['--proxy-port', '0']),
  ];
  return run(launcher, ['server', '--workers', '1', ...flags, ...args], { env });
}

t.test('settings', async (t) => {
  const folder = temporary(t);
  const config = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return ['--config', join(folder, name)];
  };
  const notPem = join(folder, 'not.pem');
  writeFileSync(notPem, 'not PEM');
  const cases: [string, readonly string[], { code: number; stderr: RegExp }, Record<string, string>?][] = [
    ['a port that is none', ['--port', '70000'], { code: 2, stderr: /--port has to be a port, 0 to 65535/ }],
    [
      'a count that is none',
      ['--rate-limit', 'many'],
      { code: 2, stderr: /--rate-limit has to be a whole number/ },
    ],
    [
      'a time that is none',
      ['--drain-timeout', '1m'],
      { code: 2, stderr: /--drain-timeout has to be a number of seconds/ },
    ],
    ['a choice that is none', ['--proxy-plain', 'maybe'], { code: 2, stderr: /loopback, always, never/ }],
    [
      'a variable',
      [],
      { code: 2, stderr: /BROKER_RATE_BURST has to be a whole number/ },
      { BROKER_RATE_BURST: '-1' },
    ],
    [
      'a switch in a variable',
      [],
      { code: 2, stderr: /BROKER_INSECURE_HTTP is true or false/ },
      { BROKER_INSECURE_HTTP: 'yes' },
    ],
    ['a flag without a value', ['--host', '--port', '0'], { code: 2, stderr: /--host needs a value/ }],
    ['an unknown flag', ['--prot', '1'], { code: 2, stderr: /no option --prot/ }],
    [
      'a config that is not there',
      ['--config', '/no/such'],
      { code: 2, stderr: /\/no\/such can't be read \(ENOENT\)/ },
    ],
    ['a config that is no YAML', config('a.yaml', 'port: [1'), { code: 1, stderr: /a\.yaml, line 1/ }],
    [
      'a config that is a list',
      config('b.yaml', '- port'),
      { code: 2, stderr: /b\.yaml has to hold settings/ },
    ],
    ['an unknown key', config('c.yaml', 'prot: 1'), { code: 2, stderr: /c\.yaml: there is no setting prot/ }],
    [
      'a bad value in the config',
      config('d.yaml', 'rate-burst: many'),
      { code: 2, stderr: /rate-burst in .*d\.yaml has to be a whole number/ },
    ],
    [
      'an open address without TLS',
      ['--host', '0.0.0.0'],
      { code: 1, stderr: /--tls-cert and --tls-key, or --insecure-http/ },
    ],
    ['half of TLS', ['--tls-cert', notPem], { code: 1, stderr: /go together/ }],
    [
      'a CA file that is none',
      ['--upstream-ca', notPem],
      { code: 1, stderr: /not\.pem \(--upstream-ca\) holds no certificate/ },
    ],
    [
      'a CA file that is not there',
      ['--upstream-ca', '/no/such'],
      { code: 1, stderr: /\/no\/such \(--upstream-ca\) can't be read/ },
    ],
    [
      'a range that is none',
      ['--network-allow', '10.0.0.0/33'],
      { code: 1, stderr: /--network-allow: .*10\.0\.0\.0\/33/ },
    ],
  ];
  await each(cases, async ([name, args, expected, env]) =>
    wellSaid(t, name, await server(t, args, env), expected),
  );
});

t.test('ports and directories that are taken', async (t) => {
  const [other, gone] = [net.createServer(), net.createServer()];
  for (const one of [other, gone]) await new Promise<void>((resolve) => one.listen(0, '127.0.0.1', resolve));
  const [taken, free] = [other, gone].map((one) => String((one.address() as net.AddressInfo).port));
  t.teardown(() => other.close());
  gone.close();
  const apiPort = new URL(broker.address).port;
  const proxyPort = String(broker.proxyPort);
  const cases: [string, readonly string[], RegExp][] = [
    ["the API's", ['--port', taken], new RegExp(`API.*${taken}`)],
    ["the proxy's", ['--proxy-port', taken], new RegExp(`proxy.*${taken}.*something else listens there`)],
    ["the API's, by a broker", ['--port', apiPort], new RegExp(`API.*${apiPort}`)],
    ["the proxy's, by a broker", ['--proxy-port', proxyPort], new RegExp(`proxy.*${proxyPort}`)],
    ["the API's, by a broker's proxy", ['--port', proxyPort], new RegExp(`API.*${proxyPort}`)],
    ["each other's", ['--port', free, '--proxy-port', free], new RegExp(`can't share port ${free}`)],
    ['the directory', ['--data-dir', broker.directory], /Another broker runs on the data directory/],
  ];
  await each(cases, async ([name, args, stderr]) =>
    wellSaid(t, name, await server(t, args), { code: 1, stderr }),
  );
  t.equal((await fetch(`${broker.address}/ready`)).status, 200, 'the first broker goes on');
});

t.test('data that cannot be used is said so, and left as it was', async (t) => {
  const cases: [string, (directory: string) => void, RegExp][] = [
    [
      'garbage for a store',
      (d) => writeFileSync(join(d, 'data.mdb'), 'garbage '.repeat(4096)),
      /data\.mdb can't be used: .*Nothing was changed/,
    ],
    ['an empty store', (d) => truncateSync(join(d, 'data.mdb'), 0), /data\.mdb can't be used: it is empty/],
    ['a store cut short', (d) => truncateSync(join(d, 'data.mdb'), 5 * 4096), /data\.mdb can't be used/],
    [
      'a key file that others may read',
      (d) => chmodSync(join(d, 'master.key'), 0o640),
      /master\.key can be read by other users.*chmod 600/,
    ],
    [
      'another key',
      (d) => writeFileSync(join(d, 'master.key'), `${'0'.repeat(64)}\n`),
      /master\.key is not the key of this store/,
    ],
    [
      'a key file that is no key',
      (d) => writeFileSync(join(d, 'master.key'), 'key'),
      /does not hold a key \(64 hex digits\)/,
    ],
    [
      'an owner token that others may read',
      (d) => chmodSync(join(d, 'owner.token'), 0o644),
      /owner\.token can be read by other users/,
    ],
    [
      'a directory that others may enter',
      (d) => chmodSync(d, 0o755),
      /is open to other users. Run: chmod 700/,
    ],
  ];
  await each(cases, async ([name, spoil, stderr]) => {
    const directory = join(temporary(t), 'data');
    cpSync(left, directory, { recursive: true });
    chmodSync(directory, 0o700);
    spoil(directory);
    const before = contents(directory);
    wellSaid(t, name, await server(t, ['--data-dir', directory]), { code: 1, stderr });
    t.same(contents(directory), before, `${name}: unchanged`);
  });

  const folder = temporary(t);
  writeFileSync(join(folder, 'file'), '');
  const inFile = join(folder, 'file', 'data');
  wellSaid(t, 'below a file', await server(t, ['--data-dir', inFile]), {
    code: 1,
    stderr: /can't be made \(ENOTDIR\)/,
  });
  wellSaid(t, 'a file', await server(t, ['--data-dir', join(folder, 'file')]), {
    code: 1,
    stderr: /file (is not a directory|can't be made)/,
  });
});

t.test('a directory that cannot be made or written to is said so', async (t) => {
  // Not even root makes directories in sysfs, and in one that is closed to others everyone else fails.
  const closed = join(temporary(t), 'closed');
  mkdirSync(closed, { mode: 0o500 });
  const isRoot = process.geteuid?.() === 0;
  const below = isRoot ? '/sys/broker' : join(closed, 'data');
  const cannot = { code: 1, stderr: /can't be made \((EACCES|EPERM|EROFS)\)/ };
  wellSaid(t, 'below one', await server(t, ['--data-dir', below]), cannot);
  t.notOk(existsSync(below));
  if (isRoot) mkdirSync(join(closed, 'broker.lock'));
  const locked = { code: 1, stderr: /broker\.lock can't be locked/ };
  wellSaid(t, 'in it', await server(t, ['--data-dir', closed]), locked);
});

/** The files that hold data, by name. */
function contents(directory: string): Record<string, string> {
  // Not the folders (the audit, and whose requests are under way), locks, and what is there while a broker runs.
  const names = readdirSync(directory, { withFileTypes: true })
    .filter((entry) => entry.isFile() && !/lock|^broker\.(sock|address)$/.test(entry.name))
    .map(({ name }) => name);
  return Object.fromEntries(names.map((name) => [name, readFileSync(join(directory, name), 'base64')]));
}
