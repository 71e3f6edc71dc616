import zlib from 'node:zlib';
import { encode, type Form } from './forms.ts';

/** What came, as far as an answer repeats it. */
export interface Asked {
  /** Says whom the answer is for. */
  readonly seen: string;
  /** Head and body. */
  readonly bytes: Buffer;
  readonly isHead: boolean;
}

const line = 'HTTP/1.1 200 OK\r\n';

export function plainAnswer({ seen, isHead }: Asked, fields = '', status = line): string {
  return `${status}X-Seen: ${seen}\r\n${fields}Content-Length: 2\r\n\r\n${isHead ? '' : 'ok'}`;
}

const codings: Readonly<Record<string, readonly [name: string, code: (content: Buffer) => Buffer]>> = {
  gzip: ['gzip', (content) => zlib.gzipSync(content)],
  br: [
    'br',
    (content) => zlib.brotliCompressSync(content, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } }),
  ],
  deflate: ['deflate', (content) => zlib.deflateSync(content)],
  zstd: ['zstd', (content) => zlib.zstdCompressSync(content)],
  unknown: ['x-own', (content) => content],
  false: ['gzip', (content) => content],
  twice: ['gzip, br', (content) => zlib.brotliCompressSync(zlib.gzipSync(content))],
};

const chunk = (content: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`${content.length.toString(16)}\r\n`), content, Buffer.from('\r\n')]);

function cut(content: Buffer, size: number): Buffer[] {
  const made: Buffer[] = [];
  for (let at = 0; at < content.length; at += size) made.push(content.subarray(at, at + size));
  return made;
}

/** Pieces of an answer that are written one after the other, and whether the connection ends with them. */
export interface Pieces {
  readonly pieces: readonly (Buffer | string)[];
  readonly ends: boolean;
}

/**
 * An answer that repeats its request.
 * @param how form, place, coding and framing
 */
export function echoAnswer(asked: Asked, how: readonly string[]): Pieces {
  const [form, place, coding, framing] = how;
  const text = encode(form as Form, asked.bytes);
  // In a head there is no room for line ends, nor for much.
  const short = text.replace(/[\r\n]+/g, ' ').slice(0, 30_000);
  const once = (pieces: (Buffer | string)[]): Pieces => ({ pieces, ends: false });
  switch (place) {
    case 'field':
      return once([
        Buffer.from(plainAnswer(asked, `X-Echo: ${short}\r\nSet-Cookie: e=${short}\r\n`), 'latin1'),
      ]);
    case 'reason':
      return once([Buffer.from(plainAnswer(asked, '', `HTTP/1.1 200 ${short}\r\n`), 'latin1')]);
    case 'interim':
      return once([
        Buffer.from(`HTTP/1.1 103 Early Hints\r\nLink: ${short}\r\n\r\n${plainAnswer(asked)}`, 'latin1'),
      ]);
    case 'trailer': {
      const head = `${line}X-Seen: ${asked.seen}\r\nTransfer-Encoding: chunked\r\n\r\n`;
      return once([
        Buffer.from(asked.isHead ? head : `${head}2\r\nok\r\n0\r\nX-Echo: ${short}\r\n\r\n`, 'latin1'),
      ]);
    }
  }
  const [name, code] = codings[coding] ?? ['', (content: Buffer) => content];
  const content = code(Buffer.from(text, 'latin1'));
  const coded = name === '' ? '' : `Content-Encoding: ${name}\r\nETag: "e"\r\n`;
  const head = (more: string) => `${line}X-Seen: ${asked.seen}\r\n${coded}${more}\r\n`;
  if (framing === 'close') {
    return {
      pieces: [head('Connection: close\r\n'), ...(asked.isHead ? [] : cut(content, 1000))],
      ends: true,
    };
  }
  if (framing === 'length' || framing === 'pieces') {
    const whole = head(`Content-Length: ${content.length}\r\n`);
    if (asked.isHead) return once([whole]);
    return once([whole, ...(framing === 'length' ? [content] : cut(content, Math.ceil(content.length / 7)))]);
  }
  const begun = head('Transfer-Encoding: chunked\r\n');
  if (asked.isHead) return once([begun]);
  // One byte to a chunk is for short answers: it takes six times its length.
  const sized = framing === 'bytes' && content.length < 5_000 ? 1 : 333;
  return once([begun, Buffer.concat([...cut(content, sized).map(chunk), Buffer.from('0\r\n\r\n')])]);
}

/** What stands outside of the places that `noted.test` names: all that its agent may read. */
export function noteOf(head: string, body: Buffer): string {
  const [first, ...fields] = head.split('\r\n');
  const [path, query = ''] = first.split(' ')[1].split(/\?(.*)/s);
  const rest = path.startsWith('/bot') ? path.slice(path.indexOf('/', 1)) : path;
  const parameters = query.split('&').map((each) => {
    const value = /^key=([^;]*)/.exec(each);
    return value === null ? each : each.slice(value[0].length);
  });
  const others = fields.filter((field) => !/^x-place:/i.test(field));
  return [rest, ...parameters, ...others, body.latin1Slice()].join('\n');
}
