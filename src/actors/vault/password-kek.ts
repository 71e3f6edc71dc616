import type { KeyObject } from 'node:crypto';
import { type KekProvider, type KekRow, newCheck } from './keyfile.ts';
import { newSalt, passwordCost, passwordProblem, type ScryptCost } from './password-hash.ts';
import { newKey, openSealed, seal, takeKey } from './seal.ts';
import type { Secret } from './secret.ts';
import { StoreError } from './store.ts';

/** 32 octets from a password, as `scryptKey` gives them, on a thread where that holds nobody up. */
export type Derive = (password: Secret, salt: Uint8Array, cost: ScryptCost) => Promise<Uint8Array>;

export type PasswordKekRow = Extract<KekRow, { source: 'password' }>;

/** The key-encryption key, wrapped by one from a password: the row to keep. */
export async function wrapKek(
  key: KeyObject,
  password: Secret,
  derive: Derive,
  cost: ScryptCost = passwordCost,
): Promise<PasswordKekRow> {
  const salt = newSalt();
  const wrapping = takeKey(Buffer.from(await derive(password, salt, cost)));
  const bytes = key.export();
  const wrapped = seal(wrapping, ['key', 'master'], 1, bytes);
  bytes.fill(0);
  return { source: 'password', check: newCheck(key), salt: salt.toString('base64'), cost, wrapped };
}

/** The key-encryption key, or null where the password is wrong or the row damaged. */
export async function unwrapKek(
  { salt, cost, wrapped }: PasswordKekRow,
  password: Secret,
  derive: Derive,
): Promise<KeyObject | null> {
  const wrapping = takeKey(Buffer.from(await derive(password, Buffer.from(salt, 'base64'), cost)));
  const bytes = openSealed(wrapping, ['key', 'master'], wrapped);
  return bytes?.length === 32 ? takeKey(bytes) : null;
}

export interface PasswordKekOptions {
  /** The password, however it is had: a file, the environment or a human. null: there is none to be had. */
  readonly password: () => Promise<Secret | null>;
  readonly derive: Derive;
}

/**
 * The key of a store that opens with a master password. A new store gets a random key, wrapped by one from the password.
 *
 * @throws {StoreError} (as a rejection) `key_missing` without a password, `key_wrong` with a wrong one
 */
export function passwordKek({ password, derive }: PasswordKekOptions): KekProvider {
  return async (row) => {
    const given = await password();
    if (given === null) throw new StoreError('key_missing', noPassword);
    if (row === null) {
      const weak = passwordProblem(given.reveal(), 'The master password');
      if (weak) throw new StoreError('key_wrong', `${weak.message} Nothing was made.`);
      const key = newKey();
      return { key, row: await wrapKek(key, given, derive) };
    }
    const key = row.source === 'password' ? await unwrapKek(row, given, derive) : null;
    if (key === null) throw new StoreError('key_wrong', wrongPassword);
    return { key, row };
  };
}

const noPassword =
  'The stored credentials open with the master password, and none was given. Start on a terminal, or give it by --master-password-file or BROKER_MASTER_PASSWORD.';
const wrongPassword =
  'The master password is wrong. Nothing was changed. Give the right one and start again.';
