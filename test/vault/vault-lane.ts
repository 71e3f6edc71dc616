import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads';
import type { Ref } from '../../src/actors/core/protocol.ts';
import type { VaultProtocol } from '../../src/actors/vault/protocol.ts';
import { type Delta, EPOCH_WORD, type StateMessage } from '../../src/actors/vault/state.ts';
import { unpack } from '../../src/actors/vault/state-packing.ts';
import { textOf } from '../../src/actors/vault/values.ts';

/** What a lane knows, by what it is about. */
export type Known = Map<string, Delta>;

export interface FakeLane {
  readonly known: Known;
  readonly word: Int32Array;
  readonly epoch: SharedArrayBuffer;
  /** Takes in what has been posted; gives the messages. Fails where the epochs don't fit. */
  drain(): StateMessage[];
  close(): void;
}

let lanes = 0;

/** A lane on a real MessagePort that does what `StateReader` does. */
export async function attachLane(
  vault: Ref<VaultProtocol>,
  epoch: SharedArrayBuffer = new SharedArrayBuffer(4),
): Promise<FakeLane> {
  const { port1, port2 } = new MessageChannel();
  await vault.ask('lane.attach', { lane: lanes++, port: port1, epoch });
  const word = new Int32Array(epoch);
  const known: Known = new Map();
  return {
    known,
    word,
    epoch,
    drain() {
      const messages: StateMessage[] = [];
      for (let next = receiveMessageOnPort(port2); next; next = receiveMessageOnPort(port2)) {
        const message: StateMessage = next.message;
        if (message.full) known.clear();
        for (const delta of unpack(message)) take(known, delta);
        messages.push(message);
      }
      const last = messages.at(-1);
      if (last && last.epoch !== Atomics.load(word, EPOCH_WORD)) throw new Error('the lane is behind');
      return messages;
    },
    close: () => port2.close(),
  };
}

function take(known: Known, delta: Delta): void {
  const key = `${delta.type.replace('-gone', '')} ${subject(delta)}`;
  if (delta.type.endsWith('-gone')) known.delete(key);
  else known.set(key, plain(delta));
}

/** As tests write it: a value that lies in shared memory as its text. */
function plain(delta: Delta): Delta {
  if (delta.type !== 'credential' || delta.value === null) return delta;
  return { ...delta, value: textOf(delta.value) };
}

function subject(delta: Delta): string {
  switch (delta.type) {
    case 'vault':
    case 'vault-gone':
      return delta.id;
    case 'service':
      return `${delta.vault} ${delta.service.host}`;
    case 'service-gone':
      return `${delta.vault} ${delta.host}`;
    case 'credential':
    case 'credential-gone':
      return `${delta.vault} ${delta.key}`;
    case 'session':
    case 'session-gone':
      return delta.hash;
  }
}

/** What a lane that comes up now is told, sorted; without slots, which are given out anew at each start. */
export async function snapshot(vault: Ref<VaultProtocol>): Promise<[string, Delta][]> {
  const lane = await attachLane(vault);
  lane.drain();
  lane.close();
  return comparable(lane.known);
}

export function comparable(known: Known): [string, Delta][] {
  const entries = [...known].map(([key, delta]): [string, Delta] => [key, withoutSlots(delta)]);
  return entries.sort(([a], [b]) => (a < b ? -1 : 1));
}

function withoutSlots(delta: Delta): Delta {
  if (delta.type !== 'session') return delta;
  return { ...delta, vaults: delta.vaults.map(({ id }) => ({ id, slot: 0 })) };
}
