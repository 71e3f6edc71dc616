import { closeSync, fstatSync, openSync, readdirSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { segmentsOf } from './audit-chain.ts';

const chunkBytes = 256 * 1024;
/** A change is looked for no further back than this: those that may be missing are of the last seconds. */
const maxBytes = 256 * 2 ** 20;
/** No text within a record can hold this: its quotes would be escaped. */
const member = '"change":';
/** Octets that the member and its number fit into. */
const memberMax = 32;

/**
 * The number of the last change of the control plane that is in the log of the data directory `dir`; 0: there is none.
 * Open the log first: that cuts off what a crash left torn.
 * @throws Error (of node:fs)
 */
export function lastChange(dir: string): number {
  const folder = join(dir, 'audit');
  let left = maxBytes;
  for (const { name } of segmentsOf(readdirSync(folder)).reverse()) {
    const fd = openSync(join(folder, name), 'r');
    try {
      let behind: Buffer = Buffer.alloc(0);
      for (let end = fstatSync(fd).size; end > 0 && left > 0; ) {
        const chunk = Buffer.alloc(Math.min(chunkBytes, end));
        end -= chunk.length;
        left -= chunk.length;
        readSync(fd, chunk, 0, chunk.length, end);
        const bytes = Buffer.concat([chunk, behind]);
        const at = bytes.lastIndexOf(member);
        if (at >= 0) return Number.parseInt(bytes.toString('latin1', at + member.length, at + memberMax), 10);
        behind = bytes.subarray(0, memberMax);
      }
    } finally {
      closeSync(fd);
    }
    if (left <= 0) break;
  }
  return 0;
}
