import type { Meta } from './behavior.ts';
import type { Clock } from './clock.ts';
import type { Core } from './core.ts';
import { report } from './diagnostics.ts';
import type { Envelope } from './envelope.ts';
import { type AnyBehavior, type AnySpec, type Host, Life, type Parent } from './life.ts';
import { createLocalRef } from './local-ref.ts';
import { Watchers } from './mortal.ts';
import type { AnyRef, DeathReason, TellResult } from './protocol.ts';
import { judge, policies } from './supervision.ts';
import { isThenable, Turns, type TurnsOwner } from './turns.ts';
import { within } from './within.ts';

/**
 * One actor from its start to its death: the mailbox, which lasts, and the lives, which follow each other. Everything
 * that its code does in order (start, messages, death notices, drain) is a turn; the end and the clean-up between two
 * lives happen while turns are paused.
 */
export class Cell implements Host, TurnsOwner {
  readonly core: Core;
  readonly spec: AnySpec;
  readonly path: string;
  readonly ref: AnyRef;
  readonly watchers = new Watchers();
  readonly #parent: Parent;
  readonly #turns: Turns;
  readonly #mailbox: number;
  readonly #stopTimeoutMs: number;
  #life: Life | undefined;
  #lives = 0;
  /** Times of the restarts that still count, monotonic ms. */
  #restarts: number[] = [];
  #restarting: { done: Promise<void>; hurry(): void } | undefined;
  /** Takes no further message: the end has begun. */
  #closed = false;
  #ending: Promise<void> | undefined;
  #drainFailed = (): void => {};

  constructor(core: Core, spec: AnySpec, parent: Parent) {
    this.core = core;
    this.spec = spec;
    this.path = `${parent.path}/${spec.name}`;
    this.#parent = parent;
    this.#mailbox = spec.mailbox ?? 1_024;
    this.#stopTimeoutMs = spec.stopTimeoutMs ?? 5_000;
    this.#turns = new Turns(this);
    this.ref = createLocalRef(this);
    this.#turns.resume(() => this.#start());
  }

  get clock(): Clock {
    return this.core.clock;
  }

  createChild(spec: AnySpec, parent: Parent): Cell {
    return new Cell(this.core, spec, parent);
  }

  /** Takes a message if there is room. */
  offer(envelope: Envelope): TellResult {
    const urgent = this.#isUrgent(envelope);
    const result = this.#closed ? 'dead' : this.#turns.length(urgent) >= this.#mailbox ? 'full' : 'sent';
    if (result === 'sent') this.#turns.push(envelope, urgent);
    else report(this.core.counters, 'refused', { path: this.path, message: envelope.message, result });
    return result;
  }

  /** Takes a message whether there is room or not: a link's credits are its bound. `false` once the end has begun. */
  deliver(envelope: Envelope): boolean {
    if (this.#closed) {
      report(this.core.counters, 'refused', { path: this.path, message: envelope.message, result: 'dead' });
      return false;
    }
    this.#turns.push(envelope, this.#isUrgent(envelope));
    return true;
  }

  #isUrgent({ message, body }: Envelope): boolean {
    return this.spec.urgent?.(message, body) ?? false;
  }

  together({ message, body }: Envelope): boolean {
    return this.spec.together?.(message, body) ?? false;
  }

  signal(life: Life, work: () => unknown, urgent = false): void {
    if (!life.over) this.#turns.signal(work, life, urgent);
  }

  handle(message: string, body: unknown, meta: Meta): unknown {
    return this.#life?.behavior?.handlers[message](body, meta);
  }

  failed(error: unknown): void {
    const { core, path } = this;
    if (this.#closed) {
      this.#drainFailed();
      return;
    }
    const policy = this.spec.supervision ?? policies.transient;
    const verdict = judge(policy, this.#restarts, this.clock.monotonic(), core.random());
    if (verdict.action === 'restart') {
      this.#restarts = verdict.history;
      this.#restart(verdict.delayMs);
      return;
    }
    if (verdict.action === 'escalate') {
      report(core.counters, 'escalated', { path, error });
      this.#parent.escalate(error);
    }
    void this.end('failed');
  }

  /**
   * Ends the actor. `stopped`: what waits is handled first and `onDrain` run; `failed`: at once. Then its children
   * end, then its `onStop` runs. Resolves when it is dead, whatever its code does; the same promise for every call.
   */
  end(reason: 'stopped' | 'failed'): Promise<void> {
    this.#closed = true;
    this.#ending ??= this.#end(reason);
    return this.#ending;
  }

  #start(): unknown {
    const life = new Life(this);
    this.#life = life;
    const born = (behavior: AnyBehavior) => {
      life.behavior = behavior;
      // A start that outlasted its actor's stop still gets to let go of what it took.
      if (life.over) return behavior.onStop?.();
      report(this.core.counters, 'started', { path: this.path, restarts: this.#lives++ });
    };
    const behavior = this.spec.start(life.context);
    return isThenable(behavior) ? behavior.then(born) : born(behavior);
  }

  /** The back-off runs from the failure on, beside the clean-up, which may take longer. */
  #restart(delayMs: number): void {
    report(this.core.counters, 'restarting', { path: this.path, delayMs });
    let hurry = () => {};
    const backedOff = new Promise<void>((resolve) => {
      const cancel = this.clock.setTimer(delayMs, resolve);
      hurry = () => {
        cancel();
        resolve();
      };
    });
    const done = (async () => {
      await this.#endLife(this.clock.monotonic() + this.#stopTimeoutMs);
      await backedOff;
      this.#restarting = undefined;
      if (!this.#closed) this.#turns.resume(() => this.#start());
    })();
    this.#restarting = { done, hurry };
  }

  async #end(reason: 'stopped' | 'failed'): Promise<void> {
    let death: DeathReason = reason;
    const deadline = this.clock.monotonic() + this.#stopTimeoutMs;
    if (reason === 'stopped' && !this.#restarting) {
      const failed = new Promise<void>((resolve) => {
        this.#drainFailed = () => {
          death = 'failed';
          resolve();
        };
      });
      await this.#inTime(Promise.race([this.#drained(), failed]), deadline);
    }
    this.#turns.abandon();
    this.#restarting?.hurry();
    await (this.#restarting?.done ?? this.#endLife(deadline));
    report(this.core.counters, 'stopped', { path: this.path, reason: death });
    this.#parent.children.remove(this.spec.name);
    this.watchers.died(this.path, death);
  }

  /** The drain is the last turn, since no message comes in behind it. */
  #drained(): Promise<void> {
    return new Promise((resolve) => {
      this.#turns.signal(async () => {
        await this.#life?.behavior?.onDrain?.();
        resolve();
      });
    });
  }

  async #endLife(deadline: number): Promise<void> {
    const life = this.#life;
    if (!life || life.over) return;
    const left = deadline - this.clock.monotonic();
    await life.end();
    const stopping = (async () => life.behavior?.onStop?.())().catch((error) => {
      report(this.core.counters, 'failed', { path: this.path, message: undefined, error });
    });
    // The children had deadlines of their own: their time isn't taken from this one.
    await this.#inTime(stopping, this.clock.monotonic() + left);
  }

  async #inTime(work: Promise<unknown>, deadline: number): Promise<void> {
    if (!(await within(this.clock, work, deadline)))
      report(this.core.counters, 'overdue', { path: this.path });
  }
}
