import { readFileSync } from 'node:fs';

/**
 * Text of a file beside this one, with each `@NAME@` replaced.
 * @throws if it holds a name that isn't given, which is a mistake in the template
 */
export function fill(file: string, values: Readonly<Record<string, string | number>>): string {
  const text = readFileSync(new URL(file, import.meta.url), 'utf8').replace(/^#.*\n/gm, '');
  return text.replace(/@([A-Z_]+)@/g, (_, name: string) => {
    if (!Object.hasOwn(values, name)) throw new Error(`${file}: nothing is given for @${name}@`);
    return String(values[name]);
  });
}
