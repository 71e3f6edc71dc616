import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';

const preloads = {
  clock: new URL('./preload/clock.ts', import.meta.url),
  lifeline: new URL('./preload/lifeline.ts', import.meta.url),
  names: new URL('./preload/names.ts', import.meta.url),
  sabotage: new URL('./preload/sabotage.ts', import.meta.url),
  ungated: new URL('./preload/ungated.ts', import.meta.url),
};
export const launcher = fileURLToPath(new URL('../../bin/broker', import.meta.url));
const main = fileURLToPath(new URL('../../bin/main.ts', import.meta.url));

/** What a process printed, and its exit code; null where a signal ended it. */
export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly cwd?: string;
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
}

export interface BrokerOptions {
  /** Default: a new one, removed after the test. */
  readonly directory?: string;
  /** Its limit of open files. Default: as the test's. */
  readonly openFiles?: number;
  /** Lanes. Default: 2. */
  readonly workers?: number;
  /** Flags besides the directory and the ports. */
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Modules loaded into the broker's process and threads before its own, from `preload/`. */
  readonly preload?: readonly (keyof typeof preloads)[];
  /** A command that becomes the broker, such as one that sets limits or mounts: the broker's own follows it. */
  readonly within?: readonly string[];
  /** Flags of Node for the broker's process, such as a limit of memory. */
  readonly nodeOptions?: readonly string[];
}

/** A broker that runs, as a process of its own, from a directory that isn't the checkout. */
export interface Broker {
  readonly process: ChildProcess;
  /** Base URL of the API. */
  readonly address: string;
  readonly proxyPort: number;
  readonly directory: string;
  /** All that it printed so far: `code` is null until it has ended. */
  printed(): Ran;
  /** Resolves when it has ended. */
  readonly ended: Promise<Ran>;
  /** Runs `bin/broker ARGUMENT…` against it. */
  command(args: readonly string[], options?: RunOptions): Promise<Ran>;
  /** One call of its API, by the owner unless `token` says otherwise. */
  api<T = Record<string, unknown>>(
    method: string,
    path: string,
    options?: { readonly body?: unknown; readonly token?: string; readonly vault?: string },
  ): Promise<{ readonly status: number; readonly body: T }>;
  /** All records of its audit. */
  audit(): Promise<Record<string, unknown>[]>;
  /** A new session of a vault (`default`): its token. */
  session(vault?: string): Promise<string>;
}

/** A new directory below the system's temporary one, removed after the test. */
export function temporary(t: Test, name = 'broker-e2e-'): string {
  const directory = mkdtempSync(join(tmpdir(), name));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/**
 * This process's environment without what concerns a broker or Node. Handed on by way of `env -i`: tap
 * preloads itself into every node process that it sees the start of, by its environment.
 */
function viaEnv(file: string, args: readonly string[], extra: RunOptions['env'] = {}): readonly string[] {
  const kept = Object.entries(process.env).filter(([name]) => !/^(broker|node|npm|_?tap)_?/i.test(name));
  const variables = { ...Object.fromEntries(kept), ...extra };
  return ['-i', ...Object.entries(variables).map(([name, value]) => `${name}=${value}`), file, ...args];
}

/** Starts any program with a clean environment. Its pid is the program's own. */
export function start(file: string, args: readonly string[], options: RunOptions = {}): ChildProcess {
  const child = spawn('env', viaEnv(file, args, options.env), { cwd: options.cwd ?? tmpdir() });
  child.stdin?.on('error', () => {});
  if (options.stdin !== undefined) child.stdin?.end(options.stdin);
  return child;
}

/** Collects what a child prints until it ends. */
export function collect(child: ChildProcess): { printed(): Ran; ended: Promise<Ran> } {
  let stdout = '';
  let stderr = '';
  child.stdout?.setEncoding('utf8').on('data', (text) => {
    stdout += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  const printed = () => ({ code: child.exitCode, stdout, stderr });
  return { printed, ended: new Promise((resolve) => child.once('close', () => resolve(printed()))) };
}

/** Runs a program to its end; kills what has none within `seconds`. */
export async function run(
  file: string,
  args: readonly string[],
  { seconds = 60, ...options }: RunOptions & { readonly seconds?: number } = {},
): Promise<Ran> {
  const child = start(file, args, { stdin: '', ...options });
  const timer = setTimeout(() => child.kill('SIGKILL'), seconds * 1000);
  const ran = await collect(child).ended;
  clearTimeout(timer);
  return ran;
}

/** Starts a broker on free ports and waits until it says that it is ready. It is killed after the test. */
export async function startBroker(t: Test, options: BrokerOptions = {}): Promise<Broker> {
  const directory = options.directory ?? join(temporary(t), 'data');
  const names = ['lifeline', ...(options.preload ?? [])] as const;
  const preload = names.map((name) => `--import=${preloads[name].href}`);
  const flags = [
    '--data-dir',
    directory,
    '--port',
    '0',
    '--proxy-port',
    '0',
    '--workers',
    String(options.workers ?? 2),
  ];
  // Not by the launcher, which drops what a variable would have Node load.
  const node = ['--disable-sigusr1', '--disable-warning=ExperimentalWarning', ...preload];
  const nodeOptions = options.nodeOptions ?? [];
  const limit = options.openFiles === undefined ? [] : ['prlimit', `--nofile=${options.openFiles}`];
  const [file, ...args] = [
    ...limit,
    ...(options.within ?? []),
    ...[process.execPath, ...node, ...nodeOptions, main, 'server', ...flags],
    ...(options.args ?? []),
  ];
  const child = start(file, args, { env: { UV_THREADPOOL_SIZE: '64', ...options.env } });
  t.teardown(() => child.kill('SIGKILL'));
  const { printed, ended } = collect(child);
  await until(() => {
    const { code, stdout, stderr } = printed();
    if (code !== null) throw new Error(`the broker ended with ${code}: ${stderr}`);
    return /-- curl/.test(stdout);
  }, 'the broker is ready');
  const { stdout } = printed();
  const address = match(/^ {2}API {4}(http:\S+)/m, stdout);
  const proxyPort = Number(match(/^ {2}proxy {2}https:\/\/\S+:(\d+)/m, stdout));
  const owner = readFileSync(join(directory, 'owner.token'), 'utf8').trim();

  const api: Broker['api'] = async (method, path, { body, token = owner, vault } = {}) => {
    const headers: Record<string, string> = { authorization: `Bearer ${token}` };
    if (vault !== undefined) headers['x-vault'] = vault;
    if (body !== undefined) headers['content-type'] = 'application/json';
    const answer = await fetch(address + path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    return { status: answer.status, body: text === '' ? null : JSON.parse(text) };
  };
  return {
    process: child,
    address,
    proxyPort,
    directory,
    printed,
    ended,
    command: (args, { env, ...rest } = {}) =>
      run(launcher, args, { ...rest, env: { BROKER_ADDR: address, BROKER_DATA_DIR: directory, ...env } }),
    api,
    async audit() {
      const headers = { authorization: `Bearer ${owner}` };
      const answer = await fetch(`${address}/v1/audit?limit=10000`, { headers });
      if (answer.status !== 200) throw new Error(`no audit: ${answer.status} ${await answer.text()}`);
      const lines = (await answer.text()).trimEnd().split('\n');
      return lines.filter((line) => line !== '').map((line) => JSON.parse(line));
    },
    async session(vault = 'default') {
      const { status, body } = await api<{ token: string }>('POST', '/v1/sessions', { body: { vault } });
      if (status !== 201) throw new Error(`no session: ${status} ${JSON.stringify(body)}`);
      return body.token;
    },
  };
}

/** Waits until the condition holds; throws after `seconds`, naming what it waited for. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what: string,
  seconds = 45,
): Promise<void> {
  const end = performance.now() + seconds * 1000;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`waited ${seconds} s for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/**
 * A bound in ms for what takes a machine `ms` by itself: longer where its cores are oversubscribed, as they are when
 * other tests run.
 */
export function allowed(ms: number): number {
  return ms * Math.max(1, loadavg()[0] / availableParallelism());
}

function match(pattern: RegExp, text: string): string {
  const found = pattern.exec(text);
  if (found === null) throw new Error(`${pattern} isn't in: ${text}`);
  return found[1];
}

/** Runs the check on each case, a few at a time: they wait for processes. */
export async function each<T>(
  cases: Iterable<T>,
  check: (one: T) => Promise<void>,
  atOnce = 3,
): Promise<void> {
  const left = cases[Symbol.iterator]();
  const next = async () => {
    for (let one = left.next(); !one.done; one = left.next()) await check(one.value);
  };
  await Promise.all(Array.from({ length: atOnce }, next));
}
