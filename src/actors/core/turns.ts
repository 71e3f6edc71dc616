import type { Meta } from './behavior.ts';
import type { Core, Steps } from './core.ts';
import { report } from './diagnostics.ts';
import { answer, type Envelope, refuse } from './envelope.ts';
import { Fifo } from './fifo.ts';

/** A turn that isn't a message. `life`: run only while it lasts. */
interface Signal {
  work(): unknown;
  life: { readonly over: boolean } | undefined;
}

/** What runs in the turns of one actor. */
export interface TurnsOwner {
  readonly core: Core;
  readonly path: string;
  handle(message: string, body: unknown, meta: Meta): unknown;
  /** Whether a message may share a turn with others of the kind. */
  together(envelope: Envelope): boolean;
  /** A turn threw. Turns are paused, and the asker has been told. */
  failed(error: unknown): void;
}

/** Of one turn that messages share: their number, and how long starting them may take, in ms. */
const mostTogether = 64;
const togetherMs = 4;

const tellMeta: Meta = Object.freeze({});

/**
 * The mailbox of one actor and the only place where its code runs: one item at a time, the next when all of the one
 * before has settled. It begins paused.
 */
export class Turns implements Steps {
  readonly #owner: TurnsOwner;
  readonly #waiting = new Fifo<Envelope | Signal>();
  readonly #urgent = new Fifo<Envelope | Signal>();
  /** A turn is running, or none may: items only wait. */
  #busy = true;
  #dispatched = false;
  #current: Envelope | undefined;
  /** Of a turn that they share: those that were taken after `#current`. */
  #others: Envelope[] = [];

  constructor(owner: TurnsOwner) {
    this.#owner = owner;
  }

  /** How many wait, of one kind. */
  length(urgent: boolean): number {
    return (urgent ? this.#urgent : this.#waiting).length;
  }

  push(envelope: Envelope, urgent: boolean): void {
    const { core } = this.#owner;
    if (envelope.reply) {
      core.counters.asked++;
      core.deadlines.add(envelope);
    } else {
      core.counters.told++;
    }
    (urgent ? this.#urgent : this.#waiting).push(envelope);
    this.#wake();
  }

  signal(work: () => unknown, life?: { readonly over: boolean }, urgent = false): void {
    if (urgent) this.#urgent.unshift({ work, life });
    else this.#waiting.push({ work, life });
    this.#wake();
  }

  /** Runs `first` before all that waits, then goes on. */
  resume(first: () => unknown): void {
    this.#busy = false;
    this.signal(first, undefined, true);
  }

  /** For the end: drops all that waits. Whoever still hopes for an answer, also of the running turn, gets `actor_dead`. */
  abandon(): void {
    const { core, path } = this.#owner;
    this.#busy = true;
    for (const envelope of this.#others) refuse(core, envelope, 'actor_dead');
    this.#others = [];
    if (this.#current) refuse(core, this.#current, 'actor_dead');
    this.#current = undefined;
    for (let item = this.#next(); item; item = this.#next()) {
      if ('work' in item) continue;
      item.taken?.();
      report(core.counters, 'dropped', { path, message: item.message });
      refuse(core, item, 'actor_dead');
    }
  }

  step(): void {
    this.#dispatched = false;
    if (this.#busy) return;
    const item = this.#next();
    if (!item) return;
    this.#owner.core.counters.turns++;
    try {
      const result = 'work' in item ? runSignal(item) : this.#runWithOthers(item);
      if (!isThenable(result)) {
        this.#done(result);
        return;
      }
      this.#busy = true;
      result.then(
        (value) => this.#done(value),
        (error) => this.#failed(error),
      );
    } catch (error) {
      this.#failed(error);
    }
  }

  #next(): Envelope | Signal | undefined {
    return this.#urgent.shift() ?? this.#waiting.shift();
  }

  #wake(): void {
    if (this.#busy || this.#dispatched || this.#urgent.length + this.#waiting.length === 0) return;
    this.#dispatched = true;
    this.#owner.core.dispatch(this);
  }

  /** A message, and those behind it that may share its turn; what is urgent has a turn before them. */
  #runWithOthers(first: Envelope): unknown {
    this.#current = first;
    const result = this.#runMessage(first);
    if (!isThenable(result) || !this.#owner.together(first)) return result;
    const { core } = this.#owner;
    const running: Promise<unknown>[] = [result];
    const end = core.clock.monotonic() + togetherMs;
    this.#others = [];
    for (let next = this.#waiting.peek(); next && !('work' in next); next = this.#waiting.peek()) {
      if (this.#urgent.length > 0 || !this.#owner.together(next)) break;
      this.#waiting.shift();
      core.counters.turns++;
      this.#others.push(next);
      running.push(this.#runOther(next));
      if (running.length === mostTogether || core.clock.monotonic() >= end) break;
    }
    return running.length === 1 ? result : this.#settled(first, running);
  }

  async #runOther(envelope: Envelope): Promise<unknown> {
    return this.#runMessage(envelope);
  }

  /** Answers each when all have settled. What one of them throws is the actor's failure, and no other's answer. */
  async #settled(first: Envelope, running: readonly Promise<unknown>[]): Promise<void> {
    const { core } = this.#owner;
    const others = this.#others;
    const outcomes = await Promise.allSettled(running);
    if (others !== this.#others) return;
    this.#others = [];
    this.#current = undefined;
    for (const [i, envelope] of [first, ...others].entries()) {
      const outcome = outcomes[i];
      if (outcome.status === 'fulfilled') answer(core, envelope, outcome.value);
      else refuse(core, envelope, 'actor_failed');
    }
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  }

  #runMessage(envelope: Envelope): unknown {
    const { core } = this.#owner;
    envelope.taken?.();
    let meta = tellMeta;
    if (envelope.deadline < Number.POSITIVE_INFINITY) {
      const remaining = envelope.deadline - core.clock.monotonic();
      if (remaining <= 0) return refuse(core, envelope, 'ask_timeout');
      meta = { deadline: core.clock.now() + remaining };
    }
    return this.#owner.handle(envelope.message, envelope.body, meta);
  }

  #done(value: unknown): void {
    this.#busy = false;
    const envelope = this.#current;
    this.#current = undefined;
    if (envelope) answer(this.#owner.core, envelope, value);
    this.#wake();
  }

  #failed(error: unknown): void {
    const { core, path } = this.#owner;
    const envelope = this.#current;
    this.#current = undefined;
    this.#busy = true;
    report(core.counters, 'failed', { path, message: envelope?.message, error });
    if (envelope) refuse(core, envelope, 'actor_failed');
    this.#owner.failed(error);
  }
}

function runSignal({ life, work }: Signal): unknown {
  return life?.over ? undefined : work();
}

export function isThenable<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}
