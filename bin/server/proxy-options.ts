import { createNetguard, type Netguard } from '../../src/proxy/netguard.ts';
import { ownAddresses } from '../../src/proxy/own-addresses.ts';
import type { ProxyOptions } from '../../src/workers/boot.ts';
import type { ServerSettings } from './options.ts';

/** What the lanes are told of the settings, and of what was found at the start. */
export function proxyOptions(
  settings: ServerSettings,
  found: { apiPort: number; proxyPort: number; baseUrl: string; upstreamCa: readonly string[] },
): ProxyOptions {
  const ms = (name: `${string}-timeout` & keyof ServerSettings): number => (settings[name] as number) * 1000;
  return {
    host: settings.host,
    port: found.proxyPort,
    apiPort: found.apiPort,
    baseUrl: found.baseUrl,
    plain: settings['proxy-plain'],
    timeouts: {
      clientTls: ms('client-tls-timeout'),
      head: ms('head-timeout'),
      keepAlive: ms('idle-timeout'),
      connect: ms('connect-timeout'),
      upstreamTls: ms('tls-timeout'),
      responseHead: ms('response-timeout'),
      body: ms('body-timeout'),
      relay: ms('relay-timeout'),
    },
    limit: {
      rps: settings['rate-limit'],
      burst: settings['rate-burst'],
      inflight: settings['rate-inflight'],
    },
    authFailures: settings['auth-failures'],
    allowPrivateRanges: settings['allow-private-ranges'],
    networkAllow: settings['network-allow'],
    upstreamCa: found.upstreamCa,
    auditFailOpen: settings['audit-on-error'] === 'open',
    auditRefusalRate: settings['audit-refusal-rate'],
    drainMs: ms('drain-timeout'),
  };
}

/** The guard as each lane makes its own. */
export function guardOf(options: ProxyOptions): Netguard {
  const { allowPrivateRanges, networkAllow: allow, port, apiPort } = options;
  return createNetguard({ allowPrivateRanges, allow, ownPorts: [port, apiPort], ownAddresses });
}
