import type { Handlers } from '../core/behavior.ts';
import { refused, textProblem } from './fields.ts';
import { merge } from './merge.ts';
import type { CredentialSlot, Proposal } from './model.ts';
import { isOwn, markOf } from './ownership.ts';
import { accept, type Problem, problem, type Result, refuse } from './problem.ts';
import { decide, proposalEvent, slotKey } from './proposal-decision.ts';
import { type CheckedProposal, checkProposal } from './proposal-rules.ts';
import type { By, ProposalView, VaultProtocol } from './protocol.ts';
import { reviewer } from './review-rules.ts';
import { seal } from './seal.ts';
import { unresolved } from './service-rules.ts';
import type { Change } from './store.ts';
import { mintToken } from './token.ts';
import { dataKey } from './vault-credentials.ts';
import type { VaultEntry, VaultState } from './vault-state.ts';
import { proposalView } from './vault-views.ts';
import { findVault, type Writer } from './vault-writer.ts';

type Names = 'proposal.create' | 'proposal.get' | 'proposal.list' | 'proposal.reject' | 'proposal.cancel';

/** Decided ones kept for each vault: an agent that proposes and cancels for ever must not fill the disk. */
const maxKept = 1000;
const maxKeptOctets = 16 * 2 ** 20;
const lifetimeMs = 7 * 86_400_000;
const maxReason = 2000;

export function proposalHandlers(writer: Writer): Pick<Handlers<VaultProtocol>, Names> {
  const { state, commit, now } = writer;

  /** `vault`, `own`: as in the protocol; vaults are compared by id, since a name may have had several. */
  function find(id: number, vault?: string, own?: Pick<By, 'actor' | 'agent'>): Result<Proposal> {
    const proposal = state.proposals.get(id);
    const isVisible =
      proposal !== undefined &&
      (vault === undefined || proposal.vault_id === state.vaultIds.get(vault)) &&
      (own === undefined || isOf(proposal, own));
    return isVisible ? accept(proposal) : noProposal();
  }

  return {
    async 'proposal.create'({ vault, body, by }) {
      const found = findVault(state, vault);
      if (!found.ok) return found;
      const entry = found.value;
      const checked = checkProposal(body);
      if (!checked.ok) return checked;
      const many = tooMany(writer, entry, by);
      if (many) return refused(many);
      const wrong = mergeProblem(entry, checked.value);
      if (wrong) return refused(wrong);

      const approval = mintToken('approval');
      const { services, credentials, message, user_message } = checked.value;
      const proposal: Proposal = {
        id: state.lastProposalId + 1,
        status: 'pending',
        vault_id: entry.vault.id,
        vault,
        services,
        credentials,
        message,
        user_message,
        review_note: null,
        reviewed_by: null,
        created_at: writer.timestamp(),
        reviewed_at: null,
        expires_at: new Date(now() + lifetimeMs).toISOString(),
        created_by: by.actor,
        created_by_label: by.label,
        ...markOf(by),
        approval_hash: approval.hash,
      };
      const { id } = proposal;
      const changes: Change[] = [
        { table: 'proposals', key: String(id), value: proposal },
        { table: 'meta', key: 'counters', value: { proposal: id } },
        ...sealSlots(state, entry, id, checked.value),
        ...oldestDecided(state, entry),
      ];
      const failed = await commit(
        changes,
        { action: 'proposal.create', by, vault, target: id, ...outline(proposal) },
        [proposalEvent(proposal, 'created', proposal.created_at)],
      );
      if (failed) return refused(failed);
      return accept({ proposal: proposalView(proposal), approvalToken: approval.token });
    },

    'proposal.get'({ id, vault, own, reviewed }) {
      const found = find(id, vault, own);
      return found.ok ? accept(viewer(state, now(), reviewed)(found.value)) : found;
    },

    'proposal.list'({ vault, vaults, own, status, reviewed }) {
      const names = vaults?.filter((name) => vault === undefined || name === vault);
      const ids = (names ?? (vault === undefined ? undefined : [vault]))?.map((name) =>
        state.vaultIds.get(name),
      );
      const proposals = [...state.proposals.values()].filter(
        (each) =>
          (ids === undefined || ids.includes(each.vault_id)) &&
          (own === undefined || isOf(each, own)) &&
          (status === undefined || each.status === status),
      );
      return accept({ proposals: proposals.map(viewer(state, now(), reviewed)) });
    },

    async 'proposal.reject'({ id, reason, by }) {
      const found = find(id);
      if (!found.ok) return found;
      const proposal = found.value;
      if (proposal.status === 'rejected') return accept({ id, status: 'rejected' });
      if (!isPending(proposal, now())) return decided(proposal);
      const wrong = textProblem(reason, 'reason', maxReason);
      if (wrong) return refused(wrong);
      const reviewed_at = writer.timestamp();
      const decision = {
        status: 'rejected',
        reviewed_by: by.actor,
        reviewed_at,
        review_note: reason,
      } as const;
      const failed = await commit(
        decide(proposal, decision),
        { action: 'proposal.reject', by, vault: proposal.vault, target: id },
        [proposalEvent(proposal, 'rejected', reviewed_at)],
      );
      return failed ? refused(failed) : accept({ id, status: 'rejected' });
    },

    async 'proposal.cancel'({ id, vault, by }) {
      const found = find(id, vault);
      if (!found.ok) return found;
      const proposal = found.value;
      if (!isOf(proposal, by)) return refuse('forbidden', notItsAgent);
      if (proposal.status === 'cancelled') return accept(proposalView(proposal));
      if (!isPending(proposal, now())) return decided(proposal);
      const reviewed_at = writer.timestamp();
      const failed = await commit(
        decide(proposal, { status: 'cancelled', reviewed_at }),
        { action: 'proposal.cancel', by, vault, target: id },
        [proposalEvent(proposal, 'cancelled', reviewed_at)],
      );
      if (failed) return refused(failed);
      return accept(proposalView({ ...proposal, status: 'cancelled', reviewed_at }));
    },
  };
}

const notItsAgent = 'Only the agent that made this proposal may withdraw it.';

/** Whether this caller made it. */
function isOf(
  { created_by: actor, agent_id, created_at: at }: Proposal,
  by: Pick<By, 'actor' | 'agent'>,
): boolean {
  return isOwn({ actor, agent_id, at }, by);
}

export function noProposal<T>(): Result<T> {
  return refuse('not_found', 'There is no such proposal. Check its number.');
}

/** The clock may have passed a proposal's end a moment before the timer that records it. */
export function isPending({ status, expires_at }: Proposal, now: number): boolean {
  return status === 'pending' && Date.parse(expires_at) > now;
}

/** The answer to whoever comes too late. */
export function decided<T>(proposal: Proposal): Result<T> {
  const { id } = proposal;
  const status = proposal.status === 'pending' ? 'expired' : proposal.status;
  return refuse('already_decided', `Proposal ${id} is ${status} already.`, { status });
}

/** Shows proposals; with a review of what is pending, where it is asked for: what one vault's have in common is done once. */
function viewer(state: VaultState, now: number, reviewed = false): (proposal: Proposal) => ProposalView {
  const reviewers = new Map<string, ReturnType<typeof reviewer>>();
  return (proposal) => {
    const view = proposalView(proposal);
    const entry = state.vaults.get(proposal.vault_id);
    if (!reviewed || !entry || !isPending(proposal, now)) return view;
    const look = reviewers.get(entry.vault.id) ?? reviewer(entry);
    reviewers.set(entry.vault.id, look);
    return { ...view, review: look(proposal).review };
  };
}

/** What a proposal is about, for the audit: names only. */
export function outline({ services, credentials }: Pick<Proposal, 'services' | 'credentials'>) {
  return { hosts: services.map(({ host }) => host), keys: credentials.map(({ key }) => key) };
}

/** Why the proposal can't be merged into the vault as it is now, or null. */
export function mergeProblem(
  entry: VaultEntry,
  { services, credentials }: Pick<Proposal, 'services' | 'credentials'>,
): Problem | null {
  const merged = merge(entry.services, services);
  if (!merged.ok) return merged.problem;
  const existing = new Set(entry.credentials.keys());
  for (const key of slotsOf(credentials, 'delete')) existing.delete(key);
  return unresolved(services, existing, new Set(slotsOf(credentials, 'set')));
}

export function slotsOf(slots: readonly CredentialSlot[], action: CredentialSlot['action']): string[] {
  return slots.filter((slot) => slot.action === action).map(({ key }) => key);
}

/** Refuses one more that waits, by what its agent and its vault may have waiting. */
function tooMany({ state, quotas }: Writer, { pending, vault }: VaultEntry, by: By): Problem | null {
  let own = 0;
  for (const entry of state.vaults.values()) {
    for (const id of entry.pending) {
      const proposal = state.proposals.get(id);
      if (proposal && isOf(proposal, by)) own++;
    }
  }
  const wait = (whose: string, limit: number) =>
    problem(
      'too_many_pending_proposals',
      `${whose} has ${limit} proposals waiting, which is as many as it may. Wait until some are decided, or cancel your own.`,
      { limit },
      60,
    );
  const { agent, vault: shared } = quotas;
  if (agent.proposals > 0 && own >= agent.proposals) return wait('This agent', agent.proposals);
  if (shared.proposals > 0 && pending.size >= shared.proposals)
    return wait(`The vault '${vault.name}'`, shared.proposals);
  return null;
}

/** The values that the agent gave itself, kept sealed beside the proposal until it is decided. */
function sealSlots(state: VaultState, entry: VaultEntry, id: number, { values }: CheckedProposal): Change[] {
  if (values.size === 0) return [];
  const { key, changes } = dataKey(state, entry);
  for (const [name, secret] of values) {
    const bytes = Buffer.from(secret.reveal());
    const value = seal(key, ['slot', entry.vault.id, String(id), name], 1, bytes);
    bytes.fill(0);
    changes.push({ table: 'slot_values', key: slotKey(id, name), value });
  }
  return changes;
}

/** Decided ones of one agent, the oldest first. */
interface Kept {
  readonly proposals: Proposal[];
  octets: number;
}

/**
 * What has to go where there are too many decided ones, or too much of them, with the one that is being made: the oldest
 * of whoever has the most, so that nobody drives out what others would still look up.
 */
function oldestDecided(state: VaultState, entry: VaultEntry): Change[] {
  const gone: Change[] = [];
  const byAgent = new Map<string, Kept>();
  let [count, octets] = [1, 0];
  for (const id of entry.proposals) {
    const proposal = state.proposals.get(id);
    if (!proposal || proposal.status === 'pending') continue;
    const whose = `${proposal.created_by} ${proposal.agent_id ?? ''}`;
    const kept = byAgent.get(whose) ?? { proposals: [], octets: 0 };
    byAgent.set(whose, kept);
    kept.proposals.push(proposal);
    kept.octets += sizeOf(proposal);
    octets += sizeOf(proposal);
    count++;
  }
  while (count > maxKept || octets > maxKeptOctets) {
    const isCount = octets <= maxKeptOctets;
    const amount = (kept: Kept) => (isCount ? kept.proposals.length : kept.octets);
    const most = [...byAgent.values()].reduce((a, b) => (amount(b) > amount(a) ? b : a));
    const oldest = most.proposals.shift() as Proposal;
    most.octets -= sizeOf(oldest);
    octets -= sizeOf(oldest);
    count--;
    gone.push({ table: 'proposals', key: String(oldest.id), value: null });
  }
  return gone;
}

const sizes = new WeakMap<Proposal, number>();

function sizeOf(proposal: Proposal): number {
  const known = sizes.get(proposal);
  if (known !== undefined) return known;
  const size = JSON.stringify(proposal).length;
  sizes.set(proposal, size);
  return size;
}
