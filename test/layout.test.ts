/** Who may import whom, and what no file of the tree may hold: read from the sources themselves. */
import { execFileSync } from 'node:child_process';
import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { importProblems, importsOf, type Sources, textProblems } from './layout-rules.ts';

const root = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '');

/** Paths of the tree from its root: what git tracks or would track, else all but what is made. */
function treeFiles(): string[] {
  let paths: string[] = [];
  try {
    const args = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
    paths = execFileSync('git', args, {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).split('\0');
  } catch {
    // No git, or no repository: an unpacked archive.
  }
  if (paths.length < 2) paths = walk('');
  return paths.filter((path) => path && lstatSync(join(root, path), { throwIfNoEntry: false })?.isFile());
}

function walk(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    if (['node_modules', '.git', '.tap', 'dist'].includes(entry.name)) return [];
    const path = posix.join(folder, entry.name);
    return entry.isDirectory() ? walk(path) : [path];
  });
}

/** A breach, and its nearest neighbour that breaks nothing. `about` is found in the one message. */
interface Case {
  readonly about: string;
  readonly bad: Sources;
  readonly good: Sources;
}

const model = { 'src/actors/vault/model.ts': "import type { MessagePort } from 'node:worker_threads';" };
const store = { 'src/actors/vault/lmdb-store.ts': "import { open } from 'lmdb';" };
const cases: Case[] = [
  {
    about: 'core imports node:* only',
    bad: { 'src/actors/core/cell.ts': "import { x } from '../vault/model.ts';", ...model },
    good: { 'src/actors/core/cell.ts': "import { x } from './fifo.ts';\nimport net from 'net';" },
  },
  {
    about: 'core imports node:* only',
    bad: { 'src/actors/core/link.ts': "import type { Pool } from 'piscina';" },
    good: { 'src/actors/core/link.ts': "import type { MessagePort } from 'node:worker_threads';" },
  },
  {
    about: 'http imports the vault',
    bad: { 'src/http/front.ts': "import type { Row } from '../actors/vault/lmdb-store.ts';", ...store },
    good: {
      'src/http/front.ts': "import uws from 'uWebSockets.js';\nimport '../actors/vault/model.ts';",
      ...model,
    },
  },
  {
    about: 'http imports the vault',
    bad: { 'src/http/caller.ts': "import { createSystem } from '../actors/core/system.ts';" },
    good: { 'src/http/caller.ts': "import type { ActorSystem } from '../actors/core/system.ts';" },
  },
  {
    about: 'http imports the vault',
    bad: { 'src/http/pages.ts': "const late = await import('../proxy/plan.ts');" },
    good: { 'src/http/pages.ts': "const late = await import('./caller.ts');" },
  },
  {
    about: 'proxy never imports http',
    bad: { 'src/proxy/tunnel.ts': "export {\n  page, // it's not ours; look\n} from '../http/pages.ts';" },
    good: { 'src/proxy/tunnel.ts': "import net from 'node:net';\nimport { plan } from './plan.ts';" },
  },
  {
    about: 'workers import proxy',
    bad: {
      'src/workers/entry.ts': "import { x } from '../actors/vault/reader.ts';",
      'src/actors/vault/reader.ts': "import 'node:fs';",
    },
    good: {
      'src/workers/entry.ts': "import { x } from '../proxy/listener.ts';\nimport '../actors/core/link.ts';",
    },
  },
  {
    about: 'pure proxy files import',
    bad: { 'src/proxy/plan.ts': "import net from 'node:net';" },
    good: {
      'src/proxy/plan.ts': "import type { Socket } from 'node:net';\nimport { hash } from 'node:crypto';",
    },
  },
  {
    about: 'pure proxy files import',
    bad: {
      'src/proxy/plan.ts': "import { type Dial } from './dial.ts';",
      'src/proxy/dial.ts': "import 'node:tls';",
    },
    good: {
      'src/proxy/plan.ts': "import type { Dial } from './dial.ts';",
      'src/proxy/dial.ts': "import 'node:tls';",
    },
  },
  {
    about: 'pure proxy files import',
    bad: {
      'src/proxy/inject.ts': "import {\n  a,\n  b,\n} from '../actors/vault/store.ts';",
      'src/actors/vault/store.ts': '',
    },
    good: { 'src/proxy/inject.ts': "import {\n  a,\n  b,\n} from '../actors/vault/model.ts';", ...model },
  },
  {
    about: 'workers import proxy',
    bad: { 'src/workers/boot.ts': "import type { CaProtocol, CaOptions } from '../actors/ca.ts';" },
    good: {
      'src/workers/boot.ts': "import type {\n  AuditProtocol,\n  CaProtocol,\n} from '../actors/ca.ts';",
    },
  },
  {
    about: 'http imports the vault',
    bad: { 'src/http/ca.ts': "import { CaProtocol } from '../actors/ca.ts';" },
    good: { 'src/http/ca.ts': "import type { CaProtocol } from '../actors/ca.ts';" },
  },
  {
    about: 'src imports only src',
    bad: { 'src/actors/lane.ts': "new Worker(new URL('../../bin/lane.ts', import.meta.url));" },
    good: { 'src/actors/lane.ts': "new Worker(new URL('../workers/entry.ts', import.meta.url));" },
  },
  {
    about: '@scope/name: one file imports a package',
    bad: {
      'src/a.ts': "import a from '@scope/name/deep';",
      'bench/b.ts': "const b = require('@scope/name');",
    },
    good: {
      'src/a.ts': "import a from '@scope/name/deep';\nimport '@scope/name';",
      'bench/b.ts': "// import '@scope/name'",
    },
  },
];

t.test('each import rule bites, and only where it should', async (t) => {
  for (const { about, bad, good } of cases) {
    const problems = importProblems(bad);
    t.equal(problems.length, 1, `${about}: ${Object.values(bad)[0]}`);
    t.match(problems[0], about);
    t.same(importProblems(good), [], `not: ${Object.values(good)[0]}`);
  }
});

t.test('each forbidden text is found, and its likeness passes', async (t) => {
  // Put together here, so that this file passes its own check.
  const bad = [
    `https://${['registry', 'npmjs', 'org'].join('.')}/tap`,
    `pip -i https://${['pypi', 'org'].join('.')}/simple`,
    `"resolved": ${'"https'}://mirror.example/tap.tgz"`,
    `${'registry'}=http://mirror.example`,
    `cd ${['', 'work', 'main'].join('/')}`,
    `import ${['..', 'shared', 'x'].join('/')}`,
    'see /home/me/broker/README.md',
  ];
  for (const text of bad) t.equal(textProblems('x', text, '/home/me/broker').length, 1, text);
  const good = [
    'the npm registry',
    'omit-lockfile-registry-resolved=true',
    '/frame/work/main.ts',
    './shared/x',
    '/app/x',
  ];
  for (const text of good) t.same(textProblems('x', text, '/app'), [], text);
});

t.test('the tree keeps the rules', async (t) => {
  const files = treeFiles();
  const read = (path: string) => readFileSync(join(root, path), 'latin1');
  const code = files.filter((path) => /^(src|bin|bench)\/.*\.[jt]s$/.test(path));
  const sources: Sources = Object.fromEntries(code.map((path) => [path, read(path)]));
  t.ok(files.includes('package.json') && code.length > 0, 'the tree was found');
  t.ok(
    code.flatMap((path) => importsOf(path, sources[path])).length >= code.length / 2,
    'its imports were read',
  );
  t.same(importProblems(sources), []);
  t.same(
    files.flatMap((path) => textProblems(path, read(path), root)),
    [],
  );
});
