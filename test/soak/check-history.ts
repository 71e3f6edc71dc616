import type { Era } from './drive.ts';
import { linearize, type Verdict } from './linearize.ts';
import { newVault, type VaultOp, type VaultState, vaultModel } from './vault-model.ts';

/**
 * Whether each vault's history is linearizable, era after era: what may have been when the broker was killed is where
 * the next one begins, so an acknowledged change that was lost makes the first look at it impossible.
 * @returns what is wrong, in words; null: nothing
 */
export function historyProblem(eras: readonly Era[]): string | null {
  for (const vault of eras[0].keys()) {
    let states: readonly VaultState[] = [newVault];
    for (const [number, era] of eras.entries()) {
      const verdict: Verdict<VaultState, VaultOp> = linearize(vaultModel, era.get(vault) ?? [], states);
      if (!verdict.ok) {
        const { op, result } = verdict.event;
        return `${vault}, after ${number} kills: ${JSON.stringify(op)} was answered ${result}; possible were ${JSON.stringify(verdict.states)}`;
      }
      states = verdict.states;
    }
  }
  return null;
}

/** The same history with one event gone, and whether it was one that changed something for certain. */
export function withoutEvent(eras: readonly Era[], vault: string, era: number, index: number): Era[] {
  return eras.map((each, number) => {
    if (number !== era) return each;
    const events = each.get(vault) ?? [];
    return new Map(each).set(vault, [...events.slice(0, index), ...events.slice(index + 1)]);
  });
}
