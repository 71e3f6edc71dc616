import { problem } from '../actors/vault/problem.ts';
import { json, text } from './reply.ts';
import { type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';

/** What probes and clients look at first: liveness, readiness, the root certificate, metrics. */
export function healthRoutes(front: FrontParts): Route[] {
  const { ca, health, proxy } = front;
  const open = { auth: 'none', vault: 'none' } as const;
  const probe = { ...open, unlimited: true } as const;
  return [
    route('GET', '/health', probe, () => json({ status: 'ok' })),

    route('GET', '/ready', probe, () => {
      if (health.draining()) return problem('overloaded', 'The broker is stopping.', undefined, 5);
      if (!health.ready()) return problem('overloaded', 'The broker is not serving yet.', undefined, 1);
      return json({ status: 'ok' });
    }),

    route('GET', '/v1/ca.pem', open, async () => {
      const at = await ca.switchesAt();
      return text(await ca.pem(), 'application/x-pem-file', {
        'x-broker-proxy-port': String(proxy.port),
        ...(at !== null && { 'x-broker-ca-switches-at': at }),
      });
    }),

    route('GET', '/metrics', { auth: health.metricsPublic ? 'none' : 'operator', vault: 'none' }, async () =>
      text(await health.metrics(), 'text/plain; version=0.0.4; charset=utf-8'),
    ),
  ];
}
