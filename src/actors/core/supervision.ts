/** How a parent treats the failures of one child. Times are milliseconds. */
export interface SupervisionPolicy {
  /**
   * `restart`: start it again after a back-off, and escalate once `maxRestarts` within `withinMs` are used up.
   * `stop`: let it die. `escalate`: the failure becomes the parent's own; at the root the process ends with 70.
   */
  strategy: 'restart' | 'stop' | 'escalate';
  maxRestarts: number;
  withinMs: number;
  /** Before the first restart; it doubles with each further one in the window. */
  backoffMs: number;
  maxBackoffMs: number;
  /** 0..1: the share of each back-off that chance may take away, so that siblings don't come back in step. */
  jitter: number;
}

const restart = {
  strategy: 'restart',
  maxRestarts: 5,
  withinMs: 60_000,
  backoffMs: 50,
  maxBackoffMs: 5_000,
  jitter: 0.2,
} as const satisfies SupervisionPolicy;

/** The named policies. The default is `transient`. */
export const policies = {
  /** Restarted for ever, ever slower: a part that the rest can do without for a while, such as one lane of many. */
  always: { ...restart, maxRestarts: Number.POSITIVE_INFINITY },
  /** A few failures are weather, many are a fault of something above it. */
  transient: restart,
  /** Its state can't be trusted after a failure, and nothing works without it. */
  critical: { ...restart, strategy: 'escalate', maxRestarts: 0 },
  /** One job, not worth repeating; whoever watches it decides. */
  temporary: { ...restart, strategy: 'stop', maxRestarts: 0 },
} as const satisfies Record<string, SupervisionPolicy>;

export type Verdict =
  | {
      action: 'restart';
      delayMs: number /** Restart times that still count, this one last. */;
      history: number[];
    }
  | { action: 'stop' }
  | { action: 'escalate' };

/**
 * What to do about a failure at `now` (monotonic ms), given the restarts before it and a random number in 0..1.
 * The delay is never above the policy's back-off, since jitter only shortens it.
 */
export function judge(
  policy: SupervisionPolicy,
  restarts: readonly number[],
  now: number,
  random: number,
): Verdict {
  if (policy.strategy !== 'restart') return { action: policy.strategy };
  const recent = restarts.filter((at) => at > now - policy.withinMs);
  if (recent.length >= policy.maxRestarts) return { action: 'escalate' };
  const backoff = Math.min(policy.backoffMs * 2 ** recent.length, policy.maxBackoffMs);
  return {
    action: 'restart',
    delayMs: backoff * (1 - policy.jitter * random),
    history: [...recent, now],
  };
}
