/**
 * What actors say to each other, as types. A protocol is a map of message name to `{ in, out? }`:
 * a message with an `out` is asked, one without is told, and the compiler refuses the other way round.
 *
 * A refusal that a caller should expect is part of `out`; a throw in a handler is a failure of the actor.
 */
interface Message {
  in: unknown;
  out?: unknown;
}

/** The constraint on protocols: `P extends Protocol<P>` takes interfaces as well as type literals. */
export type Protocol<P> = { [K in keyof P]: Message };

type IsAny<P> = 0 extends 1 & P ? true : false;

/** Names of the messages that have an answer. */
export type AskNames<P> =
  IsAny<P> extends true
    ? string
    : Extract<{ [K in keyof P]: 'out' extends keyof P[K] ? K : never }[keyof P], string>;

/** Names of the messages that have none. */
type TellNames<P> = IsAny<P> extends true ? string : Exclude<Extract<keyof P, string>, AskNames<P>>;

/** `full`: the mailbox (or the link to it) has no room, try later. `dead`: it will never be handled. */
export type TellResult = 'sent' | 'full' | 'dead';

/** When both are given the earlier one counts; with neither, the actor's `askTimeoutMs`. */
export interface AskOptions {
  /** Milliseconds from now. */
  timeoutMs?: number;
  /** Milliseconds of `clock.now()`; pass `meta.deadline` of the message that you are handling. */
  deadline?: number;
}

/** The address of an actor. It behaves the same whether the actor lives in this thread or in another. */
export interface Ref<P extends Protocol<P>> {
  /** From the root, such as `/guardian/vault`. */
  readonly path: string;
  /** Puts a message in the mailbox. Never waits and never throws. */
  tell<K extends TellNames<P> & keyof P>(name: K, body: P[K]['in']): TellResult;
  /**
   * Puts a message in the mailbox and waits for its answer.
   *
   * @throws {ActorError} (as a rejection) `ask_timeout`, `mailbox_full`, `actor_dead` or `actor_failed`.
   */
  ask<K extends AskNames<P> & keyof P>(name: K, body: P[K]['in'], options?: AskOptions): Promise<P[K]['out']>;
}

/** A ref whose protocol doesn't matter to the code that holds it. */
// biome-ignore lint/suspicious/noExplicitAny: a protocol is invariant, so that no other type takes every ref.
export type AnyRef = Ref<any>;

/** Why an actor is dead: it was stopped, it failed for good, or the thread it lived in is gone. */
export type DeathReason = 'stopped' | 'failed' | 'thread';

export type OnDead = (path: string, reason: DeathReason) => void;
