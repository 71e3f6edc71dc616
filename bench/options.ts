import { parseArgs } from 'node:util';
import { failed } from './failure.ts';

export interface Options {
  readonly quick: boolean;
  readonly rounds: number;
  /** Measured seconds of each load. */
  readonly seconds: number;
  /** Names of scenarios; null: all. */
  readonly only: readonly string[] | null;
  /** Names of peers. */
  readonly peers: readonly string[];
  readonly install: boolean;
  readonly help: boolean;
}

export function usage(scenarios: readonly string[], peers: readonly string[]): string {
  return `npm run bench -- [OPTION…]

  --quick             one round of 2 s: a look, not a result
  --rounds N          rounds, 1 to 20; medians are shown (3)
  --seconds N         measured seconds of each load, 1 to 60 (3)
  --only A,B          scenarios: ${scenarios.join(', ')} (all)
  --peers A,B         peers: ${peers.join(', ')}; or all, none (nginx,squid)
  --install           install the peers that are missing: by apt (as root), pip and npm
`;
}

/** @throws Failure for what can't be understood */
export function readOptions(
  args: readonly string[],
  known: { readonly scenarios: readonly string[]; readonly peers: readonly string[] },
): Options {
  let values: Record<string, string | boolean | undefined>;
  try {
    ({ values } = parseArgs({
      args: [...args],
      options: {
        quick: { type: 'boolean' },
        install: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
        rounds: { type: 'string' },
        seconds: { type: 'string' },
        only: { type: 'string' },
        peers: { type: 'string' },
      },
    }));
  } catch (error) {
    throw failed(`${(error as Error).message}\n\n${usage(known.scenarios, known.peers)}`);
  }
  const quick = values.quick === true;
  return {
    quick,
    rounds: wholeNumber('rounds', values.rounds, quick ? 1 : 3, 20),
    seconds: wholeNumber('seconds', values.seconds, quick ? 2 : 3, 60),
    only: values.only === undefined ? null : list('only', values.only, known.scenarios),
    peers: peerNames(values.peers, known.peers),
    install: values.install === true,
    help: values.help === true,
  };
}

/** A whole number from 1 to `most`. Throws a Failure for anything else. */
export function wholeNumber(name: string, text: unknown, otherwise: number, most: number): number {
  if (text === undefined) return otherwise;
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > most)
    throw failed(`--${name} is a whole number, 1 to ${most}.`);
  return value;
}

function peerNames(text: unknown, known: readonly string[]): readonly string[] {
  if (text === 'all') return known;
  if (text === 'none') return [];
  return list('peers', text ?? 'nginx,squid', known);
}

function list(name: string, text: unknown, known: readonly string[]): readonly string[] {
  const items = String(text)
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
  const stranger = items.find((item) => !known.includes(item));
  if (stranger !== undefined || items.length === 0)
    throw failed(
      `--${name}: ${stranger === undefined ? 'names are missing' : `there is no ${stranger}`}. There are ${known.join(', ')}.`,
    );
  return items;
}
