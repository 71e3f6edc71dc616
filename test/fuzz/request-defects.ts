import { addedField, any, type Defect, inLine, isChunked, messageDefects } from './defects.ts';

/** Of requests alone: RFC 9112 3 and 7.1.2, RFC 9110 7.2 and 10.1.1. */
export const requestDefects: readonly Defect[] = [
  ...messageDefects,
  {
    name: 'coding in HTTP/1.0',
    needs: isChunked,
    apply: (_random, draft) => {
      draft.line = draft.line.replace(/1$/, '0');
    },
  },
  addedField('two hosts', any, [
    ['Host', ' other.test'],
    ['hOST', ''],
  ]),
  {
    name: 'no host, or another',
    needs: any,
    apply(random, draft, authority) {
      const at = draft.fields.findIndex(([name]) => name.toLowerCase() === 'host');
      const host = random.pick([
        null,
        '',
        ' other.test',
        ` ${authority}, ${authority}`,
        ` x@${authority}`,
        ' [',
        ` ${authority}0`,
      ]);
      if (host === null) draft.fields.splice(at, 1);
      else draft.fields[at][1] = host;
    },
  },
  addedField('expectation', any, [
    ['Expect', ' 200-ok'],
    ['Expect', ' 100-continue, x'],
  ]),
  inLine('another version', (random, line) =>
    line.replace(
      /HTTP\/1\.1$/,
      random.pick([
        'HTTP/2.0',
        'HTTP/1.2',
        'HTTP/0.9',
        'http/1.1',
        'HTTP/1.1 ',
        'HTTP/01.1',
        'HTTP/1',
        'HTTP/1.10',
        'HTTP/1,1',
        'ICE/1.0',
      ]),
    ),
  ),
  inLine('white space in the request line', (random, line) =>
    line.replace(
      random.pick([/ /, / (?=HTTP)/]),
      random.pick(['  ', '\t', ' \t', '\x0b', '\xa0', '', ' x ']),
    ),
  ),
  inLine('white space before the method', (random, line) => random.pick([' ', '\t', '\0', '\n']) + line),
  inLine('two empty lines before', (_random, line) => `\r\n\r\n${line}`),
  inLine(
    'method is not a token',
    (random, line) =>
      `${random.pick(['G(T', 'G\xe9T', 'GE\0', 'G:T', 'M'.repeat(40)])} ${line.slice(line.indexOf(' ') + 1)}`,
  ),
  inLine('target that no URL holds', (random, line) =>
    line.replace(/(?<=\/)/, random.pick(['#', '\\', '\xe9', '\0', '\x7f', '\r', '\n'])),
  ),
  inLine('target for another', (random, line) =>
    line.replace(
      / .* /,
      ` ${random.pick(['http://other.test/', '//other.test/', 'a', '?', 'http://', 'other.test:80', '@x/'])} `,
    ),
  ),
  inLine('CONNECT', (_random, line) => line.replace(/^\S+ \S+/, 'CONNECT other.test:80')),
  {
    name: 'framing field in the trailers',
    needs: isChunked,
    apply: (random, draft) =>
      draft.trailers.splice(
        random.below(draft.trailers.length + 1),
        0,
        random.pick([
          ['Content-Length', ' 5'],
          ['Transfer-Encoding', ' chunked'],
          ['content-LENGTH', ' 0'],
        ]),
      ),
  },
];
