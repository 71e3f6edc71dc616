import type { Service, VaultSettings } from './model.ts';
import type { OpenValue } from './values.ts';

/**
 * What travels from the vault actor to the lanes on their state ports: plain, cloneable data.
 * A delta is idempotent (it says what is, not what changed) and is posted before the epoch that includes it.
 */
export type Delta =
  | {
      readonly type: 'vault';
      readonly id: string;
      readonly name: string;
      readonly cleared: boolean;
      readonly settings: VaultSettings;
    }
  | { readonly type: 'vault-gone'; readonly id: string }
  | { readonly type: 'service'; readonly vault: string; readonly service: Service }
  | { readonly type: 'service-gone'; readonly vault: string; readonly host: string }
  /**
   * Of those that a service of the vault refers to; no other leaves the vault actor. `value` null: the stored value can't
   * be opened (damaged); requests that need it are refused.
   */
  | {
      readonly type: 'credential';
      readonly vault: string;
      readonly key: string;
      readonly value: OpenValue | null;
    }
  | { readonly type: 'credential-gone'; readonly vault: string; readonly key: string }
  | {
      readonly type: 'session';
      readonly hash: string;
      readonly kind: 'session' | 'agent';
      /** Session id, or agent name. */
      readonly id: string;
      readonly label: string | null;
      /** Vault ids, each with the index of its rate-limit slot in the shared table. */
      readonly vaults: readonly { readonly id: string; readonly slot: number }[];
      /** Wall clock, ms; null: never. */
      readonly expires_at_ms: number | null;
    }
  | { readonly type: 'session-gone'; readonly hash: string };

/** One message on a state port. `full` starts from nothing; deltas of one message belong to one transaction. */
export interface StateMessage {
  readonly epoch: number;
  readonly full: boolean;
  readonly deltas: readonly Delta[];
  /** Of a full state: its sessions, packed. Read by `unpack`. */
  readonly sessions?: string;
}

/** Index of the epoch word in the shared buffer (an Int32Array over it). */
export const EPOCH_WORD = 0;

/** How many rate-limit slots there are: `slot` of a session is always below it. */
export const RATE_SLOTS = 262_144;
