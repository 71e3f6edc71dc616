import { setPriority } from 'node:os';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import { start } from '../support/broker.ts';

/** A process of the run that says JSON, a value to a line. */
export interface Talker {
  readonly pid: number;
  /** Writes a line to it. */
  tell(value: unknown): void;
  /** The next line that it says. Rejects when it has ended. */
  next<T>(): Promise<T>;
  /** What it said that nobody has asked for yet. */
  readonly said: unknown[];
  readonly complaints: string;
  /** Its end, by the end of its input. */
  end(): Promise<void>;
}

/**
 * Starts a file of this folder; it is killed after the test.
 *
 * @param niceness of its process: above 0 it leaves the cores to the others, as it would on a machine of its own
 */
export function startTalker(
  t: Test,
  file: string,
  variable: string,
  value: unknown,
  niceness: number,
): Talker {
  const path = fileURLToPath(new URL(file, import.meta.url));
  const child = start(process.execPath, ['--disable-warning=ExperimentalWarning', path], {
    env: { [variable]: JSON.stringify(value) },
  });
  t.teardown(() => child.kill('SIGKILL'));
  const pid = child.pid ?? 0;
  setPriority(pid, niceness);
  const said: unknown[] = [];
  let complaints = '';
  let ended = false;
  let wake: (() => void) | null = null;
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    complaints += text;
  });
  createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
    said.push(JSON.parse(line));
    wake?.();
  });
  const over = new Promise<void>((resolve) => {
    child.once('close', () => {
      ended = true;
      wake?.();
      resolve();
    });
  });
  return {
    pid,
    said,
    get complaints() {
      return complaints;
    },
    tell: (told) => void child.stdin?.write(`${JSON.stringify(told)}\n`),
    async next<T>() {
      while (said.length === 0) {
        if (ended) throw new Error(`${file} has ended: ${complaints}`);
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      return said.shift() as T;
    },
    end() {
      child.stdin?.end();
      return over;
    },
  };
}
