import { problem } from '../actors/vault/problem.ts';
import { json, text } from './reply.ts';
import { type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';

/** What probes and clients look at first: liveness, readiness, the root certificate, metrics. */
export function healthRoutes(front: FrontParts): Route[] {
  const { metrics } = front;
  const open = { auth: 'none', vault: 'none' } as const;
  const routes = [
    route('GET', '/health', open, () => json({ status: 'ok' })),

    route('GET', '/ready', open, () => {
      if (front.draining()) return problem('overloaded', 'The broker is stopping.', undefined, 5);
      if (!front.ready()) return problem('overloaded', 'The broker is not serving yet.', undefined, 1);
      return json({ status: 'ok' });
    }),

    route('GET', '/v1/ca.pem', open, async () => {
      const at = (await front.caSwitchesAt?.()) ?? null;
      return text(await front.caPem(), 'application/x-pem-file', {
        'x-broker-proxy-port': String(front.proxyPort),
        ...(at !== null && { 'x-broker-ca-switches-at': at }),
      });
    }),
  ];
  if (metrics) {
    const auth = front.metricsPublic ? 'none' : 'operator';
    routes.push(
      route('GET', '/metrics', { auth, vault: 'none' }, async () =>
        text(await metrics(), 'text/plain; version=0.0.4; charset=utf-8'),
      ),
    );
  }
  return routes;
}
