import { execFileSync } from 'node:child_process';
import { accessSync, constants, readFileSync } from 'node:fs';
import os from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { failed } from './failure.ts';

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly kernel: string;
}

/** The checkout that is measured. */
export const root = fileURLToPath(new URL('..', import.meta.url));

export function machine(): Machine {
  return {
    cpu: os.cpus()[0]?.model.trim() ?? 'unknown',
    cores: cores().length,
    memoryGiB: Math.round(os.totalmem() / 2 ** 30),
    kernel: `${os.type()} ${os.release()} ${os.arch()}`,
  };
}

/** The cores that this process may use; a container may have been given any. */
export function cores(): number[] {
  const list = /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0';
  return list.split(',').flatMap((range) => {
    const [first, last = first] = range.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

/** Path of a program; servers often lie where only root's PATH leads. null: it isn't installed. */
export function program(name: string): string | null {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin', '/sbin'];
  for (const folder of folders) {
    try {
      const path = join(folder, name);
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // Not there.
    }
  }
  return null;
}

/** The first group of a pattern in what a command prints, on either stream; `unknown` where it isn't found. */
export function versionOf(file: string, args: readonly string[], pattern: RegExp): string {
  try {
    const text = execFileSync('/bin/sh', ['-c', 'exec "$@" 2>&1', 'sh', file, ...args], { encoding: 'utf8' });
    return pattern.exec(text)?.[1] ?? 'unknown';
  } catch {
    return 'unknown';
  }
}

/** Checks that this machine can measure: Linux, two cores, taskset and Go. */
export function requireMachine(): void {
  if (process.platform !== 'linux')
    throw failed(
      'The benchmark runs on Linux only: it reads CPU times from /proc and pins processes to cores.',
    );
  if (cores().length < 2)
    throw failed(
      'The benchmark needs two cores, one for the proxy and one for the load. This process has one.',
    );
  if (program('taskset') === null)
    throw failed('taskset is not installed, and processes are pinned by it. Install util-linux.');
  if (program('go') === null)
    throw failed('Go is not installed, and the load generator is built with it. Install Go 1.22 or later.');
}
