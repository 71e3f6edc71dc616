import type { MessagePort } from 'node:worker_threads';
import { type Delta, EPOCH_WORD, type StateMessage } from './state.ts';
import { packFull } from './state-packing.ts';

interface Lane {
  readonly port: MessagePort;
  readonly epoch: Int32Array;
}

/**
 * Tells the lanes. Whatever `publish` says has been posted to every lane, and every lane's epoch word has been moved on
 * after that, when it returns: a request that begins later finds its lane behind, and the lane catches up first.
 *
 * It outlives restarts of the vault actor, and the lanes' ports with it.
 */
export interface Publisher {
  /** A lane comes up, or comes back with another port: it gets everything. */
  attach(lane: number, port: MessagePort, epoch: SharedArrayBuffer, full: readonly Delta[]): void;
  detach(lane: number): void;
  /** The deltas of one transaction; none is no news. */
  publish(deltas: readonly Delta[]): void;
  /** Everything anew, to every lane. */
  publishAll(full: readonly Delta[]): void;
}

export function createPublisher(): Publisher {
  const lanes = new Map<number, Lane>();
  let epoch = 1;

  function broadcast(full: boolean, deltas: readonly Delta[]): void {
    // Wraps around: lanes go by the difference.
    epoch = (epoch + 1) | 0;
    const message: StateMessage = full ? packFull(epoch, deltas) : { epoch, full, deltas };
    for (const { port } of lanes.values()) port.postMessage(message);
    for (const lane of lanes.values()) Atomics.store(lane.epoch, EPOCH_WORD, epoch);
  }

  function detach(number: number): void {
    lanes.get(number)?.port.close();
    lanes.delete(number);
  }

  return {
    attach(number, port, shared, full) {
      if (lanes.get(number)?.port !== port) detach(number);
      const lane = { port, epoch: new Int32Array(shared) };
      lanes.set(number, lane);
      // A lane that dies closes its end.
      port.once('close', () => {
        if (lanes.get(number) === lane) lanes.delete(number);
      });
      port.postMessage(packFull(epoch, full));
      Atomics.store(lane.epoch, EPOCH_WORD, epoch);
    },
    detach,
    publish(deltas) {
      if (deltas.length > 0) broadcast(false, deltas);
    },
    publishAll(full) {
      broadcast(true, full);
    },
  };
}
