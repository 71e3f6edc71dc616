import { problem } from '../actors/vault/problem.ts';
import { administers } from './caller.ts';
import { json, noContent, replyTo } from './reply.ts';
import { type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';
import { confirmQuery, newVaultBody, vaultPatchBody } from './schemas.ts';

/** Vaults and their settings. */
export function vaultRoutes({ vault }: FrontParts): Route[] {
  return [
    route('GET', '/v1/vaults', { auth: 'operator', vault: 'none' }, async ({ identity }) => {
      const all = await vault.ask('vault.list', {});
      return json({ vaults: all.filter(({ name }) => administers(identity, name)) });
    }),

    route(
      'POST',
      '/v1/vaults',
      { auth: 'operator', vault: 'none', body: newVaultBody },
      async ({ identity, body, by }) => {
        if (identity.role !== 'owner') return problem('forbidden', 'Only an owner may make vaults.');
        return replyTo(await vault.ask('vault.create', { name: body.name, by }), (view) => json(view, 201));
      },
    ),

    route('GET', '/v1/vaults/{vault}', { auth: 'operator', vault: 'path' }, async (call) =>
      replyTo(await vault.ask('vault.get', { vault: call.vault })),
    ),

    route(
      'PATCH',
      '/v1/vaults/{vault}',
      { auth: 'operator', vault: 'path', body: vaultPatchBody },
      async (call) =>
        replyTo(await vault.ask('vault.update', { vault: call.vault, patch: call.body, by: call.by })),
    ),

    route(
      'DELETE',
      '/v1/vaults/{vault}',
      { auth: 'operator', vault: 'path', query: confirmQuery },
      async ({ vault: name, query, by }) => {
        if (query.confirm !== name) {
          const message = `confirm: deleting a vault deletes its services and credentials. Add ?confirm=${name}.`;
          return problem('invalid_request', message, { field: 'confirm' });
        }
        return replyTo(await vault.ask('vault.delete', { vault: name, by }), noContent);
      },
    ),
  ];
}
