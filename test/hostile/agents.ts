/*
 * The three hostile agents, as a process of its own: reads slices of the run (a line of JSON each), sends their requests,
 * looks at every byte that comes back, and says of each slice what came of it. Ends with its standard input.
 */
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import zlib from 'node:zlib';
import { type Answer, type Identity, type Outcome, Track, type Way } from './agent.ts';
import { type Attack, attack, head } from './attack.ts';
import { hostile } from './requests.ts';
import { SecretSearch } from './secret-search.ts';
import { shownKeys, vaultsOf } from './values.ts';

/** What the process is told at its start, in BROKER_TEST_HOSTILE. */
export interface Given extends Way {
  readonly seed: number;
  readonly agents: readonly Identity[];
  /** At the same time, of each agent. */
  readonly tracks: number;
}

/** Requests `from` to before `to`, so many a second at most. */
export interface Slice {
  readonly from: number;
  readonly to: number;
  readonly rate: number;
}

/** Instead: each agent has so many requests under way at the same time. */
export interface Hold {
  readonly hold: number;
}

/** What came of a slice. */
export interface Report {
  readonly sent: number;
  readonly received: number;
  readonly late: number;
  readonly kinds: Record<string, number>;
  /** Status and the broker's error code: how often. */
  readonly answers: Record<string, number>;
  /** Status by the id of a request, of those that an upstream answered. */
  readonly answered: Record<string, number>;
  /** Values that services show by what they are set to. */
  readonly shown: number;
  /** Ids of those requests whose service says so in the audit. */
  readonly audited: string[];
  readonly problems: string[];
}

type Mutable = { -readonly [K in keyof Report]: Report[K] };

const given: Given = JSON.parse(process.env.BROKER_TEST_HOSTILE ?? '{}');
const search = new SecretSearch(
  vaultsOf(given.seed).flatMap(({ name, values }) => [
    ...Object.entries(values).map(([key, value]) => [`${name}/${key}`, value] as const),
    [`${name}/basic`, Buffer.from(`${values.USER}:${values.PASS}`).toString('base64')] as const,
  ]),
);
const tracks = given.agents.map((who) => Array.from({ length: given.tracks }, () => new Track(who, given)));

const decoders: Readonly<Record<string, (content: Buffer) => Buffer>> = {
  gzip: (content) => zlib.gunzipSync(content),
  br: (content) => zlib.brotliDecompressSync(content),
  deflate: (content) => zlib.inflateSync(content),
  zstd: (content) => zlib.zstdDecompressSync(content),
  'gzip, br': (content) => zlib.gunzipSync(zlib.brotliDecompressSync(content)),
};

/** The bodies without their framing and coding, where they have one. */
function bodyOf({ content, coding }: Answer): Buffer {
  try {
    return decoders[coding]?.(content ?? Buffer.alloc(0)) ?? content ?? Buffer.alloc(0);
  } catch {
    return Buffer.alloc(0);
  }
}

const addOne = (counts: Record<string, number>, name: string): void => {
  counts[name] = (counts[name] ?? 0) + 1;
};

/** Writes down what came of one request, and what should not have. */
function judge(report: Mutable, index: number, one: Attack, { answers, received, late }: Outcome): void {
  const agent = index % given.agents.length;
  const { vault } = given.agents[agent];
  const wrong = (what: string) => void report.problems.push(`${index} (${one.kind}): ${what}`);
  const values = search.in(received);
  for (const answer of answers) for (const name of search.in(bodyOf(answer))) values.add(name);
  for (const name of values) {
    const [owner, key] = name.split('/');
    if (one.kind === 'echo, not covered' && owner === vault && shownKeys.has(key))
      onShown(report, index, one);
    else wrong(`the agent got ${name}`);
  }
  for (const [, id] of received.latin1Slice().matchAll(/X-Seen: [a-z](\d+)/g))
    if (Number(id) % given.agents.length !== agent) wrong(`got the answer for ${id}`);
  for (const { status, seen, refused } of answers) {
    addOne(report.answers, `${status} ${refused}`.trim());
    if (refused === 'internal') wrong('500 internal');
    if (seen !== '' && (refused !== '' || status === 407))
      wrong(`an upstream speaks for the broker: ${status}`);
    if (seen !== '') report.answered[seen] = status;
  }
  if (late) report.late++;
  report.received += received.length;
}

function onShown(report: Mutable, index: number, { host, text }: Attack): void {
  report.shown++;
  // Where nothing is covered, what is coded twice, or says gzip and is none, goes by unread (protocol, "Reflection").
  if (host === 'audited.test' && !/\.(false|twice)\./.test(text)) report.audited.push(`h${index}`);
}

/** So many of each agent at once; how many had which status, by agent. */
async function hold(count: number): Promise<Record<string, number>[]> {
  return Promise.all(
    given.agents.map(async (who, agent) => {
      let asked = 0;
      const ask = (behaviour: string) => {
        const host = 'bearer.test';
        const index = 3 * (1_000_000_000 + asked++) + agent;
        const text = head(
          { authority: () => `${host}:${given.ports.secure}` },
          `GET /h${index}~${behaviour}`,
          host,
        );
        return attack({ kind: 'held', host, text });
      };
      const own = Array.from({ length: count }, () => new Track(who, given));
      for (const track of own) await track.send(ask('ok'));
      const outcomes = await Promise.all(own.map((track) => track.send(ask('held'))));
      for (const track of own) track.close();
      const statuses: Record<string, number> = {};
      for (const { answers } of outcomes) addOne(statuses, `${answers[0]?.status}`);
      return statuses;
    }),
  );
}

async function run({ from, to, rate }: Slice): Promise<Report> {
  const report = {
    ...{
      sent: 0,
      received: 0,
      late: 0,
      kinds: {},
      answers: {},
      answered: {},
      shown: 0,
      audited: [],
      problems: [],
    },
  } as Mutable;
  const begun = performance.now();
  const work = async (agent: number, track: Track, next: { index: number }) => {
    while (next.index < to) {
      const index = next.index;
      next.index += given.agents.length;
      const early = begun + ((index - from) * 1000) / rate - performance.now();
      if (early > 1) await sleep(early);
      const one = hostile(given.seed, index, given.ports);
      addOne(report.kinds, one.kind);
      report.sent++;
      try {
        judge(report, index, one, await track.send(one));
      } catch (error) {
        report.problems.push(`${index} (${one.kind}) of agent ${agent}: ${(error as Error).message}`);
      }
    }
  };
  await Promise.all(
    tracks.flatMap((own, agent) => {
      const first = from + ((agent - (from % tracks.length) + tracks.length) % tracks.length);
      const next = { index: first };
      return own.map((track) => work(agent, track, next));
    }),
  );
  return report;
}

for await (const line of createInterface({ input: process.stdin })) {
  const asked: Slice | Hold = JSON.parse(line);
  const report = 'hold' in asked ? await hold(asked.hold) : await run(asked);
  process.stdout.write(`${JSON.stringify(report)}\n`);
}
for (const track of tracks.flat()) track.close();
