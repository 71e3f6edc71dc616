/** `docs/protocol-coverage.md` and `docs/security.md` name files and tests: each of them is there, and no row is open. */
import { existsSync, readFileSync } from 'node:fs';
import t from 'tap';
import { vectors } from '../vault/vectors.ts';

const root = new URL('../../', import.meta.url);

interface Row {
  readonly section: string;
  readonly statement: string;
  readonly files: readonly string[];
  /** Each as `file › title`. */
  readonly tests: readonly string[];
}

/** The rows of a document's tables that begin with a column `Statement`; the tests are in the last column. */
function rowsOf(document: string): Row[] {
  const text = readFileSync(new URL(document, root), 'utf8');
  return text.split(/^###? /m).flatMap((part) => rowsIn(part));
}

function rowsIn(part: string): Row[] {
  const [section, ...lines] = part.split('\n');
  const from = lines.findIndex((line) => line.startsWith('| Statement |'));
  if (from < 0) return [];
  return lines
    .slice(from + 2)
    .filter((line) => line.startsWith('| '))
    .map((line) => {
      const cells = line.slice(1, -1).split('|');
      const [statement, ...rest] = cells.map((cell) => cell.trim());
      const tests = rest.pop() ?? '';
      return {
        section,
        statement,
        files: rest.flatMap((cell) => cell.split(', ')),
        tests: tests.split('<br>'),
      };
    });
}

const rows = rowsOf('docs/protocol-coverage.md');

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
  const promised = rowsOf('docs/security.md');
  t.ok(rows.length > 150, `${rows.length} rows`);
  t.ok(promised.length > 40, `${promised.length} promises`);
  const titles = new Map<string, Set<string>>();
  for (const { section, statement, files, tests } of [...rows, ...promised]) {
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
