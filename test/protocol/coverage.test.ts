/** `docs/protocol-coverage.md` names files and tests: each of them is there, and no row is open. */
import { existsSync, readFileSync } from 'node:fs';
import t from 'tap';
import { vectors } from '../vault/vectors.ts';

const root = new URL('../../', import.meta.url);
const text = readFileSync(new URL('docs/protocol-coverage.md', root), 'utf8');

interface Row {
  readonly section: string;
  readonly statement: string;
  readonly files: readonly string[];
  /** Each as `file › title`. */
  readonly tests: readonly string[];
}

const rows: Row[] = text.split(/^## /m).flatMap((part) => {
  const [section, ...lines] = part.split('\n');
  return lines
    .filter((line) => line.startsWith('| ') && !/^\| (Statement|---)/.test(line))
    .map((line) => {
      const [statement, files = '', tests = ''] = line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim());
      return { section, statement, files: files.split(', '), tests: tests.split('<br>') };
    });
});

/** Titles of a file's tests, as they are written. */
function titlesOf(file: string): Set<string> {
  const source = readFileSync(new URL(file, root), 'utf8');
  const called = /\b(?:test|group|yesOrNo)\(\s*(['`])((?:\\.|(?!\1).)*)\1/g;
  const keys = /^ {2}(\w+): \(\{/gm;
  return new Set(
    [...source.matchAll(called)]
      .map((match) => match[2])
      .concat([...source.matchAll(keys)].map((match) => match[1])),
  );
}

t.test('every row names what implements it, and a test that proves it', async (t) => {
  t.ok(rows.length > 150, `${rows.length} rows`);
  const titles = new Map<string, Set<string>>();
  for (const { section, statement, files, tests } of rows) {
    const name = `${section}: ${statement}`;
    for (const file of files) {
      const path = file.startsWith('bin/') ? file : `src/${file}`;
      if (!/\w/.test(file) || !existsSync(new URL(path, root))) t.fail(`${name}: there is no ${path}`);
    }
    for (const each of tests) {
      const [, at, title] = /^(\S+) › (.+)$/.exec(each) ?? [];
      const file = `test/${at?.includes('/') ? at : `protocol/${at}`}.test.ts`;
      if (title === undefined || !existsSync(new URL(file, root))) {
        t.fail(`${name}: '${each}' is no test`);
        continue;
      }
      if (!titles.has(file)) titles.set(file, titlesOf(file));
      if (!titles.get(file)?.has(title)) t.fail(`${name}: ${file} has no test '${title}'`);
    }
  }
  t.ok(titles.size > 20, `${titles.size} files of tests`);
});

t.test('every test of the protocol is named, and every group of vectors', async (t) => {
  const named = rows.flatMap(({ tests }) => tests);
  for (const file of ['sections', 'endpoints', 'errors', 'commands', 'server', 'boundaries', 'cases']) {
    for (const title of titlesOf(`test/protocol/${file}.test.ts`))
      t.ok(named.includes(`${file} › ${title}`), `${file} › ${title}`);
  }
  for (const group of ['placeholder', 'host_pattern', 'auth_render', 'netguard_ip', 'proxy_env'])
    t.ok(vectors(group).length > 0 && named.includes(`vectors › ${group}`), group);
});
