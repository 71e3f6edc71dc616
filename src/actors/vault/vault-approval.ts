import { timingSafeEqual } from 'node:crypto';
import type { Handlers } from '../core/behavior.ts';
import { invalid, refused } from './fields.ts';
import { hostsByKey, merge } from './merge.ts';
import type { Proposal } from './model.ts';
import { accept, type Problem, problem, type Result, refuse } from './problem.ts';
import { decide, proposalEvent, slotKey } from './proposal-decision.ts';
import type { ProposalReview, VaultProtocol } from './protocol.ts';
import { type Increase, reviewer } from './review-rules.ts';
import { openPacked } from './seal.ts';
import { Secret } from './secret.ts';
import type { Change } from './store.ts';
import { checkValue, inUse, removeCredential, sealAll } from './vault-credentials.ts';
import { decided, isPending, mergeProblem, noProposal, outline, slotsOf } from './vault-proposals.ts';
import { serviceChanges, setCleared } from './vault-services.ts';
import type { VaultEntry, VaultState } from './vault-state.ts';
import { proposalView } from './vault-views.ts';
import type { Writer } from './vault-writer.ts';

export function approvalHandlers(
  writer: Writer,
): Pick<Handlers<VaultProtocol>, 'proposal.review' | 'proposal.approve'> {
  const { state, commit, now } = writer;

  return {
    'proposal.review'({ id, approvalHash }) {
      const proposal = state.proposals.get(id);
      if (!proposal || (approvalHash !== null && !equal(approvalHash, proposal.approval_hash)))
        return noProposal();
      if (approvalHash !== null && !isPending(proposal, now())) {
        return refuse('gone', 'The link has ended: this proposal is decided or has expired.');
      }
      return accept(review(state.vaults.get(proposal.vault_id), proposal, now()));
    },

    async 'proposal.approve'({ id, credentials, confirm, by }) {
      const proposal = state.proposals.get(id);
      const entry = state.vaults.get(proposal?.vault_id ?? '');
      if (proposal?.status === 'applied') return accept({ id, status: 'applied' });
      if (!proposal) return noProposal();
      if (!isPending(proposal, now()) || !entry) return decided(proposal);

      const values = collectValues(state, entry, proposal, credentials);
      if (!values.ok) return values;
      const merged = mergeAll(entry, proposal);
      if (!merged.ok) return merged;
      const open = unconfirmed(entry, proposal, credentials, confirm);
      if (open) return refused(open);

      const reviewed_at = writer.timestamp();
      const changes = [
        ...sealAll(state, entry, values.value, by, reviewed_at, (key) =>
          credentials.has(key) ? undefined : proposal.created_by,
        ),
        ...slotsOf(proposal.credentials, 'delete')
          .filter((key) => entry.credentials.has(key))
          .map((key) => removeCredential(entry, key)),
        ...merged.value,
        ...decide(proposal, { status: 'applied', reviewed_by: by.actor, reviewed_at }),
      ];
      const failed = await commit(
        changes,
        { action: 'proposal.approve', by, vault: proposal.vault, target: id, ...outline(proposal) },
        [proposalEvent(proposal, 'applied', reviewed_at)],
      );
      return failed ? refused(failed) : accept({ id, status: 'applied' });
    },
  };
}

function equal(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
}

function review(entry: VaultEntry | undefined, proposal: Proposal, now: number): ProposalReview {
  return {
    ...proposalView(proposal),
    ...(entry && isPending(proposal, now) && { review: reviewer(entry)(proposal).review }),
    before: proposal.services.map(({ host }) => entry?.services.get(host) ?? null),
    needs_value: proposal.credentials.flatMap((slot) =>
      slot.action === 'set' && !slot.has_value ? slot.key : [],
    ),
  };
}

/** A value for every `set` slot: the human's, else the agent's own. */
function collectValues(
  state: VaultState,
  entry: VaultEntry,
  { id, credentials }: Proposal,
  given: ReadonlyMap<string, Secret>,
): Result<Map<string, Secret>> {
  const slots = slotsOf(credentials, 'set');
  for (const [key, value] of given) {
    const wrong = slots.includes(key)
      ? checkValue(key, value)
      : invalid(`credentials.${key}`, 'the proposal has no slot for this key. Leave it out.');
    if (wrong) return refused(wrong);
  }
  const values = new Map<string, Secret>();
  for (const key of slots) {
    const value = given.get(key) ?? fromAgent(key);
    if (!value) return refused(invalid(`credentials.${key}`, 'is missing. Give the value.'));
    values.set(key, value);
  }
  return accept(values);

  function fromAgent(key: string): Secret | null {
    const sealed = state.slotValues.get(slotKey(id, key));
    const opened =
      entry.key && sealed && openPacked(entry.key, ['slot', entry.vault.id, String(id), key], sealed);
    return opened ? new Secret(opened.toString('utf8')) : null;
  }
}

/** The rows of the services as the proposal leaves them, checked against the vault as it is now. */
function mergeAll(entry: VaultEntry, proposal: Proposal): Result<readonly Change[]> {
  const wrong = mergeProblem(entry, proposal);
  if (wrong) return refused(wrong);
  const merged = merge(entry.services, proposal.services);
  if (!merged.ok) return merged;
  const { services } = merged.value;

  const used = hostsByKey(services.values());
  for (const key of slotsOf(proposal.credentials, 'delete')) {
    const hosts = used.get(key);
    if (hosts && entry.credentials.has(key)) return refused(inUse(key, [...hosts]));
  }
  const setsService = proposal.services.some(({ action }) => action === 'set');
  return accept([...serviceChanges(entry, services), ...(setsService ? setCleared(entry, false) : [])]);
}

/**
 * Refuses what nobody has confirmed, or what was confirmed as it isn't any more. A value that is typed in with the approval
 * is consent to what the proposal itself names for its key.
 */
function unconfirmed(
  entry: VaultEntry,
  proposal: Proposal,
  given: ReadonlyMap<string, Secret>,
  confirm: string | null,
): Problem | null {
  const looked = reviewer(entry)(proposal);
  const { review } = looked;
  if (confirm === review.fingerprint) return null;
  const open = looked.open(given);
  if (confirm === null && open.length === 0) return null;
  return problem('confirmation_required', confirm === null ? notConfirmed(open) : confirmedOther, { review });
}

const confirmedOther =
  'What was confirmed is not what would be done now: the vault has changed since it was shown. Look at the proposal again, then decide.';

function notConfirmed(open: readonly Increase[]): string {
  const lines = open.map(({ key, hosts }) => `${key} to ${hosts.join(', ')}`).join('; ');
  return `The proposal widens what credentials reach: ${lines}. Look at each, and send the review's fingerprint as confirm.`;
}
