import { fileKek, type KekProvider, removeKeyFile } from './keyfile.ts';
import { type Derive, passwordKek } from './password-kek.ts';
import type { Secret } from './secret.ts';
import { StoreError } from './store.ts';

export interface MasterKeyOptions {
  /** The data directory. */
  readonly directory: string;
  /** The master password that was given with the start. */
  readonly given: Secret | null;
  /** Asks a human for it; null: there is nobody to ask. */
  readonly ask: (() => Promise<Secret>) | null;
  readonly derive: Derive;
}

/**
 * The key-encryption key of a data directory, had as its store says: from `master.key` or by the master password. A
 * store that has a password needs no key file: one that a crash left over is removed once the password has opened it.
 *
 * @throws {StoreError} (as a rejection) `key_missing`, `key_wrong`, `directory_refused`; nothing was changed then
 */
export function masterKek({ directory, given, ask, derive }: MasterKeyOptions): KekProvider {
  const fromFile = fileKek(directory);
  const fromPassword = passwordKek({ derive, password: async () => given ?? (await ask?.()) ?? null });
  return async (row) => {
    if (row === null) return given === null ? fromFile(null) : fromPassword(null);
    switch (row.source) {
      case 'file':
        if (given !== null) throw new StoreError('key_wrong', needless);
        return fromFile(row);
      case 'password': {
        const opened = await fromPassword(row);
        removeKeyFile(directory);
        return opened;
      }
      default:
        throw new StoreError('store_newer', unknownSource);
    }
  };
}

const needless =
  "A master password was given, but this store opens with its key file, so the password would protect nothing. Start without it; to set one, run 'broker master-password set' then.";
const unknownSource =
  'The store keeps its master key in a way that this version does not know. Start the version that wrote it. Nothing was changed.';
