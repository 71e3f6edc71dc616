import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { run } from './children.ts';
import { failed, isFailure } from './failure.ts';
import type { Peer } from './peers/peer.ts';

/** Where what isn't the system's is installed: it stays for the next run, and the checkout stays clean. */
export function installed(name: string): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'broker-bench', name);
}

/** Installs the peers that are missing, each by its package manager; says which couldn't be. */
export async function install(peers: readonly Peer[]): Promise<void> {
  for (const peer of peers) {
    if (!('missing' in peer.find())) continue;
    console.error(`installing ${peer.name}: ${peer.packages.names.join(' ')} (by ${peer.packages.from}) …`);
    try {
      await installers[peer.packages.from](peer);
    } catch (error) {
      if (!isFailure(error)) throw error;
      console.error(`  ${error.message}`);
    }
  }
}

/** An installation that failed half way would be found as if it were whole. */
async function into(name: string, steps: (directory: string) => Promise<void>): Promise<void> {
  const directory = installed(name);
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  try {
    await steps(directory);
  } catch (error) {
    rmSync(directory, { recursive: true, force: true });
    throw error;
  }
}

const installers = {
  async apt({ packages }: Peer) {
    if (process.getuid?.() !== 0)
      throw failed(`Only root installs by apt. Run: sudo apt-get install ${packages.names.join(' ')}`);
    const env = { DEBIAN_FRONTEND: 'noninteractive' };
    await run('apt-get update', 'apt-get', ['update', '-qq'], { seconds: 300, env });
    const args = ['install', '-y', '-qq', '--no-install-recommends', ...packages.names];
    await withoutServices(() => run('apt-get install', 'apt-get', args, { seconds: 600, env }));
  },

  pip({ name, packages }: Peer) {
    return into(name, async (directory) => {
      await run('python3 -m venv', 'python3', ['-m', 'venv', directory], { seconds: 120 });
      const pip = join(directory, 'bin/pip');
      await run('pip install', pip, ['install', '-q', ...packages.names], { seconds: 600 });
    });
  },

  npm({ name, packages }: Peer) {
    return into(name, async (directory) => {
      writeFileSync(join(directory, 'package.json'), '{ "private": true, "type": "module" }\n');
      const args = ['install', '--no-audit', '--no-fund', ...packages.names];
      await run('npm install', 'npm', args, { cwd: directory, seconds: 600 });
    });
  },
};

/** Debian starts what it installs; an nginx on port 80 isn't wanted here. Its own switch for that is this file. */
async function withoutServices(step: () => Promise<unknown>): Promise<void> {
  const policy = '/usr/sbin/policy-rc.d';
  if (existsSync(policy)) {
    await step();
    return;
  }
  writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  const remove = () => rmSync(policy, { force: true });
  process.on('exit', remove);
  try {
    await step();
  } finally {
    remove();
    process.off('exit', remove);
  }
}
