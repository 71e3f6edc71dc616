import type { Clock } from './clock.ts';
import type { Core } from './core.ts';
import type { Expiring } from './deadlines.ts';
import { report } from './diagnostics.ts';
import { ActorError, type ActorErrorCode } from './errors.ts';
import type { AskOptions } from './protocol.ts';

/** Where an answer goes. Each envelope calls one of the two, once. */
export interface Reply {
  resolve(value: unknown): void;
  reject(error: ActorError): void;
}

/** A message on its way. `deadline` is monotonic ms, `Infinity` for a tell. */
export interface Envelope extends Expiring {
  readonly to: string;
  readonly message: string;
  readonly body: unknown;
  /** Absent for a tell and once answered. */
  reply: Reply | undefined;
  /** Called once, when the message has left the mailbox for whatever reason: a link gives its credit back. */
  taken: (() => void) | undefined;
}

export function tellEnvelope(to: string, message: string, body: unknown): Envelope {
  return {
    to,
    message,
    body,
    deadline: Number.POSITIVE_INFINITY,
    slot: -1,
    reply: undefined,
    taken: undefined,
  };
}

export function askEnvelope(
  to: string,
  message: string,
  body: unknown,
  deadline: number,
  reply: Reply,
): Envelope {
  return { to, message, body, deadline, slot: -1, reply, taken: undefined };
}

/** Answers an ask, unless it is a tell or has been answered. */
export function answer(core: Core, envelope: Envelope, value: unknown): void {
  const { reply } = envelope;
  if (!reply) return;
  envelope.reply = undefined;
  core.deadlines.remove(envelope);
  reply.resolve(value);
}

/** Rejects an ask, unless it is a tell or has been answered. */
export function refuse(core: Core, envelope: Envelope, code: ActorErrorCode): void {
  const { reply } = envelope;
  if (!reply) return;
  envelope.reply = undefined;
  core.deadlines.remove(envelope);
  if (code === 'ask_timeout')
    report(core.counters, 'expired', {
      path: envelope.to,
      message: envelope.message,
    });
  reply.reject(new ActorError(code, envelope.to));
}

/** The monotonic deadline of an ask made now; what isn't a finite time counts as not given. */
export function deadlineOf(clock: Clock, options: AskOptions | undefined, fallbackMs: number): number {
  const now = clock.monotonic();
  if (!options) return now + fallbackMs;
  const { timeoutMs = Number.POSITIVE_INFINITY, deadline } = options;
  // Only the remaining time is taken from wall time, so that a later jump of it moves no deadline.
  const remaining = deadline === undefined ? timeoutMs : Math.min(timeoutMs, deadline - clock.now());
  return now + (Number.isFinite(remaining) ? remaining : fallbackMs);
}
