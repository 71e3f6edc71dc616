import type { MessagePort } from 'node:worker_threads';
import type { LaneState } from '../../../src/proxy/lane-state.ts';
import { StateReader as Gated } from '../../../src/workers/state-reader.ts';

/** How long after it was posted a change is taken in, in ms: what a busy event loop does to a message event. */
const delayMs = 5;

/** What a lane would be without the gate: its state comes when the event loop gets to it, and no request waits for it. */
export class StateReader {
  readonly #gated: Gated;

  constructor(port: MessagePort, epoch: SharedArrayBuffer, state: LaneState) {
    this.#gated = new Gated(port, epoch, state);
    // The state that a lane starts with isn't in question.
    this.#gated.gate();
    setInterval(() => this.#gated.gate(), delayMs).unref();
  }

  gate(): boolean {
    return true;
  }
}
