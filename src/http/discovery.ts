import { replyTo, text } from './reply.ts';
import { type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';
import { explainBody } from './schemas.ts';
import { skill } from './skill.ts';

/** What a vault offers, what would become of a request, and how to use the broker at all. */
export function discoveryRoutes(front: FrontParts): Route[] {
  const { vault, explain, baseUrl } = front;
  const guide = skill(baseUrl);
  const routes = [
    route('GET', '/v1/skill.md', { auth: 'none', vault: 'none' }, () =>
      text(guide, 'text/markdown; charset=utf-8'),
    ),

    route('GET', '/discover', { auth: 'any', vault: 'header' }, async (call) =>
      replyTo(await vault.ask('discover', { vault: call.vault })),
    ),
  ];
  if (explain) {
    routes.push(
      route('POST', '/v1/explain', { auth: 'any', vault: 'header', body: explainBody }, async (call) =>
        replyTo(await explain({ vault: call.vault, method: call.body.method ?? 'GET', url: call.body.url })),
      ),
    );
  }
  return routes;
}
