/** Every way in which an ask can fail, with what the caller is told. */
const messages = {
  ask_timeout: 'did not answer before the deadline',
  mailbox_full: 'has no room for another message; try again later',
  actor_dead: 'has stopped',
  actor_failed: 'failed while handling the message',
} as const;

export type ActorErrorCode = keyof typeof messages;

const brand = Symbol.for('broker.ActorError');

/**
 * The only error with which the runtime rejects an ask. Compare `code`: class identity is lost between threads.
 * It carries neither the message body nor the actor's own error, which goes to its supervisor alone.
 */
export class ActorError extends Error {
  override readonly name = 'ActorError';
  readonly code: ActorErrorCode;
  /** Path of the actor that was asked. */
  readonly path: string;
  readonly [brand] = true;

  constructor(code: ActorErrorCode, path: string) {
    super(`${path} ${messages[code]}`);
    this.code = code;
    this.path = path;
  }

  static is(error: unknown): error is ActorError {
    return typeof error === 'object' && error !== null && brand in error;
  }
}
