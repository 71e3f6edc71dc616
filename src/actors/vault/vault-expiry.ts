import type { Agent } from './model.ts';
import { decide, proposalEvent } from './proposal-decision.ts';
import type { By, VaultEvent } from './protocol.ts';
import type { Change } from './store.ts';
import type { VaultState } from './vault-state.ts';
import { vaultName } from './vault-views.ts';
import type { Deed } from './vault-writer.ts';

/** How long a used or expired invite still answers `gone` rather than `not_found`. */
const inviteMemoryMs = 30 * 86_400_000;

const system: By = { actor: 'system', label: null, request_id: '' };

/** When a row that is being written will have to be looked at again, wall clock ms; null: never. */
export function dueAt(change: Change): number | null {
  if (change.value === null) return null;
  switch (change.table) {
    case 'sessions':
      return change.value.expires_at_ms;
    case 'operator_sessions':
      return change.value.expires_at_ms;
    case 'agents':
      return agentDueAt(change.value);
    case 'invites':
      return change.value.expires_at_ms + inviteMemoryMs;
    case 'proposals':
      return change.value.status === 'pending' ? Date.parse(change.value.expires_at) : null;
    default:
      return null;
  }
}

/** An agent keeps its newest token's record, expired or not, so that it can be listed and rotated. */
function agentDueAt({ tokens }: Agent): number | null {
  const ends = tokens.slice(0, -1).map(({ expires_at_ms }) => expires_at_ms ?? Number.POSITIVE_INFINITY);
  const first = Math.min(...ends);
  return Number.isFinite(first) ? first : null;
}

export interface Sweep {
  readonly changes: readonly Change[];
  readonly deeds: readonly Deed[];
  readonly events: readonly VaultEvent[];
  /** When the next row is due, wall clock ms; null: none will be. */
  readonly next: number | null;
}

/** What is due by `now`, as one transaction. */
export function sweep(state: VaultState, now: number): Sweep {
  const due: Expiry[] = [];
  let next: number | null = null;
  for (const row of rowsThatExpire(state)) {
    const at = dueAt(row);
    if (at !== null && at <= now) due.push(expire(state, row, now));
    else if (at !== null) next = Math.min(next ?? at, at);
  }
  return {
    changes: due.flatMap(({ changes }) => changes),
    deeds: due.flatMap(({ deed }) => deed ?? []),
    events: due.flatMap(({ event }) => event ?? []),
    next,
  };
}

interface Expiry {
  readonly changes: readonly Change[];
  readonly deed?: Deed;
  readonly event?: VaultEvent;
}

function expire(state: VaultState, row: Change, now: number): Expiry {
  const remove = [{ ...row, value: null } as Change];
  if (row.table === 'proposals' && row.value) {
    const at = new Date(now).toISOString();
    const { id, vault } = row.value;
    return {
      changes: decide(row.value, { status: 'expired', reviewed_at: at }),
      deed: { action: 'proposal.expire', by: system, vault, target: id },
      event: proposalEvent(row.value, 'expired', at),
    };
  }
  if (row.table === 'agents' && row.value) {
    const { name, tokens } = row.value;
    const kept = tokens.filter((token, i) => i === tokens.length - 1 || !isOver(token.expires_at_ms, now));
    return {
      changes: [{ ...row, value: { ...row.value, tokens: kept } }],
      deed: { action: 'agent.token.expire', by: system, target: name },
    };
  }
  if (row.table === 'sessions' && row.value) {
    const { id, vault_id } = row.value;
    return {
      changes: remove,
      deed: { action: 'session.expire', by: system, vault: vaultName(state, vault_id), target: id },
    };
  }
  return { changes: remove };
}

/** Whether something that ends then (ms, null: never) has ended. */
export function isOver(expires_at_ms: number | null, now: number): boolean {
  return expires_at_ms !== null && expires_at_ms <= now;
}

function* rowsThatExpire(state: VaultState): Iterable<Change> {
  for (const [key, value] of state.sessions) yield { table: 'sessions', key, value };
  for (const [key, value] of state.operatorSessions) yield { table: 'operator_sessions', key, value };
  for (const [key, value] of state.agents) yield { table: 'agents', key, value };
  for (const [key, value] of state.invites) yield { table: 'invites', key, value };
  for (const { pending } of state.vaults.values()) {
    for (const id of pending) {
      const value = state.proposals.get(id);
      if (value) yield { table: 'proposals', key: String(id), value };
    }
  }
}
