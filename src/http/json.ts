import { type Result, refuse } from '../actors/vault/problem.ts';

/** Deeper nesting is refused, so that whatever walks the value may recurse. */
const maxDepth = 64;

/** Members and elements. A MiB of the smallest ones would hold the event loop for a good part of a second. */
const maxValues = 20_000;

/** Names that mean something else than a field to code that copies objects. */
const forbiddenNames = new Set(['__proto__', 'constructor', 'prototype']);

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Parses a JSON text (RFC 8259) in the strictest reading, so that no two parsers can take it differently (RFC 8259
 * sections 4 and 8): valid UTF-8 without a byte order mark, no name twice in an object, no lone surrogates, at most
 * 64 levels. Refusals are `invalid_json` and quote nothing of the text, which may hold secrets.
 */
export function parseJson(bytes: Uint8Array): Result<unknown> {
  try {
    const text = decoder.decode(bytes);
    if (text.startsWith('\ufeff')) return refused('it begins with a byte order mark');
    // Before it is parsed: building a deep value is what is slow.
    const wrong = structureProblem(text);
    return wrong === null ? { ok: true, value: JSON.parse(text) } : refused(wrong);
  } catch (error) {
    return refused(error instanceof SyntaxError ? whereBroken(error) : 'it is not valid UTF-8');
  }
}

function refused<T>(reason: string): Result<T> {
  return refuse('invalid_json', `The body is not acceptable JSON: ${reason}. Mend it and send it again.`);
}

/** Only the numbers of V8's message: the rest quotes the text. */
function whereBroken({ message }: SyntaxError): string {
  const place = /\(line (\d+) column (\d+)\)/.exec(message);
  return place === null
    ? 'its syntax is wrong'
    : `its syntax is wrong at line ${place[1]}, column ${place[2]}`;
}

/**
 * What `JSON.parse` lets pass, found in the tokens alone: a string before a colon is a name. What isn't JSON is left
 * for it to refuse.
 *
 * @throws SyntaxError for a string that isn't one
 */
function structureProblem(text: string): string | null {
  const mayBeHalf = /\\u[dD][89a-fA-F]/.test(text);
  // For each open object the names seen in it; undefined: none yet, or an array.
  const open: (Set<string> | undefined)[] = [undefined];
  let values = 1;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x7b: // {
      case 0x5b: // [
        if (open.push(undefined) > maxDepth + 1) return `it is nested deeper than ${maxDepth} levels`;
        if (++values > maxValues) return tooMany;
        break;
      case 0x2c: // ,
        if (++values > maxValues) return tooMany;
        break;
      case 0x7d: // }
      case 0x5d: // ]
        if (open.length > 1) open.pop();
        break;
      case 0x22: {
        const end = closingQuote(text, at);
        const isName = followedByColon(text, end);
        if (isName || mayBeHalf) {
          const string = textOf(text.slice(at, end + 1));
          if (!string.isWellFormed()) return 'it holds half a surrogate pair';
          if (isName) {
            if (forbiddenNames.has(string)) return `'${string}' is not allowed as a name`;
            const names = open.at(-1) ?? new Set();
            if (names.has(string)) return 'an object has the same name twice';
            open[open.length - 1] = names.add(string);
          }
        }
        at = end;
      }
    }
  }
  return null;
}

const tooMany = `it holds more than ${maxValues} values`;

/** The quote that ends the string which begins at `start`: the first with an even number of backslashes before it. */
function closingQuote(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let before = end - 1;
    while (text.charCodeAt(before) === 0x5c) before--;
    if ((end - before) % 2 === 1) return end;
  }
  throw new SyntaxError('a string without an end');
}

function followedByColon(text: string, quote: number): boolean {
  let at = quote + 1;
  while (isSpace(text.charCodeAt(at))) at++;
  return text.charCodeAt(at) === 0x3a;
}

/** White space of RFC 8259 section 2. */
function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

function textOf(quoted: string): string {
  return quoted.includes('\\') ? (JSON.parse(quoted) as string) : quoted.slice(1, -1);
}
