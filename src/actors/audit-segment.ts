import {
  closeSync,
  fdatasyncSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  statSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { headerMax, parseHeader, type SegmentHeader, type SegmentName } from './audit-chain.ts';

/** The file that is written, as its one writer left it. */
export class Segment {
  readonly name: SegmentName;
  readonly fd: number;
  /** Octets up to the end of the last whole batch. */
  size: number;
  readonly #path: string;
  readonly #dev: number;
  readonly #ino: number;
  /** A write failed: there may be octets behind `size`. */
  #dirty = false;

  /** @throws Error (of node:fs) */
  constructor(folder: string, name: SegmentName, flags: 'wx' | 'r+', size: number) {
    this.name = name;
    this.size = size;
    this.#path = join(folder, name.name);
    this.fd = openSync(this.#path, flags, 0o600);
    const { dev, ino } = fstatSync(this.fd);
    this.#dev = dev;
    this.#ino = ino;
  }

  /**
   * Whether the file at the segment's path is still the one that we write, as we left it. One that was moved,
   * deleted or changed would take our records out of sight; the chain goes on in a new segment instead.
   */
  get isOurs(): boolean {
    const there = statSync(this.#path, { throwIfNoEntry: false });
    if (there === undefined || there.dev !== this.#dev || there.ino !== this.#ino) return false;
    return there.size === this.size || (this.#dirty && there.size > this.size);
  }

  /** Cuts off what lies behind the last whole batch. */
  mend(): void {
    if (this.#dirty) ftruncateSync(this.fd, this.size);
    this.#dirty = false;
  }

  /** Writes a batch, whole: after a throw nothing of it counts. */
  write(bytes: Uint8Array): void {
    this.#dirty = true;
    for (let done = 0; done < bytes.length; ) {
      done += writeSync(this.fd, bytes, done, bytes.length - done, this.size + done);
    }
    this.#dirty = false;
    this.size += bytes.length;
  }

  close(): void {
    try {
      fdatasyncSync(this.fd);
    } finally {
      closeSync(this.fd);
    }
  }
}

/** The header of a segment; null where it has none. */
export function headerOf(path: string): SegmentHeader | null {
  const fd = openSync(path, 'r');
  try {
    const start = Buffer.alloc(headerMax);
    return parseHeader(start.subarray(0, readSync(fd, start, 0, headerMax, 0)));
  } finally {
    closeSync(fd);
  }
}
