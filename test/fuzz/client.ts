import net from 'node:net';
import type { TestLane } from '../support/lane.ts';
import { patience, turn } from './recorder.ts';

/** A tunnel to one authority for cleartext HTTP, and what came out of it. */
export interface Tunnel {
  /** Latin1; what came behind the answer to CONNECT. */
  readonly received: string;
  readonly ended: boolean;
  /** It ended with a reset. */
  readonly reset: boolean;
  /** Writes the stream cut at `cuts`, each part in a turn of the event loop of its own. */
  write(stream: Buffer, cuts: readonly number[]): Promise<void>;
  /** true once `done` holds, asked again whenever something comes; false where it doesn't come to that. */
  until(done: () => boolean): Promise<boolean>;
  /** Sends no more. */
  end(): void;
  destroy(): void;
}

export async function openTunnel(lane: TestLane, vault: string, authority: string): Promise<Tunnel> {
  const socket = net.connect({ port: lane.port, host: '127.0.0.1', noDelay: true });
  let received = '';
  let ended = false;
  let reset = false;
  let notice: (() => void) | null = null;
  socket.on('data', (chunk) => {
    received += chunk.latin1Slice();
    notice?.();
  });
  const end = () => {
    ended = true;
    notice?.();
  };
  socket.on('end', end);
  socket.on('close', end);
  socket.on('error', (error: NodeJS.ErrnoException) => {
    reset ||= error.code === 'ECONNRESET';
  });
  const until = (done: () => boolean): Promise<boolean> =>
    new Promise((resolve) => {
      const settle = (held: boolean) => {
        clearTimeout(timer);
        notice = null;
        resolve(held);
      };
      const timer = setTimeout(settle, patience, false);
      notice = () => {
        if (done() || ended) settle(done());
      };
      notice();
    });
  const basic = Buffer.from(`${lane.tokens[vault]}:${vault}`).toString('base64');
  socket.write(
    `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\nProxy-Authorization: Basic ${basic}\r\n\r\n`,
  );
  const opened = await until(() => received.includes('\r\n\r\n'));
  if (!opened || !received.startsWith('HTTP/1.1 200 ')) throw new Error(`No tunnel: ${received}`);
  received = received.slice(received.indexOf('\r\n\r\n') + 4);
  return {
    get received() {
      return received;
    },
    get ended() {
      return ended;
    },
    get reset() {
      return reset;
    },
    async write(stream, cuts) {
      for (let i = 0; i <= cuts.length; i++) {
        if (ended) return;
        socket.write(stream.subarray(cuts[i - 1] ?? 0, cuts[i] ?? stream.length));
        if (i < cuts.length) await turn();
      }
    },
    until,
    end: () => socket.end(),
    destroy: () => socket.destroy(),
  };
}
