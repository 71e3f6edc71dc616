import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { brokerSubject } from './broker.ts';
import { chart } from './chart.ts';
import { failed } from './failure.ts';
import { provideNames } from './host-names.ts';
import { install } from './install.ts';
import { machine, requireMachine } from './machine.ts';
import { measure, minutes } from './measure.ts';
import { type Options, readOptions, usage } from './options.ts';
import { mitmproxy } from './peers/mitmproxy.ts';
import { nginx } from './peers/nginx.ts';
import { httpMitmProxy, mockttp } from './peers/node-peer.ts';
import { squid } from './peers/squid.ts';
import { openGround } from './place.ts';
import { markdown, type Results } from './report.ts';
import { scenarios } from './scenarios.ts';
import type { Subject } from './subject.ts';
import { supervised } from './supervised.ts';

const peers = [nginx, squid, httpMitmProxy, mitmproxy, mockttp];
const names = { scenarios: scenarios.map(({ name }) => name), peers: peers.map(({ name }) => name) };

/** `npm run bench`: measures the broker beside its peers and writes what came out to `bench/results`. */
async function main(options: Options): Promise<void> {
  requireMachine();
  const wanted = peers.filter(({ name }) => options.peers.includes(name));
  if (options.install) await install(wanted);
  const subjects: Subject[] = [brokerSubject()];
  const absent: Record<string, string> = {};
  for (const peer of wanted) {
    const found = peer.find();
    if ('missing' in found) absent[peer.name] = found.missing;
    else subjects.push(found);
  }
  for (const [name, missing] of Object.entries(absent))
    console.error(`${name} is left out: ${missing}. --install gets it.`);

  const chosen = scenarios.filter(({ name }) => options.only?.includes(name) ?? true);
  const budget = { rounds: options.rounds, seconds: options.seconds, tunnels: options.quick ? 300 : 1000 };
  provideNames();
  console.error(`This takes about ${minutes(subjects, chosen, budget)} minutes.`);
  const date = new Date().toISOString();
  const rows = await measure(await openGround(), subjects, chosen, budget);
  const results: Results = {
    date,
    rounds: budget.rounds,
    seconds: budget.seconds,
    machine: machine(),
    versions: Object.fromEntries(subjects.map(({ name, version }) => [name, version])),
    absent,
    rows,
  };
  // A look at a part must not take the place of the last whole run.
  write(options.quick || options.only !== null ? 'partial' : 'latest', results);
  if (rows.some(({ subject, wrong }) => subject === 'broker' && Object.keys(wrong).length > 0))
    throw failed(
      'The broker did not answer all as it should. The notes at the end of the report say what was wrong.',
    );
}

function write(name: 'latest' | 'partial', results: Results): void {
  const directory = fileURLToPath(new URL('./results', import.meta.url));
  mkdirSync(directory, { recursive: true });
  const text = markdown(results, scenarios);
  writeFileSync(`${directory}/${name}.json`, `${JSON.stringify(results, null, 2)}\n`);
  writeFileSync(`${directory}/${name}.md`, text);
  writeFileSync(`${directory}/${name}.svg`, chart(results, scenarios));
  console.log(`${text}\nWritten to ${directory}/${name}.{json,md,svg}`);
}

await supervised(async () => {
  const options = readOptions(process.argv.slice(2), names);
  if (options.help) process.stdout.write(usage(names.scenarios, names.peers));
  else await main(options);
});
