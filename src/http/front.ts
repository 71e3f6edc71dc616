import { createBrowser } from './browser.ts';
import { failureFields } from './failure.ts';
import type { FrontOptions } from './front-options.ts';
import { createHeld } from './held.ts';
import type { Incoming } from './incoming.ts';
import { createHistory } from './pages/history.ts';
import { createPipeline } from './pipeline.ts';
import type { Reply } from './reply.ts';
import { frontRoutes } from './routes.ts';
import { listen } from './server.ts';
import { createSignatures } from './signature.ts';

export interface Front {
  readonly port: number;
  /** What links begin with. */
  readonly baseUrl: string;
  /**
   * Takes no further connection, answers what is held open, and lets the rest finish. Once: later calls wait for the
   * first.
   * @param deadlineMs after which what is left is cut off; default 10 s
   */
  close(deadlineMs?: number): Promise<void>;
}

const pollMs = 10;

/**
 * Starts the HTTP API and its pages (protocol, "HTTP API").
 *
 * @throws Error (as a rejection) where it can't listen, saying what to do
 */
export async function startFront(options: FrontOptions): Promise<Front> {
  const { vault, clock, log, health } = options;
  const { host, port, tls, socketPath, maxConnections } = options.address;
  const held = createHeld(vault, clock);
  let answer: (incoming: Incoming) => Promise<Reply>;

  const server = listen({
    host,
    port,
    tls,
    socketPath,
    maxConnections,
    // No request comes before this turn ends, and with it the routes are there.
    answer: (incoming) => answer(incoming),
    onError: (error) => log('warn', 'A reply broke off in its middle.', failureFields(error)),
  });
  const baseUrl = options.address.baseUrl?.replace(/\/+$/, '') ?? originOf(host, server.port, tls !== null);
  const browser = createBrowser(baseUrl, tls !== null);
  const history = createHistory(health.stats, clock);
  const parts = { ...options, baseUrl, held, browser, signatures: createSignatures(clock), history };
  answer = createPipeline(options, frontRoutes(parts), browser);

  let closed: Promise<void> | undefined;

  async function close(deadlineMs: number): Promise<void> {
    server.stopListening();
    held.stop();
    history.stop();
    const end = clock.monotonic() + deadlineMs;
    while (server.active() > 0 && clock.monotonic() < end) {
      await new Promise<void>((resolve) => clock.setTimer(pollMs, resolve));
    }
    server.close();
  }

  return {
    port: server.port,
    baseUrl,
    close(deadlineMs = 10_000) {
      closed ??= close(deadlineMs);
      return closed;
    },
  };
}

function originOf(host: string, port: number, isTls: boolean): string {
  return `${isTls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
