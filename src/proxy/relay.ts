import type net from 'node:net';
import { Intake } from './intake.ts';
import type { Lane } from './lane.ts';
import type { SessionEntry } from './lane-state.ts';
import { lingerMs } from './linger.ts';
import type { Swept } from './sweep.ts';
import type { Upstream, UpstreamUser } from './upstreams.ts';

/** Without a byte for so long, a relayed connection may end when the lane stops, in ms. */
const quietMs = 1_000;

/**
 * Bytes both ways as they come, with back-pressure: an upgraded connection, or a tunnel that is not
 * decrypted. Half-close passes through; a broken side breaks the other; it ends with its session.
 */
export class Relay implements UpstreamUser, Swept {
  deadline: number;
  readonly session: SessionEntry;
  bytesUp = 0;
  bytesDown = 0;
  readonly #lane: Lane;
  readonly #client: net.Socket;
  readonly #upstream: net.Socket;
  readonly #fromClient: Intake;
  readonly #fromUpstream: Pick<Upstream, 'pause' | 'resume'>;
  readonly #onEnd: (error: string | null) => void;
  #ended = false;
  /** Both sides were told that it ends. */
  #told = false;

  /** @param onEnd called once, when both sides are done; with what ended it, unless it was one of them */
  constructor(
    lane: Lane,
    client: net.Socket,
    upstream: Upstream,
    session: SessionEntry,
    onEnd: (error: string | null) => void,
  ) {
    this.#lane = lane;
    this.#client = client;
    this.#upstream = upstream.socket;
    this.#fromUpstream = upstream;
    this.#fromClient = new Intake(client, lane.turns, session);
    this.session = session;
    this.#onEnd = onEnd;
    this.deadline = lane.sweeper.now + lane.timeouts.relay;
  }

  /** The upstream's events come through `UpstreamUser`; the client's are taken here. */
  start(fromClient: Buffer, fromUpstream: Buffer): void {
    this.#lane.sweeper.add(this);
    const client = this.#client;
    const on = (event: string, tell: (chunk: Buffer) => void): void => {
      client.on(event, (chunk) => {
        try {
          tell(chunk);
        } catch (error) {
          this.fail(error);
        }
      });
    };
    on('data', (chunk) => this.#onClientData(chunk));
    on('end', () => this.#upstream.end());
    on('drain', () => this.#fromUpstream.resume());
    client.on('error', () => {});
    on('close', () => {
      this.#upstream.destroy();
      this.#end(null);
    });
    if (fromClient.length > 0) this.#onClientData(fromClient);
    if (fromUpstream.length > 0) this.onUpstreamData(fromUpstream);
    this.#fromClient.resume();
    this.#fromUpstream.resume();
    if (client.destroyed) this.#cutOff(null);
    else if (client.readableEnded) this.#upstream.end();
  }

  #onClientData(chunk: Buffer): void {
    if (this.#upstream.destroyed) return;
    if (this.#told) return;
    this.bytesUp += chunk.length;
    this.#touch();
    this.#fromClient.took(chunk.length);
    if (!this.#upstream.write(chunk)) this.#fromClient.pause();
  }

  onUpstreamData(chunk: Buffer): void {
    if (this.#told) return;
    this.bytesDown += chunk.length;
    this.#touch();
    // A copy: the chunk is the lane's to use again.
    if (!this.#client.write(Buffer.from(chunk))) this.#fromUpstream.pause();
  }

  onUpstreamEnd(): void {
    this.#client.end();
  }

  onUpstreamDrain(): void {
    this.#fromClient.resume();
  }

  onUpstreamClose(): void {
    // What was received has been written; a clean end lets it drain, anything else cuts it off.
    if (!this.#client.writableEnded) this.#client.destroy();
    else {
      // The client need not close for its part: it is given as long as for the next piece of a body.
      if (!this.#told) this.deadline = this.#lane.sweeper.now + this.#lane.timeouts.body;
      this.#fromClient.resume();
    }
  }

  onDeadline(): void {
    this.#cutOff(this.#told ? 'stopped' : 'timeout');
  }

  onRevoked(why = 'unauthorized'): void {
    this.#cutOff(why);
  }

  /** What goes through has no end that could be waited for, but for a pause. */
  onStop(): void {
    const { now } = this.#lane.sweeper;
    if (this.#told || this.deadline - this.#lane.timeouts.relay > now - quietMs) return;
    this.#told = true;
    this.deadline = now + lingerMs;
    this.#client.end();
    this.#upstream.end();
  }

  fail(error: unknown): void {
    this.#lane.failed(error, null);
    try {
      this.#cutOff('internal');
    } catch (again) {
      this.#lane.failed(again, null);
    }
  }

  #cutOff(error: string | null): void {
    this.#client.destroy();
    this.#upstream.destroy();
    this.#end(error);
  }

  #touch(): void {
    if (!this.#told) this.deadline = this.#lane.sweeper.now + this.#lane.timeouts.relay;
  }

  #end(error: string | null): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#lane.sweeper.remove(this);
    this.#onEnd(this.#told && error === null ? 'stopped' : error);
  }
}
