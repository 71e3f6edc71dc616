import type { Random } from './random.ts';

/** What is put in by a mutation: bytes and lines that decide where messages end. */
function dictionary(authority: string): string[] {
  const bytes = [
    '\r',
    '\n',
    '\r\n',
    '\r\n\r\n',
    '\0',
    '\t',
    ' ',
    '\x0b',
    '\x0c',
    '\x7f',
    '\x85',
    '\xa0',
    '\xff',
  ];
  const signs = [
    ':',
    ';',
    ',',
    '_',
    '"',
    '+',
    '-1',
    '0',
    '0x',
    '5',
    'g',
    'ffffffffffffffff',
    '18446744073709551621',
  ];
  const lines = [
    'Content-Length: 5\r\n',
    'Content-Length: 0\r\n',
    'Content-Length : 5\r\n',
    'Transfer-Encoding: chunked\r\n',
    'Transfer-Encoding : chunked\r\n',
    'Transfer-Encoding:\x0bchunked\r\n',
    'transfer_encoding: chunked\r\n',
    ' folded\r\n',
    'Connection: close\r\n',
    'Connection: content-length\r\n',
    'Host: other.test\r\n',
    'Expect: 100-continue\r\n',
    '0\r\n\r\n',
    '5\r\nabcde\r\n',
    'chunked',
    ', chunked',
    'HTTP/1.1',
    'HTTP/1.0',
    `GET /smuggled HTTP/1.1\r\nHost: ${authority}\r\n\r\n`,
    'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
  ];
  return [...bytes, ...bytes, ...signs, ...lines];
}

/** Where bytes decide the framing: line ends, colons and spaces, and right beside them. */
function hotSpots(text: string): number[] {
  const spots: number[] = [];
  for (const { index } of text.matchAll(/[\r\n: ;,]/g)) spots.push(index, index + 1);
  return spots;
}

/** Another number near the one that stands at or behind `at`: lengths and chunk sizes are what it hits. */
function renumbered(random: Random, text: string, at: number): string {
  const found = /[0-9]+/.exec(text.slice(at));
  if (found === null) return text;
  const from = at + found.index;
  const digits = found[0];
  const near = [
    Number(digits) + 1,
    Math.max(0, Number(digits) - 1),
    Number(digits) * 16,
    `0${digits}`,
    `${digits}0`,
    '',
  ];
  return text.slice(0, from) + random.pick(near) + text.slice(from + digits.length);
}

/** Changes `text` (latin1) in one to four places. */
export function mutate(random: Random, text: string, authority: string): string {
  const words = dictionary(authority);
  let out = text;
  for (let n = random.pick([1, 1, 1, 2, 2, 3, 4]); n > 0; n--) {
    const spots = hotSpots(out);
    const at = spots.length > 0 && random.chance(80) ? random.pick(spots) : random.below(out.length + 1);
    const length = random.pick([0, 0, 1, 1, 2, random.between(1, 40)]);
    switch (random.below(8)) {
      case 0:
        out = out.slice(0, at) + out.slice(at + Math.max(1, length));
        break;
      case 1: {
        // A line once more.
        const from = out.lastIndexOf('\n', at) + 1;
        const to = out.indexOf('\n', at) + 1;
        if (to > 0) out = out.slice(0, to) + out.slice(from, to) + out.slice(to);
        break;
      }
      case 2:
        out = out.slice(0, at) + String.fromCharCode(random.below(256)) + out.slice(at + 1);
        break;
      case 3:
        // A sign that may stand nearly anywhere.
        out = out.slice(0, at) + random.pick([..."aZ09-_.,;= '"]) + out.slice(at + random.below(2));
        break;
      case 4:
        out = renumbered(random, out, at);
        break;
      default:
        out = out.slice(0, at) + random.pick(words) + out.slice(at + length);
    }
  }
  return out;
}

/**
 * Where a stream is cut into writes: not at all, anywhere, beside line ends, or after each byte. Ascending,
 * each from 1 to below `length`.
 *
 * @param limit no cut behind this one
 */
export function cuts(random: Random, bytes: Buffer, limit: number): number[] {
  const kind = random.below(100);
  if (kind < 40 || limit < 2) return [];
  if (kind >= 96 && limit < 200) return Array.from({ length: limit - 1 }, (_, i) => i + 1);
  const spots = kind < 70 ? [] : hotSpots(bytes.latin1Slice(0, limit));
  const places = new Set<number>();
  for (let n = random.between(1, 4); n > 0; n--)
    places.add(spots.length > 0 ? random.pick(spots) : random.between(1, limit - 1));
  return [...places].filter((at) => at > 0 && at < limit).sort((a, b) => a - b);
}
