import type { Ref } from '../../actors/core/protocol.ts';
import { registrationOf } from '../../actors/vault/host-pattern.ts';
import { hostsByKey } from '../../actors/vault/merge.ts';
import { accept, type Result } from '../../actors/vault/problem.ts';
import type { VaultProtocol } from '../../actors/vault/protocol.ts';
import type { Surroundings } from './risks.ts';
import { serviceTemplates, templateDomains } from './templates.ts';
import { wellKnown } from './well-known.ts';

/** Hosts of the vault that another one is compared with: each costs some microseconds. */
const maxCompared = 500;

/** Those of well-known services, and those where their credentials are to be had. */
const knownDomains: readonly string[] = [
  ...wellKnown,
  ...templateDomains,
  ...serviceTemplates.flatMap(({ credentials }) =>
    credentials.flatMap(({ obtain }) => registrationOf(new URL(obtain).hostname).domain ?? []),
  ),
];

/** What a proposal for this vault is held against, as it is now. */
export async function surroundingsOf(vault: Ref<VaultProtocol>, name: string): Promise<Result<Surroundings>> {
  const [view, services, credentials] = await Promise.all([
    vault.ask('vault.get', { vault: name }),
    vault.ask('service.list', { vault: name }),
    vault.ask('credential.list', { vault: name }),
  ]);
  if (!view.ok) return view;
  if (!services.ok) return services;
  if (!credentials.ok) return credentials;
  const hosts = hostsByKey(services.value.services);
  const domains = services.value.services.slice(0, maxCompared).flatMap(({ host }) => {
    return registrationOf(host.replace(/^\*\./, '').replace(/:\d+$/, '')).domain ?? [];
  });
  return accept({
    vault: view.value,
    sentTo: new Map(credentials.value.keys.map((key) => [key, [...(hosts.get(key) ?? [])]])),
    domains: new Set([...knownDomains, ...domains]),
  });
}
