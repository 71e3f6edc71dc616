import type { Handlers } from '../core/behavior.ts';
import { refused } from './fields.ts';
import type { Operator, OperatorSession } from './model.ts';
import { accept, type Result, refuse } from './problem.ts';
import type { OperatorView, VaultProtocol } from './protocol.ts';
import type { Change } from './store.ts';
import { mintToken } from './token.ts';
import { isOver } from './vault-expiry.ts';
import { nameProblem, vaultIdsOf } from './vault-names.ts';
import type { VaultState } from './vault-state.ts';
import { vaultName } from './vault-views.ts';
import type { Writer } from './vault-writer.ts';

type Names =
  | 'operator.list'
  | 'operator.create'
  | 'operator.remove'
  | 'operator.password'
  | 'operator.passwordHash'
  | 'operator.signIn'
  | 'operator.redeemLink'
  | 'operator.resume'
  | 'operator.signOut';

/** How long a CLI token or a cookie lasts after its last use. */
export const operatorSessionMs = 12 * 3_600_000;
const loginLinkMs = 10 * 60_000;

export function operatorHandlers(writer: Writer): Pick<Handlers<VaultProtocol>, Names> {
  const { state, commit, now } = writer;

  function find(name: string): Result<Operator> {
    const operator = state.operators.get(name);
    return operator ? accept(operator) : refuse('not_found', 'There is no operator of this name.');
  }

  function view({ name, role, vault_ids }: Operator): OperatorView {
    return { name, role, vaults: vault_ids.map((id) => vaultName(state, id)) };
  }

  function newSession(operator: string, kind: 'token' | 'cookie' | 'login-link', originKey?: string) {
    const { token, hash } = mintToken('operator');
    const expires_at_ms = now() + (kind === 'login-link' ? loginLinkMs : operatorSessionMs);
    const expires_at = new Date(expires_at_ms).toISOString();
    const bound = originKey === undefined ? null : { origin_key: originKey };
    const change = sessionChange({ hash, operator, kind, expires_at_ms, ...bound });
    // A key has one session: who signs out of it isn't signed in again by an older one.
    const before = sessionOfKey(state, originKey);
    return { token, expires_at, changes: before ? [endSession(before), change] : [change] };
  }

  /** Every session and login link of an operator, but the token file's. */
  function sessionsOf(name: string): OperatorSession[] {
    return [...state.operatorSessions.values()].filter(
      ({ operator, kind }) => operator === name && kind !== 'file',
    );
  }

  return {
    'operator.list': () => [...state.operators.values()].map(view),

    async 'operator.create'({ name, role, vaults, encoded = null, by }) {
      const wrong = nameProblem(name);
      if (wrong) return refused(wrong);
      if (state.operators.has(name)) return refuse('conflict', `There is an operator '${name}' already.`);
      const ids = vaultIdsOf(state, vaults);
      if (!ids.ok) return ids;
      const created_at = writer.timestamp();
      const value = { name, role, vault_ids: ids.value, password: encoded, created_at };
      const failed = await commit([{ table: 'operators', key: name, value }], {
        action: 'operator.create',
        by,
        target: name,
        role,
        vaults,
      });
      return failed ? refused(failed) : accept(view(value));
    },

    async 'operator.remove'({ name, by }) {
      const found = find(name);
      if (!found.ok) return found;
      if (name === 'owner') {
        return refuse('conflict', "The operator 'owner' can't be removed: the local token file is theirs.");
      }
      const changes: Change[] = [
        { table: 'operators', key: name, value: null },
        ...sessionsOf(name).map(endSession),
      ];
      const failed = await commit(changes, { action: 'operator.remove', by, target: name });
      return failed ? refused(failed) : accept(null);
    },

    async 'operator.password'({ name, encoded, keep, by }) {
      const found = find(name);
      if (!found.ok) return found;
      const value = { ...found.value, password: encoded };
      const others = sessionsOf(name).filter(({ hash }) => hash !== keep);
      const changes: Change[] = [{ table: 'operators', key: name, value }, ...others.map(endSession)];
      const failed = await commit(changes, { action: 'operator.password', by, target: name });
      return failed ? refused(failed) : accept(null);
    },

    'operator.passwordHash': ({ name }) => state.operators.get(name)?.password ?? null,

    async 'operator.signIn'({ name, kind, originKey, by }) {
      const found = find(name);
      if (!found.ok) return found;
      const { token, expires_at, changes } = newSession(name, kind, originKey);
      const failed = await commit(changes, { action: 'operator.signIn', by, target: name, as: kind });
      return failed ? refused(failed) : accept({ token, expires_at });
    },

    async 'operator.redeemLink'({ hash, originKey, by }) {
      const link = state.operatorSessions.get(hash);
      if (link?.kind !== 'login-link' || isOver(link.expires_at_ms, now())) {
        return refuse('gone', "This link was used or has expired. Run 'broker login' for a new one.");
      }
      const name = link.operator;
      const { token, changes } = newSession(name, 'cookie', originKey);
      const failed = await commit([endSession(link), ...changes], {
        action: 'operator.redeemLink',
        by,
        target: name,
      });
      return failed ? refused(failed) : accept({ name, token });
    },

    async 'operator.resume'({ originKey, by }) {
      const session = sessionOfKey(state, originKey);
      if (!session || isOver(session.expires_at_ms, now())) {
        return refuse('unauthorized', 'You are signed out. Sign in again.');
      }
      const { token, changes } = newSession(session.operator, 'cookie', originKey);
      const failed = await commit(changes, { action: 'operator.resume', by, target: session.operator });
      return failed ? refused(failed) : accept({ token });
    },

    async 'operator.signOut'({ hash, by }) {
      const session = state.operatorSessions.get(hash);
      if (!session) return accept(null);
      if (session.kind === 'file') {
        return refuse(
          'conflict',
          'The local token file does not sign out. To revoke it, remove owner.token and start the server anew.',
        );
      }
      const failed = await commit([endSession(session)], {
        action: 'operator.signOut',
        by,
        target: session.operator,
      });
      return failed ? refused(failed) : accept(null);
    },
  };
}

/** The session that a browser's key is bound to. There is one at most. */
export function sessionOfKey(
  { operatorSessions }: Pick<VaultState, 'operatorSessions'>,
  originKey: string | undefined,
): OperatorSession | undefined {
  if (originKey === undefined) return undefined;
  return [...operatorSessions.values()].find(({ origin_key }) => origin_key === originKey);
}

function sessionChange(session: OperatorSession): Change {
  return { table: 'operator_sessions', key: session.hash, value: session };
}

function endSession({ hash }: OperatorSession): Change {
  return { table: 'operator_sessions', key: hash, value: null };
}
