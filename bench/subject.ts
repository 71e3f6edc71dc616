import type { Place } from './place.ts';

/** Whether the client's connection to the proxy is TLS itself (an `https://` proxy) or plain. */
export type Leg = 'TLS' | 'plain';

/** How the load reaches upstreams of one scheme through a proxy. */
export interface Reach {
  /** Origin to ask for, such as `https://upstream.test:9443`. */
  readonly origin: string;
  /** URL of the proxy, with what signs in at it; without: the origin is the proxy's own. */
  readonly proxy?: string;
  /** Other flags of loadgen. */
  readonly flags: readonly string[];
}

/** One way of coming to a proxy: a column of the results. */
export interface Way {
  readonly leg: Leg;
  reach(scheme: 'https' | 'http'): Reach;
}

/** A proxy that runs, ready for load. */
export interface Running {
  /** Its CPU and memory count, and its descendants'. */
  readonly pid: number;
  readonly ways: readonly Way[];
  stop(): Promise<void>;
}

/** A proxy that can be measured. */
export interface Subject {
  readonly name: string;
  readonly version: string;
  readonly legs: readonly Leg[];
  /** Whether it serves with two threads or processes where the place says so. */
  readonly twoLanes: boolean;
  /** Whether it makes a certificate for each new host. */
  readonly mints: boolean;
  /** Starts it on the place's proxy cores. Throws a Failure saying why it didn't start. */
  start(place: Place): Promise<Running>;
}

/** The usual way: CONNECT for https, absolute form for http, through one listener. */
export function forwardProxy(
  place: Place,
  leg: Leg,
  proxy: { readonly port: number; readonly user?: string; readonly ca: string; readonly ownCa?: string },
): Way {
  const user = proxy.user === undefined ? '' : `${proxy.user}@`;
  const url = `${leg === 'TLS' ? 'https' : 'http'}://${user}127.0.0.1:${proxy.port}`;
  const flags = ['-ca', proxy.ca, ...(leg === 'TLS' ? ['-proxy-ca', proxy.ownCa ?? proxy.ca] : [])];
  const { tlsPort, plainPort } = place.upstream;
  return {
    leg,
    reach: (scheme) => ({
      origin: `${scheme}://upstream.test:${scheme === 'https' ? tlsPort : plainPort}`,
      proxy: url,
      flags,
    }),
  };
}
