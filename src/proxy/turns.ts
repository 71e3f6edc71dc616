/** What can be put off until its turn. */
export interface Waiting {
  onTurn(): void;
  /** Its turn threw: what it carries ends. Never throws. */
  fail(error: unknown): void;
}

/** How many owners have a turn before what else has come is looked at: at 64 KiB each, about half a millisecond. */
const ownersAtOnce = 4;

/**
 * Puts off the work of whoever has much of it, so that the event loop gets its turn between two pieces: requests that
 * were sent ahead of their answers, bodies beyond some 64 KiB, TLS handshakes. Owners (a session; before it is known who
 * it is, a peer's network) take turns, whatever number of connections they have.
 */
export class Turns {
  /** In the order in which they are served; an owner that was goes to the end. */
  readonly #queues = new Map<unknown, Waiting[]>();
  #scheduled = false;
  /** Says so in the log where something of ours threw. */
  readonly failed: (error: unknown) => void;

  constructor(failed: (error: unknown) => void) {
    this.failed = failed;
  }

  /** `waiting` has its turn in a later round of the event loop, once. */
  wait(owner: unknown, waiting: Waiting): void {
    const queue = this.#queues.get(owner);
    if (queue === undefined) this.#queues.set(owner, [waiting]);
    else queue.push(waiting);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(this.#serve);
  }

  readonly #serve = (): void => {
    this.#scheduled = false;
    let left = Math.min(ownersAtOnce, this.#queues.size);
    for (const [owner, queue] of this.#queues) {
      if (left-- === 0) break;
      const next = queue.shift() as Waiting;
      this.#queues.delete(owner);
      if (queue.length > 0) this.#queues.set(owner, queue);
      try {
        next.onTurn();
      } catch (error) {
        next.fail(error);
      }
    }
    if (this.#queues.size > 0) this.#schedule();
  };
}
