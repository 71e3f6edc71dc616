import { type FileHandle, open } from 'node:fs/promises';
import { type Batch, firstBatch } from './audit-chain.ts';

/** Read at a time; between two pieces the event loop runs. */
const pieceBytes = 64 * 1024;
/** No batch is larger; what is, is damaged. */
const maxBatch = 32 * 2 ** 20;

/**
 * The complete batches of a segment's file, in order, in memory that doesn't depend on its size.
 * @returns octets behind the last one: a torn batch, or something that is none
 * @throws Error (of node:fs) where it can't be read
 */
export async function* batchesOf(path: string): AsyncGenerator<Batch, number> {
  const file = await open(path, 'r');
  try {
    let rest: Buffer = Buffer.alloc(0);
    let searched = 0;
    let offset = 0;
    for (let at = 0; ; ) {
      const batch = firstBatch(rest, searched, offset);
      if (batch !== null) {
        rest = rest.subarray(batch.end - offset);
        offset = batch.end;
        searched = 0;
        yield batch;
        continue;
      }
      searched = rest.length;
      const piece = rest.length > maxBatch ? null : await readAt(file, at);
      if (piece === null) return rest.length;
      at += piece.length;
      rest = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    }
  } finally {
    await file.close();
  }
}

async function readAt(file: FileHandle, at: number): Promise<Buffer | null> {
  const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(pieceBytes), 0, pieceBytes, at);
  return bytesRead === 0 ? null : buffer.subarray(0, bytesRead);
}

/** The first or the last octets of a file. */
export async function edgeOf(path: string, edge: 'first' | 'last', length: number): Promise<Buffer> {
  const file = await open(path, 'r');
  try {
    const { size } = await file.stat();
    const at = edge === 'first' ? 0 : Math.max(0, size - length);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, at);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}
