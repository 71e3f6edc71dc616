import net from 'node:net';
import tls from 'node:tls';
import type { Authority } from '../actors/vault/authority.ts';
import { type Problem, problem } from '../actors/vault/problem.ts';
import { outOfDescriptors } from './descriptors.ts';
import type { SessionEntry } from './lane-state.ts';
import type { Found, Lookups } from './lookups.ts';
import type { Netguard } from './netguard.ts';
import type { Target } from './plan.ts';
import { identityError } from './server-identity.ts';
import { alpnHttp1 } from './tls-parameters.ts';

/** Addresses that were vetted together: only these may be dialled for the name they came from. */
export interface Vetted {
  readonly addresses: readonly string[];
}

export interface DialOptions {
  readonly netguard: Netguard;
  readonly lookups: Lookups;
  /** Roots that upstreams are verified against. */
  readonly secureContext: tls.SecureContext;
  /** Says so in the log where something of ours threw. */
  readonly failed: (error: unknown) => void;
  readonly connectMs: number;
  readonly tlsMs: number;
}

/** A verified connection to an upstream. */
export interface Connection {
  readonly socket: net.Socket;
  /**
   * Takes what comes in. The socket emits no `data`: all connections of a lane are read into one buffer, and a chunk
   * is a view of it, valid until the call returns.
   */
  onData: (chunk: Buffer) => void;
}

export type Dialled = Connection | Problem;

/** What upstreams send is read into here. Nothing is kept in it: what waits is copied by who waits. */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024);

/** Upstreams that something is remembered of: sessions to resume, and that they take us. */
const maxRemembered = 2048;

/** Vets all addresses that an authority is at: all of them may be dialled, or none. */
function vet(netguard: Netguard, authority: Authority, addresses: readonly string[]): Vetted | Problem {
  if (netguard.vetAll(addresses, authority.port) === null) return { addresses };
  // Which address, and why, is for the audit and the operator, not for the agent.
  return problem(
    'network_blocked',
    `The network guard refuses ${authority.host}. The operator can open it with --network-allow, if it is meant to be reached.`,
  );
}

/** The same for an authority that is an address itself. */
export function vetLiteral(netguard: Netguard, authority: Authority): Vetted | Problem {
  const { host, literal } = authority;
  return vet(netguard, authority, [literal === 6 ? host.slice(1, -1) : host]);
}

/**
 * Opens connections to upstreams. A name is looked up once, every address it has is vetted, and one of the
 * vetted addresses is what is dialled: there is no second look-up that could answer otherwise.
 */
export class Dialler {
  readonly #options: DialOptions;
  readonly #sessions = new Map<string, Buffer>();
  /** Upstreams that have let us in without a certificate of our own. */
  readonly #takesUs = new Set<string>();

  constructor(options: DialOptions) {
    this.#options = options;
  }

  /**
   * Vets a literal, or all addresses of a name. Calls back at once for a literal.
   * @param session who asks: look-ups are shared out
   * @returns what cancels it
   */
  resolve(session: SessionEntry, authority: Authority, done: (result: Vetted | Problem) => void): () => void {
    const { host, literal } = authority;
    if (literal !== 0) {
      done(vetLiteral(this.#options.netguard, authority));
      return () => {};
    }
    return this.#options.lookups.addresses(session.slot, host, (found) => {
      let vetted: Vetted | Problem;
      try {
        vetted =
          typeof found === 'string' ? unresolved(host, found) : vet(this.#options.netguard, authority, found);
      } catch (error) {
        this.#options.failed(error);
        vetted = problem('internal');
      }
      done(vetted);
    });
  }

  /** Dials the vetted addresses one after the other; the connection is verified before it is handed over. */
  connect(target: Target, vetted: Vetted, sessionKey: string, done: (result: Dialled) => void): () => void {
    let cancelled = false;
    let current: net.Socket | null = null;
    const attempt = (index: number): void => {
      const last = index === vetted.addresses.length - 1;
      // With more addresses to try, one that swallows packets must not use up all of the time.
      const limit = last ? this.#options.connectMs : Math.min(2500, this.#options.connectMs);
      try {
        current = this.#open(target, vetted.addresses[index], limit, sessionKey, (result) => {
          if (cancelled) {
            if ('socket' in result) result.socket.destroy();
          } else if (!last && 'code' in result && result.code !== 'upstream_tls') attempt(index + 1);
          else done(result);
        });
      } catch (error) {
        this.#options.failed(error);
        done(problem('internal'));
      }
    };
    attempt(0);
    return () => {
      cancelled = true;
      current?.destroy();
    };
  }

  #open(
    target: Target,
    address: string,
    connectMs: number,
    sessionKey: string,
    done: (r: Dialled) => void,
  ): net.Socket {
    const { port, host, literal } = target.authority;
    const secure = target.scheme === 'https';
    let connected = false;
    let spokeFirst = false;
    let handedOver = false;
    const options = {
      host: address,
      port,
      allowHalfOpen: true,
      onread: {
        buffer: readBuffer,
        callback: (size: number) => {
          connection.onData(readBuffer.subarray(0, size));
          return true;
        },
      },
    };
    const name = literal === 6 ? host.slice(1, -1) : host;
    const socket = secure
      ? tls.connect({
          ...options,
          secureContext: this.#options.secureContext,
          // RFC 6066 3: an address is never a server name; it is verified as the host all the same.
          servername: literal === 0 ? name : '',
          checkServerIdentity: (_, certificate) => {
            try {
              return identityError(name, literal !== 0, certificate);
            } catch (error) {
              this.#options.failed(error);
              return error as Error;
            }
          },
          ALPNProtocols: alpnHttp1,
          session: this.#sessions.get(sessionKey),
          // Said outright: the default can be turned off by an environment variable.
          rejectUnauthorized: true,
        })
      : net.connect(options);
    const connection: Connection = {
      socket,
      onData: () => {
        spokeFirst = true;
        socket.destroy();
      },
    };
    const end = (why: Problem): void => {
      clearTimeout(timer);
      socket.removeAllListeners();
      socket.on('error', () => {});
      socket.destroy();
      done(why);
    };
    // What throws in a callback would end the thread.
    const contained =
      <T extends unknown[]>(work: (...given: T) => void) =>
      (...given: T): void => {
        try {
          work(...given);
        } catch (error) {
          this.#options.failed(error);
          // Who has it hears of its end.
          if (handedOver) socket.destroy();
          else end(problem('internal'));
        }
      };
    const fail = contained((error: NodeJS.ErrnoException | null) =>
      end(spokeFirst ? problem('upstream_protocol') : failureOf(error, target, connected)),
    );
    const closed = (): void => fail(Object.assign(new Error('closed'), { code: 'ECONNRESET' }));
    let timer = setTimeout(fail, connectMs, null);
    const ready = contained(() => {
      clearTimeout(timer);
      if (socket.destroyed) return;
      socket.removeListener('error', fail);
      socket.removeListener('close', closed);
      done(connection);
      handedOver = true;
    });
    const startedAt = performance.now();
    socket.once('error', fail);
    socket.once('close', closed);
    socket.once(
      'connect',
      contained(() => {
        connected = true;
        socket.setNoDelay(true);
        if (!(socket instanceof tls.TLSSocket)) {
          ready();
          return;
        }
        const roundTripMs = performance.now() - startedAt;
        clearTimeout(timer);
        timer = setTimeout(fail, this.#options.tlsMs, null);
        socket.on(
          'session',
          contained((session: Buffer) => this.#remember(sessionKey, session)),
        );
        socket.once(
          'secureConnect',
          contained(() => {
            if (socket.getProtocol() !== 'TLSv1.3' || this.#takesUs.has(sessionKey)) {
              ready();
              return;
            }
            // The client is done a round trip before a server of TLS 1.3 has looked at its certificate: one that
            // asks for it says so only then. The ticket that most servers send first tells that this one does not.
            clearTimeout(timer);
            const accepted = contained(() => {
              clearTimeout(timer);
              socket.removeListener('session', accepted);
              if (this.#takesUs.size >= maxRemembered) this.#takesUs.clear();
              this.#takesUs.add(sessionKey);
              // Not from within the engine's callback: what is written there stays in it.
              setImmediate(ready);
            });
            socket.once('session', accepted);
            timer = setTimeout(accepted, Math.max(2, 1.5 * roundTripMs));
          }),
        );
      }),
    );
    return socket;
  }

  #remember(key: string, session: Buffer): void {
    this.#sessions.delete(key);
    this.#sessions.set(key, session);
    if (this.#sessions.size > maxRemembered)
      this.#sessions.delete(this.#sessions.keys().next().value as string);
  }
}

function unresolved(host: string, why: Exclude<Found, readonly string[]>): Problem {
  switch (why) {
    case 'unknown':
      return problem(
        'upstream_unreachable',
        `The host name ${host} could not be resolved. Check it, or try again later.`,
      );
    case 'late':
      return problem(
        'upstream_timeout',
        `The host name ${host} could not be resolved in time. Nothing was sent. Try again later.`,
      );
    case 'busy':
      return problem(
        'rate_limited',
        'Too many requests of this session wait for host names to be resolved. Wait as Retry-After says.',
        undefined,
        1,
      );
    case 'full':
      return problem('overloaded', undefined, undefined, 1);
  }
}

/** Fixed texts: what a library says of an error may hold addresses or names that are not the agent's to see. */
function failureOf(error: NodeJS.ErrnoException | null, target: Target, connected: boolean): Problem {
  const { host, port } = target.authority;
  if (error?.code === 'EMFILE' || error?.code === 'ENFILE') return outOfDescriptors();
  if (error === null) {
    return connected
      ? problem('upstream_timeout', `${host} did not finish the TLS handshake in time. Try again later.`)
      : problem(
          'upstream_timeout',
          `${host} did not accept a connection on port ${port} in time. Try again later.`,
        );
  }
  if (connected && target.scheme === 'https') {
    if (/CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE/.test(error.code ?? '')) {
      return problem(
        'upstream_tls',
        `${host} refused the TLS handshake; it may ask for a client certificate, and the broker has none. Nothing was sent.`,
      );
    }
    return problem(
      'upstream_tls',
      `The TLS connection to ${host} could not be verified; nothing was sent. If it has a private CA, the operator can add it with --upstream-ca.`,
    );
  }
  return problem('upstream_unreachable', `${host} could not be reached on port ${port}. Try again later.`);
}

/** Whether a look-up was refused before anybody was asked: too many wait. */
export function isUnasked({ code }: Problem): boolean {
  return code === 'overloaded' || code === 'rate_limited';
}
