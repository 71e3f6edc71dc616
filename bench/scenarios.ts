import type { Figures } from './load.ts';

/** How much is asked for, so that a whole run is bounded in time. */
export interface Budget {
  /** Measured seconds of each load. */
  readonly seconds: number;
  readonly rounds: number;
  /** Tunnels that are held idle. */
  readonly tunnels: number;
}

export interface Scenario {
  readonly name: string;
  readonly title: string;
  /** The figure that is compared and drawn; less is better. */
  readonly metric: keyof Figures;
  readonly unit: string;
  readonly upstream: 'https' | 'http';
  readonly query?: string;
  readonly command: 'run' | 'idle';
  /** Flags of loadgen. */
  flags(budget: Budget): readonly string[];
  /** Each measurement gets a proxy that was just started and warmed up: its caches and its heap matter here. */
  readonly fresh?: true;
  /** Only for what makes a certificate for each host. */
  readonly mints?: true;
  /** This many lanes on two cores, which load and upstream share where the machine has no two others. */
  readonly lanes?: 1 | 2;
}

const cpu = { metric: 'cpu_us', unit: 'CPU µs per request' } as const;
const timed = { upstream: 'https', command: 'run' } as const;
const seconds = ({ seconds }: Budget) => ['-d', `${seconds}s`];

/** What is measured, in the order in which it is shown. Answers are 1 KiB where nothing else is said. */
export const scenarios: readonly Scenario[] = [
  {
    ...timed,
    name: 'c1',
    title: 'One connection',
    metric: 'p50_us',
    unit: 'median latency, µs',
    flags: (budget) => ['-c', '1', ...seconds(budget)],
  },
  {
    ...timed,
    ...cpu,
    name: 'c64',
    title: '64 connections',
    flags: (budget) => ['-c', '64', ...seconds(budget)],
  },
  {
    ...timed,
    name: 'steady',
    title: '2,000 requests/s, evenly',
    metric: 'p99_us',
    unit: 'p99 latency, µs',
    flags: (budget) => ['-c', '32', '-rate', '2000', ...seconds(budget)],
  },
  {
    ...timed,
    ...cpu,
    name: 'down64k',
    title: '64 KiB answers',
    query: '?size=65536',
    flags: (budget) => ['-c', '16', ...seconds(budget)],
  },
  {
    ...timed,
    ...cpu,
    name: 'up64k',
    title: '64 KiB posts',
    flags: (budget) => ['-c', '16', '-body', '65536', ...seconds(budget)],
  },
  {
    ...timed,
    ...cpu,
    name: 'clear',
    title: 'Plain upstream, 64 connections',
    upstream: 'http',
    flags: (budget) => ['-c', '64', ...seconds(budget)],
  },
  {
    ...timed,
    ...cpu,
    name: 'tunnel',
    title: 'A new tunnel each',
    flags: (budget) => ['-c', '16', '-close', ...seconds(budget)],
  },
  {
    ...timed,
    ...cpu,
    name: 'resume',
    title: 'A new tunnel each, TLS resumed',
    flags: (budget) => ['-c', '16', '-close', '-resume', ...seconds(budget)],
  },
  {
    ...timed,
    ...cpu,
    name: 'hosts',
    title: '100 new hosts',
    unit: 'CPU µs per host',
    flags: () => ['-c', '8', '-close', '-hosts', '100', '-n', '100', '-d', '30s'],
    fresh: true,
    mints: true,
  },
  {
    name: 'idle',
    title: 'Idle tunnels',
    metric: 'kib_per_tunnel',
    unit: 'KiB per tunnel',
    upstream: 'https',
    command: 'idle',
    flags: ({ tunnels }) => ['-c', '16', '-n', String(tunnels)],
    fresh: true,
  },
  {
    ...timed,
    ...cpu,
    name: 'lane',
    title: 'One lane on two cores, 64 connections',
    flags: (budget) => ['-c', '64', ...seconds(budget)],
    fresh: true,
    lanes: 1,
  },
  {
    ...timed,
    ...cpu,
    name: 'lanes',
    title: 'Two lanes on two cores, 64 connections',
    flags: (budget) => ['-c', '64', ...seconds(budget)],
    fresh: true,
    lanes: 2,
  },
];
