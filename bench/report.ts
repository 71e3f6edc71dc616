import type { Figures } from './load.ts';
import type { Machine } from './machine.ts';
import type { Row } from './measure.ts';
import type { Scenario } from './scenarios.ts';
import { median, shown } from './statistics.ts';
import type { Leg } from './subject.ts';

/** A whole run, as `latest.json` holds it. */
export interface Results {
  /** ISO 8601, when it began. */
  readonly date: string;
  readonly rounds: number;
  /** Measured seconds of each load. */
  readonly seconds: number;
  readonly machine: Machine;
  /** Of each proxy that took part, by name. */
  readonly versions: Readonly<Record<string, string>>;
  /** Peers that were asked for and aren't there, with what is missing. */
  readonly absent: Readonly<Record<string, string>>;
  readonly rows: readonly Row[];
}

const ours = 'broker';
/** Above this share of a core used by others, a run says little. */
const quiet = 0.1;

/** The report in Markdown: what was compared, then all figures, then what to mind. */
export function markdown(results: Results, scenarios: readonly Scenario[]): string {
  const { machine, rounds, seconds, versions, date } = results;
  const lines = [
    '# Benchmark',
    '',
    `${date.slice(0, 16).replace('T', ' ')} UTC · ${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB, ${machine.kernel}`,
    '',
    ...Object.entries(versions).map(([name, version]) => `- ${name} ${version}`),
    ...Object.entries(results.absent).map(([name, missing]) => `- no ${name}: ${missing}`),
    '',
    `Medians of ${rounds} round${rounds === 1 ? '' : 's'} of ${seconds} s, the proxies in turn in each. The proxy is alone on one core; load and`,
    'upstream share another. Less is better. In brackets: the broker divided by that proxy, the median of the',
    "rounds' quotients; below 1 the broker is better.",
    '',
    ...legs.flatMap(([leg, title]) => {
      const compared = comparison(results, scenarios, leg);
      return compared === null ? [] : [`## ${title}`, '', compared, ''];
    }),
    '## All figures',
    '',
    details(results.rows, scenarios),
    '',
    ...notes(results).map((note) => `- ${note}`),
  ];
  return `${lines.join('\n').trimEnd()}\n`;
}

const legs: readonly (readonly [Leg, string])[] = [
  ['TLS', 'TLS between client and proxy'],
  ['plain', 'No TLS between client and proxy'],
];

/** One line a scenario, one column a proxy; null if nothing was measured this way. */
function comparison({ rows }: Results, scenarios: readonly Scenario[], leg: Leg): string | null {
  const here = rows.filter((row) => row.leg === leg);
  const subjects = [...new Set(here.map(({ subject }) => subject))];
  if (subjects.length === 0) return null;
  const body = scenarios.flatMap((scenario) => {
    const own = here.filter((row) => row.scenario === scenario.name);
    if (own.length === 0) return [];
    const broker = own.find(({ subject }) => subject === ours);
    const cells = subjects.map((subject) => {
      const row = own.find((one) => one.subject === subject);
      if (row === undefined) return '–';
      const value = shown(row.median[scenario.metric]);
      const ratio =
        broker === undefined || row === broker ? Number.NaN : quotient(broker, row, scenario.metric);
      return Number.isNaN(ratio) ? value : `${value} (${shown(ratio)})`;
    });
    return [[scenario.title, scenario.unit, ...cells]];
  });
  return table(['Scenario', 'Measure', ...subjects], body, 2);
}

/** Each round's own quotient, then their median: the machine's speed drifts between rounds, not within one. */
function quotient(a: Row, b: Row, metric: keyof Figures): number {
  return median(
    a.rounds.flatMap((figures, i) => {
      const [above, below] = [figures[metric], b.rounds[i]?.[metric]];
      return above === undefined || !below ? [] : [above / below];
    }),
  );
}

function details(rows: readonly Row[], scenarios: readonly Scenario[]): string {
  const header = [
    'Scenario',
    'Proxy',
    'Leg',
    'req/s',
    'CPU µs',
    'p50 µs',
    'p99 µs',
    'p99.9 µs',
    'Memory MiB',
  ];
  const titles = new Map(scenarios.map(({ name, title }) => [name, title]));
  const body = rows.map((row) => {
    const { rps, cpu_us, p50_us, p99_us, p999_us, resident_mib } = row.median;
    const figures = [rps, cpu_us, p50_us, p99_us, p999_us, resident_mib].map(shown);
    return [titles.get(row.scenario) ?? row.scenario, row.subject, row.leg, ...figures];
  });
  return table(header, body, 3);
}

/** What went wrong, and what makes figures doubtful. */
function notes({ rows, machine }: Results): string[] {
  const found: string[] = [];
  for (const row of rows) {
    for (const [kind, count] of Object.entries(row.wrong)) {
      const text = row.sample[kind] ? ` (“${row.sample[kind].replaceAll(/\s+/g, ' ')}”)` : '';
      found.push(`**${row.subject}, ${row.leg}, ${row.scenario}: ${kind} × ${count}**${text}`);
    }
  }
  const others = Math.max(0, ...rows.map(({ median }) => median.other_share ?? 0));
  if (others > quiet)
    found.push(
      `Other processes used up to ${Math.round(others * 100)} % of a core: run it again on a quiet machine.`,
    );
  if (machine.cores < 4 && rows.some(({ scenario }) => scenario === 'lane' || scenario === 'lanes'))
    found.push(
      'Where the proxy has two cores, load and upstream run on the same two: look at CPU there, not at requests/s, and compare two lanes with the one lane that runs so.',
    );
  if (rows.some(({ subject }) => subject === 'nginx'))
    found.push(
      'nginx is a reverse proxy here: no CONNECT, sign-in, policy, log or leaf certificates. It is a floor.',
    );
  return found;
}

/** A Markdown table, aligned so that it reads well as text too. The first `left` columns are text. */
function table(header: readonly string[], body: readonly (readonly string[])[], left: number): string {
  const widths = header.map((cell, i) => Math.max(cell.length, 3, ...body.map((row) => row[i].length)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, i) => (i < left ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join(' | ')} |`;
  const rule = widths.map((width, i) => (i < left ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`));
  return [line(header), line(rule), ...body.map(line)].join('\n');
}
