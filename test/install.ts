import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { verdaccio } from './e2e/clients/verdaccio.ts';

/**
 * Runs before the tests: installs, by package name, the programs that they drive the broker with and that are
 * missing. What can't be installed is said, and the run fails: a test is never skipped for want of its program.
 * With `--registries` also what the tests with package managers need, which are among the soak tests.
 */

const registries = process.argv.includes('--registries');

const missing: string[] = [];

function has(program: string, ...args: string[]): boolean {
  return spawnSync(program, args, { stdio: 'ignore' }).status === 0;
}

function install(program: string, ...args: string[]): boolean {
  process.stderr.write(`tests need: ${program} ${args.join(' ')}\n`);
  // The variable lets pip install where the system marks its Python as managed; others ignore it.
  const env = { ...process.env, PIP_BREAK_SYSTEM_PACKAGES: '1', DEBIAN_FRONTEND: 'noninteractive' };
  return spawnSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'], env }).status === 0;
}

/** Programs that tests drive, and the Debian packages that they come in. */
const programs: readonly (readonly [program: string, flag: string, ...packages: string[]])[] = [
  ['curl', '--version', 'curl', 'ca-certificates'],
  ['git', '--version', 'git'],
  ['go', 'version', 'golang-go'],
  ['openssl', 'version', 'openssl'],
  ['python3', '--version', 'python3'],
  ['zsh', '--version', 'zsh'],
  ['fish', '--version', 'fish'],
  ['prlimit', '--version', 'util-linux'],
  ['strace', '-V', 'strace'],
];
const packages = programs.flatMap(([program, flag, ...names]) => (has(program, flag) ? [] : names));
// To Debian's own Python Debian's packages belong; any other one has its own by pip.
const ownsPython =
  !has('python3', '--version') || has('python3', '-c', "import sys; sys.exit(sys.prefix != '/usr')");
const modules = ['requests', 'h11', 'websockets'].filter((name) => !has('python3', '-c', `import ${name}`));
if (ownsPython) packages.push(...modules.map((name) => `python3-${name}`));
if (registries && !has('python3', '-m', 'pip', '--version')) packages.push('python3-pip');
if (!['/usr/bin/chromium', '/usr/bin/chromium-browser'].some((path) => existsSync(path))) {
  packages.push('chromium', 'fonts-dejavu-core');
}
if (
  packages.length > 0 &&
  !(install('apt-get', 'update', '-qq') && install('apt-get', 'install', '-y', '-qq', ...packages))
) {
  missing.push(...packages);
}

for (const module of [...modules, ...(registries ? ['pypiserver'] : [])]) {
  if (has('python3', '-c', `import ${module}`)) continue;
  if (!install('python3', '-m', 'pip', 'install', '--quiet', module))
    missing.push(`the Python package ${module}`);
}

if (registries && !has(process.execPath, verdaccio.program, '--version')) {
  rmSync(verdaccio.folder, { recursive: true, force: true });
  mkdirSync(verdaccio.folder, { recursive: true });
  writeFileSync(join(verdaccio.folder, 'package.json'), JSON.stringify(verdaccio.manifest));
  const flags = ['--ignore-scripts', '--omit=optional', '--no-audit', '--no-fund', '--loglevel=error'];
  if (!install('npm', 'install', '--prefix', verdaccio.folder, ...flags))
    missing.push('the npm package verdaccio');
}

if (missing.length > 0) {
  process.stderr.write(`The tests can't run: install ${missing.join(', ')} first.\n`);
  process.exit(1);
}
