import { checkbox, confirm, search, select } from '@inquirer/prompts';
import { Failure } from './terminal.ts';

interface Choice<T> {
  readonly name: string;
  readonly value: T;
  /** Why it can't be chosen. */
  readonly disabled?: string | false;
}

interface TypedQuestion {
  readonly message: string;
  readonly hint?: string;
  /** What stands there at first. */
  readonly start?: string;
  /** Nothing is an answer, too. */
  readonly optional?: boolean;
  /** Gives the answer, or throws what is wrong with the text. */
  read(text: string): string;
}

/** Questions to whoever sits at the terminal, on standard error. */
export interface Prompts {
  choose<T>(message: string, choices: readonly Choice<T>[], first?: T): Promise<T>;
  /** One of several at least. */
  tick<T>(message: string, choices: readonly T[], first: readonly T[]): Promise<T[]>;
  agree(message: string, first: boolean): Promise<boolean>;
  /** Text; what is wrong with it is shown at each key. */
  type(question: TypedQuestion): Promise<string>;
}

/**
 * Holds a dialogue. Ctrl-C and Ctrl-D end it, and leave the terminal as it was.
 * @throws {Failure} exit code 130, interrupted
 */
export async function dialogue<T>(hold: (prompts: Prompts) => Promise<T>): Promise<T> {
  const end = new AbortController();
  const onKey = (_: string, key: { ctrl?: boolean; name?: string } | undefined) => {
    // The library leaves a prompt open for ever when its input ends.
    if (key?.ctrl && key.name === 'd') end.abort();
  };
  const onEnd = () => end.abort();
  process.stdin.on('keypress', onKey).on('end', onEnd);
  try {
    return await hold(promptsOn({ signal: end.signal, output: process.stderr }));
  } catch (error) {
    const isOver = error instanceof Error && /^(Exit|Abort)PromptError$/.test(error.name);
    throw isOver ? new Failure('Interrupted. Nothing was changed.', 130) : error;
  } finally {
    process.stdin.off('keypress', onKey).off('end', onEnd).pause();
  }
}

function promptsOn(terminal: NonNullable<Parameters<typeof select>[1]>): Prompts {
  return {
    choose: (message, choices, first) => select({ message, choices, default: first, pageSize: 12 }, terminal),
    tick: (message, choices, first) =>
      checkbox(
        {
          message,
          required: true,
          choices: choices.map((value) => ({ name: String(value), value, checked: first.includes(value) })),
        },
        terminal,
      ),
    agree: (message, first) => confirm({ message, default: first }, terminal),
    // A list to search in, whose one entry is what was typed: the library shows its errors at once.
    type: ({ message, hint = 'is missing.', start, optional, read }) =>
      search<string>(
        {
          message,
          initialValue: start,
          source(text) {
            if (text !== undefined) {
              const value = read(text);
              return [{ name: value, value }];
            }
            if (optional) return [{ name: '(none)', value: '' }];
            throw new Error(hint);
          },
        },
        terminal,
      ),
  };
}
