import type { Handlers } from '../core/behavior.ts';
import { refused } from './fields.ts';
import type { Operator, OperatorSession } from './model.ts';
import { accept, type Result, refuse } from './problem.ts';
import type { OperatorView, VaultProtocol } from './protocol.ts';
import type { Change } from './store.ts';
import { mintToken } from './token.ts';
import { isOver } from './vault-expiry.ts';
import { nameProblem, vaultIdsOf } from './vault-names.ts';
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

  function newSession(operator: string, kind: 'token' | 'cookie' | 'login-link') {
    const { token, hash } = mintToken('operator');
    const expires_at_ms = now() + (kind === 'login-link' ? loginLinkMs : operatorSessionMs);
    const expires_at = new Date(expires_at_ms).toISOString();
    return { token, expires_at, change: sessionChange({ hash, operator, kind, expires_at_ms }) };
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

    async 'operator.signIn'({ name, kind, by }) {
      const found = find(name);
      if (!found.ok) return found;
      const { token, expires_at, change } = newSession(name, kind);
      const failed = await commit([change], { action: 'operator.signIn', by, target: name, as: kind });
      return failed ? refused(failed) : accept({ token, expires_at });
    },

    async 'operator.redeemLink'({ hash, by }) {
      const link = state.operatorSessions.get(hash);
      if (link?.kind !== 'login-link' || isOver(link.expires_at_ms, now())) {
        return refuse('gone', "This link was used or has expired. Run 'broker login' for a new one.");
      }
      const name = link.operator;
      const { token, change } = newSession(name, 'cookie');
      const failed = await commit([endSession(link), change], {
        action: 'operator.redeemLink',
        by,
        target: name,
      });
      return failed ? refused(failed) : accept({ name, token });
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

function sessionChange(session: OperatorSession): Change {
  return { table: 'operator_sessions', key: session.hash, value: session };
}

function endSession({ hash }: OperatorSession): Change {
  return { table: 'operator_sessions', key: hash, value: null };
}
