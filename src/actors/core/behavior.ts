import type { Clock } from './clock.ts';
import type { AskNames, OnDead, Protocol, Ref } from './protocol.ts';
import type { SupervisionPolicy } from './supervision.ts';

/** What comes with a message. */
export interface Meta {
  /** When the asker gives up, ms of `clock.now()`. Pass it on in asks of your own. Absent for a tell. */
  deadline?: number;
}

/** One handler a message. What it returns is the answer; what it throws is a failure of the actor. */
export type Handlers<P extends Protocol<P>> = {
  [K in keyof P]: (
    body: P[K]['in'],
    meta: Meta,
  ) => K extends AskNames<P> ? P[K]['out'] | Promise<P[K]['out']> : void | Promise<void>;
};

/** One life of an actor, from a start to the next restart or the end. */
export interface Behavior<P extends Protocol<P>> {
  handlers: Handlers<P>;
  /** Before a stop, after the last message: finish what is in flight. Not called on a restart. */
  onDrain?(): void | Promise<void>;
  /** Lets go of what the life holds, at the end and before each restart. Called once, children are gone by then. */
  onStop?(): void | Promise<void>;
}

/** What an actor may do with the runtime. It belongs to one life: after a restart the old one is of no use. */
export interface Context<P extends Protocol<P>> {
  readonly self: Ref<P>;
  readonly name: string;
  /** The system's clock. Timers set here end with the life, and a throw in one is a failure of the actor. */
  readonly clock: Clock;
  /** Starts a child, which ends with this life. Throws if a living child has the name, or this life is over. */
  spawn<Q extends Protocol<Q>>(spec: ActorSpec<Q>): Ref<Q>;
  /** Calls `onDead` once, in a turn of this actor, when `ref` dies (or is dead already). Returns the way out. */
  watch(ref: { readonly path: string }, onDead: OnDead): () => void;
  /** Stops this actor once the messages that it has are handled. */
  stopSelf(): void;
  /** Fails this actor in a turn of its own, as though a handler had thrown `reason`. For events from outside. */
  fail(reason: unknown): void;
}

/** An actor to be. Times are milliseconds. */
export interface ActorSpec<P extends Protocol<P>> {
  /** Unique among its living siblings; no slash. */
  name: string;
  /** Makes a life; run again on each restart, before the messages that wait. */
  start(ctx: Context<P>): Behavior<P> | Promise<Behavior<P>>;
  /** Most messages that may wait, urgent ones and others each. Default 1024. */
  mailbox?: number;
  /**
   * Which messages are handled before the others that wait, and find room where these have filled the mailbox. A
   * sender's order is kept among the urgent ones and among the others, not between the two. Default: none.
   */
  urgent?(message: string, body: unknown): boolean;
  /**
   * Which messages may share a turn with others of the kind that wait right behind them: their handlers are started one
   * after the other, each sees what those before it did before they first waited, and all are answered when all have
   * settled. Default: none.
   */
  together?(message: string, body: unknown): boolean;
  /** How its parent treats its failures. Default `policies.transient`. */
  supervision?: SupervisionPolicy;
  /** For draining and `onStop` together, not counting its children's own. Default 5000. */
  stopTimeoutMs?: number;
  /** Deadline of asks that bring none. Default 5000. */
  askTimeoutMs?: number;
}
