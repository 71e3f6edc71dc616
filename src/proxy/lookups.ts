import type dns from 'node:dns';
import type { Shares } from './shares.ts';

/** `dns.lookup`, or what stands in for it. */
export type Lookup = (
  host: string,
  options: dns.LookupAllOptions,
  done: (error: NodeJS.ErrnoException | null, found: dns.LookupAddress[]) => void,
) => void;

/**
 * What a look-up comes to: all addresses in the resolver's order, or that there are none (`unknown`), that there was no
 * answer in time (`late`), that the session has too many waiting (`busy`), or everyone together has (`full`).
 */
export type Found = readonly string[] | 'unknown' | 'late' | 'busy' | 'full';

/**
 * Look-ups under way at once, on all lanes. Each holds a thread until the system's resolver gives up, which nobody can
 * hasten; libuv gives them half of its threads (`bin/broker` asks for 64), and those beyond would wait there, in a queue
 * that knows no sessions.
 */
const maxLookups = 32;
/** And of these for one session. */
const maxOfOne = 4;
/** Requests of one session that may wait for a name, and of all, on one lane. */
const maxWaitingOfOne = 256;
const maxWaiting = 4096;
/** How soon a lane that waits looks whether another one has left it room, in ms: at random, so that lanes get it in turn. */
const pollMs = 10;

interface Asker {
  readonly done: (found: Found) => void;
  timer: NodeJS.Timeout | null;
}

/** One look-up, under way or to come, and who waits for it. */
interface Flight {
  readonly host: string;
  readonly askers: Set<Asker>;
}

/** One session's: those to come in their order, and all by name. */
interface Line {
  readonly slot: number;
  readonly waiting: Flight[];
  readonly flights: Map<string, Flight>;
  askers: number;
}

/**
 * Resolves names as the system does (hosts file, resolv.conf), with a share for each session: sessions take turns, and
 * the fewer threads are left, the fewer of them one that has some already is given. What nobody waits for any longer is
 * not looked up.
 */
export class Lookups {
  readonly #lookup: Lookup;
  readonly #shares: Shares;
  readonly #limitMs: number;
  /** By slot; who had its turn goes to the end. */
  readonly #lines = new Map<number, Line>();
  #askers = 0;
  #waiting = 0;
  #poll: NodeJS.Timeout | null = null;
  readonly #failed: (error: unknown) => void;

  /**
   * @param limitMs how long a request waits for its name
   * @param failed says so in the log where something of ours threw
   */
  constructor(lookup: Lookup, shares: Shares, limitMs: number, failed: (error: unknown) => void) {
    this.#failed = failed;
    this.#lookup = lookup;
    this.#shares = shares;
    this.#limitMs = limitMs;
  }

  /**
   * Looks a name up; requests of one session for the same name share what is under way.
   * @param slot whose it is
   * @param done called once, at once where too many wait
   * @returns what cancels it: `done` is not called then
   */
  addresses(slot: number, host: string, done: (found: Found) => void): () => void {
    const line: Line = this.#lines.get(slot) ?? { slot, waiting: [], flights: new Map(), askers: 0 };
    if (this.#askers >= maxWaiting || line.askers >= maxWaitingOfOne) {
      done(line.askers >= maxWaitingOfOne ? 'busy' : 'full');
      return () => {};
    }
    let flight = line.flights.get(host);
    if (flight === undefined) {
      flight = { host, askers: new Set() };
      line.flights.set(host, flight);
      line.waiting.push(flight);
      this.#wait(1);
      this.#lines.set(slot, line);
    }
    const asker: Asker = { done, timer: null };
    flight.askers.add(asker);
    line.askers++;
    this.#askers++;
    const asked = flight;
    asker.timer = setTimeout(() => this.#tell(line, asked, asker, 'late'), this.#limitMs);
    try {
      this.#serve();
    } catch (error) {
      this.#leave(line, asked, asker);
      throw error;
    }
    return () => this.#leave(line, asked, asker);
  }

  /** Who asks contains what goes wrong with them; what goes wrong here is theirs, too. */
  #tell(line: Line, flight: Flight, asker: Asker, found: Found): void {
    try {
      try {
        this.#leave(line, flight, asker);
      } finally {
        asker.done(found);
      }
    } catch (error) {
      this.#failed(error);
    }
  }

  #leave(line: Line, flight: Flight, asker: Asker): void {
    if (!flight.askers.delete(asker)) return;
    clearTimeout(asker.timer ?? undefined);
    line.askers--;
    this.#askers--;
    const at = flight.askers.size === 0 ? line.waiting.indexOf(flight) : -1;
    if (at < 0) return;
    line.waiting.splice(at, 1);
    this.#wait(-1);
    this.#landed(line, flight);
  }

  #landed(line: Line, flight: Flight): void {
    line.flights.delete(flight.host);
    if (line.flights.size === 0) this.#lines.delete(line.slot);
  }

  /** Starts what there is room for, in turn. */
  #serve(): void {
    while (this.#waiting > 0 && this.#serveOne());
    if (this.#waiting > 0) this.#serveLater();
  }

  /** Outside of anybody's request. */
  #goOn(): void {
    try {
      this.#serve();
    } catch (error) {
      this.#failed(error);
      this.#serveLater();
    }
  }

  #serveLater(): void {
    this.#poll ??= setTimeout(() => {
      this.#poll = null;
      this.#goOn();
    }, pollMs * Math.random());
  }

  #wait(by: 1 | -1): void {
    this.#waiting += by;
    if (by > 0) this.#shares.waitingLookups.add(0);
    else this.#shares.waitingLookups.sub(0);
  }

  #serveOne(): boolean {
    const { lookups, allLookups } = this.#shares;
    const free = maxLookups - allLookups.of(0);
    if (free <= 0) return false;
    // Half of what is left at most: a session that has none yet always finds a thread before one that has.
    const most = Math.min(maxOfOne, free / 2);
    for (const line of this.#lines.values()) {
      if (line.waiting.length === 0 || lookups.of(line.slot) >= most) continue;
      this.#lines.delete(line.slot);
      this.#lines.set(line.slot, line);
      this.#wait(-1);
      const flight = line.waiting.shift() as Flight;
      try {
        this.#start(line, flight);
      } catch (error) {
        this.#failed(error);
        this.#end(line, flight, 'unknown');
      }
      return true;
    }
    return false;
  }

  #start(line: Line, flight: Flight): void {
    const { lookups, allLookups } = this.#shares;
    lookups.add(line.slot);
    allLookups.add(0);
    const giveBack = (): void => {
      lookups.sub(line.slot);
      allLookups.sub(0);
    };
    try {
      this.#lookup(flight.host, { all: true, order: 'verbatim' }, (error, found) => {
        giveBack();
        try {
          this.#end(line, flight, error === null ? found.map(({ address }) => address) : 'unknown');
        } catch (error) {
          this.#failed(error);
          this.#end(line, flight, 'unknown');
        }
        // Another lane waits, too: this one isn't first because the thread was its own.
        if (this.#shares.waitingLookups.of(0) > this.#waiting) this.#serveLater();
        else this.#goOn();
      });
    } catch (error) {
      giveBack();
      throw error;
    }
  }

  #end(line: Line, flight: Flight, found: Found): void {
    this.#landed(line, flight);
    for (const asker of [...flight.askers]) this.#tell(line, flight, asker, found);
  }
}
