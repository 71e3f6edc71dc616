import type net from 'node:net';
import type { Turns, Waiting } from './turns.ts';

/** What a connection takes in before it waits for its owner's turn, in bytes. */
const bytesPerTurn = 64 * 1024;

/**
 * The reading side of one socket. It stops where what was read can't be passed on, and after each 64 KiB until its
 * owner's turn: a read is repeated at once while there is more to read, up to 2 MiB, and all others would wait for it.
 */
export class Intake implements Waiting {
  /** Whose turn it waits for. */
  owner: unknown;
  readonly #socket: net.Socket;
  readonly #turns: Turns;
  #taken = 0;
  #held = false;
  #waits = false;

  constructor(socket: net.Socket, turns: Turns, owner: unknown) {
    this.#socket = socket;
    this.#turns = turns;
    this.owner = owner;
  }

  /** Counts what came. */
  took(bytes: number): void {
    this.#taken += bytes;
    if (this.#taken < bytesPerTurn || this.#waits) return;
    this.#taken = 0;
    this.#waits = true;
    this.#socket.pause();
    this.#turns.wait(this.owner, this);
  }

  /** What comes can't be passed on for now. */
  pause(): void {
    this.#held = true;
    this.#socket.pause();
  }

  resume(): void {
    this.#held = false;
    if (!this.#waits) this.#socket.resume();
  }

  onTurn(): void {
    this.#waits = false;
    if (!this.#held) this.#socket.resume();
  }

  fail(error: unknown): void {
    this.#turns.failed(error);
    this.#socket.destroy();
  }
}
