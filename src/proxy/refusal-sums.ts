import { Buffer } from 'node:buffer';

/** Seconds' worth of refusals that are recorded one by one before the rate counts. */
const burstSeconds = 5;
/** How long refusals over the rate are summed up before they are written, ms. */
const periodMs = 1_000;
/** Callers that are told apart at a time, and sums that are open at a time; what is more shares one. */
const maxCallers = 1024;
const maxSums = 1024;

export interface Refusal {
  /** Wall clock, ms. */
  readonly time: number;
  /** A session, an agent, or the address of somebody who showed no valid token. */
  readonly caller: string;
  /** The caller is known by a token. Addresses cost nothing: they share a rate beside their own. */
  readonly known: boolean;
  /** What it was refused as: those of one caller and kind make one sum. */
  readonly kind: string;
}

/** What the refusals of one caller and kind have come to since the sum was begun. */
interface Sum {
  /** The first one's record, all but its time, as JSON members. */
  readonly members: Buffer;
  count: number;
  readonly first: number;
  last: number;
}

interface Bucket {
  tokens: number;
  /** When they were last counted, ms. */
  at: number;
}

/**
 * Keeps those who are refused over and over from filling the audit: so many refusals a second have a record each for
 * each caller, those over it are summed up, with their number and the time of the first and the last. What else a
 * sum says is of the first.
 *
 * It is for requests of which no upstream saw anything: one that went out has its own record, always.
 */
export class RefusalSums {
  readonly #write: (line: string) => void;
  readonly #rate: number;
  readonly #buckets = new Map<string, Bucket>();
  readonly #sums = new Map<string, Sum>();
  #timer: NodeJS.Timeout | null = null;
  #sweptAt = 0;

  /**
   * @param write takes the line of a sum
   * @param rate refusals a second that are recorded one by one; 0: all of them are
   */
  constructor(write: (line: string) => void, rate: number) {
    this.#write = write;
    this.#rate = rate;
  }

  /**
   * Whether this one is to have a record of its own; otherwise it was counted.
   * @param members the record's JSON members but for its time; `named`: it may say whose it is
   */
  isOwn({ time, caller, known, kind }: Refusal, members: (named: boolean) => string): boolean {
    if (this.#rate === 0) return true;
    if (this.#take(caller, time) && (known || this.#take(strangers, time))) return true;
    const own = `${caller} ${kind}`;
    const named = this.#sums.has(own) || this.#sums.size < maxSums;
    const key = named ? own : `${others} ${kind}`;
    const sum = this.#sums.get(key);
    if (sum === undefined) {
      this.#sums.set(key, { members: Buffer.from(members(named)), count: 1, first: time, last: time });
      this.#timer ??= setTimeout(() => this.flush(), periodMs).unref();
    } else {
      sum.count++;
      sum.last = time;
    }
    return false;
  }

  /** Writes the sums as they stand. */
  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    for (const sum of this.#sums.values()) {
      const [first, last] = [sum.first, sum.last].map((ms) => new Date(ms).toISOString());
      const members = sum.members.toString();
      this.#write(`{"time":"${last}",${members},"count":${sum.count},"first":"${first}","last":"${last}"}\n`);
    }
    this.#sums.clear();
  }

  /** Whether the caller has one to spend. */
  #take(caller: string, now: number): boolean {
    const bucket = this.#buckets.get(caller) ?? this.#begin(caller, now);
    const burst = this.#rate * burstSeconds;
    // The wall clock may be set back.
    bucket.tokens = Math.min(burst, bucket.tokens + (Math.max(0, now - bucket.at) * this.#rate) / 1000);
    bucket.at = now;
    if (bucket.tokens < 1) return false;
    bucket.tokens--;
    return true;
  }

  #begin(caller: string, now: number): Bucket {
    if (this.#buckets.size >= maxCallers) this.#forgetIdle(now);
    const key = this.#buckets.size >= maxCallers ? others : caller;
    let bucket = this.#buckets.get(key);
    if (bucket === undefined) {
      bucket = { tokens: this.#rate * burstSeconds, at: now };
      this.#buckets.set(key, bucket);
    }
    return bucket;
  }

  /** Those who have not been refused for as long as it takes to be given a whole burst anew. */
  #forgetIdle(now: number): void {
    if (Math.abs(now - this.#sweptAt) < 1000) return;
    this.#sweptAt = now;
    for (const [caller, { at }] of this.#buckets)
      if (now - at > burstSeconds * 1000) this.#buckets.delete(caller);
  }
}

/** No caller's name: those begin with what kind of caller it is. */
const strangers = '*strangers';
const others = '*others';
