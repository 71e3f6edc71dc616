import type { Change, CredentialRow } from './store.ts';
import { splitKey } from './vault-apply.ts';
import type { PackedCredential, VaultState } from './vault-state.ts';

/**
 * What takes these changes back once they are applied, where their commit fails: only changes that an agent's values
 * make, so credentials, and the key of a vault that had none that opens. To be asked before they are applied.
 */
export function inverse(state: VaultState, changes: readonly Change[]): Change[] {
  return changes.map((change) => {
    const { table, key } = change;
    if (table === 'meta' && key.startsWith('key/')) return { table, key, value: null };
    if (table !== 'credentials') throw new Error(`a change of ${table} can't be taken back`);
    const [vault, name] = splitKey(key);
    const before = state.vaults.get(vault)?.credentials.get(name);
    return { table, key, value: before ? rowOf(before) : null };
  });
}

function rowOf({ nonce, ct, tag, ...row }: PackedCredential): CredentialRow {
  const text = (bytes: Buffer) => bytes.toString('base64');
  return { ...row, nonce: text(nonce), ct: text(ct), tag: text(tag) };
}
