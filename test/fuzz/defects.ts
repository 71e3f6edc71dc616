import { type Draft, insertField } from './grammar.ts';
import type { Random } from './random.ts';

/** One thing wrong with a message, for which it has to be refused: nothing of it or behind it is a message. */
export interface Defect {
  readonly name: string;
  /** Whether the draft has the part that is to be spoilt. */
  readonly needs: (draft: Draft) => boolean;
  readonly apply: (random: Random, draft: Draft, authority: string) => void;
}

export const any = (): boolean => true;
const counted = ({ content }: Draft): boolean => content !== null;
export const isChunked = ({ chunks }: Draft): boolean => chunks !== null;
const hasData = ({ chunks }: Draft): boolean => chunks !== null && chunks.length > 1;
const framing = /^(content-length|transfer-encoding)$/i;

/** The index of the framing field, else of any. */
function framingAt(random: Random, draft: Draft): number {
  const at = draft.fields.findIndex(([name]) => framing.test(name));
  return at >= 0 ? at : random.below(draft.fields.length);
}

/** A defect that changes one field; mostly the one that frames, where there is one. */
function inField(
  name: string,
  change: (random: Random, field: [string, string]) => [string, string],
): Defect {
  return {
    name,
    needs: any,
    apply(random, draft) {
      const at = random.chance(60) ? framingAt(random, draft) : random.below(draft.fields.length);
      draft.fields[at] = change(random, draft.fields[at]);
    },
  };
}

/** A defect that is one field too many. */
export function addedField(
  name: string,
  needs: Defect['needs'],
  lines: readonly (readonly [string, string])[],
): Defect {
  return {
    name,
    needs,
    apply: (random, draft) => insertField(random, draft, ...random.pick(lines)),
  };
}

/** A defect of the one framing field's value. */
function framingValue(
  name: string,
  needs: Defect['needs'],
  values: (n: string) => readonly string[],
): Defect {
  return {
    name,
    needs,
    apply(random, draft) {
      const field = draft.fields[framingAt(random, draft)];
      field[1] = random.pick(values(field[1].trim()));
    },
  };
}

export function inLine(name: string, change: (random: Random, line: string) => string): Defect {
  return {
    name,
    needs: any,
    apply(random, draft) {
      draft.line = change(random, draft.line);
    },
  };
}

/** A defect of one chunk; `needs` says whether one with data is wanted. */
function inChunk(
  name: string,
  needs: Defect['needs'],
  part: 'size' | 'extension' | 'lineEnd' | 'dataEnd',
  to: (old: string) => readonly string[],
): Defect {
  return {
    name,
    needs,
    apply(random, draft) {
      const chunks = draft.chunks ?? [];
      const chunk = chunks[random.below(needs === hasData ? chunks.length - 1 : chunks.length)];
      chunk[part] = random.pick(to(chunk[part]));
    },
  };
}

const splice = (random: Random, text: string, put: readonly string[]): string => {
  const at = random.between(0, text.length);
  return text.slice(0, at) + random.pick(put) + text.slice(at);
};
const controls = ['\0', '\x01', '\x08', '\x0b', '\x0c', '\x1f', '\x7f', '\rX', '\nX', '\r\r\nX: 1'];

/** Either direction: RFC 9112 2.2, 5, 6 and 7.1, each requirement that keeps two parsers of one opinion. */
export const messageDefects: readonly Defect[] = [
  inField('space before the colon', (random, [name, raw]) => [name + random.pick([' ', '\t', '  ']), raw]),
  inField('folded line', (random, [name, raw]) => [name, `${raw}\r\n${random.pick([' ', '\t'])}more`]),
  inField('folded framing field', (random, [name, raw]) => [
    name,
    `${random.pick(['\r\n ', '\r\n\t'])}${raw}`,
  ]),
  inField('control in a value', (random, [name, raw]) => [name, splice(random, raw, controls)]),
  inField('not a token', (random, [name, raw]) => [
    splice(random, name, ['\0', ' ', '(', '\xe9', '"', '/', '@', '\x0b', '\x7f']),
    raw,
  ]),
  inField('no name', (_random, [, raw]) => ['', raw]),
  inField('line without a colon', (_random, [name, raw]) => [`nonsense\r\n${name}`, raw]),
  inField('white space before a name', (random, [name, raw]) => [random.pick([' ', '\t']) + name, raw]),
  inField('bare line feed', (_random, [name, raw]) => [`X: 1\n${name}`, raw]),
  inField('bare carriage return', (_random, [name, raw]) => [`X: 1\r${name}`, raw]),
  addedField('length and coding', counted, [
    ['Transfer-Encoding', ' chunked'],
    ['transfer-encoding', 'Chunked '],
    ['Transfer-Encoding', ' identity'],
    ['Transfer-Encoding', ''],
  ]),
  addedField('coding and length', isChunked, [
    ['Content-Length', ' 0'],
    ['content-length', ' 5'],
    ['Transfer-Encoding', ' chunked'],
    ['Transfer-Encoding', ' identity'],
    ['TRANSFER-ENCODING', ''],
  ]),
  addedField('two lengths', counted, [
    ['Content-Length', ' 5'],
    ['Content-Length', ' 0'],
    ['CONTENT-LENGTH', ''],
  ]),
  framingValue('the same length twice', counted, (n) => [
    ` ${n}\r\nContent-Length: ${n}`,
    ` ${n}, ${n}`,
    ` ${n},`,
  ]),
  framingValue('length is not digits', counted, (n) => [
    ` +${n}`,
    ` -${n}`,
    ` 0x${n}`,
    ` ${n} ${n}`,
    ` ${n}.0`,
    ` ${n}e0`,
    ` "${n}"`,
    ` ${n};`,
    ` 0${n}`,
    '',
    ` \x0b${n}`,
    ` \xa0${n}`,
    ' 99999999999999999999',
    ' 9007199254740993',
    ' 18446744073709551616',
  ]),
  framingValue('coding is not chunked', isChunked, () => [
    ' gzip',
    ' gzip, chunked',
    ' chunked, chunked',
    ' chunked, identity',
    ' xchunked',
    ' chunkedx',
    ' "chunked"',
    ' chunked;q=1',
    ' chunked,',
    ' ,chunked',
    ' identity',
    '',
    ' \x0bchunked',
    ' chunk\xe9d',
  ]),
  {
    name: 'too many fields',
    needs: any,
    apply: (random, draft) => draft.fields.push(...Array(random.between(257, 300)).fill(['X', ' 1'])),
  },
  inChunk('chunk size is not hex', isChunked, 'size', (n) => [
    `0x${n}`,
    `+${n}`,
    `-${n}`,
    ` ${n}`,
    `${n} `,
    `\t${n}`,
    `${n}\t`,
    `${n}g`,
    `${n}_0`,
    `"${n}"`,
    '',
    `${'0'.repeat(13)}${n}`,
    `10000000000000000${n}`,
    'fffffffffffffff0',
    `\0${n}`,
    `${n}\xa0`,
    `\r\n${n}`,
  ]),
  inChunk('chunk line end', isChunked, 'lineEnd', () => ['\n', '\r\r\n', '\n\r\n', '\0\r\n', '\r \n']),
  inChunk('control in a chunk extension', isChunked, 'extension', () => [
    ';\0',
    ';a\n',
    ';a\r',
    ';a="\r\n"',
    ';\x0b',
    ';a="',
    ' ',
    ' ;a',
  ]),
  inChunk('chunk data end', hasData, 'dataEnd', () => [
    '',
    '\n',
    '\r',
    '\n\r',
    'X\r\n',
    ' \r\n',
    '\r\r\n',
    '\r\n\r\n',
    'X\n',
    '\n\n',
    '\rX',
  ]),
  inChunk('chunk shorter than its data', hasData, 'dataEnd', () => ['0\r\n\r\n', 'a\r\n', '\x00\r\n']),
  {
    name: 'malformed trailers',
    needs: isChunked,
    apply: (random, draft) =>
      draft.trailers.push(
        random.pick([
          ['X ', '1'],
          [' X', '1'],
          ['X', '1\n'],
          ['X', '\0'],
          ['X(', '1'],
          ['X', '1\r\n more'],
          ['nonsense\r\nX', '1'],
          ['', '1'],
        ]),
      ),
  },
  {
    name: 'head or trailers too long',
    needs: (draft) => counted(draft) || isChunked(draft),
    apply(_random, draft) {
      if (draft.chunks === null) draft.fields.push(['X', 'x'.repeat(70_000)]);
      else draft.trailers.push(['X', 'x'.repeat(20_000)]);
    },
  },
];
