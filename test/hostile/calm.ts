import type { Test } from 'tap';
import type { Broker } from '../support/broker.ts';
import type { Upstream } from '../support/tls-upstream.ts';
import { openOnBothLanes, openTunnel, rootOf, type Target, type Tunnel } from '../support/tunnel.ts';

/** Between two of its requests. */
const pauseMs = 5;

/** The agent that behaves. */
export interface Calm {
  /** Asks until `over`, and so often at least; times in ms. */
  measure(least: number, over: () => boolean): Promise<number[]>;
  readonly asked: number;
  readonly wrong: string[];
  close(): void;
}

/**
 * Asks its own upstream, by a tunnel on each lane, and looks at each answer and at what its upstream got; now and then the
 * upstream that the others have to do with, too.
 *
 * @param value what its service puts in
 * @param shared the others' upstream, as this agent's vault names it
 */
export async function startCalm(
  t: Test,
  broker: Broker,
  upstream: Upstream,
  given: { readonly own: Target; readonly shared: Target; readonly value: string },
): Promise<Calm> {
  const { own, shared, value } = given;
  const root = await rootOf(broker);
  const tunnels = await openOnBothLanes(broker, own, 1);
  const wrong: string[] = [];
  let n = 0;
  let other: Tunnel | null = null;
  const close = () => {
    for (const tunnel of [...tunnels, ...(other === null ? [] : [other])]) tunnel.close();
  };
  t.teardown(close);

  async function ask(): Promise<number> {
    const path = `/c${++n}~ok`;
    const begun = performance.now();
    const { status, body } = await tunnels[n % tunnels.length].request(path);
    const took = performance.now() - begun;
    const index = status === 200 ? JSON.parse(body).seen : -1;
    const seen = upstream.seen[index];
    if (seen?.url !== path || seen.headers.authorization !== `Bearer ${value}`)
      wrong.push(`${path}: ${status}`);
    return took;
  }

  /** A poisoned connection would give it another's answer. */
  async function askShared(): Promise<void> {
    if (other === null || other.closed) other = await openTunnel(broker, root, shared);
    const path = `c${++n}~ok`;
    const { status, headers } = await other.request(`/${path}`);
    if (status !== 200 || headers['x-seen'] !== path.slice(0, -3)) wrong.push(`shared ${path}: ${status}`);
  }

  return {
    async measure(least, over) {
      const times: number[] = [];
      while (times.length < least || !over()) {
        try {
          times.push(await ask());
          if (times.length % 25 === 0) await askShared();
        } catch (error) {
          // Its connection is gone: that is all that can be wrong with one.
          wrong.push(
            `request ${n}, tunnels ${tunnels.map(({ closed }) => closed)}: ${(error as Error).stack}`,
          );
          return times;
        }
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
      return times;
    },
    get asked() {
      return n;
    },
    wrong,
    close,
  };
}
