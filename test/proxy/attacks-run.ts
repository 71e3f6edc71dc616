/**
 * The attacks alone: `npm run test:attacks`. With `--bite` the other way round: the proxy is broken on purpose,
 * in one way after the other, and each has to be found out. Exits 0 where all is as it should be.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { bite } from './attack-bite.ts';
import { attackMutants } from './attack-mutants.ts';

const { values: args } = parseArgs({
  options: { bite: { type: 'boolean', default: false }, mutant: { type: 'string' } },
});
const root = fileURLToPath(new URL('../..', import.meta.url));

if (args.bite) {
  const rest = attackMutants.filter(({ name }) => args.mutant === undefined || name === args.mutant);
  if (rest.length === 0) {
    console.error(`No such mutant. There are:\n${attackMutants.map(({ name }) => `  ${name}`).join('\n')}`);
    process.exit(2);
  }
  let missed = 0;
  const work = async (): Promise<void> => {
    for (let one = rest.shift(); one !== undefined; one = rest.shift()) {
      const { found, by } = await bite(one);
      if (!found) missed++;
      console.log(`${found ? 'found out' : 'NOT found out'}: ${one.name} (${by})`);
    }
  };
  await Promise.all([work(), work()]);
  process.exit(missed === 0 ? 0 : 1);
}
const files = readdirSync(join(root, 'test/proxy'))
  .filter((name) => /^attacks.*\.test\.ts$/.test(name))
  .map((name) => `test/proxy/${name}`);
const tap = spawn(join(root, 'node_modules/.bin/tap'), ['run', ...files], { cwd: root, stdio: 'inherit' });
const [code] = await once(tap, 'close');
process.exit(code ?? 1);
