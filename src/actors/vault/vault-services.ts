import type { Handlers } from '../core/behavior.ts';
import { refused } from './fields.ts';
import { merge, replaceAll } from './merge.ts';
import type { Service } from './model.ts';
import { accept, refuse } from './problem.ts';
import type { VaultProtocol } from './protocol.ts';
import { checkHost, checkServices, referencedKeys, unresolved } from './service-rules.ts';
import type { Change } from './store.ts';
import type { VaultEntry } from './vault-state.ts';
import { findVault, type Writer } from './vault-writer.ts';

type Names = 'service.list' | 'service.set' | 'service.enable' | 'service.remove' | 'service.clear';

export function serviceHandlers(writer: Writer): Pick<Handlers<VaultProtocol>, Names> {
  const { state, commit } = writer;

  return {
    'service.list'({ vault }) {
      const found = findVault(state, vault);
      return found.ok ? accept({ services: [...found.value.services.values()] }) : found;
    },

    async 'service.set'({ vault, mode, services, by }) {
      const found = findVault(state, vault);
      if (!found.ok) return found;
      const entry = found.value;
      const checked = checkServices(services, 'services', { requireAuth: mode === 'replace' });
      if (!checked.ok) return checked;
      const missing = unresolved(checked.value, new Set(entry.credentials.keys()), new Set());
      if (missing) return refused(missing);
      const upserts = checked.value.map((input) => ({ action: 'set' as const, ...input }));
      const merged =
        mode === 'replace' ? replaceAll(entry.services, checked.value) : merge(entry.services, upserts);
      if (!merged.ok) return merged;
      const changes = [
        ...serviceChanges(entry, merged.value.services),
        ...(checked.value.length > 0 ? setCleared(entry, false) : []),
      ];
      const failed = await commit(changes, {
        action: 'service.set',
        by,
        vault,
        mode,
        hosts: checked.value.map(({ host }) => host),
        keys: [
          ...new Set(
            checked.value.flatMap(({ auth, substitutions }) =>
              referencedKeys(auth, substitutions).map(({ key }) => key),
            ),
          ),
        ],
        removed: merged.value.removed,
      });
      return failed ? refused(failed) : accept({ services: [...entry.services.values()] });
    },

    async 'service.enable'({ vault, host, enabled, by }) {
      const found = findService(vault, host);
      if (!found.ok) return found;
      const { entry, service } = found.value;
      const merged = merge(entry.services, [{ action: 'set', host: service.host, enabled }]);
      if (!merged.ok) return merged;
      const action = enabled ? 'service.enable' : 'service.disable';
      const failed = await commit(serviceChanges(entry, merged.value.services), {
        action,
        by,
        vault,
        target: service.host,
      });
      return failed ? refused(failed) : accept(entry.services.get(service.host) ?? service);
    },

    async 'service.remove'({ vault, host, by }) {
      const found = findService(vault, host);
      if (!found.ok) return found;
      const { entry, service } = found.value;
      const rest = new Map(entry.services);
      rest.delete(service.host);
      const failed = await commit(serviceChanges(entry, rest), {
        action: 'service.remove',
        by,
        vault,
        target: service.host,
      });
      return failed ? refused(failed) : accept(null);
    },

    async 'service.clear'({ vault, by }) {
      const found = findVault(state, vault);
      if (!found.ok) return found;
      const entry = found.value;
      const changes = [...serviceChanges(entry, new Map()), ...setCleared(entry, true)];
      const removed = [...entry.services.keys()];
      const failed = await commit(changes, { action: 'service.clear', by, vault, removed });
      return failed ? refused(failed) : accept(null);
    },
  };

  function findService(vault: string, host: string) {
    const found = findVault(state, vault);
    if (!found.ok) return found;
    const checked = checkHost(host, 'host');
    if (!checked.ok) return checked;
    const service = found.value.services.get(checked.value);
    if (service) return accept({ entry: found.value, service });
    return refuse<never>('not_found', 'This vault has no service for this host. List its services.');
  }
}

/**
 * The rows that turn a vault's services into `after`, and no others. A service keeps its place where the order allows
 * it, so that an upsert writes one row.
 */
export function serviceChanges(entry: VaultEntry, after: ReadonlyMap<string, Service>): Change[] {
  const changes: Change[] = [];
  const row = (host: string) => `${entry.vault.id}/${host}`;
  for (const host of entry.services.keys()) {
    if (!after.has(host)) changes.push({ table: 'services', key: row(host), value: null });
  }
  let last = 0;
  for (const [host, service] of after) {
    const before = entry.places.get(host) ?? 0;
    const place = before > last ? before : last + 1;
    last = place;
    if (place === before && service === entry.services.get(host)) continue;
    changes.push({ table: 'services', key: row(host), value: { place, service } });
  }
  return changes;
}

/** The row that marks a vault as cleared or not; none where it is so already. */
export function setCleared({ vault }: VaultEntry, cleared: boolean): Change[] {
  if (vault.cleared === cleared) return [];
  return [{ table: 'vaults', key: vault.id, value: { ...vault, cleared } }];
}
