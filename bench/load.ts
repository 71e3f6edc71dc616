import { start } from './children.ts';
import { failed } from './failure.ts';
import type { Place } from './place.ts';
import type { Reach, Running } from './subject.ts';

/** What a measurement gives: times in µs, CPU in µs a request, shares of one core, memory in KiB or MiB. */
export interface Figures {
  /** That succeeded while it was measured. */
  readonly requests?: number;
  readonly rps?: number;
  readonly cpu_us?: number;
  readonly p50_us?: number;
  readonly p99_us?: number;
  readonly p999_us?: number;
  readonly kib_per_tunnel?: number;
  /** Memory of the proxy at the end. */
  readonly resident_mib?: number;
  /** CPU of the proxy; while idle in `idle`. */
  readonly cpu_share?: number;
  /** CPU of whatever has no part in this. */
  readonly other_share?: number;
  /** Connections that the upstream got. */
  readonly upstream_dials?: number;
}

export interface Result {
  readonly figures: Figures;
  /** What failed or was answered wrongly: how often, by kind. Empty if all was well. */
  readonly wrong: Readonly<Record<string, number>>;
  /** The text of one such of each kind. */
  readonly sample: Readonly<Record<string, string>>;
}

/**
 * Puts load on a proxy that runs, from the place's load cores.
 * @param seconds how long it may take at most
 * @throws Failure if the load generator itself fails or takes too long
 */
export async function load(
  place: Place,
  running: Running,
  reach: Reach,
  command: 'run' | 'idle',
  options: { readonly query?: string; readonly flags: readonly string[]; readonly seconds: number },
): Promise<Result> {
  const { pid: upstream, plainPort } = place.upstream;
  const args = [command, ...reach.flags, '-url', `${reach.origin}/${options.query ?? ''}`];
  args.push('-pid', String(running.pid), '-upid', String(upstream));
  args.push('-stats', `http://127.0.0.1:${plainPort}/stats`, ...options.flags);
  const child = start('loadgen', place.loadgen, args, {
    cores: place.loadCores,
    // Not an argument: it may hold a token, and those are shown to all by ps.
    env: { LOADGEN_PROXY: reach.proxy ?? '' },
  });
  const timer = setTimeout(() => void child.stop(), options.seconds * 1000);
  await child.ended;
  clearTimeout(timer);
  if (child.stdout() === '') {
    const why = child.stderr().trim() || `it was ended after ${options.seconds} s`;
    throw failed(`The load generator gave no result: ${why.slice(-500)}`);
  }
  const { wrong, sample, ...figures } = JSON.parse(child.stdout()) as Figures & Omit<Result, 'figures'>;
  // Times and CPU of nothing are no figures.
  return { figures: figures.requests === 0 ? {} : figures, wrong, sample };
}
