import { builtinModules } from 'node:module';
import { posix } from 'node:path';

/** `target` is a path from the root, `node:x`, or `npm:name` for a package. */
export interface Import {
  readonly target: string;
  readonly typeOnly: boolean;
  /** Only types that describe an actor's messages: what whoever holds a `Ref` to it must name. */
  readonly protocolOnly: boolean;
}
/** Text by path from the root. */
export type Sources = Record<string, string>;

/** Pure files of the proxy: they decide, and touch neither socket nor file, so that tables can test them. */
const pureProxy =
  /^src\/proxy\/(authenticate|body|chunked|client-hello|dot-segment|echo-\w+|fields|gcra|head|head-prefix|inject|methods|netguard|percent|places|plan|substitute|watch|websocket)\.ts$/;
/** What a pure file may use of Node, and the one package of the rules (a table of public suffixes). */
const harmless = new Set(['node:buffer', 'node:crypto', 'node:url', 'node:util', 'node:zlib', 'npm:tldts']);
/** Files of the vault that act, whatever they import. */
const actingVault = /^src\/actors\/vault\/([^/]*-)?(actor|vault|store|seal|publisher)\.ts$/;

/**
 * The imports of one file: `import`, `export from`, `import()` and `require()` of a literal, and what it hands
 * to a thread as `new URL('./x.ts', …)`. `{ type X }` in braces still loads the file, so it isn't type-only.
 */
export function importsOf(path: string, text: string): Import[] {
  const statements =
    /^[ \t]*(?:import|export)\s+(type\s)?([^'";{]*(?:\{[^}]*\})?[^'";{]*?\bfrom\s*)?['"]([^'"]+)['"]/gm;
  const calls =
    /\b(?:import(?:\.meta\.resolve)?|require(?:\.resolve)?)\(\s*['"]([^'"]+)['"]|\bnew URL\(\s*['"](\.[^'"]+\.[jt]s)['"]/g;
  const found: Import[] = [];
  for (const [, type, clause, name] of text.matchAll(statements)) {
    const typeOnly = type !== undefined;
    const protocolOnly = typeOnly && /^\{(\s*\w+Protocol,?)+\s*\}/.test(clause);
    found.push({ target: targetOf(path, name), typeOnly, protocolOnly });
  }
  for (const [, called, thread] of text.matchAll(calls))
    found.push({ target: targetOf(path, called ?? thread), typeOnly: false, protocolOnly: false });
  return found;
}

function targetOf(path: string, name: string): string {
  if (name.startsWith('.')) return posix.join(posix.dirname(path), name);
  if (name.startsWith('node:') || builtinModules.includes(name)) return `node:${name.replace(/^node:/, '')}`;
  const parts = name.split('/').slice(0, name.startsWith('@') ? 2 : 1);
  return `npm:${parts.join('/')}`;
}

const isPackage = (target: string) => target.startsWith('npm:');
const isOurs = (target: string) => !isPackage(target) && !target.startsWith('node:');

/** Every breach of the import rules, as `importer → imported: rule`, and each package with two importers. */
export function importProblems(sources: Sources): string[] {
  const graph = new Map(Object.entries(sources).map(([path, text]) => [path, importsOf(path, text)]));

  /** Whether loading the file can cause no input or output: it, and all that it loads. */
  function isPure(path: string, seen = new Set<string>()): boolean {
    seen.add(path);
    return (graph.get(path) ?? []).every(({ target, typeOnly }) => {
      if (typeOnly || seen.has(target)) return true;
      return isOurs(target) ? isPure(target, seen) : harmless.has(target);
    });
  }
  /** The vault's model, rules and messages: its files that only hold and decide. */
  const isModel = (path: string) =>
    path.startsWith('src/actors/vault/') && !actingVault.test(path) && isPure(path);

  /** The rule that an import breaks, else null. */
  function broken(from: string, { target, typeOnly, protocolOnly }: Import): string | null {
    const messages = protocolOnly && /^src\/actors\/[^/]+\.ts$/.test(target);
    const inCore = target.startsWith('src/actors/core/');
    if (!from.startsWith('src/')) return null;
    if (/^(bin|bench|test)\//.test(target)) return 'src imports only src';
    if (from.startsWith('src/actors/core/'))
      return inCore || target.startsWith('node:') ? null : 'core imports node:* only';
    if (pureProxy.test(from)) {
      const besides = target.startsWith('src/proxy/')
        ? isPure(target)
        : harmless.has(target) && !isPackage(target);
      const erased = typeOnly && /^(src\/proxy\/|node:)/.test(target);
      return isModel(target) || besides || erased ? null : 'pure proxy files import the vault model only';
    }
    if (from.startsWith('src/proxy/'))
      return target.startsWith('src/http/') ? 'proxy never imports http' : null;
    if (!isOurs(target)) return null;
    if (from.startsWith('src/http/')) {
      // An error's brand is what tells a full mailbox from a fault.
      const ofCore = inCore && (typeOnly || target === 'src/actors/core/errors.ts');
      if (target.startsWith('src/http/') || ofCore || messages || isModel(target)) return null;
      return 'http imports the vault protocol, model, rules, core types and actor protocols only';
    }
    if (from.startsWith('src/workers/')) {
      if (inCore || messages || /^src\/(workers|proxy)\//.test(target) || isModel(target)) return null;
      return 'workers import proxy, core, vault model and actor protocols only';
    }
    return null;
  }

  const problems: string[] = [];
  const importers = new Map<string, Set<string>>();
  for (const [from, imports] of graph) {
    for (const one of imports) {
      const rule = broken(from, one);
      if (rule !== null) problems.push(`${from} → ${one.target}: ${rule}`);
      if (isPackage(one.target))
        importers.set(one.target, (importers.get(one.target) ?? new Set()).add(from));
    }
  }
  for (const [name, files] of importers)
    if (files.size > 1)
      problems.push(`${name.slice(4)}: one file imports a package, not ${[...files].join(', ')}`);
  return problems;
}

/** What no file may hold, since it would tie the tree to the place where it was written. */
export function textProblems(path: string, text: string, checkout: string): string[] {
  const rules: [string, RegExp][] = [
    ['a registry address', /registry\.(npmjs|yarnpkg)|npmmirror\.com|npm\.(pkg\.github|jsr)\b/],
    [
      'a registry address',
      /pypi\.(org|python)|pythonhosted\.org|proxy\.golang\.org|(index|static)\.crates\.io/,
    ],
    ['a registry address', /"resolved": "https?:|^\s*(@[\w-]+:)?(index-url|registry)\s*=/m],
    ['a path of this machine', /(?<![\w.-])\/work\/(?:main|shared|\.library)\b/],
    ['a path out of the tree', /\.\.\/shared\b/],
  ];
  // A checkout at `/app` would make an accident of many a URL's path.
  if (checkout.lastIndexOf('/') > 0)
    rules.push([
      'a path of this machine',
      new RegExp(`(?<![\\w.-])${checkout.replace(/\W/g, '\\$&')}(?![\\w-])`),
    ]);
  return rules.filter(([, pattern]) => pattern.test(text)).map(([what]) => `${path}: holds ${what}`);
}
