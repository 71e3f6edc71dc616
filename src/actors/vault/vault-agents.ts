import { randomBytes } from 'node:crypto';
import type { Handlers } from '../core/behavior.ts';
import { invalid, refused } from './fields.ts';
import type { Agent, Invite } from './model.ts';
import { accept, type Problem, type Result, refuse } from './problem.ts';
import type { VaultProtocol } from './protocol.ts';
import type { Change } from './store.ts';
import { mintToken } from './token.ts';
import { isOver } from './vault-expiry.ts';
import { nameProblem, vaultIdsOf } from './vault-names.ts';
import { tooManySessions, ttlProblem } from './vault-sessions.ts';
import type { VaultState } from './vault-state.ts';
import { agentView, vaultName } from './vault-views.ts';
import type { Writer } from './vault-writer.ts';

type Names = 'invite.create' | 'invite.redeem' | 'agent.list' | 'agent.remove' | 'agent.rotate';

/** Seconds. */
const inviteTtl = { min: 1, max: 30 * 86_400 };
const tokenTtl = { min: 1, max: 10 * 366 * 86_400 };
const overlap = { min: 0, max: 7 * 86_400 };

export function agentHandlers(writer: Writer): Pick<Handlers<VaultProtocol>, Names> {
  const { state, commit, now } = writer;

  const endOf = (ttlSeconds: number | null) => (ttlSeconds === null ? null : now() + ttlSeconds * 1000);

  return {
    async 'invite.create'({ name, vaults, ttlSeconds, tokenTtlSeconds, by }) {
      const wrong =
        (name === null ? null : (nameProblem(name) ?? nameTaken(state, name))) ??
        (vaults.length === 0 ? invalid('vaults', 'is empty. Name at least one vault.') : null) ??
        ttlProblem('ttl_seconds', ttlSeconds, inviteTtl) ??
        (tokenTtlSeconds === null ? null : ttlProblem('token_ttl_seconds', tokenTtlSeconds, tokenTtl));
      if (wrong) return refused(wrong);
      const ids = vaultIdsOf(state, vaults);
      if (!ids.ok) return ids;
      const { token, hash } = mintToken('invite');
      const expires_at_ms = now() + ttlSeconds * 1000;
      const value: Invite = {
        hash,
        name,
        vault_ids: ids.value,
        token_ttl_seconds: tokenTtlSeconds,
        created_at: writer.timestamp(),
        created_by: by.actor,
        expires_at_ms,
        used_at: null,
      };
      const failed = await commit([{ table: 'invites', key: hash, value }], {
        action: 'invite.create',
        by,
        target: name ?? undefined,
        vaults,
      });
      return failed ? refused(failed) : accept({ token, expires_at: new Date(expires_at_ms).toISOString() });
    },

    async 'invite.redeem'({ hash, name, by }) {
      const invite = findInvite(hash);
      if (!invite.ok) return invite;
      const { name: fixed, vault_ids, token_ttl_seconds } = invite.value;
      if (fixed !== null && name !== null && name !== fixed) {
        return refused(invalid('name', 'the invite gives another name. Leave it out.'));
      }
      const agentName = fixed ?? name ?? `agent-${randomBytes(4).toString('hex')}`;
      const wrong = nameProblem(agentName) ?? nameTaken(state, agentName);
      if (wrong) return refused(wrong);
      if (state.slots.available < vault_ids.length) return refuse('overloaded', tooManySessions);
      const token = mintToken('agent');
      const agent: Agent = {
        name: agentName,
        id: randomBytes(8).toString('hex'),
        vault_ids,
        tokens: [{ hash: token.hash, expires_at_ms: endOf(token_ttl_seconds) }],
        token_ttl_seconds,
        created_at: writer.timestamp(),
      };
      const changes: Change[] = [
        { table: 'invites', key: hash, value: { ...invite.value, used_at: agent.created_at } },
        { table: 'agents', key: agentName, value: agent },
      ];
      const vaults = vault_ids.map((id) => vaultName(state, id));
      const failed = await commit(changes, { action: 'invite.redeem', by, target: agentName, vaults });
      return failed ? refused(failed) : accept({ agent: agentView(state, agent), token: token.token });
    },

    'agent.list': () => [...state.agents.values()].map((agent) => agentView(state, agent)),

    async 'agent.remove'({ name, by }) {
      if (!state.agents.has(name)) return refuse('not_found', noAgent);
      const change: Change = { table: 'agents', key: name, value: null };
      const failed = await commit([change], { action: 'agent.remove', by, target: name });
      return failed ? refused(failed) : accept(null);
    },

    async 'agent.rotate'({ name, overlapSeconds, by }) {
      const agent = state.agents.get(name);
      if (!agent) return refuse('not_found', noAgent);
      const wrong = ttlProblem('overlap_seconds', overlapSeconds, overlap);
      if (wrong) return refused(wrong);
      const { token, hash } = mintToken('agent');
      const expires_at_ms = endOf(agent.token_ttl_seconds);
      const tokens = [...overlapping(agent, overlapSeconds), { hash, expires_at_ms }];
      const change: Change = { table: 'agents', key: name, value: { ...agent, tokens } };
      const failed = await commit([change], { action: 'agent.rotate', by, target: name });
      if (failed) return refused(failed);
      const expires_at = expires_at_ms === null ? null : new Date(expires_at_ms).toISOString();
      return accept({ token, expires_at });
    },
  };

  function findInvite(hash: string): Result<Invite> {
    const invite = state.invites.get(hash);
    if (!invite) return refuse('not_found', 'There is no such invite. Check the address.');
    const isGone =
      invite.used_at !== null || isOver(invite.expires_at_ms, now()) || invite.vault_ids.length === 0;
    return isGone
      ? refuse('gone', 'This invite was used or has expired. Ask the operator for a new one.')
      : accept(invite);
  }

  /** The newest token, for as long as it may still be used beside the next one. Any older one ends now. */
  function overlapping({ tokens }: Agent, seconds: number): Agent['tokens'] {
    const newest = tokens.at(-1);
    if (!newest || seconds === 0 || isOver(newest.expires_at_ms, now())) return [];
    const end = now() + seconds * 1000;
    return [{ ...newest, expires_at_ms: Math.min(newest.expires_at_ms ?? end, end) }];
  }
}

const noAgent = 'There is no agent of this name. List the agents.';

function nameTaken(state: VaultState, name: string): Problem | null {
  if (!state.agents.has(name)) return null;
  return { code: 'conflict', message: `There is an agent '${name}' already. Choose another name.` };
}
