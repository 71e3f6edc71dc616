import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import type { Test } from 'tap';
import { collect, start } from './broker.ts';

const script = fileURLToPath(new URL('./terminal.py', import.meta.url));

export const keys = {
  up: '\x1b[A',
  down: '\x1b[B',
  enter: '\r',
  tab: '\t',
  space: ' ',
  interrupt: '\x03',
  end: '\x04',
};

/** A program on a terminal, and someone who types. */
export interface Terminal {
  /** All that was shown since the last `sees`, without what moves the cursor or colours. */
  readonly shown: string;
  /** With that. */
  readonly raw: string;
  /** Waits until these texts have been shown one after the other, from where the last call left off. */
  sees(...texts: readonly string[]): Promise<void>;
  type(text: string): void;
  /** Waits for the texts, then types: line by line. */
  talk(...lines: readonly (readonly [sees: string | readonly string[], types: string])[]): Promise<void>;
  readonly ended: Promise<{ readonly code: number | null }>;
}

/** Starts a program on a pseudo-terminal; it is killed after the test. */
export function onTerminal(
  t: Test,
  command: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Terminal {
  const child = start('python3', [script, ...command], { env: { TERM: 'xterm-256color', ...env } });
  t.teardown(() => child.kill('SIGKILL'));
  const { printed, ended } = collect(child);
  let from = 0;
  const shown = () => stripVTControlCharacters(printed().stdout.slice(from));

  async function sees(...texts: readonly string[]): Promise<void> {
    const end = performance.now() + 60_000;
    const pattern = new RegExp(texts.map((text) => text.replace(/\W/g, '\\$&')).join('.*'), 's');
    while (!pattern.test(shown())) {
      if (performance.now() > end || printed().code !== null)
        throw new Error(`waited for ${texts}; shown was: ${shown()}${printed().stderr}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    from = printed().stdout.length;
  }
  const type = (text: string) => void child.stdin?.write(text);

  return {
    get shown() {
      return shown();
    },
    get raw() {
      return printed().stdout;
    },
    sees,
    type,
    async talk(...lines) {
      for (const [texts, text] of lines) {
        await sees(...[texts].flat());
        type(text);
      }
    },
    ended,
  };
}
