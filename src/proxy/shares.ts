import { randomFillSync } from 'node:crypto';
import { slotKeyBytes, slotOf } from '../actors/vault/network.ts';
import { RATE_SLOTS } from '../actors/vault/state.ts';
import { takeRate } from './gcra.ts';
import { LaneCounts } from './lane-counts.ts';

/** Memory that the lanes share, so many of them: the key of the networks' slots, then what is counted. */
export function shareMemory(lanes: number): SharedArrayBuffer {
  const counts = LaneCounts.bytes(RATE_SLOTS + networkSlots + 2, lanes);
  const shared = new SharedArrayBuffer(slotKeyBytes + 8 * networkSlots + counts);
  randomFillSync(new Uint8Array(shared, 0, slotKeyBytes));
  return shared;
}

/** Counters by network; two that fall into one slot share it. */
const networkSlots = 4096;
/** How often a network may ask without any token (407), a second and at once: the clients of a whole site may share it. */
const askingRate = { rps: 200, burst: 1000 };

/** What sessions have of things that all lanes share out, in shared memory: another lane is no way around a bound. */
export class Shares {
  /** Look-ups of names under way, by a session's slot. */
  readonly lookups: LaneCounts;
  /** The same of all sessions, in slot 0. */
  readonly allLookups: LaneCounts;
  /** Look-ups that wait for a thread, in slot 0. */
  readonly waitingLookups: LaneCounts;
  /** Client connections, by `networkSlot`. */
  readonly connections: LaneCounts;
  readonly #asked: BigInt64Array;
  readonly #key: Uint8Array;

  constructor(shared: SharedArrayBuffer, lanes: number, lane: number) {
    // A copy: cryptography takes no shared memory.
    this.#key = new Uint8Array(new Uint8Array(shared, 0, slotKeyBytes));
    this.#asked = new BigInt64Array(shared, slotKeyBytes, networkSlots);
    let at = slotKeyBytes + 8 * networkSlots;
    const next = (slots: number): LaneCounts => {
      const counts = new LaneCounts(shared, at, slots, lanes, lane);
      at += LaneCounts.bytes(slots, lanes);
      return counts;
    };
    this.lookups = next(RATE_SLOTS);
    this.allLookups = next(1);
    this.waitingLookups = next(1);
    this.connections = next(networkSlots);
  }

  networkSlot(network: string): number {
    return slotOf(this.#key, network, networkSlots);
  }

  /** A request of a network came without a token. 0: it is told so; else the seconds that it has to wait. */
  asked(network: string, nowMicros: number): number {
    return takeRate(this.#asked, this.networkSlot(network), askingRate, nowMicros);
  }
}
