import { type Problem, problem } from '../actors/vault/problem.ts';
import type { FrontOptions } from './front-options.ts';

/** Counts a wrong token or link; gives what to answer: `refusal`, or `rate_limited` where there were too many. */
export type Failed = (refusal: Problem) => Problem;

/** Counts by address, together with the proxy, and leaves a record of each failure. */
export function createGuard({
  failures,
  clock,
  audit,
}: FrontOptions): (peer: string, requestId: string, target: string) => Failed {
  return (peer, requestId, target) => (refusal) => {
    const now = clock.now();
    const wait = failures.count(peer, now);
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

const tooMany =
  'Too many wrong tokens came from this address. Wait as Retry-After says, or use a valid token.';
