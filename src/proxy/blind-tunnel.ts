import type net from 'node:net';
import type { Authority } from '../actors/vault/authority.ts';
import { type Problem, type ProblemCode, statusOf } from '../actors/vault/problem.ts';
import { Accumulator } from './accumulator.ts';
import type { RequestFacts } from './audit-line.ts';
import { noSlot } from './audit-sink.ts';
import { limitOf } from './caller.ts';
import { isUnasked, type Vetted } from './dial.ts';
import type { Lane } from './lane.ts';
import type { Access, SessionEntry } from './lane-state.ts';
import { admit, type Target } from './plan.ts';
import { Relay } from './relay.ts';
import type { Swept } from './sweep.ts';
import { type Upstream, upstreamKey } from './upstreams.ts';

/** What a client may send before there is somebody to send it to; then it waits. */
const maxEarly = 64 * 1024;

/**
 * A tunnel that goes through undecrypted. What lets it is looked at when it begins, once its name is resolved, and once
 * its upstream is connected: a service may have come meanwhile, or the session gone. It holds one place in its session's
 * limit, and leaves one audit record, however it ends.
 */
export class BlindTunnel implements Swept {
  /** Look-up and dial have times of their own. */
  deadline = Number.POSITIVE_INFINITY;
  readonly #lane: Lane;
  readonly #socket: net.Socket;
  readonly #authority: Authority;
  readonly #access: Access;
  readonly #isTls: boolean;
  readonly #early = new Accumulator();
  readonly #startedAt = performance.now();
  readonly #facts: RequestFacts;
  /** Where it is on record while it goes on. */
  #recordSlot = noSlot;
  #holdsSlot = false;
  /** Something of it left the broker: its name to be looked up, or a connection. */
  #sent = false;
  #cancelDial: (() => void) | null = null;
  #relay: Relay | null = null;
  #ended = false;

  readonly #onData = (chunk: Buffer): void => {
    try {
      this.#early.push(chunk);
      if (this.#early.length > maxEarly) this.#socket.pause();
    } catch (error) {
      this.fail(error);
    }
  };
  readonly #onEnd = (): void => {
    // Nobody who speaks TLS closes one direction before the first answer.
    if (this.#isTls) this.#onClose();
  };
  readonly #onClose = (): void => {
    try {
      this.#end('client_closed');
    } catch (error) {
      this.fail(error);
    }
  };

  /** @param isTls what goes through it is TLS, which `unmatched_tls` has to allow */
  constructor(
    lane: Lane,
    socket: net.Socket,
    authority: Authority,
    access: Access,
    early: Buffer,
    isTls: boolean,
  ) {
    this.#lane = lane;
    this.#socket = socket;
    this.#authority = authority;
    this.#access = access;
    this.#isTls = isTls;
    this.#early.push(early);
    this.#facts = {
      time: Date.now(),
      requestId: lane.requestId(),
      access,
      method: 'CONNECT',
      scheme: 'tcp',
      host: `${authority.host}:${authority.port}`,
      path: '',
      service: null,
      keys: [],
    };
    lane.sweeper.add(this);
    socket.on('error', () => {});
    socket.on('data', this.#onData);
    socket.on('end', this.#onEnd);
    socket.on('close', this.#onClose);
  }

  get session(): SessionEntry {
    return this.#access.session;
  }

  start(): void {
    try {
      this.#start();
    } catch (error) {
      this.fail(error);
    }
  }

  #start(): void {
    const { vault, slot, session } = this.#access;
    const lane = this.#lane;
    if (lane.limits.take(slot, limitOf(lane.defaultLimit, vault.settings), lane.micros()) > 0) {
      this.#refuse('rate_limited');
      return;
    }
    this.#holdsSlot = true;
    if (!this.#holdsGood()) return;
    this.#recordSlot = lane.audit.begin(this.#facts);
    if (this.#recordSlot === noSlot) {
      this.#refuse('overloaded');
      return;
    }
    this.#sent = this.#authority.literal === 0;
    const cancel = lane.upstreams.dialler.resolve(session, this.#authority, (vetted) => {
      if ('code' in vetted && isUnasked(vetted)) this.#sent = false;
      try {
        this.#onVetted(vetted);
      } catch (error) {
        this.fail(error);
      }
    });
    // A literal was vetted at once, and what there is to cancel is its connection.
    if (!this.#ended) this.#cancelDial ??= cancel;
  }

  #onVetted(vetted: Vetted | Problem): void {
    this.#cancelDial = null;
    if (this.#ended) return;
    if ('code' in vetted) this.#refuse(vetted.code);
    else if (this.#holdsGood()) {
      const { upstreams } = this.#lane;
      const target: Target = { scheme: 'http', authority: this.#authority };
      const key = `${upstreamKey(this.#access.vault.id, target)} relay`;
      this.#sent = true;
      this.#cancelDial = upstreams.open(this.session, key, target, vetted, (result) => {
        try {
          this.#cancelDial = null;
          if ('code' in result) this.#refuse(result.code);
          else if (!this.#ended && this.#holdsGood()) this.#relayTo(result);
          else result.destroy();
        } catch (error) {
          if ('socket' in result) result.destroy();
          this.fail(error);
        }
      });
    }
  }

  #relayTo(upstream: Upstream): void {
    this.#leave();
    this.#socket.pause();
    this.#relay = new Relay(this.#lane, this.#socket, upstream, this.session, (error) => this.#end(error));
    upstream.user = this.#relay;
    this.#relay.start(this.#early.take(), Buffer.alloc(0));
  }

  /** Whether it may go through by what holds now; else it is refused. */
  #holdsGood(): boolean {
    const why = this.#refusal();
    if (why !== null) this.#refuse(why);
    return why === null;
  }

  /** Why it may not go through, by what holds now; null: it may. */
  #refusal(): ProblemCode | null {
    const { vault, session } = this.#access;
    const { host, port, literal } = this.#authority;
    if (!this.#lane.gate()) return 'overloaded';
    if (vault.gone || !session.valid(Date.now())) return 'unauthorized';
    const matched = vault.match(host, port, literal !== 0);
    const refused = admit(vault, { scheme: 'https', authority: this.#authority }, matched, this.#lane);
    if (refused !== null) return refused.code;
    // To a host with a service nothing goes that can't be looked into.
    if (matched !== undefined) return 'invalid_request';
    if (this.#isTls && vault.settings.unmatched_tls !== 'tunnel') return 'invalid_request';
    return this.#lane.audit.healthy ? null : 'audit_unavailable';
  }

  #refuse(code: ProblemCode): void {
    this.#end(code, statusOf(code));
  }

  /** Ends it on both sides, if it has not ended, and closes the books. */
  #end(error: string | null, status = this.#relay === null ? 0 : 200): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#cancelDial?.();
    this.#cancelDial = null;
    this.#leave();
    if (this.#relay === null) this.#socket.destroy();
    const lane = this.#lane;
    if (this.#holdsSlot) lane.limits.release(this.#access.slot);
    const outcome = {
      sent: this.#sent,
      status,
      error,
      bytesIn: this.#relay?.bytesUp ?? 0,
      bytesOut: this.#relay?.bytesDown ?? 0,
      milliseconds: performance.now() - this.#startedAt,
    };
    lane.record(this.#facts, outcome, this.#recordSlot);
  }

  /** Lets go of the socket, as far as it has it. */
  #leave(): void {
    this.#lane.sweeper.remove(this);
    this.#socket.removeListener('data', this.#onData);
    this.#socket.removeListener('end', this.#onEnd);
    this.#socket.removeListener('close', this.#onClose);
  }

  fail(error: unknown): void {
    this.#lane.failed(error, this.#facts.requestId);
    try {
      this.#refuse('internal');
    } catch {
      this.#socket.destroy();
    }
  }

  onDeadline(): void {
    this.#refuse('upstream_timeout');
  }

  onRevoked(): void {
    this.#end('unauthorized');
  }

  /** It has carried nothing yet. */
  onStop(): void {
    this.#refuse('overloaded');
  }
}
