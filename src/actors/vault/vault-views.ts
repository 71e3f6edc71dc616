import type { Agent, Proposal, Session } from './model.ts';
import { surfacesOf } from './model.ts';
import type { AgentView, Discovery, ProposalView, SessionView, VaultView } from './protocol.ts';
import type { VaultEntry, VaultState } from './vault-state.ts';

/*
 * What the API shows of the model. Each view names its fields one by one, so that a field that is added to the model
 * (a hash, a sealed value) isn't shown before someone decides that it is.
 */

export function vaultView({ vault, services, credentials, pending }: VaultEntry): VaultView {
  const { unmatched_host_policy, unmatched_tls, require_tls, rate_limit } = vault.settings;
  return {
    name: vault.name,
    unmatched_host_policy,
    unmatched_tls,
    require_tls,
    rate_limit,
    cleared: vault.cleared,
    created_at: vault.created_at,
    counters: { services: services.size, credentials: credentials.size, pending_proposals: pending.size },
  };
}

export function discovery({ vault, services, credentials }: VaultEntry): Discovery {
  return {
    vault: vault.name,
    services: [...services.values()].map(({ host, description, auth, substitutions, enabled }) => ({
      host,
      description: description ?? '',
      enabled: enabled !== false,
      auth_type: auth.type,
      substitutions: (substitutions ?? []).map((each) => ({
        placeholder: each.placeholder,
        in: surfacesOf(each),
        ...(each.at !== undefined && { at: each.at }),
      })),
    })),
    available_credentials: [...credentials.keys()].sort(),
  };
}

export function proposalView(proposal: Proposal): ProposalView {
  const { id, status, vault, services, credentials, message, user_message } = proposal;
  const { review_note, reviewed_by, created_at, reviewed_at, expires_at } = proposal;
  const [kind, ...rest] = proposal.created_by.split(':');
  return {
    id,
    status,
    vault,
    services,
    credentials,
    message,
    user_message,
    review_note,
    reviewed_by,
    created_at,
    reviewed_at,
    expires_at,
    requested_by: {
      kind: kind === 'agent' ? 'agent' : 'session',
      id: rest.join(':'),
      label: proposal.created_by_label,
    },
  };
}

export function sessionView(state: VaultState, session: Session): SessionView {
  const { id, label, created_at, created_by, vault_id, expires_at_ms } = session;
  const vault = vaultName(state, vault_id);
  return { id, vault, label, created_at, created_by, expires_at: new Date(expires_at_ms).toISOString() };
}

export function agentView(state: VaultState, { name, vault_ids, created_at, tokens }: Agent): AgentView {
  const expires = tokens.at(-1)?.expires_at_ms ?? null;
  return {
    name,
    vaults: vault_ids.map((id) => vaultName(state, id)),
    created_at,
    expires_at: expires === null ? null : new Date(expires).toISOString(),
  };
}

export function vaultName(state: VaultState, id: string): string {
  return state.vaults.get(id)?.vault.name ?? '';
}
