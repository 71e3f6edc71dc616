import { type CAC, cac } from 'cac';
import { misused, note, write } from './terminal.ts';

/** One command, as data: what help shows and what runs. */
export interface Command {
  /** All its words: `vault service set`. */
  readonly name: string;
  /** Its arguments: `<KEY>` required, `[name]` optional, `<...settings>` one or more. */
  readonly args?: string;
  readonly about: string;
  /** What each option does, by how it is written: `-f, --file <path>` takes a value, `--json` doesn't. */
  readonly options?: Readonly<Record<string, string>>;
  /** Options that may be given more than once. */
  readonly repeatable?: readonly string[];
  readonly examples: readonly string[];
  /** It takes another command behind `--`. */
  readonly takesCommand?: true;
  /** Resolves to the exit code; nothing means 0. Throws `Failure`. */
  run(input: Input): Promise<number | undefined> | Promise<void>;
}

/** What the user gave. Options are asked for by their long name: `data-dir`. */
export interface Input {
  readonly args: readonly string[];
  /** Everything behind `--`. */
  readonly rest: readonly string[];
  /** The option's value, exactly as written; undefined where it wasn't given. */
  text(name: string): string | undefined;
  texts(name: string): readonly string[];
  flag(name: string): boolean;
}

/** A file of commands, loaded only when one of them is called or listed. */
interface Group {
  readonly about: string;
  load(): Promise<{ readonly commands: readonly Command[] }>;
}

/** Groups by the words that their commands begin with. */
export type Groups = Readonly<Record<string, Group>>;

/** Options of every command that talks to a broker. */
export const connectionOptions = {
  '--address <url>': 'Address of the broker (BROKER_ADDR; http://127.0.0.1:14321)',
  '--data-dir <path>': 'Data directory with the owner.token to sign in by (BROKER_DATA_DIR)',
} as const;

export const vaultOption = { '--vault <name>': 'The vault (default)' } as const;
export const jsonOption = { '--json': 'Print JSON' } as const;

const secondsIn: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/**
 * Seconds of `90`, `90s`, `15m`, `24h` or `7d`. Which lengths are allowed is the server's to say.
 * Throws a misuse that names `option`.
 */
export function durationSeconds(text: string, option: string): number {
  const match = /^(\d{1,9})([smhd]?)$/.exec(text);
  if (match === null) throw misused(`${option} takes a time such as 90s, 15m, 24h or 7d.`);
  return Number(match[1]) * secondsIn[match[2] || 's'];
}

/** Runs the command that `argv` (without node and script) names, and gives its exit code. Throws `Failure`. */
export async function runCommandLine(groups: Groups, argv: readonly string[]): Promise<number> {
  if (argv[0] === 'help') return runCommandLine(groups, [...argv.slice(1), '--help']);
  const end = argv.findIndex((arg) => arg.startsWith('-'));
  const words = end === -1 ? argv : argv.slice(0, end);
  const wantsHelp = argv[words.length] === '--help' || argv[words.length] === '-h';
  if (words.length === 0) {
    if (argv[0] === '--version' || argv[0] === '-v') return runCommandLine(groups, ['version']);
    if (argv.length > 0 && !wantsHelp)
      throw misused('The command comes first, then its options. See `broker --help`.');
    return overview(wantsHelp, rootHelp(groups));
  }
  const group = longestPrefix(Object.keys(groups), words);
  if (group === undefined) throw misused(`There is no command \`${words[0]}\`. See \`broker --help\`.`);
  const { commands } = await groups[group].load();
  const name = longestPrefix(
    commands.map((command) => command.name),
    words,
  );
  const command = commands.find((one) => one.name === name);
  if (command !== undefined) return runCommand(command, argv.slice(command.name.split(' ').length));
  if (words.length > group.split(' ').length) {
    throw misused(
      `There is no command \`${group} ${words[group.split(' ').length]}\`. See \`broker ${group} --help\`.`,
    );
  }
  return overview(wantsHelp, await groupHelp(groups, group));
}

function longestPrefix(names: readonly string[], words: readonly string[]): string | undefined {
  const line = `${words.join(' ')} `;
  return names.filter((name) => line.startsWith(`${name} `)).sort((a, b) => b.length - a.length)[0];
}

function overview(asked: boolean, text: string): number {
  if (asked) write(text);
  else note(text.trimEnd());
  return asked ? 0 : 2;
}

function rootHelp(groups: Groups): string {
  const rows = Object.entries(groups).map(([name, { about }]) => [name, about]);
  return `${list('Usage: broker COMMAND [options]', rows)}\nMore about one: broker COMMAND --help\n`;
}

async function groupHelp(groups: Groups, name: string): Promise<string> {
  const names = Object.keys(groups).filter((other) => other === name || other.startsWith(`${name} `));
  const files = await Promise.all(names.map((other) => groups[other].load()));
  // Two groups may share a file.
  const commands = [...new Set(files.flatMap((file) => file.commands))];
  const rows = commands.map((one) => [`${one.name} ${one.args ?? ''}`, one.about]);
  return `${list(`Usage: broker ${name} COMMAND [options]`, rows)}\nMore about one: broker ${name} COMMAND --help\n`;
}

function list(head: string, rows: readonly string[][]): string {
  const width = Math.max(...rows.map(([left]) => left.length));
  return `${head}\n\nCommands:\n${rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}\n`).join('')}`;
}

/** cac reads numbers out of values (`007` becomes 7); this mark before each keeps it text. It can't come from a shell. */
const textMark = '\0';

async function runCommand(command: Command, argv: readonly string[]): Promise<number> {
  const cli = declare(command);
  const see = `See \`broker ${command.name} --help\`.`;
  const dashes = argv.indexOf('--');
  const own = dashes === -1 ? argv : argv.slice(0, dashes);
  const rest = dashes === -1 ? [] : argv.slice(dashes + 1);
  cli.parse(['node', 'broker', command.name, ...markValues(cli, own, see)], { run: false });
  if (cli.matchedCommand === undefined) return 0; // Help was asked for and given.

  const args = cli.args.map(String);
  const { args: expected } = cli.matchedCommand;
  if (args.length < expected.filter((arg) => arg.required).length)
    throw misused(`An argument is missing. ${see}`);
  // What is too much isn't repeated: it may be a secret that doesn't belong there.
  if (args.length > expected.length && !expected.some((arg) => arg.variadic)) {
    throw misused(
      command.takesCommand ? `Put -- before the command to run. ${see}` : `Too many arguments. ${see}`,
    );
  }
  if (rest.length > 0 && !command.takesCommand) throw misused(`Nothing may stand behind --. ${see}`);

  const values = (name: string): string[] => {
    const value: unknown =
      cli.options[name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())];
    return (value === undefined ? [] : [value].flat()).map((one) => String(one).replace(textMark, ''));
  };
  for (const option of cli.matchedCommand.options) {
    const name = option.rawName.replace(/^.*--([a-z-]+).*$/, '$1');
    if (!option.isBoolean && values(name).length > 1 && !command.repeatable?.includes(name)) {
      throw misused(`--${name} is given more than once. ${see}`);
    }
  }
  const code = await command.run({
    args,
    rest,
    text: (name) => values(name)[0],
    texts: values,
    flag: (name) => values(name).includes('true'),
  });
  return code ?? 0;
}

function declare(command: Command): CAC {
  const cli = cac('broker');
  const declared = cli.command(`${command.name} ${command.args ?? ''}`.trim(), command.about);
  for (const [flags, about] of Object.entries(command.options ?? {})) declared.option(flags, about);
  for (const example of command.examples) declared.example(`  ${example}`);
  const tail = command.takesCommand ? ' -- COMMAND…' : '';
  declared.usage(`${declared.rawName} [options]${tail}`);
  cli.help((sections) => [
    { body: command.about },
    ...sections.slice(1).map(({ title, body }) => ({ title, body: body.replace(/ +$/gm, '') })),
  ]);
  return cli;
}

/** Rewrites each option to `--name=value`, so that cac neither guesses types nor takes a neighbour for a value. */
function markValues(cli: CAC, argv: readonly string[], see: string): string[] {
  const options = [...cli.commands[0].options, ...cli.globalCommand.options];
  const marked: string[] = [];
  for (let i = 0; i < argv.length; i++) {
    const arg = argv[i];
    if (!arg.startsWith('-')) {
      marked.push(arg);
      continue;
    }
    const [flag, ...parts] = arg.split('=');
    const option = options.find((one) => one.rawName.split(/[ ,]+/).includes(flag));
    if (option === undefined) throw misused(`There is no option ${flag.slice(0, 40)}. ${see}`);
    if (option.isBoolean) {
      if (parts.length > 0) throw misused(`${flag} takes no value. ${see}`);
      marked.push(`${flag}=true`);
      continue;
    }
    // A lone hyphen is standard input; anything longer is the next option.
    const next = argv[i + 1];
    const value =
      parts.length > 0 ? parts.join('=') : next === '-' || !next?.startsWith('-') ? argv[++i] : undefined;
    if (!value) throw misused(`${flag} needs a value. ${see}`);
    marked.push(`${flag}=${textMark}${value}`);
  }
  return marked;
}
