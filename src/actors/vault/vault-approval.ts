import { timingSafeEqual } from 'node:crypto';
import type { Handlers } from '../core/behavior.ts';
import { invalid, refused } from './fields.ts';
import { existingToNewHosts, hostsByKey, merge } from './merge.ts';
import type { Proposal } from './model.ts';
import { accept, type Problem, type Result, refuse } from './problem.ts';
import { decide, proposalEvent, slotKey } from './proposal-decision.ts';
import type { ProposalReview, VaultProtocol } from './protocol.ts';
import { openSealed } from './seal.ts';
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
      return accept(review(state.vaults.get(proposal.vault_id), proposal));
    },

    async 'proposal.approve'({ id, credentials, confirmExisting, by }) {
      const proposal = state.proposals.get(id);
      const entry = state.vaults.get(proposal?.vault_id ?? '');
      if (proposal?.status === 'applied') return accept({ id, status: 'applied' });
      if (!proposal) return noProposal();
      if (!isPending(proposal, now()) || !entry) return decided(proposal);

      const values = collectValues(state, entry, proposal, credentials);
      if (!values.ok) return values;
      const merged = mergeAll(entry, proposal, confirmExisting);
      if (!merged.ok) return merged;

      const reviewed_at = writer.timestamp();
      const changes = [
        ...sealAll(state, entry, values.value, by.actor, reviewed_at),
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

function review(entry: VaultEntry | undefined, proposal: Proposal): ProposalReview {
  return {
    ...proposalView(proposal),
    created_by: proposal.created_by,
    created_by_label: proposal.created_by_label,
    before: proposal.services.map(({ host }) => entry?.services.get(host) ?? null),
    existing_to_new_host: entry ? newHosts(entry, proposal) : [],
    needs_value: proposal.credentials.flatMap((slot) =>
      slot.action === 'set' && !slot.has_value ? slot.key : [],
    ),
  };
}

function newHosts(entry: VaultEntry, { services, credentials }: Proposal) {
  return existingToNewHosts(
    entry.services,
    services,
    new Set(entry.credentials.keys()),
    new Set(slotsOf(credentials, 'set')),
    hostsByKey(entry.services.values()),
  );
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
    const sealed = state.slotValues.get(slotKey(id, key)) ?? null;
    const opened = entry.key && openSealed(entry.key, ['slot', entry.vault.id, String(id), key], sealed);
    return opened && new Secret(opened.toString('utf8'));
  }
}

/** The rows of the services as the proposal leaves them, checked against the vault as it is now. */
function mergeAll(
  entry: VaultEntry,
  proposal: Proposal,
  confirmed: readonly string[],
): Result<readonly Change[]> {
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
  const open = newHosts(entry, proposal).filter(({ key }) => !confirmed.includes(key));
  if (open.length > 0) return refused(needsConfirming(open));

  const setsService = proposal.services.some(({ action }) => action === 'set');
  return accept([...serviceChanges(entry, services), ...(setsService ? setCleared(entry, false) : [])]);
}

function needsConfirming(open: readonly { readonly key: string; readonly host: string }[]): Problem {
  const pairs = open.map(({ key, host }) => `${key} to ${host}`).join(', ');
  return {
    code: 'conflict',
    message: `The proposal sends existing credentials to hosts that they are not sent to now: ${pairs}. Confirm each key.`,
    extra: { confirm: [...new Set(open.map(({ key }) => key))].sort() },
  };
}
