import type { Profiler } from 'node:inspector';
import type { Result } from './load.ts';
import { shown } from './statistics.ts';
import type { ThreadCpu } from './thread-cpu.ts';

/** Where the CPU of a thread went, in µs. */
export interface Summary {
  readonly total: number;
  /** Waiting for events: no CPU. */
  readonly idle: number;
  readonly garbage: number;
  /** JavaScript of this project, of packages, and of Node itself. */
  readonly own: number;
  readonly packages: number;
  readonly node: number;
  /** C++ and the kernel: functions of Node called from JavaScript, and the event loop, OpenSSL and reads outside it. */
  readonly native: number;
  /** Functions by their own time, the most first. */
  readonly top: readonly { readonly name: string; readonly where: string; readonly us: number }[];
}

type Kind = 'idle' | 'garbage' | 'own' | 'packages' | 'node' | 'native';

/** Adds up a profile by the own time of its functions. */
export function summarize(profile: Profiler.Profile, root: string): Summary {
  const { nodes, samples = [], timeDeltas = [] } = profile;
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const sums: Record<Kind, number> = { idle: 0, garbage: 0, own: 0, packages: 0, node: 0, native: 0 };
  const functions = new Map<string, { name: string; where: string; us: number }>();
  let total = 0;
  for (const [i, id] of samples.entries()) {
    // A delta is the time since the sample before: what that one was doing. The last has no end.
    const us = Math.max(0, timeDeltas[i + 1] ?? 0);
    const frame = byId.get(id)?.callFrame;
    if (frame === undefined) continue;
    const kind = kindOf(frame);
    total += us;
    sums[kind] += us;
    if (kind === 'idle') continue;
    const file = frame.url.replace(/^file:\/\//, '').replace(root, '');
    const where = file === '' ? kind : `${file}:${frame.lineNumber + 1}`;
    const name = frame.functionName || '(anonymous)';
    const known = functions.get(`${name} ${where}`) ?? { name, where, us: 0 };
    known.us += us;
    functions.set(`${name} ${where}`, known);
  }
  return { total, ...sums, top: [...functions.values()].sort((a, b) => b.us - a.us) };
}

function kindOf({ functionName, url }: { functionName: string; url: string }): Kind {
  if (functionName === '(idle)') return 'idle';
  if (functionName === '(garbage collector)') return 'garbage';
  // Functions of C++ have no file; `(program)` is what runs with no JavaScript below it.
  if (url === '') return 'native';
  if (url.startsWith('node:')) return 'node';
  return url.includes('/node_modules/') ? 'packages' : 'own';
}

/** The summary as text: where each request's time goes. */
export function profileText(
  summary: Summary,
  run: {
    readonly scenario: string;
    readonly leg: string;
    readonly requests: number;
    readonly result: Result;
    readonly threads: readonly ThreadCpu[];
    readonly top: number;
  },
): string {
  const { requests, result } = run;
  const [lane] = run.threads;
  // Samples are taken by the clock, also while another process has the core: only their shares count.
  const perRequest = ((lane.user + lane.system) * 1e6) / requests;
  const line = (label: string, us: number) => {
    const share = us / (summary.total - summary.idle);
    return `${shown(share * perRequest).padStart(9)} µs ${shown(share * 100).padStart(6)} %  ${label}`;
  };
  const threads = run.threads.slice(0, 4).map(({ name, user, system }) => {
    const [u, s] = [user, system].map((seconds) => shown((seconds * 1e6) / requests).padStart(9));
    return `${u} µs user ${s} µs system  ${name}`;
  });
  const wrong = Object.entries(result.wrong).map(([kind, count]) => `wrong: ${kind} × ${count}`);
  return [
    `${run.scenario}, ${run.leg} to the proxy: ${shown(result.figures.rps)} requests/s, ${requests} requests, the profiler on`,
    ...wrong,
    '',
    'CPU a request, by thread (from /proc); the first is the lane:',
    ...threads,
    '',
    'Of the lane (sampled):',
    line('native: OpenSSL, libuv, V8, system calls', summary.native),
    line('JavaScript of the broker', summary.own),
    line('JavaScript of Node', summary.node),
    line('JavaScript of packages', summary.packages),
    line('garbage collection', summary.garbage),
    '',
    'Functions by their own time:',
    ...summary.top.slice(0, run.top).map(({ name, where, us }) => line(`${name}  ${where}`, us)),
  ].join('\n');
}
