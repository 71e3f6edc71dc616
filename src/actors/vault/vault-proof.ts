import type { Handlers } from '../core/behavior.ts';
import type { VaultProtocol } from './protocol.ts';
import { proofOf } from './token-proof.ts';
import type { VaultState } from './vault-state.ts';

/** Proves to who holds a token that this is the broker it is of. */
export function proofHandlers(state: VaultState): Pick<Handlers<VaultProtocol>, 'token.prove'> {
  return {
    'token.prove'(question) {
      const hash = hashNamed(state, question.token);
      return hash === null ? null : proofOf(hash, question);
    },
  };
}

/** Whether it is still valid is judged when the token itself comes: what has ended proves nothing wrong. */
function hashNamed({ operatorSessions, agents, sessions }: VaultState, name: string): string | null {
  for (const hash of operatorSessions.keys()) if (hash.startsWith(name)) return hash;
  for (const { tokens } of agents.values())
    for (const { hash } of tokens) if (hash.startsWith(name)) return hash;
  for (const hash of sessions.keys()) if (hash.startsWith(name)) return hash;
  return null;
}
