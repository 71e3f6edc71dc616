import type { TestLane } from '../support/lane.ts';
import { openTunnel } from './client.ts';
import { commonDifference, readingDifference, shown } from './compare.ts';
import type { OurRequests } from './our-requests.ts';
import type { Message } from './reading.ts';
import type { Recorder } from './recorder.ts';
import type { Reference } from './references.ts';
import type { RequestExample } from './requests.ts';

const answered = /HTTP\/1\.1 200 OK\r\n/g;
const refusal = /^HTTP\/1\.1 [45][0-9][0-9] [^\r\n]*\r\n(?:[^\r\n]+\r\n)*X-Broker-Error: /;

/** What the upstream answers to each request of an example. */
export function answerTo(head: string): { pieces: Buffer[]; thenClose: boolean } {
  const sentinel = head.startsWith('GET /sentinel ') ? 'X-Sentinel: 1\r\n' : '';
  // An upgrade that is declined: whether what follows is HTTP is each server's own choice, so nothing follows.
  const thenClose = head.includes('\r\nUpgrade: websocket');
  const close = thenClose ? 'Connection: close\r\n' : '';
  const text = `HTTP/1.1 200 OK\r\n${sentinel}${close}Content-Length: 0\r\n\r\n`;
  return { pieces: [Buffer.from(text)], thenClose };
}

/** A place for one example at a time: an upstream, and a vault that goes there. */
export interface RequestPlace {
  readonly lane: TestLane;
  readonly recorder: Recorder;
  /** Its service puts in a credential. */
  readonly keyed: boolean;
}

/**
 * Sends one example through the proxy and shows what arrived to the references.
 *
 * @param ours its bytes, as our parser reads them
 * @returns what went wrong, in words; null: nothing
 */
export async function checkRequests(
  { lane, recorder, keyed }: RequestPlace,
  references: readonly Reference[],
  example: RequestExample,
  ours: OurRequests,
  cuts: readonly number[],
): Promise<string | null> {
  const promised = promiseBroken(example, ours);
  if (promised !== null) return promised;

  const tunnel = await openTunnel(lane, keyed ? 'keyed' : 'plain', recorder.authority);
  await tunnel.write(example.bytes, cuts);
  const count = ours.messages.length;
  const answers = () => tunnel.received.match(answered)?.length ?? 0;
  let came: boolean;
  if (ours.end === 'incomplete') {
    came = await tunnel.until(() => answers() >= count);
    tunnel.end();
    await tunnel.until(() => tunnel.ended);
  } else came = await tunnel.until(() => (ours.end === 'clean' ? answers() >= count : tunnel.ended));
  tunnel.destroy();
  const settled = await recorder.settled();
  const segments = recorder.take();

  if (!came) return `no end: expected ${ours.end} behind ${count} answers, got ${shown(tunnel.received)}`;
  if (!settled) return 'an upstream connection is left in the middle of a request';
  const wrong = answersDifference(tunnel.received, count, ours.end);
  if (wrong !== null) return wrong;
  const sent = await upstreamDifference(
    references,
    segments,
    ours.messages.map((m) => m.forwarded),
    ours.partial?.forwarded ?? null,
  );
  return (
    sent ??
    rawDifference(
      references,
      example.bytes,
      ours.messages.map((m) => m.raw),
    )
  );
}

/** What the maker of the example knows, against our own reading of it. */
function promiseBroken(example: RequestExample, ours: OurRequests): string | null {
  for (const [i, { method, target, content }] of example.sound.entries()) {
    const [gotMethod, gotTarget] = ours.messages[i]?.forwarded.start ?? [];
    if (gotMethod !== method || gotTarget !== target || ours.messages[i].raw.body !== content)
      return `a sound request is not read as it was made: ${shown(ours.messages[i]?.raw ?? ours.end)}`;
  }
  if (example.refused && (ours.end !== 'refused' || ours.messages.length !== example.sound.length))
    return `a defect is not refused: ${ours.end} behind ${ours.messages.length} requests`;
  return null;
}

function answersDifference(received: string, count: number, end: string): string | null {
  const got = received.match(answered)?.length ?? 0;
  if (got !== count) return `${got} answers to ${count} requests: ${shown(received)}`;
  const at = received.lastIndexOf('HTTP/1.1 200 OK\r\n');
  const rest = at < 0 ? received : received.slice(received.indexOf('\r\n\r\n', at) + 4);
  if (end === 'refused') return refusal.test(rest) ? null : `no refusal: ${shown(rest)}`;
  if (end === 'incomplete') return null;
  return rest === '' ? null : `more than the answers: ${shown(rest)}`;
}

/** What arrived upstream, by each reference, against what had to arrive. */
async function upstreamDifference(
  references: readonly Reference[],
  segments: readonly Buffer[],
  whole: readonly Message[],
  cut: Message | null,
): Promise<string | null> {
  if (segments.length === 0) return whole.length === 0 ? null : 'nothing arrived upstream';
  const kinds = references.flatMap((reference) =>
    reference.name === 'llhttp'
      ? ([
          [reference, 'requests'],
          [reference, 'lenient'],
        ] as const)
      : ([[reference, 'requests']] as const),
  );
  for (const [reference, kind] of kinds) {
    const readings = await Promise.all(segments.map((segment) => reference.read(kind, segment)));
    // What a reference has no word for ends its reading; what follows on another connection is unread too.
    const last = readings.findIndex(({ end }) => end !== 'clean');
    const read = last < 0 ? readings : readings.slice(0, last + 1);
    const all = { ...read[read.length - 1], messages: read.flatMap(({ messages }) => messages) };
    const difference = readingDifference(reference.name, whole, cut, all);
    if (difference !== null) return `${reference.name} (${kind}) read upstream ${difference}`;
  }
  return null;
}

/** The client's own bytes, by each reference: where they take what we take, they take it alike. */
async function rawDifference(
  references: readonly Reference[],
  bytes: Buffer,
  ours: readonly Message[],
): Promise<string | null> {
  const readings = await Promise.all(references.map((reference) => reference.read('requests', bytes)));
  for (const [i, { name }] of references.entries()) {
    const difference = commonDifference(name, bytes, ours, readings[i]);
    if (difference !== null) return `${name} read ${difference}`;
  }
  return null;
}
