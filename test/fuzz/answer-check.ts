import type { TestLane } from '../support/lane.ts';
import type { AnswerExample } from './answers.ts';
import { openTunnel } from './client.ts';
import { commonDifference, readingDifference, shown } from './compare.ts';
import type { OurAnswer } from './our-answers.ts';
import type { Message } from './reading.ts';
import type { Answer, Recorder } from './recorder.ts';
import type { Reference } from './references.ts';

const sentinelAnswer = 'HTTP/1.1 200 OK\r\nX-Sentinel: 1\r\nContent-Length: 0\r\n\r\n';

/** Of an answer to HTTP/1.0: no interim answers stand before it. */
const refusal = /^HTTP\/1\.1 502 [^\r\n]*\r\n(?:[^\r\n]+\r\n)*X-Broker-Error: upstream_protocol\r\n/;

/** A place for one example at a time: an upstream that gives the answers that are set. */
export interface AnswerPlace {
  readonly lane: TestLane;
  readonly recorder: Recorder;
  /** What it answers next. */
  readonly script: { next: Answer };
}

/** What an upstream of examples answers: `script`, or, to the request behind, what shows the connection in step. */
export function scripted(script: AnswerPlace['script']): (head: string) => Answer {
  return (head) =>
    head.startsWith('GET /sentinel ')
      ? { pieces: [Buffer.from(sentinelAnswer)], thenClose: false }
      : script.next;
}

function cutAt(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  return [0, ...cuts].map((from, i) => bytes.subarray(from, cuts[i] ?? bytes.length));
}

/**
 * Lets an upstream answer with one example, and shows what the client got to the references.
 *
 * @param ours its bytes, as our parser reads them
 * @param cuts of which those are used that lie before the answer's end
 * @returns what went wrong, in words; null: nothing
 */
export async function checkAnswer(
  { lane, recorder, script }: AnswerPlace,
  references: readonly Reference[],
  example: AnswerExample,
  ours: OurAnswer,
  cuts: readonly number[],
): Promise<string | null> {
  const { bytes, method, minor } = example;
  const promised = promiseBroken(example, ours);
  if (promised !== null) return promised;

  // Bytes behind an answer have to come along with its end: later they would be the next request's answer.
  const whole = ours.outcome === 'complete' && !ours.needsEnd;
  const used = whole ? cuts.filter((at) => at < ours.end) : cuts;
  script.next = { pieces: cutAt(bytes, used), thenClose: ours.needsEnd || (whole && !ours.reusable) };
  const host = `Host: ${recorder.authority}\r\n`;
  const body = method === 'POST' ? 'Content-Length: 3\r\n\r\nabc' : '\r\n';
  const sentinel = minor === 1 ? `GET /sentinel HTTP/1.1\r\n${host}\r\n` : '';
  const tunnel = await openTunnel(lane, 'plain', recorder.authority);
  await tunnel.write(Buffer.from(`${method} /answer HTTP/1.${minor}\r\n${host}${body}${sentinel}`), []);
  const inStep = () => tunnel.received.endsWith(sentinelAnswer);
  // Where the body breaks before the head went on, the client is told; else it is cut off.
  const mayEnd = minor === 0 || ours.outcome === 'truncated';
  const came = await tunnel.until(() => (minor === 1 && inStep()) || (mayEnd && tunnel.ended));
  tunnel.destroy();
  await recorder.settled();
  const connections = recorder.take().length;
  if (!came) return `no end: expected ${ours.outcome}, got ${shown(tunnel.received)}`;

  if (inStep() && connections < 2 && !ours.reusable)
    return 'the next request went over a connection that is out of step';
  const received = inStep() ? tunnel.received.slice(0, -sentinelAnswer.length) : tunnel.received;
  const told = inStep() || refusal.test(received);
  const outcome = ours.outcome === 'truncated' && told ? 'broken' : ours.outcome;
  const down = await clientDifference(references, received, tunnel.reset, example, { ...ours, outcome });
  return down ?? rawDifference(references, example, ours.raw);
}

/** What the maker of the example knows, against our own reading of it. */
function promiseBroken({ sound, refused }: AnswerExample, ours: OurAnswer): string | null {
  if (refused && ours.outcome === 'complete') return `a defect is not refused: ${shown(ours.final)}`;
  if (sound === null) return null;
  const same =
    ours.outcome === 'complete' &&
    ours.final?.start[0] === sound.status &&
    // What lies behind an answer that the connection ends is its body.
    ours.final.body === sound.content;
  return same ? null : `a sound answer is not read as it was made: ${ours.outcome} ${shown(ours.final)}`;
}

/** What the client got, by each reference, against what it had to get. */
async function clientDifference(
  references: readonly Reference[],
  received: string,
  reset: boolean,
  { method, minor }: AnswerExample,
  ours: OurAnswer,
): Promise<string | null> {
  const { interims, final, outcome } = ours;
  // To a client of HTTP/1.0 the end of the stream would be the end of the body, so there must be none.
  if (outcome === 'truncated' && minor === 0) return reset ? null : `a clean end: ${shown(received)}`;
  const raw = Buffer.from(received, 'latin1');
  if (outcome === 'truncated' && raw.length === 0) return null;
  const kind = method === 'HEAD' ? 'headAnswers' : 'answers';
  const readings = await Promise.all(references.map((reference) => reference.read(kind, raw)));
  for (const [i, { name }] of references.entries()) {
    const reading = readings[i];
    let whole: readonly Message[] = interims;
    if (outcome === 'complete') whole = [...interims, final as Message];
    else if (outcome === 'broken') {
      const last = reading.messages[interims.length];
      if (last?.start[0] !== '502' || !last.fields.some(([field]) => /^x-broker-error$/i.test(field)))
        return `${name} read no refusal: ${shown(reading)}`;
      whole = [...interims, last];
    }
    const cut = outcome === 'truncated' ? final : null;
    const difference = readingDifference(name, whole, cut, reading);
    if (difference !== null) return `${name} read at the client ${difference}`;
  }
  return null;
}

/** The upstream's own bytes, by each reference: where they take what we take, they take it alike. */
async function rawDifference(
  references: readonly Reference[],
  { bytes, method }: AnswerExample,
  ours: readonly Message[],
): Promise<string | null> {
  const kind = method === 'HEAD' ? 'headAnswers' : 'answers';
  const readings = await Promise.all(references.map((reference) => reference.read(kind, bytes)));
  for (const [i, { name }] of references.entries()) {
    const difference = commonDifference(name, bytes, ours, readings[i]);
    if (difference !== null) return `${name} read ${difference}`;
  }
  return null;
}
