/** The fuzz suite in short, and that it has teeth. The long run: `npm run test:fuzz`. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { mutants, mutated } from '../fuzz/mutants.ts';
import { missing, referenceNames, startReference } from '../fuzz/references.ts';
import { fuzzLane, runSuite } from '../fuzz/suite.ts';

const run = fileURLToPath(new URL('../fuzz/run.ts', import.meta.url));

/** Runs the suite against a mutant of the proxy, read by llhttp alone; its exit code and what it printed. */
async function against(mutant: string, ...options: string[]): Promise<[code: number, out: string]> {
  const args = [run, '--mutant', mutant, '--examples', '3000', '--without', 'go,h11', ...options];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let out = '';
  child.stdout.on('data', (chunk) => {
    out += chunk;
  });
  const [code] = await once(child, 'close');
  return [code, out];
}

t.test('a thousand examples are read alike on both sides of the proxy', async (t) => {
  const names = referenceNames.filter((name) => {
    const why = missing(name);
    if (why !== null) t.comment(`left out: ${why}`);
    return why === null;
  });
  const references = names.map(startReference);
  const lane = await fuzzLane();
  t.teardown(async () => {
    for (const reference of references) reference.stop();
    await lane.stop();
  });
  const options = { seed: 20, from: 0, examples: 1000, findings: 5, places: 16, blind: false };
  const { fates, findings } = await runSuite(lane, references, options);
  t.same(findings, []);
  for (const fate of ['clean', 'closed', 'refused']) t.ok((fates.get(`requests ${fate}`) ?? 0) > 20, fate);
  for (const fate of ['complete', 'broken', 'truncated']) t.ok((fates.get(`answers ${fate}`) ?? 0) > 2, fate);
  t.ok((fates.get('mutated requests clean') ?? 0) > 5, 'mutations that are taken');
  t.ok((fates.get('mutated requests refused') ?? 0) > 20, 'mutations that are refused');
});

t.test('a proxy that forwards `Transfer-Encoding : chunked` is found out', async (t) => {
  const name = 'forwards a name with a space behind it';
  const [[told, known], [blind, parsed]] = await Promise.all([against(name), against(name, '--blind')]);
  t.equal(told, 1);
  t.match(known, 'a defect is not refused');
  t.equal(blind, 1, 'by a parser, without its being told what is a defect');
  t.match(parsed, /llhttp .*HPE_INVALID_HEADER_TOKEN/);
});

t.test('each mutant of the long run still fits the source', async (t) => {
  for (const mutant of mutants) t.ok(mutated(mutant), mutant.name);
});
