import { noContent, replyTo } from './reply.ts';
import { type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';
import { askQuery, credentialsBody, forceQuery } from './schemas.ts';

/** Credentials: their keys can be listed, their values only be set. There is no route that gives a value back. */
export function credentialRoutes({ vault }: FrontParts): Route[] {
  return [
    route('GET', '/v1/credentials', { auth: 'any', vault: 'header' }, async (call) =>
      replyTo(await vault.ask('credential.list', { vault: call.vault })),
    ),

    route(
      'POST',
      '/v1/credentials',
      { auth: 'any', vault: 'header', body: credentialsBody, query: askQuery },
      async ({ vault: name, body, query, identity, by }) => {
        const byAgent = identity.kind !== 'operator';
        const { ask } = query;
        return replyTo(
          await vault.ask('credential.set', { vault: name, values: body.values, byAgent, ask, by }),
        );
      },
    ),

    route(
      'DELETE',
      '/v1/credentials/{key}',
      { auth: 'operator', vault: 'header', query: forceQuery },
      async ({ vault: name, params, query, by }) => {
        const force = query.force === true;
        return replyTo(
          await vault.ask('credential.delete', { vault: name, key: params.key, force, by }),
          noContent,
        );
      },
    ),
  ];
}
