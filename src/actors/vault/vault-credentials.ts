import type { KeyObject } from 'node:crypto';
import type { Handlers } from '../core/behavior.ts';
import { keyProblem, valueProblem } from './credential-rules.ts';
import { at, invalid, refused } from './fields.ts';
import { hostsByKey } from './merge.ts';
import { isOwn, markOf } from './ownership.ts';
import { accept, type Problem, problem, refuse } from './problem.ts';
import type { By, Replaced, VaultProtocol } from './protocol.ts';
import { newDataKey, seal } from './seal.ts';
import type { Secret } from './secret.ts';
import type { Change } from './store.ts';
import type { VaultEntry, VaultState } from './vault-state.ts';
import { findVault, type Writer } from './vault-writer.ts';

type Names = 'credential.list' | 'credential.set' | 'credential.delete';

export function credentialHandlers(writer: Writer): Pick<Handlers<VaultProtocol>, Names> {
  const { state, commit } = writer;

  type Set = VaultProtocol['credential.set'];
  async function set({ vault, values, byAgent, ask = false, by }: Set['in']): Promise<Set['out']> {
    const found = findVault(state, vault);
    if (!found.ok) return found;
    const entry = found.value;
    if (values.size === 0) return refused(invalid('credentials', 'is empty. Give at least one key.'));
    for (const [key, value] of values) {
      const wrong = checkValue(key, value) ?? (byAgent ? ownership(entry, key, by) : null);
      if (wrong) return refused(wrong);
    }
    const replaced = byAgent ? [] : placed(entry, values.keys());
    if (ask && replaced.length > 0) return refused(notYours(replaced));
    const keys = [...values.keys()];
    const changes = sealAll(state, entry, values, by, writer.timestamp());
    const failed = await commit(changes, { action: 'credential.set', by, vault, keys });
    return failed ? refused(failed) : accept({ set: keys, ...(replaced.length > 0 && { replaced }) });
  }

  return {
    'credential.list'({ vault }) {
      const found = findVault(state, vault);
      return found.ok ? accept({ keys: [...found.value.credentials.keys()].sort() }) : found;
    },

    'credential.set': (body) => (body.byAgent ? writer.ahead(() => set(body)) : set(body)),

    async 'credential.delete'({ vault, key, force, by }) {
      const found = findVault(state, vault);
      if (!found.ok) return found;
      const entry = found.value;
      if (!entry.credentials.has(key)) {
        return refuse('not_found', 'This vault has no credential of this name. List its credentials.');
      }
      const services = [...(hostsByKey(entry.services.values()).get(key) ?? [])];
      if (services.length > 0 && !force) return refused(inUse(key, services));
      const failed = await commit([removeCredential(entry, key)], {
        action: 'credential.delete',
        by,
        vault,
        keys: [key],
        ...(services.length > 0 && { used_by: services }),
      });
      return failed ? refused(failed) : accept(null);
    },
  };
}

/** Refuses a key or value that can't be one. */
export function checkValue(key: string, value: Secret): Problem | null {
  return keyProblem(key, at('credentials', key)) ?? valueProblem(value.reveal(), at('credentials', key));
}

/** An agent replaces what it added itself, and nothing else. */
function ownership(entry: VaultEntry, key: string, by: By): Problem | null {
  const present = entry.credentials.get(key);
  if (present === undefined) return null;
  if (present && isOwn({ actor: present.added_by, agent_id: present.agent_id, at: present.updated_at }, by))
    return null;
  return problem('credential_exists', undefined, { key });
}

/**
 * Of these keys, those whose present value an agent gave and that services send somewhere: whoever puts a value of their
 * own in its place may not know that they do.
 */
function placed(entry: VaultEntry, keys: Iterable<string>): Replaced[] {
  const hosts = hostsByKey(entry.services.values());
  return [...keys].flatMap((key) => {
    const present = entry.credentials.get(key);
    const by = present?.brought_by ?? present?.added_by;
    const sentTo = hosts.get(key);
    if (by === undefined || by.startsWith('operator:') || sentTo === undefined) return [];
    return [{ key, given_by: by, hosts: [...sentTo] }];
  });
}

const maxHostsNamed = 20;

function notYours(replaced: readonly Replaced[]): Problem {
  const told = replaced.map(({ key, given_by, hosts }) => {
    const more = hosts.length - maxHostsNamed;
    const names = hosts.slice(0, maxHostsNamed).join(', ') + (more > 0 ? ` and ${more} more` : '');
    return `${key} is there already, given by ${given_by}, and services send it to ${names}.`;
  });
  const message = `${told.join(' ')} Your value would go there. Choose another key, or confirm that you mean it.`;
  return problem('confirmation_required', message, { replaced });
}

export function inUse(key: string, services: readonly string[]): Problem {
  return problem(
    'credential_in_use',
    `${key} is used by ${services.join(', ')}. Remove these services first, or force the deletion.`,
    { key, services },
  );
}

export function removeCredential({ vault }: VaultEntry, key: string): Change {
  return { table: 'credentials', key: `${vault.id}/${key}`, value: null };
}

/**
 * The rows that hold these values, sealed for their vault, key and version. Keys and values are checked ones.
 * @param broughtBy the agent or session that a value comes from, where it isn't from the caller
 */
export function sealAll(
  state: VaultState,
  entry: VaultEntry,
  values: ReadonlyMap<string, Secret>,
  by: By,
  now: string,
  broughtBy: (key: string) => string | undefined = () => undefined,
): Change[] {
  const { key, changes } = dataKey(state, entry);
  const vault = entry.vault.id;
  for (const [name, secret] of values) {
    const before = entry.credentials.get(name) ?? null;
    const version = (before?.version ?? 0) + 1;
    const bytes = Buffer.from(secret.reveal());
    const sealed = seal(key, ['credential', vault, name], version, bytes);
    bytes.fill(0);
    const brought_by = broughtBy(name);
    const value = {
      ...sealed,
      added_by: by.actor,
      ...markOf(by),
      ...(brought_by !== undefined && { brought_by }),
      created_at: before?.created_at ?? now,
      updated_at: now,
    };
    changes.push({ table: 'credentials', key: `${vault}/${name}`, value });
  }
  return changes;
}

/** The vault's data key; where it is lost, a new one and its row, so that the vault can be filled again. */
export function dataKey(state: VaultState, entry: VaultEntry): { key: KeyObject; changes: Change[] } {
  if (entry.key) return { key: entry.key, changes: [] };
  const { key, wrapped } = newDataKey(state.kek, entry.vault.id);
  return { key, changes: [{ table: 'meta', key: `key/${entry.vault.id}`, value: wrapped }] };
}
