import { LineCounter, parseDocument, Scalar, visit, Document as YamlDocument } from 'yaml';
import { escapeUnsafe, failed, printableValue, printJson, write } from './terminal.ts';

/** As many levels as the API takes. */
const maxDepth = 64;
/** Bytes; as much as the API takes. */
const maxSize = 1024 * 1024;
/** How many nodes aliases may add up to: a file written by hand needs few, a bomb needs many. */
const maxAliases = 100;

/**
 * Reads one YAML 1.2 document (JSON is one too) into plain JSON data. Refused with line and column: syntax
 * errors, duplicate keys, tags that JSON has nothing for, keys that aren't strings, a second document, aliases
 * that multiply, numbers that aren't finite. `name` is how the message calls the file. An empty document is null.
 */
export function parseYaml(text: string, name: string): unknown {
  if (Buffer.byteLength(text) > maxSize) throw failed(`${name} is larger than 1 MiB.`);
  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    logLevel: 'error',
    stringKeys: true,
    version: '1.2',
    schema: 'core',
  });
  const where = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return `${name}, line ${line}, column ${col}`;
  };
  // A warning is an unknown tag or directive: something the author meant and would not get.
  const [fault] = [...document.errors, ...document.warnings];
  if (fault !== undefined) {
    const what = fault.code === 'MULTIPLE_DOCS' ? 'Only one document may stand in the file' : fault.message;
    throw failed(`${where(fault.pos[0])}: ${what}.`);
  }
  checkAliases(document, where);
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: maxAliases });
  } catch {
    throw failed(`${name}: aliases (*name) stand for too much. Write the values out.`);
  }
  const fault2 = notJson(value, 0);
  if (fault2 !== null) throw failed(`${name}: ${fault2}.`);
  return value;
}

function checkAliases(document: YamlDocument.Parsed, where: (offset: number) => string): void {
  visit(document, {
    Alias(_, alias) {
      if (alias.resolve(document) !== undefined) return;
      throw failed(`${where(alias.range?.[0] ?? 0)}: the alias *${alias.source} names nothing before it.`);
    },
  });
}

function notJson(value: unknown, depth: number): string | null {
  if (depth > maxDepth) return `more than ${maxDepth} levels deep`;
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return null;
  if (typeof value === 'number') return Number.isFinite(value) ? null : 'a number is not finite (.inf, .nan)';
  if (
    typeof value !== 'object' ||
    !(Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype)
  ) {
    return 'a tagged value (!!) is neither text, number, list nor map';
  }
  for (const item of Object.values(value)) {
    const fault = notJson(item, depth + 1);
    if (fault !== null) return fault;
  }
  return null;
}

/** One of several lines begins or ends with blanks: a block scalar would not give all of them back. */
const padded = /\n[ \t]|[ \t]\n|^[ \t].*\n/;

/** Prints data so that `parseYaml` gives it back unchanged; characters that act on a terminal are written as escapes. */
export function formatYaml(value: unknown): string {
  const document = new YamlDocument(value, { aliasDuplicateObjects: false });
  visit(document, {
    Scalar(_, scalar) {
      if (typeof scalar.value !== 'string') return;
      const text = scalar.value;
      // The escapes below exist in double-quoted text only.
      if (escapeUnsafe(text) !== text || padded.test(text)) scalar.type = Scalar.QUOTE_DOUBLE;
    },
  });
  return escapeUnsafe(document.toString({ lineWidth: 0 }));
}

/** Prints a record: JSON exactly as it is, or YAML for reading, with invisible characters taken out. */
export function show(value: unknown, asJson: boolean): void {
  if (asJson) printJson(value);
  else write(formatYaml(printableValue(value)));
}
