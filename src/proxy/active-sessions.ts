import { writeSync } from 'node:fs';
import { actorOf } from './audit-line.ts';
import type { SessionEntry } from './lane-state.ts';
import { placeAt, placeBytes, placeCount } from './run-file.ts';

/** A session that has something under way in this lane, or records that are not in the log yet. */
export class Active {
  readonly session: SessionEntry;
  readonly place: number;
  /** Requests on record that have not ended. */
  open = 0;
  /** Where the ring stood behind its last line. */
  head = 0;
  /** The same at the last look. */
  seen = -1;

  constructor(session: SessionEntry, place: number) {
    this.session = session;
    this.place = place;
  }
}

/**
 * Keeps the lane's run file (`run-file.ts`): a session is written there when it becomes active, before anything of it
 * goes upstream, and taken out a while after. A write in place, into the system's cache: some microseconds for each
 * session, not for each request.
 */
export class ActiveSessions {
  readonly #fd: number;
  readonly #active = new Set<Active>();
  readonly #free = Array.from({ length: placeCount }, (_, i) => placeCount - 1 - i);
  readonly #bytes = Buffer.alloc(placeBytes);

  /** @param fd of the run file, open for writing */
  constructor(fd: number) {
    this.#fd = fd;
  }

  /** null: there is no place left, or the file can't be written. */
  enter(session: SessionEntry): Active | null {
    const place = this.#free.pop();
    if (place === undefined) return null;
    if (!this.#write(place, actorOf(session))) {
      this.#free.push(place);
      return null;
    }
    const active = new Active(session, place);
    session.active = active;
    this.#active.add(active);
    return active;
  }

  /**
   * Takes out who has done nothing since the last look, with nothing open and all written.
   * @param tail how far the main thread has written the ring, modulo 2^32
   */
  sweep(tail: number): void {
    for (const active of this.#active) {
      const idle = active.open === 0 && active.seen === active.head && ((tail - active.head) | 0) >= 0;
      active.seen = active.head;
      if (!idle || !this.#write(active.place, '')) continue;
      active.session.active = null;
      this.#active.delete(active);
      this.#free.push(active.place);
    }
  }

  #write(place: number, text: string): boolean {
    this.#bytes.fill(0);
    this.#bytes.write(text, 0, placeBytes);
    try {
      writeSync(this.#fd, this.#bytes, 0, placeBytes, placeAt(place));
      return true;
    } catch {
      return false;
    }
  }
}
