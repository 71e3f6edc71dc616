import type net from 'node:net';
import type { Problem } from '../actors/vault/problem.ts';
import type { Connection, Dialler, Vetted } from './dial.ts';
import { Intake } from './intake.ts';
import type { SessionEntry } from './lane-state.ts';
import type { Meters } from './meters.ts';
import type { Target } from './plan.ts';
import type { Sweeper, Swept } from './sweep.ts';
import type { Turns } from './turns.ts';

/** Who uses an upstream connection at present: an exchange. */
export interface UpstreamUser {
  /** `chunk` is valid until this returns. */
  onUpstreamData(chunk: Buffer): void;
  /** The upstream sends no more. */
  onUpstreamEnd(): void;
  /** The connection is gone. */
  onUpstreamClose(): void;
  onUpstreamDrain(): void;
  /** Something of ours threw in one of these: what it was for ends. Never throws. */
  fail(error: unknown): void;
}

/** An idle connection is kept this long where the upstream does not say, in ms. */
const defaultIdleMs = 15_000;
const maxIdleMs = 120_000;
/** Idle connections that one session may hold in a lane, and all sessions together: the oldest go first. */
const maxIdleOfOne = 256;
const maxIdle = 1024;

/** What one session has open to one origin. */
interface Origin {
  readonly key: string;
  readonly owner: Owner;
  /** Those that nobody uses, the one used last at the end. */
  readonly idle: Upstream[];
  /** All of them, used or not. */
  open: number;
}

/** One session: nobody else ever gets a connection of its. */
interface Owner {
  readonly session: SessionEntry;
  readonly origins: Map<string, Origin>;
  idle: number;
}

/** One verified connection to an upstream; used by one exchange at a time, and by one session only. */
export class Upstream implements Swept {
  readonly socket: net.Socket;
  readonly origin: Origin;
  deadline = Number.POSITIVE_INFINITY;
  user: UpstreamUser | null = null;
  readonly #pool: Upstreams;
  readonly #intake: Intake;
  /** How long it may be idle, in ms, by what its upstream said last. */
  #idleMs = defaultIdleMs;

  constructor(connection: Connection, origin: Origin, pool: Upstreams) {
    const { socket } = connection;
    this.socket = socket;
    this.origin = origin;
    this.#pool = pool;
    this.#intake = new Intake(socket, pool.turns, origin.owner.session);
    reportWriteErrorsLate(socket);
    connection.onData = (chunk) => {
      // Bytes that nobody asked for: whatever they are, nothing after them can be trusted.
      const { user } = this;
      if (user === null) this.destroy();
      else {
        try {
          this.#intake.took(chunk.length);
          user.onUpstreamData(chunk);
        } catch (error) {
          this.#fail(user, error);
        }
      }
    };
    const on = (event: string, tell: (user: UpstreamUser | null) => void): void => {
      socket.on(event, () => {
        const { user } = this;
        try {
          tell(user);
        } catch (error) {
          this.#fail(user, error);
        }
      });
    };
    on('end', (user) => {
      if (user === null) this.destroy();
      else user.onUpstreamEnd();
    });
    socket.on('error', () => {});
    on('drain', (user) => user?.onUpstreamDrain());
    on('close', (user) => {
      this.#pool.forget(this);
      this.user = null;
      user?.onUpstreamClose();
    });
    socket.resume();
  }

  get session(): SessionEntry {
    return this.origin.owner.session;
  }

  get usable(): boolean {
    return this.socket.writable && !this.socket.readableEnded && !this.socket.destroyed;
  }

  /** Gives it back for the next exchange. `idleSeconds`: the upstream's own hint, or -1. */
  release(idleSeconds: number): void {
    // A second before the upstream's own limit: a request that crosses its FIN would be lost.
    this.#idleMs = idleSeconds < 0 ? defaultIdleMs : Math.min(maxIdleMs, (idleSeconds - 1) * 1000);
    this.putBack();
  }

  /** Gives it back as it was taken. */
  putBack(): void {
    this.user = null;
    // Paused for a client that was slower than the last bytes of its answer: the next one would wait for ever.
    this.resume();
    if (!this.usable || this.#idleMs <= 0) this.destroy();
    else this.#pool.put(this, this.#idleMs);
  }

  /** Its user can't pass on what it sends, for now. */
  pause(): void {
    this.#intake.pause();
  }

  resume(): void {
    this.#intake.resume();
  }

  destroy(): void {
    this.socket.destroy();
  }

  #fail(user: UpstreamUser | null, error: unknown): void {
    if (user === null) this.#pool.turns.failed(error);
    else user.fail(error);
    this.destroy();
  }

  fail(error: unknown): void {
    this.#fail(this.user, error);
  }

  onDeadline(): void {
    this.destroy();
  }

  /** One that is in use ends with who uses it. */
  onRevoked(): void {
    if (this.user === null) this.destroy();
  }
}

/**
 * Keep-alive connections to upstreams, by session, vault and origin. An upstream may be brought to read one request as
 * two, or to answer once too often: whoever does that must meet nobody but themselves on the connection.
 */
export class Upstreams {
  readonly dialler: Dialler;
  readonly turns: Turns;
  readonly #owners = new Map<SessionEntry, Owner>();
  /** All that are idle, the one that has been so for longest first. */
  readonly #idle = new Set<Upstream>();
  readonly #sweeper: Sweeper;
  readonly #meters: Meters;

  constructor(dialler: Dialler, turns: Turns, sweeper: Sweeper, meters: Meters) {
    this.dialler = dialler;
    this.turns = turns;
    this.#sweeper = sweeper;
    this.#meters = meters;
  }

  /** An idle connection, the one used last first, or null. Nothing has been sent on it since its last answer ended. */
  take(session: SessionEntry, key: string): Upstream | null {
    const origin = this.#owners.get(session)?.origins.get(key);
    if (origin === undefined) return null;
    for (let upstream = origin.idle.pop(); upstream !== undefined; upstream = origin.idle.pop()) {
      origin.owner.idle--;
      this.#idle.delete(upstream);
      if (upstream.usable) {
        upstream.deadline = Number.POSITIVE_INFINITY;
        this.#meters.count('upstreamReused');
        return upstream;
      }
      upstream.destroy();
    }
    return null;
  }

  /** Opens a new connection; returns what cancels it. */
  open(
    session: SessionEntry,
    key: string,
    target: Target,
    vetted: Vetted,
    done: (result: Upstream | Problem) => void,
  ): () => void {
    return this.dialler.connect(target, vetted, key, (result) => {
      if ('code' in result) {
        done(result);
        return;
      }
      this.#meters.count('upstreamOpened');
      const upstream = new Upstream(result, this.#origin(session, key), this);
      upstream.origin.open++;
      this.#sweeper.add(upstream);
      done(upstream);
    });
  }

  #origin(session: SessionEntry, key: string): Origin {
    let owner = this.#owners.get(session);
    if (owner === undefined) {
      owner = { session, origins: new Map(), idle: 0 };
      this.#owners.set(session, owner);
    }
    let origin = owner.origins.get(key);
    if (origin === undefined) {
      origin = { key, owner, idle: [], open: 0 };
      owner.origins.set(key, origin);
    }
    return origin;
  }

  put(upstream: Upstream, idleMs: number): void {
    const { idle, owner } = upstream.origin;
    if (owner.idle >= maxIdleOfOne) this.#closeOldest(owner);
    else if (this.#idle.size >= maxIdle) this.#closeOldest(null);
    upstream.deadline = this.#sweeper.now + idleMs;
    idle.push(upstream);
    owner.idle++;
    this.#idle.add(upstream);
  }

  /** @param owner whose; null: anybody's */
  #closeOldest(owner: Owner | null): void {
    for (const upstream of this.#idle) {
      if (owner !== null && upstream.origin.owner !== owner) continue;
      this.#leaveIdle(upstream);
      upstream.destroy();
      return;
    }
  }

  #leaveIdle(upstream: Upstream): void {
    if (!this.#idle.delete(upstream)) return;
    const { idle, owner } = upstream.origin;
    idle.splice(idle.indexOf(upstream), 1);
    owner.idle--;
  }

  forget(upstream: Upstream): void {
    this.#sweeper.remove(upstream);
    this.#leaveIdle(upstream);
    const { origin } = upstream;
    if (--origin.open > 0) return;
    const { owner } = origin;
    owner.origins.delete(origin.key);
    if (owner.origins.size === 0) this.#owners.delete(owner.session);
  }

  /** Closes what is idle, for a drain. */
  closeIdle(): void {
    for (const upstream of [...this.#idle]) upstream.destroy();
  }
}

/**
 * An upstream that refuses a body early and closes sends its answer and then a reset. A write into the reset
 * fails at once, and the stream would throw away the answer, which lies unread in the kernel: so a failure to
 * write is told one turn of the event loop late, when all that can be read has been. No closure per write.
 */
function reportWriteErrorsLate(socket: net.Socket): void {
  let done: (error?: Error | null) => void;
  const settle = (error?: Error | null): void => {
    // The first immediate still comes before the next poll for reads.
    if (error) setImmediate(() => setImmediate(done, error));
    else done();
  };
  const { _write, _writev } = socket;
  socket._write = (chunk, encoding, callback) => {
    done = callback;
    _write.call(socket, chunk, encoding, settle);
  };
  socket._writev = (chunks, callback) => {
    done = callback;
    _writev?.call(socket, chunks, settle);
  };
}

/** Vaults, schemes and origins never share a connection, nor a TLS session. */
export function upstreamKey(vaultId: string, target: Target): string {
  return `${vaultId} ${target.scheme}://${target.authority.host}:${target.authority.port}`;
}
