/**
 * The long fuzz run: `node test/fuzz/run.ts [--examples 100000] [--seed N] [--from N] [--without go,h11]`.
 * Before it, each mutant of the proxy has to be found out (`--no-mutants` leaves that out); `--mutant NAME`
 * runs against one of them only; `--blind` lets only the parsers' differences count, not what the maker of
 * an example knows. Exits 0 where nothing is wrong, 1 with findings, 2 where it can't run.
 */
import { execFile } from 'node:child_process';
import { parseArgs, promisify } from 'node:util';
import { load, mutants } from './mutants.ts';
import { missing, type Reference, referenceNames, startReference } from './references.ts';

const { values: args } = parseArgs({
  options: {
    examples: { type: 'string', default: '100000' },
    seed: { type: 'string', default: '1' },
    from: { type: 'string', default: '0' },
    without: { type: 'string', default: '' },
    mutant: { type: 'string' },
    'no-mutants': { type: 'boolean', default: false },
    blind: { type: 'boolean', default: false },
  },
});
const without = args.without.split(',');
const names = referenceNames.filter((name) => !without.includes(name));
const [examples, seed, from] = [args.examples, args.seed, args.from].map(Number);

function fail(message: string): never {
  console.error(message);
  process.exit(2);
}

for (const name of names) {
  const why = missing(name);
  if (why !== null) fail(`${why}\nOr leave it out: --without ${name}`);
}
if (![examples, seed, from].every(Number.isSafeInteger))
  fail('--examples, --seed and --from are whole numbers.');
const mutant = args.mutant === undefined ? undefined : mutants.find(({ name }) => name === args.mutant);
if (args.mutant !== undefined && mutant === undefined)
  fail(`No such mutant. There are:\n${mutants.map(({ name }) => `  ${name}`).join('\n')}`);

/** Runs each mutant in a process of its own, two at a time; the names of those that nothing noticed. */
async function survivors(): Promise<string[]> {
  const alive: string[] = [];
  const rest = [...mutants];
  const work = async (): Promise<void> => {
    for (let one = rest.shift(); one !== undefined; one = rest.shift()) {
      // The weakest set-up has to notice: one reference.
      const options = [
        '--mutant',
        one.name,
        '--examples',
        '30000',
        '--seed',
        args.seed,
        '--without',
        'go,h11',
      ];
      if (args.blind) options.push('--blind');
      const { name } = one;
      await promisify(execFile)(process.execPath, [import.meta.filename, ...options]).then(
        () => alive.push(name),
        (error) => {
          if (error.code !== 1) fail(`${name}: ${error.stderr}`);
          console.log(`found out: ${name} (${String(error.stdout).split('\n')[0]})`);
        },
      );
    }
  };
  await Promise.all([work(), work()]);
  return alive;
}

if (mutant !== undefined) load(mutant);
else if (!args['no-mutants']) {
  const alive = await survivors();
  if (alive.length > 0) {
    for (const name of alive) console.log(`NOT found out: ${name}`);
    process.exit(1);
  }
}
// Only now, so that a mutant is in what they load.
const { fuzzLane, inFlight, openPlace, runSuite } = await import('./suite.ts');
const { minimise } = await import('./minimise.ts');

process.on('uncaughtException', (error) => {
  console.log(`the proxy threw while examples ${[...inFlight].join(', ')} were under way (seed ${seed})`);
  console.log(error);
  process.exit(1);
});
const references: Reference[] = names.map(startReference);
const lane = await fuzzLane();
const startedAt = performance.now();
const { fates, findings } = await runSuite(lane, references, {
  seed,
  from,
  examples,
  findings: mutant === undefined ? 10 : 1,
  places: 16,
  blind: args.blind,
  onProgress: (done) =>
    mutant === undefined &&
    console.log(`${done} examples, ${Math.round((performance.now() - startedAt) / 1000)} s`),
});
const seconds = (performance.now() - startedAt) / 1000;

for (const { index, problem } of findings) {
  console.log(`example ${index}: ${problem}`);
  if (mutant !== undefined) break;
  const place = await openPlace(lane, references);
  const example = place.make(seed, index);
  // A second time, and on its own: what only fails in company is a race, and says so.
  const again = (await place.check(example)).problem;
  const least = again === null ? example : await minimise(place, example, 20_000);
  console.log(
    `  ${example.direction}, ${example.example.label}; ${again === null ? 'NOT seen again alone' : 'seen again'}`,
  );
  // Longer ones are made again from seed and index.
  const bytes = JSON.stringify(least.example.bytes.latin1Slice()).slice(0, 4000);
  console.log(`  bytes ${bytes} cut at [${least.cuts.join()}]`);
  place.stop();
}
for (const reference of references) reference.stop();
if (mutant === undefined) {
  for (const [fate, count] of [...fates].sort()) console.log(`${String(count).padStart(8)} ${fate}`);
  console.log(
    `${examples} examples, seed ${seed}, read by ${names.join(', ')}: ${findings.length} findings, ${Math.round(examples / seconds)} a second`,
  );
}
process.exit(findings.length > 0 ? 1 : 0);
