import type { Handlers } from '../core/behavior.ts';
import { anchorRow } from './audit-rows.ts';
import { refused } from './fields.ts';
import { accept } from './problem.ts';
import type { VaultProtocol } from './protocol.ts';
import { sealBlob } from './seal.ts';
import type { Writer } from './vault-writer.ts';

/** What the store keeps for the broker itself: how its master key is had, and sealed things that belong to no vault. */
export function metaHandlers({
  state,
  commit,
}: Writer): Pick<Handlers<VaultProtocol>, 'kek.set' | 'blob.set' | 'audit.anchor'> {
  return {
    async 'kek.set'({ row, action, by }) {
      const failed = await commit([{ table: 'meta', key: 'kek', value: row }], { action, by });
      return failed ? refused(failed) : accept(null);
    },

    async 'blob.set'({ name, value, action, details, by }) {
      const sealed = sealBlob(state.kek, name, Buffer.from(value.reveal()));
      const failed = await commit([{ table: 'meta', key: `blob/${name}`, value: sealed }], {
        ...details,
        action,
        by,
      });
      return failed ? refused(failed) : accept(null);
    },

    async 'audit.anchor'({ anchor }) {
      // No deed of anybody's: a record of it would be followed by the next.
      const failed = await commit([anchorRow(state.kek, anchor)], null);
      return failed ? refused(failed) : accept(null);
    },
  };
}
