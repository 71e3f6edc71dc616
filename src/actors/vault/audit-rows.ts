import { createSecretKey, hkdfSync, type KeyObject } from 'node:crypto';
import { type AuditAnchor, genesis, type Link } from '../audit-chain.ts';
import { type KekRow, keepsAnchor, newCheck } from './keyfile.ts';
import { openBlob, type Sealed, sealBlob } from './seal.ts';
import type { Change, Store } from './store.ts';

/** What the store keeps for the audit log. */
export interface AuditRows {
  /** What its chain is made with: follows from the master key, so that there is no row to take away. */
  readonly key: KeyObject;
  /** null: it is to be made from the log as it is, after an update or a restored backup, or as it is lost. */
  readonly anchor: AuditAnchor | null;
  /** Without an anchor: the last batch that may have no key; null: any, no server of before had one. */
  readonly unkeyed: Link | null;
  /** It ought to be there, and isn't, or doesn't open. */
  readonly lost: boolean;
  /** The row that vouches for an anchor from now on, once there is one; null: the store has it. */
  readonly vouching: Change | null;
}

const anchorName = 'audit-anchor';

/** The anchor of a new store. */
export const emptyLog: AuditAnchor = { unkeyed: genesis, first: genesis, head: genesis };

/** The row that holds an anchor, sealed: whoever can write the store's file but hasn't its key can't make one. */
export function anchorRow(kek: KeyObject, anchor: AuditAnchor | Restored): Change {
  const value = Buffer.from(JSON.stringify(anchor));
  return { table: 'meta', key: `blob/${anchorName}`, value: sealBlob(kek, anchorName, value) };
}

/** What is left of an anchor in a backup: the log isn't part of it, and may be elsewhere or further on. */
type Restored = Pick<AuditAnchor, 'unkeyed'> & { readonly head?: undefined };

/**
 * Reads the audit's rows; writes nothing.
 * @throws {StoreError} (as a rejection) `store_failed`
 */
export async function auditRows(store: Store, kek: KeyObject): Promise<AuditRows> {
  let row: KekRow | null = null;
  let sealed: Sealed | null = null;
  for await (const { key, value } of store.load('meta')) {
    if (key === 'kek') row = value as KekRow | null;
    if (key === `blob/${anchorName}`) sealed = value as Sealed | null;
  }
  const opened = openBlob(kek, anchorName, sealed);
  const kept = opened === null ? null : (JSON.parse(opened.toString()) as AuditAnchor | Restored);
  const anchor = kept?.head === undefined ? null : kept;
  const vouched = row !== null && keepsAnchor(row, kek);
  const lost = vouched && kept === null;
  return {
    key: createSecretKey(Buffer.from(hkdfSync('sha256', kek, '', 'broker audit chain', 32))),
    anchor,
    unkeyed: kept?.unkeyed ?? (lost ? genesis : null),
    lost,
    vouching:
      vouched || row === null ? null : { table: 'meta', key: 'kek', value: { ...row, check: newCheck(kek) } },
  };
}

/**
 * Makes the rows of a restored backup fit for a log that isn't part of it: what of it has no key stays known.
 * @throws {StoreError} (as a rejection) `store_failed`
 */
export async function forgetHead(store: Store, kek: KeyObject): Promise<void> {
  const { anchor } = await auditRows(store, kek);
  if (anchor !== null) await store.commit([anchorRow(kek, { unkeyed: anchor.unkeyed })]);
}
