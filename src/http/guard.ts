import { type Problem, problem } from '../actors/vault/problem.ts';
import type { FrontOptions } from './front-options.ts';

/**
 * Counts a wrong token or link, or, with an account, a wrong password or code for it; gives what to answer: `refusal`, or
 * `rate_limited` where there were too many.
 */
export type Failed = (refusal: Problem, account?: string) => Problem;

/** Counts by network, together with the proxy, and leaves a record of each failure. */
export function createGuard({
  failures,
  clock,
  audit,
}: FrontOptions): (peer: string, requestId: string, target: string) => Failed {
  return (peer, requestId, target) => (refusal, account) => {
    const now = clock.now();
    const isGuess = account !== undefined;
    const wait = isGuess ? failures.countGuess(peer, account, now) : failures.count(peer, now);
    const tooMany = isGuess ? tooManyGuesses : tooManyTokens;
    const answer = wait > 0 ? problem('rate_limited', tooMany, undefined, wait) : refusal;
    audit.append({
      time: new Date(now).toISOString(),
      kind: 'control',
      request_id: requestId,
      action: 'auth.refused',
      target,
      peer,
      error: answer.code,
    });
    return answer;
  };
}

const tooManyTokens =
  'Too many wrong tokens came from this address. Wait as Retry-After says, or use a valid token.';
const tooManyGuesses =
  'Too many wrong passwords or codes came from this network, or for this name. Wait as Retry-After says, or sign in by the link of `broker login`.';
