import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { isatty } from 'node:tty';

/**
 * The end of a command that did not do what it was asked: one or two lines for the user (what happened, what
 * to do) and the exit code. 1: it failed; 2: it was used wrongly.
 */
export class Failure extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

export function failed(message: string): Failure {
  return new Failure(message, 1);
}

export function misused(message: string): Failure {
  return new Failure(message, 2);
}

/** Control, bidi, zero-width and other invisible characters, line separators, lone surrogates. */
const unsafe = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;
const unsafeInBlock = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** One line of foreign text, safe on a terminal: it can neither move the cursor nor reorder what stands around it. */
export function printable(text: string): string {
  return text.replace(/[\n\t]/g, ' ').replace(unsafe, '');
}

/** The same for text of several lines. */
export function printableBlock(text: string): string {
  return text.replace(unsafeInBlock, '');
}

/** Every string in a JSON value made printable, keys included. */
export function printableValue(value: unknown): unknown {
  if (typeof value === 'string') return printableBlock(value);
  if (Array.isArray(value)) return value.map(printableValue);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [printable(key), printableValue(item)]),
  );
}

/**
 * Writes unsafe characters as `\uXXXX`: nothing is lost, and nothing acts on the terminal. Only for text in
 * which they can stand in double-quoted strings alone, as in JSON.
 */
export function escapeUnsafe(text: string): string {
  return text.replace(unsafeInBlock, (char) =>
    Array.from(
      { length: char.length },
      (_, i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, '0')}`,
    ).join(''),
  );
}

/** Writes to standard output. A reader that has seen enough (`| head`) ends the program, and is no failure. */
export function write(text: string): void {
  // Not before the first write: to touch a pipe makes it non-blocking, for a child that inherits it too.
  if (process.stdout.listenerCount('error') === 0) {
    process.stdout.on('error', (error: NodeJS.ErrnoException) =>
      process.exit(error.code === 'EPIPE' ? 0 : 1),
    );
  }
  process.stdout.write(text);
}

/** For what accompanies the result: prompts, confirmations, warnings. */
export function note(text: string): void {
  process.stderr.write(`${printableBlock(text)}\n`);
}

export function printJson(value: unknown): void {
  write(`${escapeUnsafe(JSON.stringify(value, null, 2))}\n`);
}

/** Columns under their headings; nothing at all where there are no rows. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return '';
  const lines = [head, ...rows].map((row) => row.map(printable));
  const widths = head.map((_, column) => Math.max(...lines.map((line) => [...line[column]].length)));
  const pad = (cell: string, column: number) => cell + ' '.repeat(widths[column] - [...cell].length);
  return `${lines.map((line) => line.map(pad).join('  ').trimEnd()).join('\n')}\n`;
}

/** Is there a human who can answer? */
export function interactive(): boolean {
  return isatty(0);
}

/** Asks yes or no; anything but `y` and `yes` is no. Without a terminal there is nobody to ask: refused, naming `flag`. */
export async function confirm(question: string, flag: string): Promise<boolean> {
  if (!interactive())
    throw misused(`This asks for confirmation and there is no terminal. Add ${flag} to go ahead.`);
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    // Ctrl-C and Ctrl-D close it and leave the question open: they mean no.
    const closed = once(lines, 'close').then(() => '');
    const answer = lines.question(`${printableBlock(question)} [y/N] `).catch(() => '');
    return /^y(es)?$/i.test((await Promise.race([answer, closed])).trim());
  } finally {
    lines.close();
  }
}
