import { ActorError } from '../actors/core/errors.ts';
import { type Problem, problem } from '../actors/vault/problem.ts';

/** What to answer when the vault didn't, or when something nobody foresaw went wrong. */
export function failureProblem(error: unknown): Problem {
  if (!ActorError.is(error)) return problem('internal');
  switch (error.code) {
    case 'mailbox_full':
      return problem('overloaded', undefined, undefined, 1);
    case 'ask_timeout':
      return problem('overloaded', unanswered, undefined, 1);
    case 'actor_dead':
      return problem('overloaded', 'The broker is stopping. Try again when it is back.', undefined, 5);
    case 'actor_failed':
      return problem('internal');
  }
}

const unanswered =
  'The broker is busy and did not answer in time. A change may have been made or not: look before you try again.';

/**
 * What may be logged of a failure: its kind and where it happened. Its message stays out, since it may quote what was
 * being handled.
 */
export function failureFields(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { kind: typeof error };
  const { code } = error as NodeJS.ErrnoException;
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line));
  return { kind: error.name, code, at: frames.slice(0, 6).map((line) => line.trim()) };
}
