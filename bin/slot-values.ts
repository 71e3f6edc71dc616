import { withoutLastNewline } from './read-text.ts';
import { failed } from './terminal.ts';

/** A credential slot as the API shows it. */
export interface Slot {
  readonly action: 'set' | 'delete';
  readonly key: string;
  readonly description?: string;
  readonly obtain?: string;
  readonly obtain_instructions?: string;
  readonly has_value?: boolean;
}

/** Keys that the human has to give a value for; the agent gave the others itself. */
export function neededKeys(slots: readonly Slot[]): string[] {
  return slots.filter((slot) => slot.action === 'set' && !slot.has_value).map((slot) => slot.key);
}

/**
 * The values that `proposal approve --stdin` reads. One key: all of the text is its value, line breaks
 * included, with or without `KEY=` before it. Several: a line `KEY=VALUE` for each; empty lines are skipped.
 * One line break at the end is dropped. Throws a failure that names keys and line numbers, never what was read.
 */
export function slotValues(text: string, keys: readonly string[]): Map<string, string> {
  const input = withoutLastNewline(text);
  const values = new Map<string, string>();
  if (keys.length === 1) {
    const [key] = keys;
    values.set(key, input.startsWith(`${key}=`) ? input.slice(key.length + 1) : input);
  } else {
    for (const [index, line] of input.split(/\r?\n/).entries()) {
      if (line === '') continue;
      const at = line.indexOf('=');
      const key = line.slice(0, Math.max(at, 0));
      if (!keys.includes(key)) {
        const wanted =
          keys.length === 0 ? 'This proposal needs no values.' : `Write KEY=VALUE for ${keys.join(', ')}.`;
        throw failed(`Line ${index + 1} of standard input gives no value that is needed. ${wanted}`);
      }
      if (values.has(key))
        throw failed(`Line ${index + 1} of standard input gives ${key} once more. Give each key once.`);
      values.set(key, line.slice(at + 1));
    }
  }
  checkComplete(values, keys);
  return values;
}

/** Throws a failure that names the keys without a value. */
export function checkComplete(values: ReadonlyMap<string, string>, keys: readonly string[]): void {
  const missing = keys.filter((key) => !values.get(key));
  if (missing.length > 0)
    throw failed(`No value for ${missing.join(', ')}; nothing was approved. Give one for each.`);
}
