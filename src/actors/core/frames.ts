import type { ActorErrorCode } from './errors.ts';
import type { DeathReason } from './protocol.ts';

/** From the side that holds remote refs to the side where the actors live. */
export type Request =
  | { link: 'tell'; to: string; message: string; body: unknown }
  | {
      link: 'ask';
      id: number;
      to: string;
      message: string;
      body: unknown;
      /** Milliseconds left when it was sent. */
      ms: number;
      /** Then, by `systemClock.monotonic()`, which is one scale for the process: time in the port counts too. */
      sent: number;
    };

/** The other way. `credits`: how many messages have left their mailboxes since the last frame that said so. */
export type Response =
  | { link: 'answer'; id: number; value: unknown; credits: number }
  | { link: 'refusal'; id: number; code: ActorErrorCode; credits: number }
  | { link: 'credits'; credits: number }
  | { link: 'dead'; to: string; reason: DeathReason };

/** A port may carry links both ways and a heartbeat as well, so that everyone skips what isn't theirs. */
export function isRequest(data: unknown): data is Request {
  const kind = kindOf(data);
  return kind === 'tell' || kind === 'ask';
}

export function isResponse(data: unknown): data is Response {
  const kind = kindOf(data);
  return kind === 'answer' || kind === 'refusal' || kind === 'credits' || kind === 'dead';
}

function kindOf(data: unknown): unknown {
  return typeof data === 'object' && data !== null && 'link' in data ? data.link : undefined;
}
