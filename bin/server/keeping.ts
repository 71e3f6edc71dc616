import type { KeyObject } from 'node:crypto';
import type { RootStore } from '../../src/actors/ca.ts';
import { newRoot, parseRoots } from '../../src/actors/ca-roots.ts';
import type { Ref } from '../../src/actors/core/protocol.ts';
import { openBackup } from '../../src/actors/vault/backup.ts';
import { type ChangeMasterPassword, createMasterPassword } from '../../src/actors/vault/master-password.ts';
import type { Derive } from '../../src/actors/vault/password-kek.ts';
import { accept, type Result, refuse } from '../../src/actors/vault/problem.ts';
import type { VaultProtocol } from '../../src/actors/vault/protocol.ts';
import { Secret } from '../../src/actors/vault/secret.ts';
import { type Store, StoreError } from '../../src/actors/vault/store.ts';
import { storedBlob } from '../../src/actors/vault/vault-boot.ts';
import { failureFields, log } from './log.ts';

export interface KeepingOptions {
  readonly store: Store;
  readonly kek: KeyObject;
  readonly directory: string;
  readonly derive: Derive;
  readonly vault: Ref<VaultProtocol>;
}

export interface Keeping {
  readonly changeMasterPassword: ChangeMasterPassword;
  /** A backup as it is now, to be read to its end or until `over` aborts. */
  backup(over: AbortSignal): Promise<Result<AsyncIterable<Uint8Array>>>;
}

/** What operators do with the store as a whole. One at a time: a backup's head says how the master key is had. */
export function createKeeping(options: KeepingOptions): Keeping {
  const change = createMasterPassword(options);
  let last: Promise<unknown> = Promise.resolve();

  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = last.then(work, work);
    last = result;
    return result;
  }

  return {
    changeMasterPassword: (wish) => inTurn(() => change(wish)),
    backup: (over) =>
      inTurn(async () => {
        try {
          return accept(await openBackup({ ...options, created: new Date().toISOString() }, over));
        } catch (error) {
          log('error', 'a backup could not be made', failureFields(error));
          if (error instanceof StoreError) return refuse('internal', error.message);
          return refuse(
            'internal',
            `No snapshot could be made. Check the disk that holds ${options.directory}.`,
          );
        }
      }),
  };
}

/** The CA's roots in the store, sealed. The first one is made at the first start. */
export function rootStore(store: Store, kek: KeyObject, vault: () => Ref<VaultProtocol>): RootStore {
  const name = 'ca-root';
  return {
    async load() {
      const blob = await storedBlob(store, kek, name, () => Buffer.from(JSON.stringify(newRoot(Date.now()))));
      return parseRoots(blob.toString('utf8'));
    },
    async save(roots, { action, details, by }) {
      const value = new Secret(JSON.stringify(roots));
      const saved = await vault().ask('blob.set', { name, value, action, details, by });
      // Where nobody can say, the CA starts anew from the roots that are there.
      if (!saved.ok && saved.problem.extra?.applied === 'unknown') throw new Error(saved.problem.message);
      return saved.ok ? null : saved.problem;
    },
  };
}
