import type net from 'node:net';
import type { Authority } from '../actors/vault/authority.ts';
import { Accumulator } from './accumulator.ts';
import { BlindTunnel } from './blind-tunnel.ts';
import { ClientConnection } from './client-connection.ts';
import { readClientHello, unrecognizedName } from './client-hello.ts';
import type { Lane } from './lane.ts';
import type { Access, SessionEntry } from './lane-state.ts';
import { Linger } from './linger.ts';
import { admit } from './plan.ts';
import { serverSocket } from './server-socket.ts';
import type { Swept } from './sweep.ts';

const TLS_HANDSHAKE = 0x16;
/**
 * What tells cleartext HTTP from anything else that begins with a word: a method as they are usually spelled, or any
 * other with a target behind it (`SSH-2.0-x y` has a word and a space, too).
 */
const requestStart = /^(?:[A-Z]{1,20} |[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32} (?:\/|\*|https?:\/\/))/;
/** What may still become one. */
const requestPrefix = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}(?: (?:h|ht|htt|https?|https?:|https?:\/)?)?$/;
const requestStartBytes = 32 + ' https://'.length;

/**
 * An open CONNECT tunnel before it is known what goes through it: TLS is intercepted (or relayed, where the
 * vault says so), cleartext HTTP is served as HTTP, anything else is relayed only where the policy lets
 * unmatched hosts through and the host has no service.
 */
export class Tunnel implements Swept {
  deadline: number;
  readonly session: SessionEntry;
  readonly #lane: Lane;
  readonly #socket: net.Socket;
  readonly #authority: Authority;
  readonly #access: Access;
  readonly #early = new Accumulator();
  #done = false;

  readonly #onData = (chunk: Buffer): void => {
    try {
      this.#early.push(chunk);
      this.#sniff();
    } catch (error) {
      this.fail(error);
    }
  };
  readonly #onClose = (): void => {
    try {
      this.#drop();
    } catch (error) {
      this.fail(error);
    }
  };

  constructor(lane: Lane, socket: net.Socket, authority: Authority, access: Access, early: Buffer) {
    this.#lane = lane;
    this.#socket = socket;
    this.#authority = authority;
    this.#access = access;
    this.session = access.session;
    lane.meters.count('tunnelsOpened');
    this.deadline = lane.sweeper.now + lane.timeouts.clientTls;
    lane.sweeper.add(this);
    socket.on('data', this.#onData);
    socket.on('end', this.#onClose);
    socket.on('close', this.#onClose);
    if (early.length > 0) this.#onData(early);
    if (this.#done) return;
    socket.resume();
    // Most tunnels are intercepted: the certificate is made while the client prepares its first message.
    if (!this.#relaysTls()) lane.leaf(bareHost(authority)).catch(() => {});
  }

  #sniff(): void {
    const bytes = this.#early.view();
    if (bytes[0] !== TLS_HANDSHAKE) {
      const text = bytes.latin1Slice(0, Math.min(requestStartBytes, bytes.length));
      if (requestStart.test(text)) this.#serve('http');
      else if (!requestPrefix.test(text)) this.#relay(false);
      return;
    }
    const hello = readClientHello(bytes);
    if (hello.kind === 'incomplete') return;
    if (hello.kind === 'malformed') {
      this.#drop();
      return;
    }
    this.#lane.gate();
    if (this.#relaysTls()) {
      this.#relay(true);
      return;
    }
    const { host, literal } = this.#authority;
    // The CONNECT authority is the only target: a handshake for another name gets no certificate.
    if (hello.serverName !== null && (literal !== 0 || hello.serverName !== host)) {
      if (literal === 0 || hello.serverName !== bareHost(this.#authority)) {
        this.#leave();
        new Linger(this.#lane, this.#socket, unrecognizedName);
        return;
      }
    }
    this.#intercept();
  }

  /** Whether TLS goes through undecrypted: `unmatched_tls` says so, and the policy passes it. */
  #relaysTls(): boolean {
    const { vault } = this.#access;
    const { host, port, literal } = this.#authority;
    if (vault.settings.unmatched_tls !== 'tunnel') return false;
    if (vault.match(host, port, literal !== 0) !== undefined) return false;
    // A refusal is answered inside the tunnel, with its body: only what may pass is left undecrypted.
    return admit(vault, { scheme: 'https', authority: this.#authority }, undefined, this.#lane) === null;
  }

  #intercept(): void {
    const bytes = this.#leave();
    const socket = this.#socket;
    socket.pause();
    socket.on('error', () => {});
    this.#lane.leaf(bareHost(this.#authority)).then(
      (secureContext) => {
        if (socket.destroyed) return;
        try {
          serverSocket(this.#lane, socket, bytes, secureContext, this.#access.session, (inner) =>
            this.#attach(inner, 'https'),
          );
        } catch (error) {
          this.fail(error);
        }
      },
      // Without a leaf there is no way to say more than this to a client that waits for a handshake.
      () => socket.destroy(),
    );
  }

  #serve(scheme: 'http' | 'https'): void {
    const bytes = this.#leave();
    const connection = this.#attach(this.#socket, scheme);
    if (bytes.length > 0) connection.receive(bytes);
    this.#socket.resume();
  }

  #attach(socket: net.Socket, scheme: 'http' | 'https'): ClientConnection {
    const target = { scheme, authority: this.#authority };
    return new ClientConnection(this.#lane, socket, {
      tunnel: { target, access: this.#access },
      caller: null,
      crowded: false,
      network: '',
      onConnect: null,
    });
  }

  #relay(isTls: boolean): void {
    const bytes = this.#leave();
    new BlindTunnel(this.#lane, this.#socket, this.#authority, this.#access, bytes, isTls).start();
    this.#socket.resume();
  }

  /** Lets go of the socket; returns what was read of it. */
  #leave(): Buffer {
    if (this.#done) return Buffer.alloc(0);
    this.#done = true;
    this.#lane.sweeper.remove(this);
    this.#socket.removeListener('data', this.#onData);
    this.#socket.removeListener('end', this.#onClose);
    this.#socket.removeListener('close', this.#onClose);
    return this.#early.take();
  }

  #drop(): void {
    this.#leave();
    this.#socket.destroy();
  }

  fail(error: unknown): void {
    this.#lane.failed(error, null);
    try {
      this.#drop();
    } catch {
      this.#socket.destroy();
    }
  }

  onDeadline(): void {
    this.#drop();
  }

  onRevoked(): void {
    this.#drop();
  }

  onStop(): void {
    if (this.#early.length === 0) this.#drop();
  }
}

/** The host as certificates and server names have it: IPv6 without its brackets. */
function bareHost(authority: Authority): string {
  return authority.literal === 6 ? authority.host.slice(1, -1) : authority.host;
}
