import type { KeyObject } from 'node:crypto';
import type { Ref } from '../core/protocol.ts';
import { invalid, refused } from './fields.ts';
import { fileRow, type KekRow, removeKeyFile, writeKeyFile } from './keyfile.ts';
import { passwordProblem, type ScryptCost } from './password-hash.ts';
import { type Derive, unwrapKek, wrapKek } from './password-kek.ts';
import { accept, type Result, refuse } from './problem.ts';
import type { By, VaultProtocol } from './protocol.ts';
import type { Secret } from './secret.ts';
import type { Store } from './store.ts';
import { readKekRow } from './vault-boot.ts';

export interface MasterPasswordOptions {
  readonly store: Store;
  readonly kek: KeyObject;
  /** The data directory. */
  readonly directory: string;
  readonly vault: Ref<VaultProtocol>;
  readonly derive: Derive;
  /** Default: `passwordCost`. */
  readonly cost?: ScryptCost;
}

interface MasterPasswordChange {
  /** The one that there is. */
  readonly current: Secret | null;
  /** The one to be; null: back to a key file. */
  readonly next: Secret | null;
  readonly by: By;
}

/** What the change was; refused with `forbidden` where `current` is wrong. */
export type ChangeMasterPassword = (
  change: MasterPasswordChange,
) => Promise<Result<{ readonly source: KekRow['source'] }>>;

/**
 * Sets, changes and removes the master password of a running broker. Two calls must not overlap.
 *
 * The key-encryption key stays what it is: only the one row that says how it is had is written, in one commit, so that
 * a crash leaves the old password or the new one. The key file is written before that commit and removed after it: a
 * crash in between leaves a file that the row doesn't ask for, and the next start removes it.
 *
 * @throws {ActorError} (as a rejection) where the vault didn't answer: the change was made or not
 */
export function createMasterPassword(options: MasterPasswordOptions): ChangeMasterPassword {
  const { store, kek, directory, vault, derive, cost } = options;

  return async ({ current, next, by }) => {
    const row = await readKekRow(store);
    const has = row?.source === 'password';
    if (has && current === null) return refuse('conflict', hasOne);
    if (!has && current !== null) return refuse('conflict', hasNone);
    if (!has && next === null) return refused(invalid('new', 'is missing.'));
    const weak = next && passwordProblem(next.reveal(), 'new');
    if (weak) return refused(weak);
    if (has && current !== null && (await unwrapKek(row, current, derive)) === null) {
      return refuse('forbidden', 'The current master password is wrong. Nothing was changed.');
    }
    if (next === null) {
      writeKeyFile(directory, kek);
      const removed = await vault.ask('kek.set', { row: fileRow(kek), action: 'master-password.remove', by });
      // Where nobody can say, the row that is there may ask for the file.
      if (!removed.ok && removed.problem.extra?.applied !== 'unknown') removeKeyFile(directory);
      return removed.ok ? accept({ source: 'file' }) : removed;
    }
    const action = has ? 'master-password.change' : 'master-password.set';
    const set = await vault.ask('kek.set', { row: await wrapKek(kek, next, derive, cost), action, by });
    if (set.ok) removeKeyFile(directory);
    return set.ok ? accept({ source: 'password' }) : set;
  };
}

const hasOne =
  "There is a master password. To put another in its place, run 'broker master-password change', and give the current one.";
const hasNone = "There is no master password yet. To set one, run 'broker master-password set'.";
