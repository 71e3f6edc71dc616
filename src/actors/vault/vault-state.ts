import type { KeyObject } from 'node:crypto';
import type { Agent, Invite, Operator, OperatorSession, Proposal, Service, Session, Vault } from './model.ts';
import { Usage } from './quotas.ts';
import { createRateSlots, type RateSlots } from './rate-slots.ts';
import type { Packed, Sealed } from './seal.ts';
import { type Delta, RATE_SLOTS } from './state.ts';
import type { CredentialRow } from './store.ts';
import type { OpenValue } from './values.ts';

/** A credential's row, its sealed value as bytes. */
export type PackedCredential = Omit<CredentialRow, keyof Sealed> & Packed;

export interface VaultEntry {
  vault: Vault;
  /** Opens its credentials; null: the key's row is lost or damaged, and they with it. */
  key: KeyObject | null;
  /** By host, in the order of their places. */
  services: Map<string, Service>;
  readonly places: Map<string, number>;
  /** null: the row is damaged. Values lie here sealed. */
  readonly credentials: Map<string, PackedCredential | null>;
  /** The opened values of the keys that services refer to and that are there; null: it can't be opened. */
  readonly values: Map<string, OpenValue | null>;
  /** The keys that services refer to. */
  referenced: ReadonlySet<string>;
  /** Ids, oldest first. */
  readonly proposals: Set<number>;
  readonly pending: Set<number>;
}

/**
 * The whole model in memory. It is never written to but by `applyChanges`, with rows that the store has committed or
 * loaded, so that what a restart finds is what was there.
 */
export interface VaultState {
  readonly kek: KeyObject;
  readonly slots: RateSlots;
  readonly vaults: Map<string, VaultEntry>;
  readonly vaultIds: Map<string, string>;
  readonly proposals: Map<number, Proposal>;
  readonly slotValues: Map<string, Packed>;
  /** By token hash. */
  readonly sessions: Map<string, Session>;
  readonly sessionHashes: Map<string, string>;
  /** Hashes of their tokens, by what names these in a question for proof. */
  readonly sessionNames: Map<string, string>;
  readonly agents: Map<string, Agent>;
  readonly agentNames: Map<string, string>;
  readonly invites: Map<string, Invite>;
  readonly operators: Map<string, Operator>;
  /** By token hash. */
  readonly operatorSessions: Map<string, OperatorSession>;
  /** What each agent and vault keeps, for their quotas. */
  readonly usage: Usage;
  lastProposalId: number;
}

export function emptyState(kek: KeyObject): VaultState {
  return {
    kek,
    slots: createRateSlots(RATE_SLOTS),
    vaults: new Map(),
    vaultIds: new Map(),
    proposals: new Map(),
    slotValues: new Map(),
    sessions: new Map(),
    sessionHashes: new Map(),
    sessionNames: new Map(),
    agents: new Map(),
    agentNames: new Map(),
    invites: new Map(),
    operators: new Map(),
    operatorSessions: new Map(),
    usage: new Usage(),
    lastProposalId: 0,
  };
}

/** All that a lane needs to know, from nothing. */
export function fullState(state: VaultState): Delta[] {
  const deltas: Delta[] = [];
  for (const entry of state.vaults.values()) for (const delta of vaultDeltas(entry)) deltas.push(delta);
  for (const session of state.sessions.values()) deltas.push(sessionDelta(state, session));
  for (const agent of state.agents.values()) deltas.push(...agentDeltas(state, agent));
  return deltas;
}

/** What it needs to know of one vault. */
export function* vaultDeltas({ vault, services, values }: VaultEntry): Generator<Delta> {
  yield vaultDelta(vault);
  for (const service of services.values()) yield { type: 'service', vault: vault.id, service };
  for (const [key, value] of values) yield { type: 'credential', vault: vault.id, key, value };
}

export function vaultDelta({ id, name, cleared, settings }: Vault): Delta {
  return { type: 'vault', id, name, cleared, settings };
}

export function sessionDelta(
  state: VaultState,
  { id, hash, label, vault_id, expires_at_ms }: Session,
): Delta {
  const vaults = state.slots.assign(hash, [vault_id]);
  return { type: 'session', hash, kind: 'session', id, label, vaults, expires_at_ms };
}

export function agentDeltas(state: VaultState, agent: Agent): Delta[] {
  const vaults = state.slots.assign(`agent:${agent.name}`, agent.vault_ids);
  return agent.tokens.map(({ hash, expires_at_ms }) => ({
    type: 'session',
    hash,
    kind: 'agent',
    id: agent.name,
    label: agent.name,
    vaults,
    expires_at_ms,
  }));
}
