import type { Lane } from './lane.ts';
import { Upstream } from './upstreams.ts';

const pollMs = 20;

/**
 * Ends a lane's work in order: what is idle is closed now, each other connection as its exchange ends, a relayed one
 * when it has been quiet; what is left when the time is up is cut off.
 */
export async function drain(lane: Lane, limitMs: number): Promise<void> {
  lane.draining = true;
  const end = performance.now() + limitMs;
  for (;;) {
    let open = 0;
    for (const swept of [...lane.sweeper.all()]) {
      if (swept instanceof Upstream) continue;
      open++;
      swept.onStop?.();
    }
    if (open === 0) break;
    if (performance.now() >= end) {
      for (const swept of [...lane.sweeper.all()]) swept.onRevoked('stopped');
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
  lane.upstreams.closeIdle();
}
