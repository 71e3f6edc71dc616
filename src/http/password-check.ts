import { type Problem, problem } from '../actors/vault/problem.ts';
import type { Secret } from '../actors/vault/secret.ts';
import type { Call } from './route.ts';
import type { FrontParts } from './routes.ts';

/** What is answered to a password that isn't the operator's. */
const wrongLogin = () => problem('unauthorized', 'The name or the password is wrong.');

/**
 * Checks an operator's password. A name that nobody has, or one without a password, takes as long and is answered alike.
 * Wrong ones are counted by network and by name; past the limit none is looked at, so that none can be guessed.
 * @param wrong what to refuse a wrong one with
 */
export async function passwordProblemOf(
  { vault, failures, clock, passwords }: FrontParts,
  { incoming, failed }: Pick<Call, 'incoming' | 'failed'>,
  { name, password }: { readonly name: string; readonly password: Secret },
  wrong: () => Problem = wrongLogin,
): Promise<Problem | null> {
  if (failures.guessWait(incoming.peer, name, clock.now()) > 0) return failed(wrong(), name);
  const encoded = await vault.ask('operator.passwordHash', { name });
  const isRight = await passwords.verify(password, encoded);
  if (!isRight.ok) return isRight.problem;
  if (!isRight.value) return failed(wrong(), name);
  failures.guessedRight(incoming.peer, name);
  return null;
}
