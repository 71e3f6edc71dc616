import { any, type Defect, inLine, isChunked, messageDefects } from './defects.ts';

/** Of answers alone: RFC 9112 4, RFC 9110 15.2.2. */
export const answerDefects: readonly Defect[] = [
  ...messageDefects,
  {
    name: 'coding in HTTP/1.0',
    needs: isChunked,
    apply: (_random, draft) => {
      draft.line = draft.line.replace(/^HTTP\/1\.1/, 'HTTP/1.0');
    },
  },
  inLine('status line', (random, line) =>
    random.pick([
      line.replace(
        / [0-9]{3}/,
        random.pick([' 099', ' 600', ' 20', ' 2000', ' -200', ' 2x0', '', '  200', '\t200', ' 200\t']),
      ),
      line.replace(
        /^HTTP\/1\../,
        random.pick(['http/1.1', 'HTTP/2.0', 'HTTP/1.2', 'HTTP/0.9', 'HTTP/1', 'ICY', '', ' HTTP/1.1']),
      ),
      `\r\n${line}`,
      `\n${line}`,
      `${line}\0`,
      `${line}\r`,
      `${line}\nX: 1`,
      `${line}\x0b`,
    ]),
  ),
  inLine('unasked upgrade', (_random, line) => line.replace(/ [0-9]{3}/, ' 101')),
  {
    name: 'too many interim answers',
    needs: any,
    apply(_random, draft) {
      draft.line = 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(33) + draft.line;
    },
  },
];
