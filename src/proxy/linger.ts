import type net from 'node:net';
import type { Lane } from './lane.ts';
import type { Swept } from './sweep.ts';

/**
 * A connection that is over is read on for a moment, so that what it was told last arrives before a reset: for so long
 * once all is written, in ms, and no more than so many bytes.
 */
export const lingerMs = 2_000;
export const lingerBytes = 1024 * 1024;

/** Ends a connection that nobody else has after `last` is written. */
export class Linger implements Swept {
  deadline: number;
  readonly session = null;
  readonly #socket: net.Socket;
  #left = lingerBytes;

  constructor(lane: Lane, socket: net.Socket, last: Buffer) {
    this.#socket = socket;
    this.deadline = lane.sweeper.now + lingerMs;
    lane.sweeper.add(this);
    socket.on('error', () => {});
    socket.on('end', () => socket.destroy());
    socket.on('close', () => lane.sweeper.remove(this));
    socket.on('data', (chunk: Buffer) => {
      this.#left -= chunk.length;
      if (this.#left < 0) socket.pause();
    });
    socket.end(last);
    socket.resume();
  }

  onDeadline(): void {
    this.#socket.destroy();
  }

  onRevoked(): void {
    this.#socket.destroy();
  }

  fail(): void {
    this.#socket.destroy();
  }
}
