import type { Proposal, ProposalStatus } from './model.ts';
import type { VaultEvent } from './protocol.ts';
import type { Change } from './store.ts';

type Decided = Exclude<ProposalStatus, 'pending'>;

export interface Decision {
  readonly status: Decided;
  readonly reviewed_at: string;
  /** Absent: nobody did, or its own creator. */
  readonly reviewed_by?: string;
  readonly review_note?: string;
}

/** The rows of a proposal that is pending no longer. The values that its agent gave with it go with that. */
export function decide(proposal: Proposal, decision: Decision): Change[] {
  const { id, credentials } = proposal;
  const value = { ...proposal, ...decision };
  return [
    { table: 'proposals', key: String(id), value },
    ...credentials
      .filter((slot) => slot.action === 'set' && slot.has_value)
      .map((slot): Change => ({ table: 'slot_values', key: slotKey(id, slot.key), value: null })),
  ];
}

/** Key of a value in `slot_values`. */
export function slotKey(id: number, key: string): string {
  return `${id}/${key}`;
}

export function proposalEvent(proposal: Proposal, what: Decided | 'created', at: string): VaultEvent {
  const { id, vault, created_by, agent_id } = proposal;
  const status = what === 'created' ? 'pending' : what;
  return { type: `proposal.${what}`, vault, actor: created_by, agent_id, at, data: { id, status } };
}
