import type { VaultEvent } from '../actors/vault/protocol.ts';

/** Where events are heard of. */
export interface EventSource {
  /** Calls `listener` with each event from now on. The function returned ends that. */
  subscribe(listener: (event: VaultEvent) => void): () => void;
}

export interface EventHub extends EventSource {
  publish(event: VaultEvent): void;
}

/** Hands each event to all who listen, at once and in order. Nothing is kept for those who come later. */
export function createEventHub(): EventHub {
  const listeners = new Set<(event: VaultEvent) => void>();
  return {
    publish(event) {
      // A copy: a listener may leave, or another come, while it is told.
      for (const listener of [...listeners]) listener(event);
    },
    subscribe(listener) {
      // Wrapped, so that one function may listen twice.
      const own = (event: VaultEvent) => listener(event);
      listeners.add(own);
      return () => void listeners.delete(own);
    },
  };
}
