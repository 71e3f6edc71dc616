import type { ByteReader } from './byte-reader.ts';

/** A message as it came. */
export interface Message {
  /** The first line. */
  readonly line: string;
  /** First line and fields, latin1, without the empty line. */
  readonly head: string;
  /** All values of a field, in any case, joined by `, `; '' where there is none. */
  field(name: string): string;
}

/** Reads a head; null: the end came before. */
export async function readHead(reader: ByteReader): Promise<Message | null> {
  const bytes = await reader.through('\r\n\r\n');
  if (bytes === null) return null;
  const head = bytes.latin1Slice(0, bytes.length - 4);
  const [line, ...lines] = head.replace(/^\r\n/, '').split('\r\n');
  return {
    line,
    head,
    field: (name) =>
      lines
        .filter((text) => text.slice(0, text.indexOf(':')).toLowerCase() === name)
        .map((text) => text.slice(text.indexOf(':') + 1).trim())
        .join(', '),
  };
}

/**
 * Reads the body that a head announces.
 * @param untilEnd whether one that announces none goes on to the connection's end
 * @returns null: the end came before that of the body
 */
export async function readBody(
  reader: ByteReader,
  message: Message,
  untilEnd: boolean,
): Promise<Buffer | null> {
  if (message.field('transfer-encoding') !== '') return readChunks(reader);
  const length = message.field('content-length');
  if (length !== '') return reader.exactly(Number(length));
  return untilEnd ? reader.rest() : Buffer.alloc(0);
}

/** Trailers are part of what it gives back, behind the content. */
async function readChunks(reader: ByteReader): Promise<Buffer | null> {
  const pieces: Buffer[] = [];
  for (;;) {
    const line = await reader.through('\r\n');
    if (line === null) return null;
    const size = Number.parseInt(line.latin1Slice(), 16);
    if (size === 0) break;
    const content = await reader.exactly(size);
    if (content === null || (await reader.exactly(2)) === null) return null;
    pieces.push(content);
  }
  for (;;) {
    const line = await reader.through('\r\n');
    if (line === null) return null;
    if (line.length === 2) return Buffer.concat(pieces);
    pieces.push(line);
  }
}

/** The method and target of a request's first line. */
export function requestLine(line: string): { method: string; path: string } {
  const [method, target] = line.split(' ');
  return { method, path: target.split('?')[0] };
}
