import { invalid } from './fields.ts';
import { accept, type Problem, type Result } from './problem.ts';
import type { VaultState } from './vault-state.ts';
import { findVault } from './vault-writer.ts';

/** Refuses what can't be the name of an agent or an operator. */
export function nameProblem(name: string): Problem | null {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name)) return null;
  return invalid(
    'name',
    'must be 1 to 64 letters, digits, dots, hyphens and underscores, such as ci-runner.',
  );
}

/** The ids of vaults given by name, each once, in their order; `not_found` where one is unknown. */
export function vaultIdsOf(state: VaultState, names: readonly string[]): Result<string[]> {
  const ids = new Set<string>();
  for (const name of names) {
    const found = findVault(state, name);
    if (!found.ok) return found;
    ids.add(found.value.vault.id);
  }
  return accept([...ids]);
}
