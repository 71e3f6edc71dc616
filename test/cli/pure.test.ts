import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { durationSeconds } from '../../bin/cli.ts';
import { vaultPatch } from '../../bin/commands/vault.ts';
import { serviceFile } from '../../bin/commands/vault-service.ts';
import { edit } from '../../bin/hidden-prompt.ts';
import { caVariables, noProxy, proxyEnv, proxyUrl, withScheme } from '../../bin/proxy-env.ts';
import { curlrc, writeRunFiles } from '../../bin/run-files.ts';
import { neededKeys, slotValues } from '../../bin/slot-values.ts';
import { brokerAddress, credentials, dataDirectory } from '../../bin/target.ts';
import { escapeUnsafe, Failure, printable, printableValue, table } from '../../bin/terminal.ts';
import { formatYaml, parseYaml } from '../../bin/yaml.ts';

interface ProxyCase {
  readonly id: string;
  readonly input: {
    host: string;
    port: number;
    token: string;
    vault: string;
    parent_env?: Record<string, string>;
  };
  readonly expect: Record<string, unknown>;
}

const vectors = JSON.parse(readFileSync(new URL('../vectors/protocol.json', import.meta.url), 'utf8'));
const unsafe = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u;

function child(host: string, url: string) {
  return {
    address: `http://${host}:14321`,
    token: 't',
    proxyUrl: url,
    bundle: '/tmp/b.pem',
    curlHome: '/tmp/c',
  };
}

/** The message of the Failure that `run` has to end in, and its exit code. */
function failure(run: () => unknown): { message: string; exitCode: number } {
  try {
    run();
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

t.test('proxy environment: vectors', async (t) => {
  const dropped = new Map([
    [
      'proxy_env-002',
      'the proxy URL is https:// unless --proxy-scheme says otherwise, and no product has a variable',
    ],
  ]);
  for (const { id, input, expect } of vectors.groups.proxy_env.cases as ProxyCase[]) {
    if (dropped.has(id)) continue;
    const host = input.host ?? '127.0.0.1';
    const url = proxyUrl({ scheme: 'https', host, port: input.port ?? 14322, token: 't', vault: 'v' });
    const env = proxyEnv(input.parent_env ?? {}, child(host, url));
    for (const [name, want] of Object.entries(expect)) {
      if (name === 'ca_vars')
        for (const variable of want as string[]) t.equal(env[variable], '/tmp/b.pem', `${id} ${variable}`);
      else if (name === 'child_has_exactly_one') {
        const both = [env.HTTPS_PROXY, env.https_proxy];
        t.same(both, [url, url], `${id}: the parent's proxy is gone in either case`);
      } else t.equal(env[name], want === '= HTTPS_PROXY' ? env.HTTPS_PROXY : want, `${id} ${name}`);
    }
  }
});

t.test('proxy environment: nothing inherited leads past the broker', async (t) => {
  const names = ['http_proxy', 'HTTPS_PROXY', 'All_Proxy', 'ALL_PROXY', 'no_proxy', 'NO_PROXY', 'ftp_proxy'];
  const more = [
    'npm_config_https_proxy',
    'NPM_CONFIG_PROXY',
    'NPM_CONFIG_CAFILE',
    'Ssl_Cert_File',
    'curl_home',
  ];
  const parent = Object.fromEntries([...names, ...more].map((name) => [name, 'inherited']));
  const env = proxyEnv({ ...parent, PATH: '/bin' }, child('127.0.0.1', 'https://t:v@127.0.0.1:14322'));
  t.notOk(Object.values(env).includes('inherited'), 'every one is dropped or replaced');
  t.equal(env.PATH, '/bin', 'the rest stays');
  t.notOk('ALL_PROXY' in env || 'all_proxy' in env, 'ALL_PROXY is not set');
  const secrets = proxyEnv(
    { BROKER_OPERATOR_TOKEN: 'brk_opr_x', BROKER_MASTER_PASSWORD: 'p', BROKER_SESSION_TOKEN: 'outer' },
    child('127.0.0.1', 'https://t:v@127.0.0.1:14322'),
  );
  t.notOk('BROKER_OPERATOR_TOKEN' in secrets, "an agent doesn't get the operator's token");
  t.notOk('BROKER_MASTER_PASSWORD' in secrets);
  t.equal(secrets.BROKER_SESSION_TOKEN, 't');
  for (const name of caVariables) t.equal(secrets[name], '/tmp/b.pem', name);
  t.equal(secrets.NODE_USE_ENV_PROXY, '1');
  t.equal(secrets.CURL_HOME, '/tmp/c');
});

t.test('proxy environment: the broker itself is reached directly, wherever it is', async (t) => {
  t.equal(noProxy('http://localhost:14321'), 'localhost,127.0.0.1');
  t.equal(noProxy('https://broker.corp'), 'localhost,127.0.0.1,broker.corp');
  t.equal(noProxy('http://[::1]:14321'), 'localhost,127.0.0.1,[::1],::1');
  t.equal(
    proxyUrl({ scheme: 'http', host: '::1', port: 1, token: 'a b', vault: 'v' }),
    'http://a%20b:v@[::1]:1',
  );
  t.equal(withScheme('https://t:v@h:14322', 'http'), 'http://t:v@h:14322');
  t.equal(withScheme('http://https:v@h:14322', 'https'), 'https://https:v@h:14322');
});

t.test('files of a run: private, complete, removed', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'broker-test-'));
  t.teardown(() => rmSync(home, { recursive: true }));
  writeFileSync(join(home, '.curlrc'), 'silent');
  const root = '-----BEGIN CERTIFICATE-----\nROOT\n-----END CERTIFICATE-----\n';
  const files = writeRunFiles(root, { HOME: home });
  t.equal(statSync(files.curlHome).mode & 0o777, 0o700);
  t.equal(statSync(files.bundle).mode & 0o777, 0o600);
  t.equal(statSync(join(files.curlHome, '.curlrc')).mode & 0o777, 0o600);
  const bundle = readFileSync(files.bundle, 'utf8');
  t.ok(bundle.startsWith(root), "the broker's root comes first");
  t.ok(bundle.split('BEGIN CERTIFICATE').length > 10, "the system's roots follow");
  t.equal(
    readFileSync(join(files.curlHome, '.curlrc'), 'utf8'),
    `silent\nproxy-cacert = "${files.bundle}"\n`,
  );
  files.remove();
  t.notOk(existsSync(files.curlHome));
  files.remove();

  const own = join(home, 'curl');
  mkdirSync(own);
  writeFileSync(join(own, '.curlrc'), 'verbose\n');
  const nested = writeRunFiles(root, { HOME: home, CURL_HOME: own });
  t.match(
    readFileSync(join(nested.curlHome, '.curlrc'), 'utf8'),
    /^verbose\nproxy-cacert/,
    'CURL_HOME comes before HOME',
  );
  nested.remove();
  t.equal(curlrc('', '/a "b\\c'), 'proxy-cacert = "/a \\"b\\\\c"\n', "quoted by curl's rules");
});

t.test('YAML: what is refused, and where', async (t) => {
  const cases: readonly [name: string, text: string, message: RegExp][] = [
    ['duplicate key', 'services:\n  - host: a\n    host: b\n', /f, line 3, column 5: .*unique/],
    ['unknown tag', 'a: !!js/function "x"\n', /f, line 1, column 4: .*tag/],
    ['known tag outside JSON', 'a: !!binary aGk=\n', /tagged value/],
    ['second document', 'a: 1\n---\nb: 2\n', /f, line 2, column 1: Only one document/],
    ['key that is no string', '? [1]\n: 2\n', /f, line 1, column 3: .*keys must be strings/],
    ['tab', 'services:\n\t- host: a', /f, line 2, column 1: Tabs/],
    ['unresolved alias', 'a: 1\nb: *x\n', /f, line 2, column 4: the alias \*x names nothing/],
    ['not finite', 'a: .inf\n', /not finite/],
    ['open bracket', 'a: [1, 2\n', /f, line \d, column \d/],
    ['too large', 'a'.repeat(1_100_000), /larger than 1 MiB/],
    ['too deep', `${'['.repeat(80)}${']'.repeat(80)}`, /levels deep/],
  ];
  for (const [name, text, message] of cases) {
    t.match(failure(() => parseYaml(text, 'f')).message, message, name);
  }
  const bomb = [
    'a0: &a0 [x, x]',
    ...Array.from({ length: 30 }, (_, i) => `a${i + 1}: &a${i + 1} [*a${i}, *a${i}]`),
  ];
  t.match(failure(() => parseYaml(bomb.join('\n'), 'f')).message, /aliases/, 'alias bomb');
  t.ok(
    failure(() => parseYaml('a: &a [*a]\n', 'f')),
    'an alias inside itself',
  );
  t.same(parseYaml('a: &x {t: 1}\nb: *x\n', 'f'), { a: { t: 1 }, b: { t: 1 } }, 'a plain alias is fine');
  t.same(parseYaml('a: yes\nb: 010\nc: 2001-01-01\n', 'f'), { a: 'yes', b: 10, c: '2001-01-01' }, 'YAML 1.2');
  t.same(parseYaml('{"a": [1, null, "x"]}', 'f'), { a: [1, null, 'x'] }, 'JSON is YAML');
  t.equal(parseYaml('', 'f'), null);
  t.ok(Object.hasOwn(parseYaml('__proto__: {x: 1}\n', 'f') as object, '__proto__'), 'a key like any other');
});

t.test('YAML: what is printed comes back unchanged and does nothing to a terminal', async (t) => {
  // Any character, and more often those that YAML or a terminal takes for something else.
  const tricky = fc.constantFrom(
    ...'a \u202e\u200b\u2028\u009b\u{e0041}\'"\\\n\t#:-{}*&!%@,',
    '{{ KEY }}',
    '\ud800',
  );
  const value = fc.oneof(
    fc.jsonValue({ stringUnit: 'binary', maxDepth: 4 }),
    fc.dictionary(fc.string({ unit: tricky }), fc.string({ unit: tricky })),
  );
  fc.assert(
    fc.property(value, (data) => {
      const text = formatYaml(data);
      return !unsafe.test(text) && JSON.stringify(parseYaml(text, 'f')) === JSON.stringify(data);
    }),
    { numRuns: 500 },
  );
  const service = {
    host: '*.a.test',
    description: 'x\u202ey\u001b[31m\nz',
    auth: { type: 'passthrough' },
    enabled: false,
  };
  const text = formatYaml({ services: [service] });
  t.notMatch(text, unsafe);
  t.same(serviceFile(text, 'f'), { services: [service] });
});

t.test('service file: the shape at the top', async (t) => {
  for (const [text, message] of [
    ['', /f is empty/],
    ['# only a comment\n', /f is empty/],
    ['- host: a\n', /begin with `services:`/],
    ['service: []\n', /`service` is unknown/],
    ['services: {}\n', /has to be a list/],
    ['services: []\nvault: x\n', /`vault` is unknown/],
    ['{}', /has to be a list/],
  ] as const) {
    t.match(failure(() => serviceFile(text, 'f')).message, message, text);
  }
  t.same(serviceFile('services: []', 'f'), { services: [] });
});

t.test('foreign text on a terminal', async (t) => {
  t.equal(printable('a\u001b[2Jb\u202ec\u0007\u009bd\u200b\n\ttail\ud800'), 'a[2Jbcd  tail');
  t.equal(escapeUnsafe('{"a":"\u202e\u007f"}'), '{"a":"\\u202e\\u007f"}');
  t.equal(JSON.parse(escapeUnsafe(JSON.stringify('\u{e0041}x'))), '\u{e0041}x', 'beyond the first plane too');
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => !unsafe.test(printable(text))));
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
      const text = escapeUnsafe(JSON.stringify(value, null, 2));
      const back = JSON.stringify(JSON.parse(text)) === JSON.stringify(value);
      return back && !unsafe.test(text) && !unsafe.test(JSON.stringify(printableValue(value)));
    }),
  );
  t.equal(
    table(
      ['A', 'LONG'],
      [
        ['x', 'y'],
        ['wider\n', 'z\u001b'],
      ],
    ),
    'A       LONG\nx       y\nwider   z\n',
  );
  t.equal(table(['A'], []), '', 'nothing where there is nothing');
});

t.test('hidden prompt: editing a line', async (t) => {
  t.same(edit('', 'abc\r'), { line: 'abc', end: 'enter', rest: '' });
  t.same(edit('ab', 'c\x7fd\n'), { line: 'abd', end: 'enter', rest: '' });
  t.same(edit('old', '\x15new\r\n'), { line: 'new', end: 'enter', rest: '' });
  t.same(edit('', 'one\rtwo\r'), { line: 'one', end: 'enter', rest: 'two\r' }, 'typed ahead');
  t.same(
    edit('', 'a\x1b[A\x1b[200~b\x1bOPc\x1b[3~'),
    { line: 'abc', end: null, rest: '' },
    'no key sequences',
  );
  t.same(edit('x', '\x03rest'), { line: '', end: 'interrupt', rest: '' });
  t.same(edit('', '\x04'), { line: '', end: 'eof', rest: '' });
  t.same(edit('x', '\x04\r'), { line: 'x', end: 'enter', rest: '' });
  t.same(edit('', '😀\x7fé\r'), { line: 'é', end: 'enter', rest: '' }, 'a character at a time');
});

t.test('values for the slots of a proposal', async (t) => {
  const slots = [
    { action: 'set', key: 'A' },
    { action: 'set', key: 'B', has_value: true },
    { action: 'delete', key: 'C' },
  ] as const;
  t.same(neededKeys(slots), ['A']);
  const one = (text: string) => slotValues(text, ['A']).get('A');
  t.equal(one('value\n'), 'value');
  t.equal(one('A=value\r\n'), 'value');
  t.equal(one('two\nlines\n\n'), 'two\nlines\n', 'one line break is dropped, not more');
  t.equal(one('B=x'), 'B=x', "another key's name is part of the bare value");
  t.equal(one('=x='), '=x=');
  t.same(
    [...slotValues('B=2=2\n\nA= 1 \n', ['A', 'B'])],
    [
      ['B', '2=2'],
      ['A', ' 1 '],
    ],
  );
  const secret = 'hunter2';
  for (const [text, keys, message] of [
    ['\n', ['A'], /No value for A/],
    ['A=', ['A'], /No value for A/],
    [`A=${secret}\n`, ['A', 'B'], /No value for B/],
    [`A=1\n${secret}\n`, ['A', 'B'], /Line 2 .* KEY=VALUE for A, B/],
    [`A=1\nA=${secret}\n`, ['A', 'B'], /Line 2 .* A once more/],
    [`${secret}`, [], /needs no values/],
  ] as const) {
    const { message: said } = failure(() => slotValues(text, keys));
    t.match(said, message);
    t.notMatch(said, secret, 'and never repeats a value');
  }
  t.equal(slotValues('\n', []).size, 0);
  const value = fc.string({ unit: 'grapheme', minLength: 1 }).filter((text) => !/[\r\n]/.test(text));
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.stringMatching(/^[A-Z][A-Z0-9_]{0,8}$/), { minLength: 2 }),
      value,
      (keys, text) => {
        const values = slotValues(keys.map((key) => `${key}=${text}\n`).join(''), keys);
        return keys.every((key) => values.get(key) === text);
      },
    ),
  );
});

t.test('which broker, and as whom', async (t) => {
  t.equal(brokerAddress({}), 'http://127.0.0.1:14321');
  t.equal(brokerAddress({ BROKER_ADDR: 'https://b.test:1/' }), 'https://b.test:1');
  t.equal(brokerAddress({ BROKER_ADDR: 'https://b.test' }, 'http://c.test'), 'http://c.test');
  for (const bad of [
    'b.test:1',
    'ftp://b.test',
    'http://u:p@b.test',
    'http://b.test/x',
    'http://b.test/?x',
    '::',
  ]) {
    t.equal(failure(() => brokerAddress({}, bad)).exitCode, 2, bad);
  }
  t.equal(dataDirectory({ XDG_DATA_HOME: '/x' }), '/x/broker');
  t.match(dataDirectory({ XDG_DATA_HOME: 'relative' }), /^\/.*\/\.local\/share\/broker$/);
  t.equal(dataDirectory({ XDG_DATA_HOME: '/x', BROKER_DATA_DIR: '/y' }), '/y');
  t.equal(dataDirectory({ BROKER_DATA_DIR: '/y' }, '/z'), '/z');

  const directory = mkdtempSync(join(tmpdir(), 'broker-test-'));
  t.teardown(() => rmSync(directory, { recursive: true }));
  const local = 'http://127.0.0.1:14321';
  const found = (env: Record<string, string>, address = local, agent = false, dataDir?: string) =>
    credentials(env, address, { agent, dataDir }).token.reveal();
  const home = { XDG_DATA_HOME: directory };
  t.match(failure(() => found(home)).message, /There is no .*owner\.token/);
  mkdirSync(join(directory, 'broker'));
  writeFileSync(join(directory, 'broker', 'owner.token'), 'brk_opr_file\n');
  t.equal(found(home), 'brk_opr_file');
  t.equal(found({ ...home, BROKER_OPERATOR_TOKEN: 'brk_opr_env' }), 'brk_opr_env');
  t.equal(found({ ...home, BROKER_SESSION_TOKEN: 'brk_ses_env' }), 'brk_opr_file', 'operators only');
  t.equal(found({ ...home, BROKER_SESSION_TOKEN: 'brk_ses_env' }, local, true), 'brk_ses_env', 'agents too');
  t.match(
    failure(() => found(home, 'https://elsewhere.test')).message,
    /BROKER_OPERATOR_TOKEN/,
    "the local token doesn't leave",
  );
  t.match(failure(() => found(home, 'http://127.0.0.1.evil.test')).message, /BROKER_OPERATOR_TOKEN/);
  t.equal(
    found(home, 'https://elsewhere.test', false, join(directory, 'broker')),
    'brk_opr_file',
    'unless said so',
  );
  const { message } = failure(() => found({ BROKER_OPERATOR_TOKEN: 'two words' }));
  t.match(message, /BROKER_OPERATOR_TOKEN holds no token/);
  t.notMatch(message, 'two words');
});

t.test('arguments', async (t) => {
  for (const [text, seconds] of [
    ['90', 90],
    ['60s', 60],
    ['15m', 900],
    ['24h', 86_400],
    ['7d', 604_800],
  ] as const) {
    t.equal(durationSeconds(text, '--ttl'), seconds, text);
  }
  for (const bad of ['', '1w', '-1', '1.5h', 'never', '1h30m', '9999999999']) {
    t.equal(failure(() => durationSeconds(bad, '--ttl')).exitCode, 2, bad);
  }
  t.same(vaultPatch(['unmatched_host_policy=deny', 'require_tls=true']), {
    unmatched_host_policy: 'deny',
    require_tls: true,
  });
  t.same(vaultPatch(['rate_limit.rps=0', 'rate_limit.burst=5']), { rate_limit: { rps: 0, burst: 5 } });
  t.same(vaultPatch(['rate_limit=default']), { rate_limit: null });
  for (const bad of [
    'policy=deny',
    'unmatched_host_policy',
    '=x',
    'require_tls=1',
    'rate_limit.rps=x',
    'toString=1',
    'x=',
  ]) {
    t.equal(failure(() => vaultPatch([bad])).exitCode, 2, bad);
  }
});
