import { barHeights } from './chart.ts';
import type { Minute } from './history.ts';

const format = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 1 });

/** A number for humans: `12,345`. */
export function figures(value: number): string {
  return format.format(value);
}

/** `1 file`, `2 files`. */
export function counted(count: number, name: string): string {
  return `${figures(count)} ${name}${count === 1 ? '' : 's'}`;
}

/** One thing that is counted, as it is now and as it was in the last hour. */
export interface Panel {
  readonly id: 'requests' | 'latency' | 'refusals';
  readonly title: string;
  readonly figure: string;
  readonly note: string;
  /** One a minute. */
  readonly values: readonly number[];
}

export function panels(minutes: readonly Minute[]): Panel[] {
  const sum = (of: (minute: Minute) => number) => minutes.reduce((total, minute) => total + of(minute), 0);
  const now = minutes.at(-1);
  const timed = minutes.findLast(({ p95 }) => p95 !== null);
  return [
    {
      id: 'requests',
      title: 'Requests this minute',
      figure: figures(now?.requests ?? 0),
      note: `${figures(sum(({ requests }) => requests))} in the last hour, ${figures(sum(({ failures }) => failures))} of them failed`,
      values: minutes.map(({ requests }) => requests),
    },
    {
      id: 'latency',
      title: 'Time to answer, 95 of 100',
      figure: timed ? `≤ ${figures(timed.p95 ?? 0)} ms` : '–',
      note: timed ? `Half of them within ${figures(timed.p50 ?? 0)} ms` : 'No requests in the last hour',
      values: minutes.map(({ p95 }) => p95 ?? 0),
    },
    {
      id: 'refusals',
      title: 'Refused this minute',
      figure: figures(now?.refusals ?? 0),
      note: `${figures(sum(({ refusals }) => refusals))} in the last hour`,
      values: minutes.map(({ refusals }) => refusals),
    },
  ];
}

/** The same for the script of a page that shows them already. */
export function panelUpdates(minutes: readonly Minute[]): object[] {
  return panels(minutes).map(({ id, figure, note, values }) => ({
    id,
    figure,
    note,
    bars: barHeights(values),
  }));
}
