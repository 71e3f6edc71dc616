import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../actors/core/clock.ts';
import type { Ref } from '../actors/core/protocol.ts';
import { problem, type Result } from '../actors/vault/problem.ts';
import type { Identity, VaultProtocol } from '../actors/vault/protocol.ts';
import { actorOf } from './caller.ts';
import type { Call } from './route.ts';

/** A token that is revoked, or has expired, is noticed within this and the vault's answer: one second together. */
const checkMs = 500;

/** Of one caller at a time, by whatever tokens it has. */
const maxHeld = 64;

/** Why a held request ends. `over`: nobody waits for it any more; `changed`: its caller may see other things now than when it began. */
type Over = 'over' | 'stopping' | 'revoked' | 'changed';

/** Requests that stay open, waiting for something to happen. */
export interface Held {
  /**
   * Takes a request in. The signal aborts, with an `Over` as its reason, when it has to end, and at the latest when its
   * reply is sent; `release` has to be called in any case. Refused where its caller holds too many.
   */
  hold(
    call: Pick<Call<'any'>, 'incoming' | 'identity' | 'tokenHash'>,
  ): Result<{ readonly over: AbortSignal; release(): void }>;
  /** Ends all of them, and each that comes. */
  stop(): void;
}

export function createHeld(vault: Ref<VaultProtocol>, clock: Clock): Held {
  const tokens = new Map<string, { readonly identity: Identity; readonly requests: Set<AbortController> }>();
  /** How many each caller holds. */
  const counts = new Map<string, number>();
  let isStopping = false;
  let isChecking = false;
  let cancelCheck: (() => void) | null = null;

  function end(requests: Iterable<AbortController>, why: Over): void {
    for (const request of [...requests]) request.abort(why);
  }

  async function check(): Promise<void> {
    cancelCheck = null;
    isChecking = true;
    await Promise.all(
      [...tokens].map(async ([hash, { identity, requests }]) => {
        try {
          const now = await vault.ask('identify', { hash });
          if (now === null) end(requests, 'revoked');
          else if (!isDeepStrictEqual(now, identity)) end(requests, 'changed');
        } catch {
          // The vault is busy or starts anew: the next check will tell.
        }
      }),
    );
    isChecking = false;
    schedule();
  }

  function schedule(): void {
    if (tokens.size > 0 && !isChecking) cancelCheck ??= clock.setTimer(checkMs, () => void check());
  }

  return {
    hold({ incoming, identity, tokenHash }) {
      const token = tokens.get(tokenHash) ?? { identity, requests: new Set() };
      const actor = actorOf(identity);
      const count = counts.get(actor) ?? 0;
      if (count >= maxHeld) {
        return { ok: false, problem: problem('rate_limited', tooManyHeld, undefined, 5) };
      }
      const request = new AbortController();
      const onOver = () => request.abort('over' satisfies Over);
      counts.set(actor, count + 1);
      token.requests.add(request);
      tokens.set(tokenHash, token);
      incoming.over.addEventListener('abort', onOver, { once: true });
      if (incoming.over.aborted) onOver();
      if (isStopping) request.abort('stopping' satisfies Over);
      schedule();
      return {
        ok: true,
        value: {
          over: request.signal,
          release() {
            incoming.over.removeEventListener('abort', onOver);
            if (!token.requests.delete(request)) return;
            const left = (counts.get(actor) ?? 1) - 1;
            if (left > 0) counts.set(actor, left);
            else counts.delete(actor);
            if (token.requests.size > 0) return;
            tokens.delete(tokenHash);
            if (tokens.size > 0) return;
            cancelCheck?.();
            cancelCheck = null;
          },
        },
      };
    },
    stop() {
      isStopping = true;
      for (const { requests } of tokens.values()) end(requests, 'stopping');
    },
  };
}

const tooManyHeld = `This caller holds ${maxHeld} requests open already. End some of them first.`;
