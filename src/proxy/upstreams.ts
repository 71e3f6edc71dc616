import type net from 'node:net';
import type { Problem } from '../actors/vault/problem.ts';
import type { Connection, Dialler, Vetted } from './dial.ts';
import type { Meters } from './meters.ts';
import type { Target } from './plan.ts';
import type { Sweeper, Swept } from './sweep.ts';

/** Who uses an upstream connection at present: an exchange. */
export interface UpstreamUser {
  /** `chunk` is valid until this returns. */
  onUpstreamData(chunk: Buffer): void;
  /** The upstream sends no more. */
  onUpstreamEnd(): void;
  /** The connection is gone. */
  onUpstreamClose(): void;
  onUpstreamDrain(): void;
}

/** An idle connection is kept this long where the upstream does not say, in ms. */
const defaultIdleMs = 15_000;
const maxIdleMs = 120_000;
const maxIdlePerOrigin = 256;

/** One verified connection to an upstream; used by one exchange at a time. */
export class Upstream implements Swept {
  readonly socket: net.Socket;
  readonly key: string;
  deadline = Number.POSITIVE_INFINITY;
  readonly session = null;
  user: UpstreamUser | null = null;
  readonly #pool: Upstreams;

  constructor(connection: Connection, key: string, pool: Upstreams) {
    const { socket } = connection;
    this.socket = socket;
    this.key = key;
    this.#pool = pool;
    reportWriteErrorsLate(socket);
    connection.onData = (chunk) => {
      // Bytes that nobody asked for: whatever they are, nothing after them can be trusted.
      if (this.user === null) this.destroy();
      else this.user.onUpstreamData(chunk);
    };
    socket.on('end', () => {
      if (this.user === null) this.destroy();
      else this.user.onUpstreamEnd();
    });
    socket.on('error', () => {});
    socket.on('drain', () => this.user?.onUpstreamDrain());
    socket.on('close', () => {
      this.#pool.forget(this);
      const user = this.user;
      this.user = null;
      user?.onUpstreamClose();
    });
    socket.resume();
  }

  get usable(): boolean {
    return this.socket.writable && !this.socket.readableEnded && !this.socket.destroyed;
  }

  /** Gives it back for the next exchange. `idleSeconds`: the upstream's own hint, or -1. */
  release(idleSeconds: number): void {
    this.user = null;
    // Paused for a client that was slower than the last bytes of its answer: the next one would wait for ever.
    this.socket.resume();
    // A second before the upstream's own limit: a request that crosses its FIN would be lost.
    const idle = idleSeconds < 0 ? defaultIdleMs : Math.min(maxIdleMs, (idleSeconds - 1) * 1000);
    if (!this.usable || idle <= 0) this.destroy();
    else this.#pool.put(this, idle);
  }

  destroy(): void {
    this.socket.destroy();
  }

  onDeadline(): void {
    this.destroy();
  }

  onRevoked(): void {}
}

/**
 * Keep-alive connections to upstreams, by vault and origin: two vaults never share one, so that an answer
 * meant for one can't reach the other.
 */
export class Upstreams {
  readonly dialler: Dialler;
  readonly #idle = new Map<string, Upstream[]>();
  readonly #sweeper: Sweeper;
  readonly #meters: Meters;

  constructor(dialler: Dialler, sweeper: Sweeper, meters: Meters) {
    this.dialler = dialler;
    this.#sweeper = sweeper;
    this.#meters = meters;
  }

  /** An idle connection, the one used last first, or null. Nothing has been sent on it since its last answer ended. */
  take(key: string): Upstream | null {
    const idle = this.#idle.get(key);
    if (idle === undefined) return null;
    for (let upstream = idle.pop(); upstream !== undefined; upstream = idle.pop()) {
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
  open(key: string, target: Target, vetted: Vetted, done: (result: Upstream | Problem) => void): () => void {
    return this.dialler.connect(target, vetted, key, (result) => {
      if ('code' in result) {
        done(result);
        return;
      }
      this.#meters.count('upstreamOpened');
      const upstream = new Upstream(result, key, this);
      this.#sweeper.add(upstream);
      done(upstream);
    });
  }

  put(upstream: Upstream, idleMs: number): void {
    let idle = this.#idle.get(upstream.key);
    if (idle === undefined) {
      idle = [];
      this.#idle.set(upstream.key, idle);
    }
    if (idle.length >= maxIdlePerOrigin) {
      upstream.destroy();
      return;
    }
    upstream.deadline = this.#sweeper.now + idleMs;
    idle.push(upstream);
  }

  forget(upstream: Upstream): void {
    this.#sweeper.remove(upstream);
    const idle = this.#idle.get(upstream.key);
    if (idle === undefined) return;
    const at = idle.indexOf(upstream);
    if (at >= 0) idle.splice(at, 1);
    if (idle.length === 0) this.#idle.delete(upstream.key);
  }

  /** Closes what is idle, for a drain. */
  closeIdle(): void {
    for (const idle of [...this.#idle.values()]) for (const upstream of [...idle]) upstream.destroy();
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

/** Vaults, schemes and origins never share a connection. */
export function upstreamKey(vaultId: string, target: Target): string {
  return `${vaultId} ${target.scheme}://${target.authority.host}:${target.authority.port}`;
}
