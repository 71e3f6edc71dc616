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

/**
 * Whether it is still valid is judged when the token itself comes: what has ended proves nothing wrong. Anybody may ask
 * for any name: of sessions, which can be very many, none is gone through.
 */
function hashNamed({ operatorSessions, agentNames, sessionNames }: VaultState, name: string): string | null {
  const session = sessionNames.get(name);
  if (session !== undefined) return session;
  for (const hashes of [operatorSessions, agentNames])
    for (const hash of hashes.keys()) if (hash.startsWith(name)) return hash;
  return null;
}
