import type { Clock } from './clock.ts';

/** Something with a deadline. `slot` is its place in the heap, -1 outside; it belongs to the heap. */
export interface Expiring {
  /** Monotonic ms. */
  readonly deadline: number;
  slot: number;
}

export interface Deadlines<T extends Expiring> {
  add(item: T): void;
  /** Does nothing for an item that isn't in. */
  remove(item: T): void;
  /** Cancels the timer. Items still in are forgotten. */
  close(): void;
}

/**
 * Calls `expire` for each item at its deadline, with one timer for all: a binary heap in which each item knows its
 * place, so that the common case, an answer long before the deadline, takes it out in O(log of the asks in flight).
 */
export function createDeadlines<T extends Expiring>(clock: Clock, expire: (item: T) => void): Deadlines<T> {
  const heap: T[] = [];
  let armedFor = Number.POSITIVE_INFINITY;
  let disarm: (() => void) | undefined;

  function put(item: T, slot: number): void {
    heap[slot] = item;
    item.slot = slot;
  }

  function up(item: T, from: number): void {
    let slot = from;
    while (slot > 0) {
      const above = (slot - 1) >> 1;
      if (heap[above].deadline <= item.deadline) break;
      put(heap[above], slot);
      slot = above;
    }
    put(item, slot);
  }

  function down(item: T, from: number): void {
    let slot = from;
    for (;;) {
      let below = 2 * slot + 1;
      if (below >= heap.length) break;
      if (below + 1 < heap.length && heap[below + 1].deadline < heap[below].deadline) below++;
      if (heap[below].deadline >= item.deadline) break;
      put(heap[below], slot);
      slot = below;
    }
    put(item, slot);
  }

  function remove(item: T): void {
    const { slot } = item;
    if (slot < 0) return;
    item.slot = -1;
    const last = heap.pop() as T;
    if (last === item) return;
    if (slot > 0 && last.deadline < heap[(slot - 1) >> 1].deadline) up(last, slot);
    else down(last, slot);
  }

  // The timer isn't moved when the earliest item leaves: it fires once for nothing instead of being set per ask.
  function arm(): void {
    if (heap.length === 0 || heap[0].deadline >= armedFor) return;
    disarm?.();
    armedFor = heap[0].deadline;
    disarm = clock.setTimer(Math.max(0, armedFor - clock.monotonic()), fire);
  }

  function fire(): void {
    armedFor = Number.POSITIVE_INFINITY;
    disarm = undefined;
    const now = clock.monotonic();
    while (heap.length > 0 && heap[0].deadline <= now) {
      const item = heap[0];
      remove(item);
      expire(item);
    }
    arm();
  }

  return {
    add(item) {
      heap.push(item);
      up(item, heap.length - 1);
      arm();
    },
    remove,
    close() {
      disarm?.();
      disarm = undefined;
      armedFor = Number.POSITIVE_INFINITY;
      for (const item of heap) item.slot = -1;
      heap.length = 0;
    },
  };
}
