import { isFailure } from './failure.ts';
import { type Figures, load, type Result } from './load.ts';
import { type Ground, openPlace, type Place } from './place.ts';
import type { Budget, Scenario } from './scenarios.ts';
import { median, shown } from './statistics.ts';
import type { Leg, Running, Subject } from './subject.ts';

/** All that was measured of one scenario through one way of one proxy. */
export interface Row {
  readonly scenario: string;
  readonly subject: string;
  readonly leg: Leg;
  /** One of each round; empty where it failed. */
  readonly rounds: readonly Figures[];
  readonly median: Figures;
  /** All rounds' together. */
  readonly wrong: Readonly<Record<string, number>>;
  readonly sample: Readonly<Record<string, string>>;
}

/** One measurement of one way. */
interface Measured {
  readonly subject: Subject;
  readonly leg: Leg;
  readonly result: Result;
}

/** Minutes that `measure` will take, roughly. */
export function minutes(
  subjects: readonly Subject[],
  scenarios: readonly Scenario[],
  budget: Budget,
): number {
  let seconds = 10;
  for (const scenario of scenarios) {
    const ways = partakers(subjects, scenario).flatMap(({ legs }) => legs).length;
    // A second of warm-up; or a start, a warm-up and, while tunnels idle, some waiting.
    const each = scenario.fresh ? 10 : budget.seconds + 1.5;
    seconds += ways * budget.rounds * each;
  }
  return Math.ceil(seconds / 60);
}

/**
 * Runs the scenarios, each for some rounds, in each round all proxies in turn: what the machine's own speed
 * does then, it does to all. Who is first changes from round to round.
 */
export async function measure(
  ground: Ground,
  subjects: readonly Subject[],
  scenarios: readonly Scenario[],
  budget: Budget,
): Promise<Row[]> {
  const places = new Map<1 | 2, Place>();
  const standing = new Map<Subject, Running>();
  const rows: Row[] = [];
  for (const scenario of scenarios) {
    const cores = scenario.lanes === undefined ? 1 : 2;
    const shared = places.get(cores) ?? (await openPlace(ground, cores));
    places.set(cores, shared);
    const place = { ...shared, lanes: scenario.lanes ?? 1 };
    const turns = partakers(subjects, scenario);
    const measured: Measured[] = [];
    for (let round = 0; round < budget.rounds; round++) {
      for (const i of turns.keys()) {
        const subject = turns[(i + round) % turns.length];
        for (const leg of subject.legs) {
          const result = await once(place, standing, subject, leg, scenario, budget);
          measured.push({ subject, leg, result });
          const figure = `${shown(result.figures[scenario.metric])} ${scenario.unit}`;
          const name = `${scenario.name} ${round + 1}/${budget.rounds} ${subject.name} ${leg}`;
          console.error(`${name}: ${figure}${trouble(result.wrong)}`);
        }
      }
    }
    for (const subject of turns)
      for (const leg of subject.legs) {
        const own = measured.filter((one) => one.subject === subject && one.leg === leg);
        rows.push(rowOf(scenario, own));
      }
  }
  await Promise.all([...standing.values()].map((running) => running.stop()));
  return rows;
}

function partakers(subjects: readonly Subject[], { mints, lanes }: Scenario): Subject[] {
  return subjects.filter((subject) => (subject.mints || !mints) && (subject.twoLanes || lanes === undefined));
}

/**
 * One measurement, of a proxy that stands, or of one that is started for it. Where that fails there are no
 * figures, and `wrong` tells why: the others go on.
 */
async function once(
  place: Place,
  standing: Map<Subject, Running>,
  subject: Subject,
  leg: Leg,
  scenario: Scenario,
  budget: Budget,
): Promise<Result> {
  let own: Running | null = null;
  try {
    const running = (scenario.fresh ? undefined : standing.get(subject)) ?? (await subject.start(place));
    if (scenario.fresh) own = running;
    else standing.set(subject, running);
    const reach = running.ways.find((way) => way.leg === leg)?.reach(scenario.upstream);
    if (reach === undefined) throw new Error(`${subject.name} has no way by ${leg}`);
    // Code is compiled and the heap has its size before anything counts. By time, as some are very slow; each lane
    // compiles for itself.
    if (scenario.fresh) {
      const flags = ['-c', '16', '-d', scenario.lanes === undefined ? '1s' : '4s'];
      await load(place, running, reach, 'run', { flags, seconds: 30 });
    }
    return await load(place, running, reach, scenario.command, {
      query: scenario.query,
      flags: scenario.flags(budget),
      seconds: budget.seconds + 120,
    });
  } catch (error) {
    if (!isFailure(error)) throw error;
    // The next scenario gets a new one.
    await standing.get(subject)?.stop();
    standing.delete(subject);
    return { figures: {}, wrong: { 'no result': 1 }, sample: { 'no result': error.message } };
  } finally {
    await own?.stop();
  }
}

/** All rounds of one way, put together. */
function rowOf(scenario: Scenario, measured: readonly Measured[]): Row {
  const results = measured.map(({ result }) => result);
  const rounds = results.map(({ figures }) => figures);
  const names = new Set(rounds.flatMap((figures) => Object.keys(figures) as (keyof Figures)[]));
  const middle: Partial<Record<keyof Figures, number>> = {};
  for (const name of names)
    middle[name] = median(rounds.map((figures) => figures[name]).filter((value) => value !== undefined));
  const wrong: Record<string, number> = {};
  for (const result of results)
    for (const [kind, count] of Object.entries(result.wrong)) wrong[kind] = (wrong[kind] ?? 0) + count;
  return {
    scenario: scenario.name,
    subject: measured[0].subject.name,
    leg: measured[0].leg,
    rounds,
    median: middle,
    wrong,
    sample: Object.assign({}, ...results.map(({ sample }) => sample)),
  };
}

function trouble(wrong: Result['wrong']): string {
  const kinds = Object.entries(wrong).map(([kind, count]) => `${kind} × ${count}`);
  return kinds.length === 0 ? '' : `  (${kinds.join(', ')})`;
}
