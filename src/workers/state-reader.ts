import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import { EPOCH_WORD, type StateMessage } from '../actors/vault/state.ts';
import { unpack } from '../actors/vault/state-packing.ts';
import type { LaneState } from '../proxy/lane-state.ts';

/**
 * The lane's side of the epoch gate. "Applied" has to mean that the very next request on any lane sees it:
 * the vault actor posts a change on each lane's port, then moves the shared epoch word on, then answers. A
 * lane that finds the word moved takes in its port, synchronously, before it decides anything. A message
 * event would come too late: it waits for its turn in the event loop, and a request may be before it.
 */
export class StateReader {
  readonly #port: MessagePort;
  readonly #word: Int32Array;
  readonly #state: LaneState;
  #applied: number | null = null;
  #broken = false;

  constructor(port: MessagePort, epoch: SharedArrayBuffer, state: LaneState) {
    this.#port = port;
    this.#word = new Int32Array(epoch);
    this.#state = state;
  }

  /** One atomic load when nothing has changed. false: still behind after taking everything in. */
  gate(): boolean {
    const epoch = Atomics.load(this.#word, EPOCH_WORD);
    if (epoch === this.#applied) return true;
    return !this.#broken && this.#drain(epoch);
  }

  #drain(epoch: number): boolean {
    for (;;) {
      const received = receiveMessageOnPort(this.#port);
      if (received === undefined) break;
      const message = received.message as StateMessage;
      try {
        if (message.full) this.#state.clear();
        this.#state.apply(unpack(message));
      } catch (error) {
        this.#fail(error);
        return false;
      }
      this.#applied = message.epoch;
    }
    // Ahead of the word is not behind: a change is posted a moment before the word moves on. The word wraps around.
    return this.#applied !== null && ((this.#applied - epoch) | 0) >= 0;
  }

  /** Half a change is in: nothing may be decided on such a state, and no request is to blame. The thread ends over it. */
  #fail(error: unknown): void {
    this.#broken = true;
    this.#applied = null;
    setImmediate(() => {
      throw error;
    });
  }
}
