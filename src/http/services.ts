import { noContent, replyTo } from './reply.ts';
import { type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';
import { allServicesBody, servicePatchBody, servicesBody } from './schemas.ts';

/** The services of a vault, all of them and each by its host. The rules check them, wherever they come from. */
export function serviceRoutes({ vault }: FrontParts): Route[] {
  const path = '/v1/vaults/{vault}/services';
  const asked = { auth: 'operator', vault: 'path' } as const;
  return [
    route('GET', path, asked, async (call) =>
      replyTo(await vault.ask('service.list', { vault: call.vault })),
    ),

    route('PUT', path, { ...asked, body: allServicesBody }, async ({ vault: name, body, by }) =>
      replyTo(await vault.ask('service.set', { vault: name, mode: 'replace', services: body.services, by })),
    ),

    route('POST', path, { ...asked, body: servicesBody }, async ({ vault: name, body, by }) =>
      replyTo(await vault.ask('service.set', { vault: name, mode: 'upsert', services: body.services, by })),
    ),

    route('DELETE', path, asked, async (call) =>
      replyTo(await vault.ask('service.clear', { vault: call.vault, by: call.by }), noContent),
    ),

    route(
      'PATCH',
      `${path}/{host}`,
      { ...asked, body: servicePatchBody },
      async ({ vault: name, params, body, by }) =>
        replyTo(
          await vault.ask('service.enable', { vault: name, host: params.host, enabled: body.enabled, by }),
        ),
    ),

    route('DELETE', `${path}/{host}`, asked, async ({ vault: name, params, by }) =>
      replyTo(await vault.ask('service.remove', { vault: name, host: params.host, by }), noContent),
    ),
  ];
}
