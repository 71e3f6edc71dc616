import { randomBytes } from 'node:crypto';
import type { Handlers } from '../core/behavior.ts';
import { invalid, refused, textProblem } from './fields.ts';
import type { OperatorSession } from './model.ts';
import { agentMark } from './ownership.ts';
import { accept, type Problem, refuse } from './problem.ts';
import type { Identity, VaultProtocol } from './protocol.ts';
import type { Change } from './store.ts';
import { mintToken } from './token.ts';
import { isOver } from './vault-expiry.ts';
import { operatorSessionMs, sessionOfKey } from './vault-operators.ts';
import { sessionView, vaultName } from './vault-views.ts';
import { findVault, type Writer } from './vault-writer.ts';

type Names = 'identify' | 'operator.byKey' | 'session.create' | 'session.list' | 'session.revoke';

/** An operator's expiry slides in steps of this, so that reading doesn't mean writing. */
const slideStepMs = 5 * 60_000;

/** Seconds. */
const sessionTtl = { min: 60, max: 7 * 86_400 };

export function sessionHandlers(writer: Writer): Pick<Handlers<VaultProtocol>, Names> {
  const { state, commit, now } = writer;

  function inVaults(vaultId: string, names: readonly string[] | undefined): boolean {
    return names === undefined || names.includes(vaultName(state, vaultId));
  }

  async function identify(hash: string): Promise<Identity | null> {
    const session = state.sessions.get(hash);
    if (session) {
      const { id, label, vault_id, expires_at_ms } = session;
      if (isOver(expires_at_ms, now())) return null;
      return { kind: 'session', id, vault: vaultName(state, vault_id), label, expires_at_ms };
    }
    const agent = state.agents.get(state.agentNames.get(hash) ?? '');
    if (agent) {
      const token = agent.tokens.find((each) => each.hash === hash);
      if (!token || isOver(token.expires_at_ms, now())) return null;
      const vaults = agent.vault_ids.map((id) => vaultName(state, id));
      return { kind: 'agent', name: agent.name, agent: agentMark(agent), vaults };
    }
    const signedIn = state.operatorSessions.get(hash);
    return signedIn ? identifyOperator(signedIn) : null;
  }

  async function identifyOperator(session: OperatorSession): Promise<Identity | null> {
    const operator = state.operators.get(session.operator);
    const { kind, hash, expires_at_ms, origin_key: originKey } = session;
    if (!operator || kind === 'login-link' || kind === 'login-code' || isOver(expires_at_ms, now()))
      return null;
    const slid = now() + operatorSessionMs;
    if (expires_at_ms !== null && slid - expires_at_ms >= slideStepMs) {
      const value = { ...session, expires_at_ms: slid };
      // Where that fails the session is what it was, which is good enough for this request.
      await commit([{ table: 'operator_sessions', key: hash, value }], null);
    }
    const vaults = operator.vault_ids.map((id) => vaultName(state, id));
    const { name, role } = operator;
    const bound = originKey === undefined ? null : { originKey };
    return { kind: 'operator', name, role, vaults, via: kind, session: hash, ...bound };
  }

  return {
    identify: ({ hash }) => identify(hash),

    'operator.byKey'({ originKey }) {
      const session = sessionOfKey(state, originKey);
      return session ? identifyOperator(session) : null;
    },

    async 'session.create'({ vault, ttlSeconds, label, by }) {
      const found = findVault(state, vault);
      if (!found.ok) return found;
      const wrong =
        ttlProblem('ttl_seconds', ttlSeconds, sessionTtl) ?? textProblem(label ?? undefined, 'label', 200);
      if (wrong) return refused(wrong);
      if (state.slots.available < 1) return refuse('overloaded', tooManySessions);
      const { token, hash } = mintToken('session');
      const session = {
        id: randomBytes(8).toString('hex'),
        hash,
        vault_id: found.value.vault.id,
        label,
        created_at: writer.timestamp(),
        created_by: by.actor,
        expires_at_ms: now() + ttlSeconds * 1000,
      };
      const change: Change = { table: 'sessions', key: hash, value: session };
      const failed = await commit([change], { action: 'session.create', by, vault, target: session.id });
      return failed ? refused(failed) : accept({ ...sessionView(state, session), token });
    },

    'session.list': ({ vaults }) =>
      [...state.sessions.values()]
        .filter(({ vault_id, expires_at_ms }) => inVaults(vault_id, vaults) && !isOver(expires_at_ms, now()))
        .map((session) => sessionView(state, session)),

    async 'session.revoke'({ id, vaults, by }) {
      const session = state.sessions.get(state.sessionHashes.get(id) ?? '');
      if (!session || !inVaults(session.vault_id, vaults)) {
        return refuse('not_found', 'There is no session of this id. It may have expired.');
      }
      const vault = vaultName(state, session.vault_id);
      const failed = await commit([{ table: 'sessions', key: session.hash, value: null }], {
        action: 'session.revoke',
        by,
        vault,
        target: id,
      });
      return failed ? refused(failed) : accept(null);
    },
  };
}

export const tooManySessions =
  'There are as many sessions and agents as this broker can count. Revoke some that are not needed.';

/** Refuses a duration that isn't a whole number of seconds within the limits. */
export function ttlProblem(
  field: string,
  seconds: number,
  { min, max }: { readonly min: number; readonly max: number },
): Problem | null {
  if (Number.isInteger(seconds) && seconds >= min && seconds <= max) return null;
  return invalid(field, `must be a whole number of seconds from ${min} to ${max}.`);
}
