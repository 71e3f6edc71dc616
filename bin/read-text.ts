import { createReadStream } from 'node:fs';
import { failed } from './terminal.ts';

/** Bytes: more than any file or value that the API takes. */
const limit = 1024 * 1024;

/** All of a file, or of standard input for `-`, as strict UTF-8. Throws a failure that names it, never its content. */
export async function readText(path: string): Promise<string> {
  const name = path === '-' ? 'Standard input' : path;
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of path === '-' ? process.stdin : createReadStream(path)) {
      chunks.push(chunk as Buffer);
      size += (chunk as Buffer).length;
      if (size > limit) throw failed(`${name} is larger than 1 MiB. Is it the right one?`);
    }
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error;
    throw failed(
      error.code === 'ENOENT' ? `There is no file ${path}.` : `${name} can't be read (${error.code}).`,
    );
  }
  try {
    // Nothing is taken off, a byte order mark neither: a value is stored exactly as it is.
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks));
  } catch {
    throw failed(`${name} is not UTF-8 text. Encode it first, in Base64 for instance.`);
  }
}

/** Takes off the one line break that editors and `echo` put at the end. */
export function withoutLastNewline(text: string): string {
  return text.replace(/\r?\n$/, '');
}
