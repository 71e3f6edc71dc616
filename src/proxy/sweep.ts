import type { SessionEntry } from './lane-state.ts';

/** A connection whose phases have deadlines and that ends with its session. */
export interface Swept {
  /** On the lane's coarse clock (ms, monotonic); Infinity: none. */
  deadline: number;
  /** Whose it is, once that is known. */
  readonly session: SessionEntry | null;
  onDeadline(): void;
  /**
   * Its session was revoked or has expired, at least half a second ago: end it, whatever it does.
   * @param why what its audit record says instead
   */
  onRevoked(why?: string): void;
  /** Something of ours threw while it was looked at: what it carries ends. Never throws. */
  fail(error: unknown): void;
  /** The lane stops, asked again and again: what carries nothing at present ends. */
  onStop?(): void;
}

/** How often deadlines and sessions are looked at, in ms: what a deadline may be late by. */
const sweepMs = 250;
/** A request that comes in this long after the revocation still gets its 401 before the tunnel ends, in ms. */
const revokedGraceMs = 500;

/**
 * Deadlines of all connections of a lane by one timer: setting one is writing a number, so that a request
 * costs no timer. Ten thousand idle tunnels are ten thousand comparisons, four times a second.
 */
export class Sweeper {
  /** ms, monotonic, as of the last sweep. */
  now = performance.now();
  readonly #swept = new Set<Swept>();
  readonly #revokedSince = new Map<Swept, number>();
  readonly #timer: NodeJS.Timeout;

  /** @param onSweep is called first at each turn: the lane takes in new state there when no request does */
  constructor(onSweep: () => void) {
    this.#timer = setInterval(() => {
      this.now = performance.now();
      onSweep();
      this.#sweep();
    }, sweepMs);
  }

  get size(): number {
    return this.#swept.size;
  }

  add(swept: Swept): void {
    this.#swept.add(swept);
  }

  remove(swept: Swept): void {
    this.#swept.delete(swept);
    this.#revokedSince.delete(swept);
  }

  /** Everything that is open, for a drain. */
  all(): Iterable<Swept> {
    return this.#swept;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #sweep(): void {
    const wall = Date.now();
    for (const swept of this.#swept) {
      try {
        if (swept.deadline <= this.now) {
          swept.deadline = Number.POSITIVE_INFINITY;
          swept.onDeadline();
        } else if (swept.session !== null && !swept.session.valid(wall)) this.#revoke(swept);
      } catch (error) {
        swept.fail(error);
      }
    }
  }

  #revoke(swept: Swept): void {
    const since = this.#revokedSince.get(swept);
    if (since === undefined) this.#revokedSince.set(swept, this.now);
    else if (this.now - since >= revokedGraceMs - sweepMs) swept.onRevoked();
  }
}
