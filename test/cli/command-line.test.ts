import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { onTerminal } from '../support/terminal.ts';

const main = fileURLToPath(new URL('../../bin/main.ts', import.meta.url));
const childModule = new URL('../../bin/child.ts', import.meta.url).href;
const home = mkdtempSync(join(tmpdir(), 'broker-test-'));
t.teardown(() => rmSync(home, { recursive: true }));

interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** An environment without anything of the machine's own broker; nothing listens on port 1. */
const env = {
  PATH: process.env.PATH ?? '',
  HOME: home,
  XDG_DATA_HOME: home,
  BROKER_ADDR: 'http://127.0.0.1:1',
};

/** By way of `env -i`: tap preloads itself into every node process it sees the start of, by its environment. */
function start(file: string, args: readonly string[], extra: Record<string, string> = {}): ChildProcess {
  const variables = Object.entries({ ...env, ...extra }).map(([name, value]) => `${name}=${value}`);
  return spawn('env', ['-i', ...variables, file, ...args], { stdio: ['pipe', 'pipe', 'pipe'] });
}

function outcome(child: ChildProcess): Promise<Outcome> {
  let stdout = '';
  let stderr = '';
  child.stdout?.setEncoding('utf8').on('data', (text) => {
    stdout += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, stdout, stderr })));
}

function broker(
  args: readonly string[],
  options: { env?: Record<string, string>; stdin?: string } = {},
): Promise<Outcome> {
  const child = start(process.execPath, [main, ...args], options.env);
  child.stdin?.end(options.stdin ?? '');
  return outcome(child);
}

/** Runs the check on each case, a few at a time: they wait for processes. */
async function each<T>(cases: readonly T[], check: (one: T) => Promise<void>): Promise<void> {
  const left = cases.values();
  const lane = async () => {
    for (const one of left) await check(one);
  };
  await Promise.all(Array.from({ length: 4 }, lane));
}

/** Resolves when what the process prints matches. */
function printed(child: ChildProcess, pattern: RegExp): Promise<void> {
  return new Promise((resolve, reject) => {
    let seen = '';
    child.stdout?.on('data', (text) => {
      seen += text;
      if (pattern.test(seen)) resolve();
    });
    child.once('close', () => reject(new Error(`ended before ${pattern}: ${seen}`)));
  });
}

const commands = [
  'status',
  'login',
  'version',
  'vault create',
  'vault list',
  'vault show',
  'vault set',
  'vault delete',
  'vault run',
  'vault service set',
  'vault service list',
  'vault service enable',
  'vault service disable',
  'vault service remove',
  'vault service clear',
  'vault credential set',
  'vault credential list',
  'vault credential delete',
  'vault proposal list',
  'vault proposal show',
  'vault proposal approve',
  'vault proposal reject',
  'vault explain',
  'vault discover',
  'agent invite',
  'agent list',
  'agent rotate',
  'agent remove',
  'ca show',
  'ca export',
  'audit tail',
];

t.test('every command explains itself, with an example', async (t) => {
  await each(commands, async (command) => {
    const { code, stdout, stderr } = await broker([...command.split(' '), '--help']);
    t.equal(code, 0, command);
    t.match(stdout, `Usage:\n  $ broker ${command}`);
    t.match(stdout.slice(stdout.indexOf('Examples:')), `broker ${command}`);
    t.equal(stderr, '');
  });
});

t.test('help lists what there is', async (t) => {
  const root = await broker(['--help']);
  t.equal(root.code, 0);
  t.match(root.stdout, /^ {2}server .*^ {2}vault service /ms);
  const vault = await broker(['vault', '--help']);
  t.equal(vault.code, 0);
  for (const command of commands.filter((name) => name.startsWith('vault ')))
    t.match(vault.stdout, `  ${command} `);
  t.equal(vault.stdout.split('vault explain').length, 2, 'each once');
  const nothing = await broker(['vault', 'service']);
  t.match(
    nothing,
    { code: 2, stdout: '', stderr: /Usage: broker vault service COMMAND/ },
    'unasked it is an error',
  );
  t.match(await broker([]), { code: 2, stdout: '', stderr: /Usage: broker COMMAND/ });
  t.match(await broker(['help', 'vault', 'run']), {
    code: 0,
    stdout: /broker vault run \[options\] -- COMMAND/,
  });
});

t.test('used wrongly: exit 2, one line, nothing on standard output', async (t) => {
  const id = ['vault', 'proposal', 'approve'];
  const set = ['vault', 'credential', 'set'];
  const cases: readonly [args: readonly string[], message: RegExp][] = [
    [['nope'], /no command `nope`/],
    [['vault', 'nope'], /no command `vault nope`.*vault --help/],
    [['vault', 'service', 'nope'], /no command `vault service nope`/],
    [['--json'], /The command comes first/],
    [['vault', 'list', '--nope'], /no option --nope/],
    [['vault', 'list', '-x'], /no option -x/],
    [['vault', 'list', '--json=1'], /--json takes no value/],
    [['vault', 'list', 'extra'], /Too many arguments/],
    [['vault', 'list', '--', 'extra'], /Nothing may stand behind --/],
    [['vault', 'list', '--address'], /--address needs a value/],
    [['vault', 'list', '--address='], /--address needs a value/],
    [['vault', 'list', '--address', '--json'], /--address needs a value/],
    [['vault', 'list', '--address', 'http://a', '--address', 'http://b'], /more than once/],
    [['vault', 'list', '--address', 'nonsense'], /--address is not an address/],
    [['vault', 'create'], /An argument is missing/],
    [['vault', 'create', 'Not_A_Slug'], /A vault name is/],
    [['vault', 'set', 'default', 'nonsense=1'], /no such setting/],
    [['vault', 'delete', 'staging'], /Add --yes/],
    [['vault', 'service', 'set'], /-f services\.yaml/],
    [['vault', 'service', 'clear'], /Add --yes/],
    [['vault', 'service', 'list', '--vault', '../x'], /A vault name is/],
    [['vault', 'run'], /behind --/],
    [['vault', 'run', 'ls'], /Put -- before/],
    [['vault', 'run', '--ttl', 'soon', '--', 'ls'], /--ttl takes a time/],
    [['vault', 'run', '--proxy-scheme', 'socks5', '--', 'ls'], /https or http/],
    [[...set, 'KEY'], /no terminal/],
    [[...set, 'KEY', 'hunter2'], /Too many arguments/],
    [[...set, 'KEY=hunter2'], /never stands on the command line/],
    [[...set, 'KEY', '--stdin', '--from-file', 'x'], /not both/],
    [[...id, 'x'], /named by its number/],
    [[...id, '0'], /named by its number/],
    [['audit', 'tail', '-n', '-5'], /-n needs a value/],
    [['audit', 'tail', '-n', 'all'], /takes a number/],
    [['audit', 'tail', '--since', 'yesterday'], /takes a moment/],
  ];
  await each(cases, async ([args, message]) => {
    const { code, stdout, stderr } = await broker(args);
    t.equal(code, 2, args.join(' '));
    t.match(stderr, message);
    t.match(stderr, /^broker: [^\n]+\n$/, 'one line');
    t.notMatch(stderr, 'hunter2', 'what may be a secret is not repeated');
    t.equal(stdout, '');
  });
});

t.test('failed: exit 1, what happened and what to do', async (t) => {
  const token = { BROKER_OPERATOR_TOKEN: 'brk_opr_test' };
  const file = join(home, 'services.yaml');
  writeFileSync(file, 'services:\n  - host: a\n    host: b\n');
  const latin1 = join(home, 'latin1');
  writeFileSync(latin1, Buffer.from([0xe9, 0x0a]));
  const cases: readonly [
    args: readonly string[],
    message: RegExp,
    env?: Record<string, string>,
    stdin?: string,
  ][] = [
    [['vault', 'list'], /No broker answers at http:\/\/127\.0\.0\.1:1\. .*`broker server`/, token],
    [['vault', 'list'], /No broker answers/],
    [['status'], /No broker answers/],
    [['vault', 'run', '--', 'true'], /No broker answers/, token],
    [['vault', 'list', '--address', 'https://elsewhere.invalid'], /can't be reached/],
    [['vault', 'service', 'set', '-f', join(home, 'none.yaml')], /There is no file/, token],
    [['vault', 'service', 'set', '-f', file], /services\.yaml, line 3, column 5/, token],
    [['vault', 'service', 'set', '-f', '-'], /standard input is empty/, token],
    [['vault', 'service', 'set', '-f', '-'], /No broker answers/, token, 'services: []'],
    [['vault', 'credential', 'set', 'KEY', '--stdin'], /The value is empty/, token, '\n'],
    [['vault', 'credential', 'set', 'KEY', '--from-file', latin1], /not UTF-8/, token],
  ];
  await each(cases, async ([args, message, extra, stdin]) => {
    const { code, stdout, stderr } = await broker(args, { env: extra, stdin });
    t.equal(code, 1, args.join(' '));
    t.match(stderr, message);
    t.match(stderr, /^broker: [^\n]+\n$/, 'one line');
    t.equal(stdout, '');
  });
});

t.test('what answers and is no broker is told apart', async (t) => {
  const replies = [
    'HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello',
    'HTTP/1.1 302 Found\r\nlocation: http://x\r\ncontent-length: 2\r\n\r\n{}',
    'SSH-2.0-x\r\n',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello world',
  ];
  for (const reply of replies) {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => socket.end(reply));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const { code, stderr } = await broker(['vault', 'list', '--address', `http://127.0.0.1:${port}`], {
      env: { BROKER_OPERATOR_TOKEN: 'brk_opr_test' },
    });
    t.equal(code, 1);
    t.match(stderr, /^broker: [^\n]*(can't prove|can't be reached)[^\n]*\n$/);
    const root = await broker(['ca', 'export', '--address', `http://127.0.0.1:${port}`]);
    t.equal(root.code, 1);
    t.match(
      root.stderr,
      /^broker: (?!.*undefined)[^\n]*(not a broker|not as a broker does|not as HTTP|no certificate)[^\n]*\n$/,
    );
    server.close();
  }
});

t.test('the version comes without the parts that it does not need', async (t) => {
  const coverage = join(home, 'coverage');
  const { code, stdout } = await broker(['version'], { env: { NODE_V8_COVERAGE: coverage } });
  t.equal(code, 0);
  t.match(stdout, /^broker \d+\.\d+\.\d+ \(Node\.js 22\./);
  const loaded = readdirSync(coverage).flatMap((file) => {
    const { result } = JSON.parse(readFileSync(join(coverage, file), 'utf8')) as {
      result: { url: string }[];
    };
    return result.map(({ url }) => url);
  });
  t.ok(
    loaded.some((url) => url.endsWith('/bin/main.ts')),
    'the listing works',
  );
  t.same(
    loaded.filter((url) => /node_modules\/(?!cac\/)|\/src\/|bin\/client/.test(url)),
    [],
    'a few files, and cac',
  );
  const json = await broker(['version', '--json']);
  t.equal(typeof JSON.parse(json.stdout).version, 'string');
  t.match(await broker(['--version']), { code: 0, stdout: /^broker / });
});

/** Runs `runChild` in a process of its own, as `vault run` does, without a broker. */
function wrapped(command: readonly string[]): ChildProcess {
  const script = `import { runChild, SignalRelay } from ${JSON.stringify(childModule)};
    process.exitCode = await runChild(${JSON.stringify(command)}, process.env, new SignalRelay());`;
  return start(process.execPath, ['--input-type=module', '-e', script]);
}

t.test('a wrapped command: its code, its streams, its signals', async (t) => {
  const plain = join(home, 'plain.txt');
  writeFileSync(plain, 'not a program', { mode: 0o644 });
  t.match(await outcome(wrapped(['sh', '-c', 'echo out; echo err >&2; exit 7'])), {
    code: 7,
    stdout: 'out\n',
    stderr: 'err\n',
  });
  t.match(await outcome(wrapped(['sh', '-c', 'kill -KILL $$'])), { code: 137 });
  t.match(await outcome(wrapped(['no-such-command'])), { code: 127, stderr: /no command no-such-command/ });
  t.match(await outcome(wrapped([join(home, 'none')])), { code: 127 });
  t.match(await outcome(wrapped([plain])), { code: 126, stderr: /can't be executed \(EACCES\)/ });
  t.match(await outcome(wrapped([home])), { code: 126 });

  const cat = wrapped(['cat']);
  cat.stdin?.end('through');
  t.match(await outcome(cat), { code: 0, stdout: 'through' });

  for (const signal of [
    'SIGINT',
    'SIGTERM',
    'SIGHUP',
    'SIGQUIT',
    'SIGUSR1',
    'SIGUSR2',
    'SIGWINCH',
  ] as const) {
    const name = signal.slice(3);
    const child = wrapped([
      'sh',
      '-c',
      `trap 'echo got ${name}; exit 3' ${name}; echo ready; while :; do sleep 0.05; done`,
    ]);
    const end = outcome(child);
    await printed(child, /ready/);
    child.kill(signal);
    t.match(await end, { code: 3, stdout: `ready\ngot ${name}\n` }, signal);
  }
  const untrapped = wrapped(['sh', '-c', 'echo ready; exec sleep 60']);
  const end = outcome(untrapped);
  await printed(untrapped, /ready/);
  untrapped.kill('SIGTERM');
  t.match(await end, { code: 143 }, 'ended by the signal that was passed on');
});

t.test('values are asked for without showing them', async (t) => {
  const ask = async (typed: string) => {
    const terminal = onTerminal(t, [process.execPath, main, 'vault', 'credential', 'set', 'KEY'], {
      ...env,
      BROKER_OPERATOR_TOKEN: 'brk_opr_test',
    });
    await terminal.talk(['Value of KEY (hidden): ', typed]);
    const { code } = await terminal.ended;
    t.notMatch(terminal.raw, /hunter|2x/, 'not echoed');
    return { code, shown: terminal.raw };
  };
  t.match(await ask('hunter2x\r'), { code: 1, shown: /No broker answers/ }, 'read, and on to the broker');
  t.match(await ask('\r'), { code: 1, shown: /The value is empty/ });
  t.match(await ask('hunter\x03'), { code: 130, shown: /Interrupted/ });
  t.match(await ask('hunter\r2x\r'), { code: 1, shown: /more than one line/ }, 'a paste of several lines');
});
