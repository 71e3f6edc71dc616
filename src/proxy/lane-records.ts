import type { RecordSource } from '../actors/audit.ts';
import { unknownTail } from './audit-line.ts';
import { auditMemoryBytes, ringAt, ringBytes, slotBytes, slotCount, slotsAt, word } from './audit-memory.ts';

/** What outlives the process: see `run-file.ts`. */
export interface RunMark {
  writtenUntil(time: number): void;
  remove(): void;
}

/** The main thread's side of one lane's audit records (`audit-memory.ts`), for one life of the lane. */
export class LaneRecords implements RecordSource {
  readonly memory = new SharedArrayBuffer(auditMemoryBytes);
  readonly #words = new Int32Array(this.memory, 0, word.slots + slotCount);
  readonly #bytes = Buffer.from(this.memory);
  /** What the lane left unfinished when it died. */
  #left: Buffer[] = [];
  #ended = false;
  readonly #run: RunMark;
  /** When `read` last looked, and whether it gave all that there was. */
  #lookedAt = 0;
  #gaveAll = false;

  constructor(run: RunMark) {
    this.#run = run;
  }

  /** Its thread is gone, and all that it left is written. */
  get over(): boolean {
    return this.#ended && this.#left.length === 0 && this.#unread === 0;
  }

  get #unread(): number {
    return (Atomics.load(this.#words, word.head) - Atomics.load(this.#words, word.tail)) >>> 0;
  }

  /**
   * Complete lines that are yet to be written, `maxBytes` at most, in order; null: there are none now. They are valid
   * until `written`.
   * @param maxBytes more than the longest line
   */
  read(maxBytes: number): Uint8Array | null {
    this.#lookedAt = Date.now();
    this.#gaveAll = false;
    // First, so that what comes after this look is told of again.
    Atomics.store(this.#words, word.bell, 0);
    const there = this.#unread;
    if (there === 0) return this.#left[0] ?? null;
    const from = (Atomics.load(this.#words, word.tail) >>> 0) % ringBytes;
    const size = Math.min(there, maxBytes);
    this.#gaveAll = size === there;
    const first = Math.min(size, ringBytes - from);
    let lines: Buffer = this.#bytes.subarray(ringAt + from, ringAt + from + first);
    if (first < size) lines = Buffer.concat([lines, this.#bytes.subarray(ringAt, ringAt + size - first)]);
    return size === there ? lines : lines.subarray(0, lines.lastIndexOf(10) + 1);
  }

  /** What `read` gave last, so many octets, needs to be held no more. */
  written(octets: number): void {
    if (this.#unread === 0) this.#left.shift();
    else Atomics.add(this.#words, word.tail, octets);
    if (this.#gaveAll) this.#run.writtenUntil(this.#lookedAt);
  }

  /** Records that the lane found no room for since this was asked last. */
  takeDropped(): number {
    return Atomics.exchange(this.#words, word.dropped, 0);
  }

  /** Lines that `read` would still give. */
  countLines(): number {
    let count = this.#left.length;
    const tail = Atomics.load(this.#words, word.tail) >>> 0;
    for (let i = this.#unread; i > 0; i--)
      if (this.#bytes[ringAt + ((tail + i - 1) % ringBytes)] === 10) count++;
    return count;
  }

  /** It is over: nothing of it needs to be remembered. */
  close(): void {
    this.#run.remove();
  }

  /** Gives up what is not written yet, and counts it as dropped. Only once it has ended. */
  giveUp(): void {
    Atomics.add(this.#words, word.dropped, this.countLines());
    Atomics.store(this.#words, word.tail, Atomics.load(this.#words, word.head));
    this.#left = [];
  }

  /**
   * Takes over what the lane had under way, to be read behind what it finished: with an outcome that isn't known, or
   * as it ended where only room in the ring was wanting. Only once its thread is gone.
   */
  takeOver(): void {
    const head = Atomics.load(this.#words, word.head);
    const movedTo = Atomics.load(this.#words, word.movingTo);
    // It died between the line's counting and its slot's being freed.
    const moved = movedTo === head ? Atomics.load(this.#words, word.moving) - 1 : -1;
    this.#ended = true;
    for (let slot = 0; slot < slotCount; slot++) {
      const state = Atomics.exchange(this.#words, word.slots + slot, 0);
      if (state === 0 || slot === moved) continue;
      const at = slotsAt + slot * slotBytes;
      const line = Buffer.from(this.#bytes.subarray(at, at + Math.abs(state)));
      this.#left.push(state > 0 ? Buffer.concat([line, Buffer.from(unknownTail)]) : line);
    }
  }
}
