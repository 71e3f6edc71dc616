import type { Active, ActiveSessions } from './active-sessions.ts';
import { maxTailBytes, type Outcome, type RequestFacts, recordHead, recordTail } from './audit-line.ts';
import { ringAt, ringBytes, slotBytes, slotCount, slotsAt, word } from './audit-memory.ts';

/** Too many requests are under way, or too many sessions: this one must not begin. */
export const noSlot = -1;
/** The operator wants requests to go on although their records find no room. */
const unrecorded = -2;

/** So much of the ring is kept free for what is under way: while less is, nothing new begins. */
const spareBytes = ringBytes / 4;
/** A finished record that found the ring full is tried again so often, in ms. */
const retryMs = 20;

/**
 * The lane's side of its audit records (`audit-memory.ts`): the head of a record lies in a slot before anything of its
 * request goes upstream; when it ends, the whole line goes to the ring, which the main thread reads. However the
 * thread ends, the main thread finds each request either in a slot or in the ring.
 */
export class AuditSink {
  readonly #words: Int32Array;
  readonly #bytes: Buffer;
  readonly #ring: () => void;
  readonly #health: Int32Array;
  readonly #failOpen: boolean;
  /** Free slots, the one used last on top: few pages are touched. */
  readonly #free = new Uint16Array(slotCount);
  #freeCount = slotCount;
  /** Octets ever written to the ring, modulo 2^32. */
  #head = 0;
  /** Slots with finished lines for which the ring had no room, in order. */
  readonly #waiting: number[] = [];
  readonly #sessions: ActiveSessions;
  /** Whose request a slot holds. */
  readonly #owners: (Active | null)[] = new Array(slotCount).fill(null);
  #timer: NodeJS.Timeout | null = null;
  readonly #failed: (error: unknown) => void;

  /**
   * @param memory of `auditMemoryBytes`, all zero
   * @param sessions what outlives the process
   * @param ring tells the main thread that there is something to read
   * @param health shared word: 0 the log is being written, 1 it can't be
   * @param failed says so in the log where something of ours threw
   */
  constructor(
    memory: SharedArrayBuffer,
    sessions: ActiveSessions,
    ring: () => void,
    health: Int32Array,
    failOpen: boolean,
    failed: (error: unknown) => void,
  ) {
    this.#failed = failed;
    this.#sessions = sessions;
    this.#words = new Int32Array(memory, 0, word.slots + slotCount);
    this.#bytes = Buffer.from(memory);
    this.#ring = ring;
    this.#health = health;
    this.#failOpen = failOpen;
    for (let i = 0; i < slotCount; i++) this.#free[i] = slotCount - 1 - i;
  }

  /** Whether requests may go on (protocol, "Audit": fail closed). */
  get healthy(): boolean {
    return this.#failOpen || (Atomics.load(this.#health, 0) === 0 && this.#room() >= spareBytes);
  }

  /**
   * Puts a request on record before anything of it goes upstream.
   * @param slot the one that it has already, whose facts are replaced
   * @returns the slot to finish it with; `noSlot`: it must not begin
   */
  begin(facts: RequestFacts, slot: number = noSlot): number {
    const head = recordHead(facts);
    let taken = slot;
    if (taken < 0) {
      const owner = this.#activeOf(facts);
      if (owner === null || this.#freeCount === 0) return this.#failOpen ? unrecorded : noSlot;
      taken = this.#free[--this.#freeCount];
      this.#owners[taken] = owner;
      owner.open++;
    } else Atomics.store(this.#words, word.slots + taken, 0);
    const length = this.#bytes.write(head, slotsAt + taken * slotBytes, slotBytes - maxTailBytes);
    Atomics.store(this.#words, word.slots + taken, length);
    return taken;
  }

  /** The record of what `begin` gave `slot` for, of which `facts` are the same; it has ended. */
  finish(slot: number, facts: RequestFacts, outcome: Outcome): void {
    if (slot < 0) {
      const owner = this.#activeOf(facts);
      this.add(recordHead(facts) + recordTail(outcome));
      if (owner !== null) owner.head = this.#head;
      return;
    }
    const length = Atomics.load(this.#words, word.slots + slot);
    const at = slotsAt + slot * slotBytes + length;
    const whole = length + this.#bytes.latin1Write(recordTail(outcome), at, maxTailBytes);
    if (this.#waiting.length === 0 && this.#move(slot, whole)) return;
    Atomics.store(this.#words, word.slots + slot, -whole);
    this.#waiting.push(slot);
    this.#flushLater();
  }

  /** What `begin` gave `slot` for needs no record of its own: no upstream saw anything of it. */
  release(slot: number): void {
    if (slot >= 0) this.#freeSlot(slot);
  }

  /** A finished line; counted where there is no room for it. */
  add(text: string): void {
    const line = Buffer.from(text);
    if (this.#room() < line.length) {
      Atomics.add(this.#words, word.dropped, 1);
      return;
    }
    const from = (this.#head >>> 0) % ringBytes;
    const first = line.copy(this.#bytes, ringAt + from, 0, ringBytes - from);
    if (first < line.length) line.copy(this.#bytes, ringAt, first);
    this.#publish(line.length);
  }

  /** Moves on what waits for room. */
  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    let moved = 0;
    try {
      for (const slot of this.#waiting) {
        if (!this.#move(slot, -Atomics.load(this.#words, word.slots + slot))) break;
        moved++;
      }
    } finally {
      this.#waiting.splice(0, moved);
      if (this.#waiting.length > 0) this.#flushLater();
    }
  }

  #flushLater(): void {
    this.#timer ??= setTimeout(() => {
      try {
        this.flush();
      } catch (error) {
        this.#failed(error);
      }
    }, retryMs);
  }

  /** Lets go of sessions that have nothing under way any more; to be called now and then. */
  sweep(): void {
    this.#sessions.sweep(Atomics.load(this.#words, word.tail));
  }

  #room(): number {
    return ringBytes - ((this.#head - Atomics.load(this.#words, word.tail)) >>> 0);
  }

  /** Moves a finished line from its slot to the ring; false: there is no room. */
  #move(slot: number, length: number): boolean {
    if (this.#room() < length) return false;
    const words = this.#words;
    const bytes = this.#bytes;
    const source = slotsAt + slot * slotBytes;
    const from = (this.#head >>> 0) % ringBytes;
    const first = Math.min(length, ringBytes - from);
    bytes.copyWithin(ringAt + from, source, source + first);
    if (first < length) bytes.copyWithin(ringAt, source + first, source + length);
    // At no moment is the line in neither place; where it is in both, these two words say so.
    Atomics.store(words, word.movingTo, (this.#head + length) | 0);
    Atomics.store(words, word.moving, slot + 1);
    this.#publish(length);
    (this.#owners[slot] as Active).head = this.#head;
    this.#freeSlot(slot);
    Atomics.store(words, word.moving, 0);
    return true;
  }

  #freeSlot(slot: number): void {
    Atomics.store(this.#words, word.slots + slot, 0);
    this.#free[this.#freeCount++] = slot;
    (this.#owners[slot] as Active).open--;
    this.#owners[slot] = null;
  }

  /** null: nobody is known, or there is no place for them. */
  #activeOf({ access }: RequestFacts): Active | null {
    return access === null ? null : (access.session.active ?? this.#sessions.enter(access.session));
  }

  #publish(length: number): void {
    const words = this.#words;
    this.#head = (this.#head + length) | 0;
    Atomics.store(words, word.head, this.#head);
    if (Atomics.load(words, word.bell) !== 0) return;
    Atomics.store(words, word.bell, 1);
    this.#ring();
  }
}
