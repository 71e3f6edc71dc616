import type { KeyObject } from 'node:crypto';
import type { AuditAnchor } from '../../src/actors/audit-chain.ts';
import { type AuditLog, openAuditLog } from '../../src/actors/audit-log.ts';
import { type AuditVerdict, verifyAuditLog } from '../../src/actors/audit-verify.ts';
import type { Clock } from '../../src/actors/core/clock.ts';
import type { Ref } from '../../src/actors/core/protocol.ts';
import { anchorRow, auditRows } from '../../src/actors/vault/audit-rows.ts';
import type { VaultProtocol } from '../../src/actors/vault/protocol.ts';
import { type Store, StoreError } from '../../src/actors/vault/store.ts';
import { failed } from '../terminal.ts';
import { damageOf } from '../verdict.ts';
import type { ServerSettings } from './options.ts';

/** What a start reads in full of the log; of older segments it looks at how they follow each other. */
const readAtStart = 256 * 2 ** 20;

export interface AuditKeeping {
  readonly log: AuditLog;
  /** What the start found wrong with the log, in one line; null: nothing. */
  readonly damage: string | null;
  /** Checks all of it, as of now. */
  verify(): Promise<AuditVerdict>;
  /** From now on the vault actor writes the store. */
  handOver(vault: Ref<VaultProtocol>): void;
  /** The vault actor has ended: keeps where the log stands at last, and closes it. */
  close(): Promise<void>;
}

export interface AuditKeepingOptions {
  readonly directory: string;
  readonly store: Store;
  readonly kek: KeyObject;
  readonly clock: Clock;
  readonly settings: ServerSettings;
}

/**
 * Opens the audit log of a data directory: reads its key and its anchor from the store, compares the log with them, and
 * keeps the anchor from then on.
 * @throws Failure, or `StoreError`
 */
export async function keepAudit(options: AuditKeepingOptions): Promise<AuditKeeping> {
  const { directory, store, kek, clock, settings } = options;
  const { vouching, ...known } = await auditRows(store, kek);
  let vault: Ref<VaultProtocol> | null = null;

  async function keep(next: AuditAnchor): Promise<void> {
    if (vault === null) return store.commit([anchorRow(kek, next)]);
    const kept = await vault.ask('audit.anchor', { anchor: next });
    if (!kept.ok) throw new Error(kept.problem.message);
  }

  const { 'audit-retain-days': retainDays, 'audit-retain-bytes': retainBytes } = settings;
  try {
    const found = await verifyAuditLog(directory, { ...known, newestBytes: readAtStart }).catch(nothingThere);
    const log = openAuditLog(directory, {
      ...{ ...known, clock, keep },
      retainDays: retainDays ?? undefined,
      retainBytes: retainBytes ?? undefined,
    });
    const damage = found === null || found.ok ? null : damageOf(found);
    if (damage !== null) {
      const time = new Date(clock.now()).toISOString();
      const { firstBad, missing } = found ?? {};
      log.append(
        `${JSON.stringify({ time, kind: 'event', event: 'audit.damaged', ...firstBad, missing })}\n`,
      );
    }
    await log.settle();
    // Not before there is one: a start that ends here finds none.
    if (vouching !== null) await store.commit([vouching]);
    return {
      log,
      damage,
      verify: () => verifyAuditLog(directory, { key: known.key, anchor: log.anchor() }),
      handOver(ref) {
        vault = ref;
      },
      async close() {
        vault = null;
        // The log may be on a disk that refuses; then the next start finds it ahead of its anchor.
        await log.settle().catch(() => {});
        log.close();
      },
    };
  } catch (error) {
    if (error instanceof StoreError) throw error;
    throw failed(
      `The audit log in ${directory} can't be opened (${(error as NodeJS.ErrnoException).code ?? 'damaged'}). Check the disk and its rights.`,
    );
  }
}

function nothingThere(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null;
  throw error;
}
