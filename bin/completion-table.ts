import type { Command, Groups } from './cli.ts';

export interface CompletedOption {
  /** `-f` and `--file`. */
  readonly flags: readonly string[];
  /** What its value may be: these, or anything, file names among it; null: it takes none. */
  readonly values: readonly string[] | 'anything' | null;
  readonly about: string;
}

/** What may follow some words of the command line. */
export interface CompletedWords {
  /** `vault service`; '' at the beginning. */
  readonly path: string;
  readonly words: readonly { readonly name: string; readonly about: string }[];
  readonly options: readonly CompletedOption[];
  /** It names a file beside its options. */
  readonly takesFile: boolean;
  /** Another command stands behind `--`. */
  readonly takesCommand: boolean;
}

const help: CompletedOption = { flags: ['-h', '--help'], values: null, about: 'Explain it, with an example' };

/** All that shells can complete, from the very tables that commands are found and parsed by. */
export async function completionTable(groups: Groups): Promise<CompletedWords[]> {
  const files = await Promise.all(Object.values(groups).map(({ load }) => load()));
  const commands = [...new Set(files.flatMap((file) => file.commands))];
  const abouts = new Map([
    ...commands.map(({ name, about }) => [name, about] as const),
    ...Object.entries(groups).map(([name, { about }]) => [name, about] as const),
  ]);
  const names = new Set(commands.map(({ name }) => name));
  const paths = new Set(['', ...[...names].flatMap(beginnings)]);
  return [...paths].sort().map((path) => {
    const command = commands.find(({ name }) => name === path);
    const below = [...paths].filter((other) => other !== path && beginning(other) === path);
    const [, choices = ''] = /^<([^>]*\|[^>]*)>$/.exec(command?.args ?? '') ?? [];
    return {
      path,
      words: [
        ...below.map((name) => ({ name: name.split(' ').at(-1) ?? '', about: abouts.get(name) ?? '' })),
        ...choices.split('|').flatMap((name) => (name === '' ? [] : { name, about: '' })),
      ],
      options: [...(command ? optionsOf(command) : []), help],
      takesFile: /[<[]file[>\]]/.test(command?.args ?? ''),
      takesCommand: command?.takesCommand === true,
    };
  });
}

/** `vault service set` to itself, `vault service` and `vault`. */
function beginnings(name: string): string[] {
  return name === '' ? [] : [name, ...beginnings(beginning(name))];
}

function beginning(name: string): string {
  return name.split(' ').slice(0, -1).join(' ');
}

function optionsOf({ options = {} }: Command): CompletedOption[] {
  return Object.entries(options).map(([written, about]) => {
    const [, flags, value] = /^([^<]*?) *(?:<([^>]*)>)?$/.exec(written) ?? [];
    const values = value === undefined ? null : value.includes('|') ? value.split('|') : 'anything';
    return { flags: flags.split(', '), values, about };
  });
}
