import type { Input } from './cli.ts';
import { askHidden } from './hidden-prompt.ts';
import { readText, withoutLastNewline } from './read-text.ts';
import { failed, interactive, misused } from './terminal.ts';

export const passwordOption = { '--stdin': 'Read it from standard input, one password a line' } as const;

/** Which passwords a command needs, by what they are called when they are asked for. */
interface Wanted {
  readonly current?: string;
  readonly next?: string;
}

/**
 * Asks for passwords, hidden, the new one twice; with `--stdin` each is a line, the current one first. Throws a `Failure`
 * where one is missing, or the two don't agree.
 */
export async function askPasswords(
  input: Input,
  { current, next }: Wanted,
): Promise<{ readonly current?: string; readonly next?: string }> {
  const names = [current, next].filter((name) => name !== undefined);
  if (input.flag('stdin')) {
    const lines = withoutLastNewline(await readText('-')).split(/\r?\n/);
    if (lines.length !== names.length || lines.includes('')) {
      throw failed(`Standard input has to hold, a line each: ${names.join(', ')}. Nothing was changed.`);
    }
    return { current: current && lines[0], next: next && lines[names.length - 1] };
  }
  if (!interactive()) throw misused('There is no terminal to ask on. Give --stdin.');
  const answers = await askHidden(next === undefined ? names : [...names, `${next}, again`]);
  if (answers.includes('')) throw failed('A password is empty. Nothing was changed.');
  if (next !== undefined && answers.at(-1) !== answers.at(-2)) {
    throw failed('The two passwords are not the same. Nothing was changed.');
  }
  return { current: current && answers[0], next: next && answers.at(-1) };
}
