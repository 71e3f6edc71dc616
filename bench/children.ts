import { type ChildProcess, spawn } from 'node:child_process';
import { failed } from './failure.ts';

export interface StartOptions {
  /** The cores it may run on, as `taskset -c` takes them. */
  readonly cores?: string;
  /** Added to this process's own. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Its whole input; without it there is none. */
  readonly stdin?: string;
}

/** A process that was started here, in a group of its own. */
export interface Child {
  readonly name: string;
  /** That of the program itself: `taskset` becomes it. */
  readonly pid: number;
  /** All that it printed so far. */
  stdout(): string;
  stderr(): string;
  /** Resolves with its exit code when it has ended; null where a signal ended it, or it never began. */
  readonly ended: Promise<number | null>;
  hasEnded(): boolean;
  /** SIGTERM to it and its descendants, SIGKILL after five seconds; resolves when it has ended. */
  stop(): Promise<void>;
}

const running = new Set<ChildProcess>();
// Whatever way this process ends, but by SIGKILL, nothing that it started stays behind.
process.on('exit', () => {
  for (const child of running) signal(child, 'SIGKILL');
});

function signal(child: ChildProcess, name: NodeJS.Signals): void {
  try {
    // The group: nginx has workers, squid helpers.
    if (child.pid !== undefined) process.kill(-child.pid, name);
  } catch {
    // It has ended by itself.
  }
}

/** What the user has set for a broker of theirs is not for the one that is measured. */
function inherited(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('BROKER_')));
}

/** Starts a program. Whether it could be started shows in how it ends. */
export function start(
  name: string,
  program: string,
  args: readonly string[],
  options: StartOptions = {},
): Child {
  const pin = options.cores === undefined ? [] : ['taskset', '-c', options.cores];
  const [file, ...rest] = [...pin, program, ...args];
  const child = spawn(file, rest, {
    detached: true,
    cwd: options.cwd,
    env: { ...inherited(), ...options.env },
    stdio: [options.stdin === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  });
  running.add(child);
  let stdout = '';
  let stderr = '';
  let over = false;
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  child.stdin?.on('error', () => {});
  child.stdin?.end(options.stdin);
  const ended = new Promise<number | null>((resolve) => {
    child.once('error', (error) => {
      stderr += error.message;
      resolve(null);
    });
    child.once('close', (code) => resolve(code));
  }).finally(() => {
    over = true;
    running.delete(child);
  });
  return {
    name,
    pid: child.pid ?? 0,
    stdout: () => stdout,
    stderr: () => stderr,
    ended,
    hasEnded: () => over,
    async stop() {
      if (over) return;
      signal(child, 'SIGTERM');
      const kill = setTimeout(signal, 5_000, child, 'SIGKILL');
      await ended;
      clearTimeout(kill);
    },
  };
}

/**
 * Runs a program to its end.
 * @returns what it printed on standard output
 * @throws Failure with the end of what it said, if it fails or takes longer than `seconds`
 */
export async function run(
  name: string,
  program: string,
  args: readonly string[],
  options: StartOptions & { readonly seconds?: number } = {},
): Promise<string> {
  const { seconds = 60 } = options;
  const child = start(name, program, args, options);
  const timer = setTimeout(() => void child.stop(), seconds * 1000);
  const begun = performance.now();
  const code = await child.ended;
  clearTimeout(timer);
  if (code === 0) return child.stdout();
  const late = performance.now() - begun >= seconds * 1000;
  throw failed(`${name} ${late ? `took longer than ${seconds} s` : 'failed'}: ${lastLines(child)}`);
}

/**
 * Waits until a child that serves is ready.
 * @throws Failure with what it said, if it ends before or isn't within `seconds`
 */
export async function ready(
  child: Child,
  condition: () => boolean | Promise<boolean>,
  seconds = 30,
): Promise<void> {
  const end = performance.now() + seconds * 1000;
  while (!(await condition())) {
    if (child.hasEnded()) throw failed(`${child.name} ended at its start: ${lastLines(child)}`);
    if (performance.now() > end)
      throw failed(`${child.name} was not ready within ${seconds} s: ${lastLines(child)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function lastLines(child: Child): string {
  const text = child.stderr().trim() || child.stdout().trim() || 'it said nothing';
  return text.split('\n').slice(-5).join('\n');
}
