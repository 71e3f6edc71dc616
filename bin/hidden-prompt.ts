import { Failure, failed, interactive, misused, printable } from './terminal.ts';

/** What the keys typed so far amount to. */
export interface Editing {
  readonly line: string;
  readonly end: 'enter' | 'interrupt' | 'eof' | null;
  /** Typed after the end: belongs to the next question. */
  readonly rest: string;
}

/** Arrow and function keys, and the marks around a bracketed paste: no part of a value. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the escape sequences of terminals
const escapeSequence = /\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.)/g;

/** Applies a chunk from a terminal in raw mode to a line: pure, so that it is tested without a terminal. */
export function edit(line: string, chunk: string): Editing {
  const text = chunk.replace(escapeSequence, '');
  let chars = [...line];
  let consumed = 0;
  for (const char of text) {
    consumed += char.length;
    if (char === '\r' || char === '\n') {
      const rest = text.slice(consumed);
      return {
        line: chars.join(''),
        end: 'enter',
        rest: char === '\r' && rest.startsWith('\n') ? rest.slice(1) : rest,
      };
    }
    if (char === '\x03') return { line: '', end: 'interrupt', rest: '' };
    if (char === '\x04' && chars.length === 0) return { line: '', end: 'eof', rest: '' };
    if (char === '\x7f' || char === '\b') chars.pop();
    else if (char === '\x15') chars = [];
    else if (char === '\t' || char >= ' ') chars.push(char);
  }
  return { line: chars.join(''), end: null, rest: '' };
}

/** How long a pasted text may take to arrive whole, in ms. */
const pasteSettles = 60;

/**
 * Asks each question in turn without showing what is typed, and gives the answers in the same order.
 * A pasted value of several lines is refused rather than spread over the questions, or over the shell that
 * reads the terminal next. Throws where there is no terminal (exit 2) and at Ctrl-C (exit 130).
 */
export async function askHidden(questions: readonly string[]): Promise<string[]> {
  if (!interactive()) throw misused('There is no terminal to ask on. Give the value with --stdin.');
  const { stdin, stderr } = process;
  const keys = new Keys(stdin);
  try {
    const answers: string[] = [];
    for (const question of questions) {
      stderr.write(`${printable(question)}: `);
      answers.push(await readLine(keys).finally(() => stderr.write('\n')));
    }
    if (questions.length > 0 && (await keys.next(pasteSettles)) !== null) {
      throw failed(
        'The pasted value has more than one line; nothing was stored. Give it with --stdin or --from-file.',
      );
    }
    return answers;
  } finally {
    keys.release();
  }
}

async function readLine(keys: Keys): Promise<string> {
  let line = '';
  for (;;) {
    const chunk = await keys.next();
    if (chunk === null) throw failed('The input ended before the value. Nothing was stored.');
    const editing = edit(line, chunk);
    if (editing.end === null) {
      line = editing.line;
      continue;
    }
    keys.putBack(editing.rest);
    if (editing.end === 'interrupt') throw new Failure('Interrupted. Nothing was stored.', 130);
    if (editing.end === 'eof') throw failed('No value was given. Nothing was stored.');
    return editing.line;
  }
}

/** The keyboard in raw mode, as a queue of chunks. */
class Keys {
  readonly #stdin: NodeJS.ReadStream;
  readonly #queue: string[] = [];
  #ended = false;
  #wake = () => {};

  constructor(stdin: NodeJS.ReadStream) {
    this.#stdin = stdin;
    stdin.setRawMode(true);
    stdin.setEncoding('utf8');
    stdin.on('data', this.#onData);
    stdin.on('end', this.#onEnd);
    stdin.resume();
  }

  #onData = (chunk: unknown) => {
    this.#queue.push(String(chunk));
    this.#wake();
  };

  #onEnd = () => {
    this.#ended = true;
    this.#wake();
  };

  putBack(text: string): void {
    if (text !== '') this.#queue.unshift(text);
  }

  /** The next chunk; null at the end of input, or when nothing came within `ms`. */
  async next(ms?: number): Promise<string | null> {
    if (this.#queue.length === 0 && !this.#ended) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        if (ms !== undefined) setTimeout(resolve, ms);
      });
    }
    return this.#queue.shift() ?? null;
  }

  release(): void {
    this.#stdin.off('data', this.#onData);
    this.#stdin.off('end', this.#onEnd);
    this.#stdin.setRawMode(false);
    this.#stdin.pause();
  }
}
