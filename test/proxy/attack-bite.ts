import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { AttackMutant } from './attack-mutants.ts';

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));

export interface Bite {
  readonly found: boolean;
  /** The first test that failed, or all that was printed where none did. */
  readonly by: string;
}

/** Runs the attacks that have to notice a mutant against it, up to the first that does. */
export async function bite({ name, seenBy }: AttackMutant): Promise<Bite> {
  const args = ['--import', here('attack-mutant.ts'), here(`${seenBy}.test.ts`)];
  const env = { ...process.env, BROKER_MUTANT: name, TAP_BAIL: '1', TAP_TIMEOUT: '240' };
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let out = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('latin1').on('data', (chunk: string) => {
      out += chunk;
      // What follows the first failure is of no interest.
      if (/^not ok|^Bail out!/m.test(out)) child.kill('SIGKILL');
    });
  }
  await once(child, 'close');
  // A mutant that does not load has not been found out: tests must have run.
  const failed = /^(?:not ok|Bail out!).*$/m.exec(out);
  const found = failed !== null && /^ +ok 1 |^ok 1 |^ +not ok /m.test(out);
  return { found, by: found ? failed[0].replace(/ # .*/, '') : out.slice(-2000) };
}
