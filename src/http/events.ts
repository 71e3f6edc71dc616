import type { Identity, VaultEvent } from '../actors/vault/protocol.ts';
import { actorOf, administers, agentIdOf } from './caller.ts';
import { createChannel } from './channel.ts';
import { stream } from './reply.ts';
import { type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';

/** Proxies on the way drop connections that are silent for long. */
const keepAliveMs = 15_000;
/** What the client waits before it comes back. */
const retryMs = 3000;
/** UTF-16 units. */
const maxBehind = 256 * 1024;

/** What happens, as it happens: server-sent events (WHATWG HTML, "Server-sent events"). */
export function eventRoutes({ held, events, clock }: FrontParts): Route[] {
  return [
    route('GET', '/v1/events', { auth: 'any', vault: 'header-if-any' }, (call) => {
      const { identity, vault } = call;
      const holding = held.hold(call);
      if (!holding.ok) return holding.problem;
      const { over, release } = holding.value;
      const channel = createChannel(maxBehind);
      // At once, so that the client knows that it is heard.
      channel.push(`retry: ${retryMs}\n\n`);

      const unsubscribe = events.subscribe((event) => {
        if (isVisible(event, identity, vault)) channel.push(format(event));
      });
      let cancelTimer = clock.setTimer(keepAliveMs, function beat() {
        channel.push(': still here\n\n');
        cancelTimer = clock.setTimer(keepAliveMs, beat);
      });
      function end(): void {
        channel.end();
        cancelTimer();
        unsubscribe();
        release();
      }
      over.addEventListener('abort', end, { once: true });
      if (over.aborted) end();
      return stream(channel, 'text/event-stream');
    }),
  ];
}

/** An agent hears of its own proposals, an operator of all in the vaults that they administer. */
function isVisible(event: VaultEvent, identity: Identity, vault: string | null): boolean {
  if (vault !== null && event.vault !== vault) return false;
  if (identity.kind === 'operator') return administers(identity, event.vault);
  const isOwn = event.actor === actorOf(identity) && event.agent_id === agentIdOf(identity);
  return isOwn && event.type.startsWith('proposal.');
}

function format({ type, vault, actor, at, data }: VaultEvent): string {
  // JSON has no line feeds of its own, so it is one line of data.
  return `event: ${type}\ndata: ${JSON.stringify({ ...data, type, vault, actor, at })}\n\n`;
}
