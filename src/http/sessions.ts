import { administers, foreignVault, vaultsOf } from './caller.ts';
import { json, noContent, replyTo } from './reply.ts';
import { type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';
import { sessionBody } from './schemas.ts';

const defaultTtlSeconds = 24 * 3600;

/** Vault-scoped sessions. Their tokens are shown once, in the answer that makes them. */
export function sessionRoutes({ vault, proxy }: FrontParts): Route[] {
  return [
    route(
      'POST',
      '/v1/sessions',
      { auth: 'operator', vault: 'none', body: sessionBody },
      async ({ identity, body, by }) => {
        if (!administers(identity, body.vault)) return foreignVault();
        const { ttl_seconds: ttlSeconds = defaultTtlSeconds, label = null } = body;
        const made = await vault.ask('session.create', { vault: body.vault, ttlSeconds, label, by });
        return replyTo(made, ({ token, id, vault: name, expires_at }) => {
          const secret = token.reveal();
          const proxy_url = proxy.url(secret, name);
          return json({ id, token: secret, vault: name, label, expires_at, proxy_url }, 201);
        });
      },
    ),

    route('GET', '/v1/sessions', { auth: 'operator', vault: 'header-if-any' }, async (call) => {
      const vaults = call.vault === null ? vaultsOf(call.identity) : [call.vault];
      return json({ sessions: await vault.ask('session.list', { vaults }) });
    }),

    route(
      'DELETE',
      '/v1/sessions/{session}',
      { auth: 'operator', vault: 'none' },
      async ({ identity, params, by }) =>
        replyTo(
          await vault.ask('session.revoke', { id: params.session, vaults: vaultsOf(identity), by }),
          noContent,
        ),
    ),
  ];
}
