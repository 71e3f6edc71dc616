import { startLane, type TestLane } from '../support/lane.ts';
import { checkAnswer, scripted } from './answer-check.ts';
import { type AnswerExample, answerExample } from './answers.ts';
import { cuts } from './mutate.ts';
import { ourAnswer } from './our-answers.ts';
import { ourRequests, slot } from './our-requests.ts';
import { random } from './random.ts';
import { type Recorder, startRecorder } from './recorder.ts';
import type { Reference } from './references.ts';
import { answerTo, checkRequests } from './request-check.ts';
import { type RequestExample, requestExample } from './requests.ts';

/** One example, made or cut down. */
export type Example =
  | { readonly direction: 'request'; readonly example: RequestExample; readonly cuts: readonly number[] }
  | { readonly direction: 'answer'; readonly example: AnswerExample; readonly cuts: readonly number[] };

/** An example with other bytes, or about which its maker promises nothing any more. */
export function withBytes(one: Example, bytes: Buffer, cuts: readonly number[]): Example {
  if (one.direction === 'answer')
    return { ...one, example: { ...one.example, bytes, sound: null, refused: false }, cuts };
  return { ...one, example: { ...one.example, bytes, sound: [], refused: false }, cuts };
}

/** What became of an example. */
interface Verdict {
  /** How our own parser read it: for the books, so that a run shows what it went through. */
  readonly fate: string;
  /** null: nothing went wrong. */
  readonly problem: string | null;
}

/** Room for one example at a time. */
export interface Place {
  make(seed: number, index: number): Example;
  check(example: Example): Promise<Verdict>;
  stop(): void;
}

/** A lane with two vaults: `plain` has no service, `keyed` one that puts in a credential. */
export function fuzzLane(): Promise<TestLane> {
  const auth = { type: 'api-key' as const, key: 'KEY', header: slot[0] };
  return startLane({
    plain: {},
    keyed: { services: [{ host: '127.0.0.1', auth }], credentials: { KEY: slot[1] } },
  });
}

/** Of five examples three are requests: there, more is at stake. */
const isRequest = (index: number): boolean => index % 5 < 3;

export async function openPlace(lane: TestLane, references: readonly Reference[]): Promise<Place> {
  const script = { next: { pieces: [] as Buffer[], thenClose: false } };
  const upstream = await startRecorder(answerTo);
  const answering = await startRecorder(scripted(script));
  const recorders: Recorder[] = [upstream, answering];
  return {
    make(seed, index) {
      const chance = random(seed, index);
      if (isRequest(index)) {
        const example = requestExample(chance, upstream.authority);
        return { direction: 'request', example, cuts: cuts(chance, example.bytes, example.bytes.length) };
      }
      const example = answerExample(chance);
      return { direction: 'answer', example, cuts: cuts(chance, example.bytes, example.bytes.length) };
    },
    async check(one) {
      if (one.direction === 'answer') {
        const { example } = one;
        const ours = ourAnswer(example.bytes, example.method, example.minor);
        const problem = await checkAnswer(
          { lane, recorder: answering, script },
          references,
          example,
          ours,
          one.cuts,
        );
        return { fate: `answers ${ours.outcome}`, problem };
      }
      const { example } = one;
      const keyed = example.bytes.length % 2 === 1;
      const ours = ourRequests(example.bytes, upstream.authority, keyed);
      const place = { lane, recorder: upstream, keyed };
      const problem = await checkRequests(place, references, example, ours, one.cuts);
      return { fate: `requests ${ours.end}`, problem };
    },
    stop() {
      for (const recorder of recorders) recorder.stop();
    },
  };
}

export interface Finding {
  readonly index: number;
  readonly problem: string;
}

export interface SuiteOptions {
  readonly seed: number;
  readonly from: number;
  readonly examples: number;
  /** Ends the run early once there are so many findings. */
  readonly findings: number;
  /** Examples at the same time. */
  readonly places: number;
  /** Only what the parsers say counts, not what the maker of an example knows about it. */
  readonly blind: boolean;
  readonly onProgress?: (done: number) => void;
}

/** Examples that are being checked: what to look at where the proxy throws. */
export const inFlight = new Set<number>();

/** Runs examples `from` to before `from + examples`; findings come in the order of their index. */
export async function runSuite(
  lane: TestLane,
  references: readonly Reference[],
  { seed, from, examples, findings: limit, places, blind, onProgress }: SuiteOptions,
): Promise<{ fates: Map<string, number>; findings: Finding[] }> {
  const fates = new Map<string, number>();
  const findings: Finding[] = [];
  let next = from;
  const work = async (): Promise<void> => {
    const place = await openPlace(lane, references);
    while (next < from + examples && findings.length < limit) {
      const index = next++;
      inFlight.add(index);
      const made = place.make(seed, index);
      const example = blind ? withBytes(made, made.example.bytes, made.cuts) : made;
      const { fate, problem } = await place.check(example);
      inFlight.delete(index);
      const kind = `${example.example.label === 'mutated' ? 'mutated ' : ''}${fate}`;
      fates.set(kind, (fates.get(kind) ?? 0) + 1);
      if (problem !== null) findings.push({ index, problem });
      // The audit's records are of no use here, and a long run has many.
      if (index % 1000 === 0) lane.records.length = 0;
      if ((index - from) % 10_000 === 9_999) onProgress?.(index - from + 1);
    }
    place.stop();
  };
  await Promise.all(Array.from({ length: places }, work));
  findings.sort((a, b) => a.index - b.index);
  return { fates, findings };
}
