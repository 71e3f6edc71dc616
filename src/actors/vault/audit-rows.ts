import type { KeyObject } from 'node:crypto';
import { randomBytes } from 'node:crypto';
import type { AuditAnchor } from '../audit-chain.ts';
import { openBlob, type Sealed, sealBlob, takeKey } from './seal.ts';
import type { Change, Store } from './store.ts';

/** What the store keeps for the audit log. */
export interface AuditRows {
  /** What its chain is made with. */
  readonly key: KeyObject;
  /** null: it is to be made from the log as it is, after an update or a restored backup. */
  readonly anchor: AuditAnchor | null;
  /** It ought to be there, and isn't, or doesn't open. */
  readonly lost: boolean;
}

const keyName = 'audit-key';
const anchorName = 'audit-anchor';

/** The row that holds an anchor, sealed: whoever can write the store's file but hasn't its key can't make one. */
export function anchorRow(kek: KeyObject, anchor: AuditAnchor | null): Change {
  const value = Buffer.from(JSON.stringify(anchor));
  return { table: 'meta', key: `blob/${anchorName}`, value: sealBlob(kek, anchorName, value) };
}

/**
 * Reads the audit's rows; makes them, where `create` says so and there are none. To be called before the vault actor
 * starts, which is the only writer from then on.
 * @returns null: there are none, and none were made
 * @throws {StoreError} (as a rejection) `store_failed`
 */
export async function auditRows(store: Store, kek: KeyObject, create: boolean): Promise<AuditRows | null> {
  const rows = new Map<string, object | null>();
  for await (const row of store.load('meta')) {
    if (row.key === `blob/${keyName}` || row.key === `blob/${anchorName}`) rows.set(row.key, row.value);
  }
  const bytes = openBlob(kek, keyName, (rows.get(`blob/${keyName}`) ?? null) as Sealed | null);
  const kept = openBlob(kek, anchorName, (rows.get(`blob/${anchorName}`) ?? null) as Sealed | null);
  const anchor = kept === null ? null : (JSON.parse(kept.toString()) as AuditAnchor | null);
  if (bytes?.length === 32) return { key: takeKey(bytes), anchor, lost: kept === null };
  if (!create) return null;
  const fresh = randomBytes(32);
  const sealed = sealBlob(kek, keyName, fresh);
  await store.commit([{ table: 'meta', key: `blob/${keyName}`, value: sealed }, anchorRow(kek, null)]);
  return { key: takeKey(fresh), anchor: null, lost: rows.size > 0 };
}
