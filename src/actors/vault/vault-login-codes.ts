import { createHash, randomInt, timingSafeEqual } from 'node:crypto';
import type { Handlers } from '../core/behavior.ts';
import { refused } from './fields.ts';
import type { OperatorSession } from './model.ts';
import { accept, refuse } from './problem.ts';
import type { VaultProtocol } from './protocol.ts';
import { Secret } from './secret.ts';
import type { Change } from './store.ts';
import { isOver } from './vault-expiry.ts';
import type { Writer } from './vault-writer.ts';

const lifeMs = 2 * 60_000;
/** Of a million: what is guessed right within these is one of two hundred thousand codes. */
const maxWrong = 5;

/** Six digits from the terminal, by which an operator proves a change in a browser: once, within two minutes. */
export function loginCodeHandlers({
  state,
  commit,
  now,
}: Writer): Pick<Handlers<VaultProtocol>, 'operator.code' | 'operator.useCode'> {
  /** Wrong ones, by operator, since the last code was made. Forgotten at a restart, as the code soon is. */
  const wrong = new Map<string, number>();

  function codesOf(name: string): OperatorSession[] {
    return [...state.operatorSessions.values()].filter(
      ({ operator, kind }) => operator === name && kind === 'login-code',
    );
  }

  return {
    async 'operator.code'({ name, by }) {
      if (!state.operators.has(name)) return refuse('not_found', 'There is no operator of this name.');
      const code = String(randomInt(1_000_000)).padStart(6, '0');
      const expires_at_ms = now() + lifeMs;
      const value: OperatorSession = {
        hash: hashCode(name, code),
        operator: name,
        kind: 'login-code',
        expires_at_ms,
      };
      const before = codesOf(name).filter(({ hash }) => hash !== value.hash);
      wrong.delete(name);
      const changes: Change[] = [
        ...before.map(endCode),
        { table: 'operator_sessions', key: value.hash, value },
      ];
      const failed = await commit(changes, { action: 'operator.code', by, target: name });
      if (failed) return refused(failed);
      return accept({ code: new Secret(code), expires_at: new Date(expires_at_ms).toISOString() });
    },

    async 'operator.useCode'({ name, code, by }) {
      const given = Buffer.from(hashCode(name, code.reveal()));
      const row = codesOf(name).find(({ expires_at_ms }) => !isOver(expires_at_ms, now()));
      const isRight = row !== undefined && timingSafeEqual(given, Buffer.from(row.hash));
      if (!row || (!isRight && count(name) < maxWrong)) return refuse('unauthorized', wrongCode);
      wrong.delete(name);
      const action = isRight ? 'operator.useCode' : 'operator.voidCode';
      const failed = await commit([endCode(row)], { action, by, target: name });
      if (failed) return refused(failed);
      return isRight ? accept(null) : refuse('unauthorized', wrongCode);
    },
  };

  function count(name: string): number {
    const sum = (wrong.get(name) ?? 0) + 1;
    wrong.set(name, sum);
    return sum;
  }
}

const wrongCode =
  "The code is wrong, used or older than two minutes. Run 'broker login --code' for a new one.";

/** As it is stored. Who reads the store could find the digits; they are the owner. */
function hashCode(name: string, code: string): string {
  return createHash('sha256').update(`login-code:${name}:${code}`).digest('hex');
}

function endCode({ hash }: OperatorSession): Change {
  return { table: 'operator_sessions', key: hash, value: null };
}
