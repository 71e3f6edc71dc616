import type { KeyObject } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type AuditVerdict, verifyAuditLog } from '../src/actors/audit-verify.ts';
import { auditRows } from '../src/actors/vault/audit-rows.ts';
import { openDirectory } from '../src/actors/vault/directory.ts';
import { openLmdbStore } from '../src/actors/vault/lmdb-store.ts';
import { masterKek } from '../src/actors/vault/master-key.ts';
import { scryptKey } from '../src/actors/vault/password-hash.ts';
import type { Secret } from '../src/actors/vault/secret.ts';
import { type Store, StoreError } from '../src/actors/vault/store.ts';
import { readKekRow } from '../src/actors/vault/vault-boot.ts';
import type { Input } from './cli.ts';
import { connect } from './client.ts';
import { askMasterPassword, readMasterPassword, takeMasterPassword } from './server/master-password.ts';
import { failed } from './terminal.ts';

/**
 * Checks the audit log of a data directory: by the server that runs there, else with the key and the anchor out of the
 * store; where there is no store, it is a copy of a log, of which only the order can be checked.
 * @throws Failure, in one line what is wrong and what to do
 */
export async function checkAudit(directory: string, input: Input): Promise<AuditVerdict> {
  const fromEnvironment = takeMasterPassword(process.env);
  try {
    if (!existsSync(join(directory, 'data.mdb')))
      return await verifyAuditLog(directory, { key: null, anchor: null });
    const file = input.text('master-password-file');
    return await offline(directory, file === undefined ? fromEnvironment : readMasterPassword(file));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'directory_in_use') {
      const api = await connect(input);
      return api.call<AuditVerdict>('POST', '/v1/audit/verify');
    }
    if (error instanceof StoreError) throw failed(error.message);
    if (code === 'ENOENT')
      throw failed(`There is no audit log in ${directory}. Name the data directory by --data-dir.`);
    if (code === undefined) throw error;
    throw failed(`The audit log in ${directory} can't be read (${code}). Run this as the broker's user.`);
  }
}

async function offline(directory: string, given: Secret | null): Promise<AuditVerdict> {
  const held = openDirectory(directory);
  let store: Store | undefined;
  try {
    store = await openLmdbStore(held.path);
    return await verifyAuditLog(held.path, await auditRows(store, await keyOf(store, held.path, given)));
  } finally {
    await store?.close();
    held.close();
  }
}

async function keyOf(store: Store, directory: string, given: Secret | null): Promise<KeyObject> {
  const row = await readKekRow(store);
  if (row === null)
    throw new StoreError('store_unreadable', 'The store does not say how its master key is had.');
  const kek = masterKek({
    directory,
    given,
    ask: askMasterPassword,
    derive: async (secret, salt, cost) => scryptKey(secret.reveal(), salt, cost),
  });
  return (await kek(row)).key;
}
