import { replyTo, text } from './reply.ts';
import { type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';
import { explainBody } from './schemas.ts';
import { skill } from './skill.ts';

/** What a vault offers, what would become of a request, and how to use the broker at all. */
export function discoveryRoutes(front: FrontParts): Route[] {
  const { vault, proxy, baseUrl } = front;
  const guide = skill(baseUrl);
  return [
    route('GET', '/v1/skill.md', { auth: 'none', vault: 'none' }, () =>
      text(guide, 'text/markdown; charset=utf-8'),
    ),

    route('GET', '/discover', { auth: 'any', vault: 'header' }, async (call) =>
      replyTo(await vault.ask('discover', { vault: call.vault })),
    ),

    route('POST', '/v1/explain', { auth: 'any', vault: 'header', body: explainBody }, async (call) => {
      const { method = 'GET', url } = call.body;
      return replyTo(await proxy.explain({ vault: call.vault, method, url }));
    }),
  ];
}
