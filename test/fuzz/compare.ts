import { METHODS } from 'node:http';
import type { Field, Message, Reading } from './reading.ts';
import type { ReferenceName } from './references.ts';

/** Long texts are cut: a report is for reading. */
export function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 600 ? `${text.slice(0, 600)}…` : text;
}

const methods = new Set(METHODS);
const uri = /^(?:\*|(?:https?:\/\/[^/]*)?(?:[A-Za-z0-9\-._~:/?@!$&'()*+,;=[\]]|%[0-9A-Fa-f]{2})*)$/i;

/**
 * Whether a reference may refuse a message that we forward: not for where it ends, but for a word that it
 * doesn't know. What comes behind is unread then.
 */
function mayRefuse(name: ReferenceName, { start }: Message, why: string): boolean {
  if (name === 'llhttp') return why.startsWith('HPE_INVALID_METHOD') && !methods.has(start[0]);
  return name === 'go' && why.startsWith('parse ') && !uri.test(start[1]);
}

/** net/http keeps neither the order of different names nor their case, and takes Trailer and `close` out. */
function loosely(fields: readonly Field[]): string {
  const byName = new Map<string, string[]>();
  for (const [name, value] of fields) {
    const lower = name.toLowerCase();
    if (lower === 'trailer' || lower === 'connection') continue;
    byName.set(lower, [...(byName.get(lower) ?? []), value]);
  }
  return JSON.stringify([...byName].sort());
}

function sameFields(name: ReferenceName, ours: readonly Field[], theirs: readonly Field[] | null): boolean {
  // The coding's name has no case, and two of them tell it so.
  const mine = ours.map(([n, v]): Field => [n, /^transfer-encoding$/i.test(n) ? v.toLowerCase() : v]);
  if (name === 'go') return loosely(mine) === loosely(theirs ?? []);
  const given = theirs?.map(([n, v]) => [n, /^transfer-encoding$/i.test(n) ? v.toLowerCase() : v]);
  return JSON.stringify(mine) === JSON.stringify(given);
}

const withoutHost = (fields: readonly Field[]) => fields.filter(([name]) => name.toLowerCase() !== 'host');

/** Where a reference read a message in another way than we did; null: nowhere. */
function messageDifference(name: ReferenceName, ours: Message, theirs: Message): string | null {
  // A reason phrase is read with the white space around it or without.
  if (ours.start[0] !== theirs.start[0] || ours.start[1].trim() !== theirs.start[1].trim())
    return `start line: ${shown(theirs.start)}, not ${shown(ours.start)}`;
  // net/http has the host of an absolute target in the place of the field's.
  const moved = name === 'go' && /^https?:/i.test(ours.start[1]);
  const [mine, given] = moved
    ? [withoutHost(ours.fields), withoutHost(theirs.fields)]
    : [ours.fields, theirs.fields];
  if (!sameFields(name, mine, given)) return `fields: ${shown(theirs.fields)}, not ${shown(ours.fields)}`;
  if (ours.body !== theirs.body) return `body: ${shown(theirs.body)}, not ${shown(ours.body)}`;
  if (!sameFields(name, ours.trailers, theirs.trailers))
    return `trailers: ${shown(theirs.trailers)}, not ${shown(ours.trailers)}`;
  return null;
}

/**
 * Compares what a reference read out of bytes that the proxy wrote with what it has to be.
 *
 * @param cut what may stand behind `whole` without its end: a message that was given up on the way
 */
export function readingDifference(
  name: ReferenceName,
  whole: readonly Message[],
  cut: Message | null,
  reading: Reading,
): string | null {
  for (let i = 0; i < Math.min(whole.length, reading.messages.length); i++) {
    const difference = messageDifference(name, whole[i], reading.messages[i]);
    if (difference !== null) return `message ${i + 1}: ${difference}`;
  }
  const count = reading.messages.length;
  if (count > whole.length)
    return `${count} messages, not ${whole.length}; one too many is ${shown(reading.messages[whole.length])}`;
  if (count < whole.length && reading.end === 'refused' && mayRefuse(name, whole[count], reading.why))
    return null;
  if (count < whole.length) return `${count} messages, not ${whole.length}: ${reading.end} ${reading.why}`;
  if (cut === null)
    return reading.end === 'clean' ? null : `${reading.end} behind the messages: ${reading.why}`;
  const { partial } = reading;
  if (partial !== null) {
    const begun = { ...partial, body: cut.body, trailers: cut.trailers };
    const difference = messageDifference(name, cut, begun);
    if (difference !== null) return `the message cut off: ${difference}`;
    if (!cut.body.startsWith(partial.body)) return `the body cut off: ${shown(partial.body)}`;
  }
  return null;
}

const codingBeforeTab = /\ntransfer-encoding:[^\r\n]*\t/i;

/** Of bytes that nobody promised anything about: where both take a message, they take the same one. */
export function commonDifference(
  name: ReferenceName,
  raw: Buffer,
  ours: readonly Message[],
  reading: Reading,
): string | null {
  // llhttp takes a tab behind `chunked` for a part of the word, and refuses it only where it needs the length.
  if (name === 'llhttp' && codingBeforeTab.test(raw.latin1Slice())) return null;
  for (let i = 0; i < Math.min(ours.length, reading.messages.length); i++) {
    const difference = messageDifference(name, ours[i], reading.messages[i]);
    if (difference !== null) return `message ${i + 1} of the raw bytes: ${difference}`;
  }
  return null;
}
