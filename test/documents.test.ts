/** What the documents say of settings, packages and files, against the sources. */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { serverFlags } from '../bin/server/options.ts';
import { importsOf } from './layout-rules.ts';
import { usualSettings } from './support/compose.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');

/** The cells of a document's tables, by the first one without its backticks. */
function rowsOf(path: string): Map<string, string[]> {
  const lines = read(path)
    .split('\n')
    .filter((line) => line.startsWith('| `'));
  const cells = lines.map((line) => line.split('|').map((cell) => cell.trim()));
  return new Map(cells.map(([, first, ...rest]) => [first.split('`')[1], rest]));
}

/** A default as the table has it; null: it depends on the machine or on others, and stands there in words. */
function shown(value: unknown): string | null {
  if (value === null) return null;
  if (value === false) return 'off';
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join(',');
  const number = Number(value);
  return number >= 2 ** 20 ? `${number / 2 ** 20}M` : String(value);
}

t.test('docs/operations.md has each setting of the server, with its default', async (t) => {
  const rows = rowsOf('docs/operations.md');
  const settings = Object.entries(usualSettings());
  for (const [name, value] of settings) {
    const said = rows.get(`--${name}`)?.[0];
    if (said === undefined) t.fail(`--${name} is not there`);
    else if (name === 'data-dir' || name === 'workers' || shown(value) === null) t.not(said, '', name);
    else t.equal(said, shown(value), name);
  }
  const names = new Set(Object.keys(serverFlags()).map((flag) => flag.split(' ')[0]));
  const settingsOfTable = [...rows.keys()].filter((key) => key.startsWith('--'));
  t.same(
    settingsOfTable.filter((name) => !names.has(name)),
    [],
    'and no other',
  );
});

t.test('docs/operations.md says what to do about each warning and error of the log', async (t) => {
  const text = read('docs/operations.md');
  const messages = globSync('{bin,src}/**/*.ts', { cwd: root }).flatMap((path) =>
    Array.from(
      read(path).matchAll(/(?:\b(?:log|say)\(\s*'(?:warn|error)',|level: 'error', message:)\s*'([^']+)'/g),
      ([, message]) => message,
    ),
  );
  t.ok(messages.length > 8, `${messages.length} messages`);
  // Long ones are told by how they begin.
  for (const message of messages) t.ok(text.includes(`\n| ${message.split(/[:.]/)[0]}`), message);
});

t.test('docs/dependencies.md has each package, and the one file that imports it', async (t) => {
  const rows = rowsOf('docs/dependencies.md');
  const text = read('docs/dependencies.md');
  const { dependencies, optionalDependencies, devDependencies } = JSON.parse(read('package.json'));
  const imports = globSync('{bin,src}/**/*.ts', { cwd: root }).flatMap((path) =>
    importsOf(path, read(path)).map(({ target }) => [target, path]),
  );
  for (const name of Object.keys(dependencies)) {
    const importer = imports.find(([target]) => target === `npm:${name}`)?.[1];
    t.same(rows.get(name)?.[0], `\`${importer}\``, name);
  }
  for (const name of [...Object.keys(optionalDependencies), ...Object.keys(devDependencies)])
    t.ok(text.includes(`\`${name}\``), name);
});

t.test('each file that a document names is there', async (t) => {
  const known = globSync('{bin,src,test,bench,packaging,docs}/**/*', { cwd: root });
  const names = new Set(known.map((path) => path.slice(path.lastIndexOf('/') + 1)));
  for (const path of globSync('{README.md,docs/*.md}', { cwd: root })) {
    // Proofs of the coverage are named without their ending, and have a test of their own.
    const named = [...read(path).matchAll(/`(\w[\w./-]*\.(?:ts|md|py|json))`/g)].map(([, file]) => file);
    const links = [...read(path).matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, file]) => file);
    for (const file of named) {
      const there = file.includes('/')
        ? existsSync(`${root}/${file}`)
        : names.has(file) || existsSync(`${root}/${file}`);
      t.ok(there, `${path}: ${file}`);
    }
    const folder = path.startsWith('docs/') ? `${root}/docs/` : `${root}/`;
    for (const link of links) t.ok(existsSync(folder + link), `${path}: ${link}`);
  }
});
