import type { ActorSpec, Behavior, Context } from './behavior.ts';
import type { Cell } from './cell.ts';
import { Children } from './children.ts';
import type { Clock } from './clock.ts';
import { watchDeath } from './mortal.ts';
import type { AnyRef, OnDead } from './protocol.ts';

/** Specs and behaviours as the runtime sees them: which protocol they serve was settled by the compiler. */
// biome-ignore lint/suspicious/noExplicitAny: see above
export type AnySpec = ActorSpec<any>;
// biome-ignore lint/suspicious/noExplicitAny: see above
export type AnyBehavior = Behavior<any>;
// biome-ignore lint/suspicious/noExplicitAny: see above
type AnyContext = Context<any>;

/** What a life needs of the actor that it is a life of. */
export interface Host {
  readonly spec: AnySpec;
  readonly ref: AnyRef;
  readonly clock: Clock;
  createChild(spec: AnySpec, parent: Parent): Cell;
  /** Runs `work` in a turn of its own, unless `life` is over by then. `urgent`: before the messages that wait. */
  signal(life: Life, work: () => unknown, urgent?: boolean): void;
  end(reason: 'stopped'): Promise<void>;
}

/** Who starts an actor, hears of its failures and outlives it. */
export interface Parent {
  readonly path: string;
  escalate(error: unknown): void;
  readonly children: Children;
}

/** One life of an actor: its behaviour, its children, and whatever must not outlast it. */
export class Life implements Parent {
  readonly path: string;
  readonly children = new Children();
  readonly context: AnyContext;
  behavior: AnyBehavior | undefined;
  over = false;
  readonly #host: Host;
  /** Timers and watches still open. */
  readonly #open = new Set<() => void>();

  constructor(host: Host) {
    this.#host = host;
    this.path = host.ref.path;
    this.context = {
      self: host.ref,
      name: host.spec.name,
      clock: { ...host.clock, setTimer: (ms, fn) => this.#setTimer(ms, fn) },
      spawn: (spec) => this.#spawn(spec),
      watch: (ref, onDead) => this.#watch(ref, onDead),
      stopSelf: () => void (this.over || host.end('stopped')),
      fail: (reason) => this.escalate(reason),
    };
  }

  /** A failure that comes from elsewhere than a handler: a turn of its own makes it one of this actor. */
  escalate(error: unknown): void {
    const fail = () => {
      throw error;
    };
    this.#host.signal(this, fail, true);
  }

  /** Ends timers, watches and children. `onStop` is left to the caller, who knows how long it may take. */
  async end(): Promise<void> {
    this.over = true;
    for (const close of this.#open) close();
    this.#open.clear();
    await this.children.end();
  }

  #spawn(spec: AnySpec): AnyRef {
    if (this.over) throw new Error(`${this.path} can't start '${spec.name}': this life of it is over`);
    return this.children.add(spec.name, () => this.#host.createChild(spec, this)).ref;
  }

  #setTimer(ms: number, fn: () => void): () => void {
    if (this.over) return () => {};
    const cancel = this.#host.clock.setTimer(ms, () => {
      this.#open.delete(close);
      try {
        fn();
      } catch (error) {
        this.escalate(error);
      }
    });
    const close = () => {
      this.#open.delete(close);
      cancel();
    };
    this.#open.add(close);
    return close;
  }

  #watch(ref: { readonly path: string }, onDead: OnDead): () => void {
    let watching = !this.over;
    if (!watching) return () => {};
    const close = () => {
      watching = false;
      this.#open.delete(close);
      unwatch?.();
    };
    let unwatch: (() => void) | undefined;
    this.#open.add(close);
    unwatch = watchDeath(ref, (path, reason) => {
      // The notice may wait in the mailbox while its watcher loses interest.
      this.#host.signal(this, () => {
        if (!watching) return;
        close();
        return onDead(path, reason);
      });
    });
    return close;
  }
}
