import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import type { Profiler } from 'node:inspector';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startBroker } from './broker.ts';
import { failed } from './failure.ts';
import { provideNames } from './host-names.ts';
import { load, type Result } from './load.ts';
import { requireMachine, root } from './machine.ts';
import { wholeNumber } from './options.ts';
import { openGround, openPlace, type Place } from './place.ts';
import { profileText, type Summary, summarize } from './profile-summary.ts';
import { type Scenario, scenarios } from './scenarios.ts';
import type { Leg, Reach, Running } from './subject.ts';
import { supervised } from './supervised.ts';
import { cpuBetween, type ThreadCpu, threadCpu } from './thread-cpu.ts';

const profileable = scenarios.filter(({ command, fresh }) => command === 'run' && !fresh);
const usage = `npm run bench:profile -- [OPTION…]

  --scenario NAME   ${profileable.map(({ name }) => name).join(', ')} (c64)
  --leg TLS|plain   how the client reaches the proxy (TLS)
  --seconds N       1 to 60 (5)
  --top N           how many functions to show (30)

Runs the whole broker with one lane under load and shows where the lane's CPU goes.
`;

const directory = fileURLToPath(new URL('./results/profile', import.meta.url));

interface Options {
  readonly scenario: Scenario;
  readonly leg: Leg;
  readonly seconds: number;
  readonly top: number;
}

async function main({ scenario, leg, seconds, top }: Options): Promise<void> {
  requireMachine();
  provideNames();
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  const place = await openPlace(await openGround(), 1);
  const running = await startBroker(place, {
    hook: new URL('./profile-hook.ts', import.meta.url),
    env: { BENCH_PROFILE_DIR: directory },
  });
  const reach = running.ways.find((way) => way.leg === leg)?.reach(scenario.upstream);
  if (!reach) throw failed(`${scenario.name} can't be run with --leg ${leg}.`);
  const budget = { seconds, rounds: 1, tunnels: 0 };
  const options = { query: scenario.query, flags: scenario.flags(budget), seconds: seconds + 60 };
  await load(place, running, reach, 'run', { ...options, flags: scenario.flags({ ...budget, seconds: 2 }) });

  const { result, threads } = await profiled(place, running, reach, options);
  await running.stop();
  const summary = laneSummary();
  const requests = Math.max(1, result.figures.requests ?? 0);
  console.log(profileText(summary, { scenario: scenario.title, leg, requests, result, threads, top }));
  console.log(`\nThe profiles of all threads, for a browser's developer tools: ${directory}`);
}

/** Profiles all threads while the load runs, and waits until they have written what they saw. */
async function profiled(
  place: Place,
  running: Running,
  reach: Reach,
  options: Parameters<typeof load>[4],
): Promise<{ result: Result; threads: ThreadCpu[] }> {
  process.kill(running.pid, 'SIGUSR2');
  await until(() => files('.part').length >= 2, 'began no profile');
  const before = threadCpu(running.pid);
  // No warm-up: what is profiled is what is counted.
  const flags = [...options.flags, '-warm', '0s'];
  const result = await load(place, running, reach, 'run', { ...options, flags });
  const threads = cpuBetween(before, threadCpu(running.pid));
  process.kill(running.pid, 'SIGUSR2');
  await until(() => files('.part').length === 0, 'wrote no profile');
  return { result, threads };
}

/** Of the busiest thread: under load that is the lane. */
function laneSummary(): Summary {
  const summaries = files('.cpuprofile').map((name) => {
    const profile = JSON.parse(readFileSync(`${directory}/${name}`, 'utf8')) as Profiler.Profile;
    return summarize(profile, root);
  });
  return summaries.sort((a, b) => b.total - b.idle - (a.total - a.idle))[0];
}

function files(suffix: string): string[] {
  return readdirSync(directory).filter((name) => name.endsWith(suffix));
}

async function until(condition: () => boolean, otherwise: string): Promise<void> {
  const end = performance.now() + 30_000;
  while (!condition()) {
    if (performance.now() > end) throw failed(`The broker ${otherwise} within 30 s.`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function readProfileOptions(args: readonly string[]): Options | null {
  let values: Record<string, string | boolean | undefined>;
  try {
    const text = { type: 'string' } as const;
    ({ values } = parseArgs({
      args: [...args],
      options: { scenario: text, leg: text, seconds: text, top: text, help: { type: 'boolean', short: 'h' } },
    }));
  } catch (error) {
    throw failed(`${(error as Error).message}\n\n${usage}`);
  }
  if (values.help === true) return null;
  const { scenario: name = 'c64', leg = 'TLS' } = values;
  const scenario = profileable.find((one) => one.name === name);
  if (scenario === undefined) throw failed(`There is no scenario ${name}.\n\n${usage}`);
  if (leg !== 'TLS' && leg !== 'plain') throw failed('--leg is TLS or plain.');
  const seconds = wholeNumber('seconds', values.seconds, 5, 60);
  return { scenario, leg, seconds, top: wholeNumber('top', values.top, 30, 1000) };
}

await supervised(async () => {
  const options = readProfileOptions(process.argv.slice(2));
  if (options === null) process.stdout.write(usage);
  else await main(options);
});
