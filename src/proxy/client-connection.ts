import type net from 'node:net';
import { TLSSocket } from 'node:tls';
import { type Authority, hostHeader, parseAbsolute, parseAuthority } from '../actors/vault/authority.ts';
import { type Problem, problem, problemBody, statusOf } from '../actors/vault/problem.ts';
import { Accumulator } from './accumulator.ts';
import { type Caller, limitOf } from './caller.ts';
import { outOfDescriptors } from './descriptors.ts';
import { Exchange } from './exchange.ts';
import { isHeadError, maxHeadBytes, parseRequestHead, type RequestHead } from './head.ts';
import { requestPrefixError } from './head-prefix.ts';
import { Intake } from './intake.ts';
import type { Lane } from './lane.ts';
import type { Access, SessionEntry } from './lane-state.ts';
import { lingerBytes, lingerMs } from './linger.ts';
import type { Target } from './plan.ts';
import { reasonPhrase } from './reason.ts';
import type { Swept } from './sweep.ts';

/** What a client sends ahead of its turn (a body that waits for its upstream, pipelined requests) before it is paused. */
const maxPending = 256 * 1024;
/** How long a half-closed client is given for its answer to begin before it counts as gone, in ms. */
const halfCloseGraceMs = 500;
/** What is written to a client that is gone is answered with a reset, which the next write finds. */
const maxProbes = 2;
const headEnd = Buffer.from('\r\n\r\n');
const LF = 10;
const CR = 13;

const owed = { nothing: 0, answer: 1, all: 2 } as const;

/** What a connection is for. */
export interface Role {
  /** Inside a tunnel: where it goes, and who opened it. null: the proxy port itself. */
  readonly tunnel: { readonly target: Target; readonly access: Access } | null;
  /** On the proxy port: who this connection may be (`Proxy-Authorization`), and what a CONNECT becomes. */
  readonly caller: Caller | null;
  /** There is hardly a descriptor left: requests are refused, and so are tunnels. */
  readonly crowded: boolean;
  /** The peer's network: whose turn is taken while it isn't known who sends. */
  readonly network: string;
  readonly onConnect: ((authority: Authority, access: Access, early: Buffer) => void) | null;
}

/**
 * The server's side of one HTTP/1.1 connection: cuts it into requests, one exchange at a time, in order.
 * It stands on the proxy port (CONNECT and absolute form) and inside each intercepted tunnel (origin form).
 */
export class ClientConnection implements Swept {
  readonly lane: Lane;
  readonly socket: net.Socket;
  deadline: number;
  readonly #role: Role;
  readonly #intake: Intake;
  #pending: Accumulator | null = null;
  /** The one empty line that may stand before the next request has come. */
  #emptyLine = false;
  #exchange: Exchange | null = null;
  /** What the request in hand, which has no exchange yet, has still to get. */
  #owed: number = owed.nothing;
  /** The client sends no more; since when (sweeper time), and what had been written to it by then. */
  #endedAt = -1;
  #writtenAtEnd = 0;
  /** It is half-closed, not gone: writing to it after its end went well. */
  #readsOn = false;
  /** Interim answers written after its end to find that out. */
  #probes = 0;
  /** The client does not read its answers: its next request waits until it does. */
  #stalled = false;
  /** What it sent ahead is looked at when its turn comes. */
  #waitsTurn = false;
  #closing = false;
  /** Bytes that came after that. */
  #readOver = 0;
  #detached = false;

  constructor(lane: Lane, socket: net.Socket, role: Role) {
    this.lane = lane;
    this.socket = socket;
    this.#role = role;
    this.#intake = new Intake(socket, lane.turns, role.tunnel?.access.session ?? role.network);
    // A tunnel may be opened long before it is used; who it belongs to is known by then.
    this.deadline = lane.sweeper.now + (role.tunnel === null ? lane.timeouts.head : lane.timeouts.keepAlive);
    lane.sweeper.add(this);
    const owned = socket as Owned;
    owned[owner] = this;
    socket.on('data', onData);
    socket.on('end', onEnd);
    socket.on('drain', onDrain);
    socket.on('error', ignore);
    socket.on('close', onClose);
  }

  get session(): SessionEntry | null {
    // On the proxy port each request says whose it is.
    return this.#role.tunnel?.access.session ?? this.#exchange?.session ?? null;
  }

  get idle(): boolean {
    return this.#exchange === null && this.#pending === null;
  }

  /** Takes what came in; contains what goes wrong with it. */
  receive(chunk: Buffer): void {
    try {
      this.#onData(chunk);
    } catch (error) {
      this.fail(error);
    }
  }

  #onData(chunk: Buffer): void {
    this.#intake.took(chunk.length);
    if (this.#closing) {
      this.#readOver += chunk.length;
      if (this.#readOver > lingerBytes) this.pause();
      return;
    }
    if (this.#stalled || this.#waitsTurn) {
      this.#hold(chunk);
      if ((this.#pending?.length ?? 0) > maxPending) this.pause();
      return;
    }
    let rest = chunk;
    const exchange = this.#exchange;
    if (exchange !== null) {
      if (exchange.wantsBody) {
        const end = exchange.onRequestData(chunk, 0);
        if (end >= chunk.length || this.#closing) return;
        rest = chunk.subarray(end);
      }
      if (this.#exchange !== null) {
        this.#hold(rest);
        if ((this.#pending?.length ?? 0) > maxPending) this.pause();
        return;
      }
    }
    if (this.#pending !== null) {
      const before = this.#pending.length;
      this.#pending.push(rest);
      this.#next(this.#pending.view(), Math.max(0, before - 3));
    } else this.#next(rest, 0);
  }

  #hold(bytes: Buffer): void {
    this.#pending ??= new Accumulator();
    this.#pending.push(bytes);
  }

  /** Reads the next head out of `bytes`, which begin where a request begins; searched for its end from `from`. */
  #next(bytes: Buffer, from: number): void {
    let start = 0;
    // RFC 9112 2.2: one empty line before a request line is read over.
    if (!this.#emptyLine && bytes.length >= 2 && bytes[0] === CR && bytes[1] === LF) start = 2;
    const end = bytes.indexOf(headEnd, Math.max(start, from));
    if (end < 0) {
      if (start === bytes.length && this.#endedAt < 0) {
        this.#pending = null;
        this.#emptyLine ||= start > 0;
        return;
      }
      const broken = bytes.length > maxHeadBytes ? null : requestPrefixError(bytes, start, from);
      if (bytes.length > maxHeadBytes) this.#refuseHead(problem('headers_too_large'));
      else if (broken !== null) this.#refuseHead(problem(broken.code, broken.message));
      else if (bytes.length > 0) {
        if (this.#pending === null) {
          this.#hold(bytes);
          this.deadline = this.lane.sweeper.now + this.lane.timeouts.head;
        }
        if (this.#endedAt >= 0) this.close();
      }
      return;
    }
    if (end - start > maxHeadBytes) {
      this.#refuseHead(problem('headers_too_large'));
      return;
    }
    this.#owed = owed.all;
    const head = parseRequestHead(bytes.latin1Slice(start, end));
    this.#pending = null;
    this.#emptyLine = false;
    if (isHeadError(head)) {
      this.#refuseHead(problem(head.code, head.message));
      return;
    }
    if (end + 4 < bytes.length) this.#hold(bytes.subarray(end + 4));
    this.deadline = Number.POSITIVE_INFINITY;
    this.#handle(head);
  }

  /** A head that can't be read: what follows it can't be either, so the connection ends with the answer. */
  #refuseHead(refusal: Problem): void {
    const id = this.lane.requestId();
    const access = this.#role.tunnel?.access ?? null;
    if (access !== null) this.#recordRefusal(id, access, '-', '', this.#role.tunnel?.target ?? null, refusal);
    this.writeRefusal(refusal, id, false, false);
    this.close();
  }

  #handle(head: RequestHead): void {
    const id = this.lane.requestId();
    if (!this.lane.gate()) {
      this.#refuse(problem('overloaded', undefined, undefined, 1), id, head, false);
      return;
    }
    if (this.#role.tunnel !== null)
      this.#handleInner(head, id, this.#role.tunnel.target, this.#role.tunnel.access);
    else if (head.method === 'CONNECT') this.#handleConnect(head, id);
    else this.#handleAbsolute(head, id);
  }

  #handleConnect(head: RequestHead, id: string): void {
    const authority = parseAuthority(head.target, null);
    if (authority === null) {
      this.#refuse(
        problem('invalid_request', 'CONNECT takes HOST:PORT, with a valid host and port.'),
        id,
        head,
        false,
      );
      return;
    }
    if (head.framed) {
      this.#refuse(problem('invalid_request', 'CONNECT carries no body.'), id, head, false);
      return;
    }
    const access = this.#authenticate(head, id, { scheme: 'https', authority });
    if (access === null) return;
    if (this.#role.crowded) {
      this.#refuseCrowded(id, access, head, '', { scheme: 'https', authority });
      return;
    }
    this.socket.write('HTTP/1.1 200 Connection Established\r\n\r\n', 'latin1');
    const early = this.detach();
    this.#role.onConnect?.(authority, access, early);
  }

  #handleAbsolute(head: RequestHead, id: string): void {
    const absolute = parseAbsolute(head.target);
    if (absolute === null) {
      const message =
        'This is a proxy: send CONNECT HOST:PORT, or a full http:// URL. For the API use its own address.';
      this.#refuse(problem('invalid_request', message), id, head, false);
      return;
    }
    if (head.minor === 1 && (head.host === null || parseAuthority(head.host, 80) === null)) {
      this.#refuse(problem('invalid_request', 'The Host field is missing or malformed.'), id, head, false);
      return;
    }
    const target: Target = { scheme: absolute.scheme, authority: absolute.authority };
    const access = this.#authenticate(head, id, target);
    if (access !== null) this.#begin(head, id, target, access, absolute.path);
  }

  #handleInner(head: RequestHead, id: string, target: Target, access: Access): void {
    const refuse = (p: Problem): void => {
      this.#recordRefusal(id, access, head.method, head.target, target, p);
      this.#refuse(p, id, head, false);
    };
    const session = access.session;
    if (!session.valid(Date.now()) || access.vault.gone) {
      refuse(problem('unauthorized'));
      return;
    }
    if (head.method === 'CONNECT') {
      refuse(problem('method_not_allowed', 'A tunnel inside a tunnel is refused.'));
      return;
    }
    let path = head.target;
    if (!path.startsWith('/') || path.startsWith('//')) {
      const absolute = parseAbsolute(path);
      if (
        absolute !== null &&
        absolute.scheme === target.scheme &&
        same(absolute.authority, target.authority)
      ) {
        path = absolute.path;
      } else if (absolute !== null) {
        refuse(problem('misdirected_request'));
        return;
      } else if (path !== '*' || head.method !== 'OPTIONS') {
        refuse(problem('invalid_request', 'The request target has to begin with one slash.'));
        return;
      }
    }
    const refusal = hostRefusal(head.host, target);
    if (refusal !== null) {
      refuse(refusal);
      return;
    }
    this.#begin(head, id, target, access, path);
  }

  /** Who sends this, and for which vault; null: it was refused. */
  #authenticate(head: RequestHead, id: string, target: Target): Access | null {
    const found = (this.#role.caller as Caller).authenticate(head, this.socket.remoteAddress ?? '');
    if ('session' in found) return found;
    if (found.audited) this.#recordRefusal(id, null, head.method, '', target, found.problem);
    // git asks without credentials first, and only goes on if the same connection stays open.
    this.#refuse(
      found.problem,
      id,
      head,
      head.keepAlive && !head.framed && found.problem.code === 'proxy_auth_required',
    );
    return null;
  }

  #begin(head: RequestHead, id: string, target: Target, access: Access, path: string): void {
    const { lane } = this;
    if (this.#role.crowded) {
      this.#refuseCrowded(id, access, head, path, target);
      return;
    }
    const wait = lane.limits.take(
      access.slot,
      limitOf(lane.defaultLimit, access.vault.settings),
      lane.micros(),
    );
    if (wait > 0 || !lane.audit.healthy) {
      const p =
        wait > 0
          ? problem('rate_limited', undefined, undefined, wait)
          : problem('audit_unavailable', undefined, undefined, 5);
      if (wait === 0) lane.limits.release(access.slot);
      this.#recordRefusal(id, access, head.method, path, target, p);
      this.#refuse(p, id, head, head.keepAlive && head.bodyLength === 0);
      return;
    }
    this.#intake.owner = access.session;
    try {
      this.#exchange = new Exchange(this, access, target, path, head, id);
    } catch (error) {
      lane.limits.release(access.slot);
      throw error;
    }
    this.#owed = owed.nothing;
    this.#exchange.start();
  }

  /** Refuses before there is an exchange. */
  #refuse(refusal: Problem, id: string, head: RequestHead, keep: boolean): void {
    this.writeRefusal(refusal, id, keep, head.method === 'HEAD');
    if (keep) this.#resumeReading();
    else this.close();
  }

  #refuseCrowded(id: string, access: Access, head: RequestHead, path: string, target: Target): void {
    const p = outOfDescriptors();
    this.#recordRefusal(id, access, head.method, path, target, p);
    this.#refuse(p, id, head, false);
  }

  #recordRefusal(
    id: string,
    access: Access | null,
    method: string,
    path: string,
    target: Target | null,
    p: Problem,
  ): void {
    const mark = path.indexOf('?');
    const facts = {
      time: Date.now(),
      requestId: id,
      access,
      peer: access === null ? this.socket.remoteAddress : null,
      method,
      scheme: target?.scheme ?? 'https',
      host: target === null ? '' : hostHeader(target.scheme, target.authority),
      // A target that is no path was refused for it, and may hold anything.
      path: !path.startsWith('/') ? '' : mark < 0 ? path : path.slice(0, mark),
      service: null,
      keys: [],
    };
    this.lane.record(facts, {
      sent: false,
      status: statusOf(p.code),
      error: p.code,
      bytesIn: 0,
      bytesOut: 0,
      milliseconds: 0,
    });
    this.#owed = owed.answer;
  }

  /**
   * Something of the broker's own threw: it costs the request in hand, with 500 where its answer has not begun, and this
   * connection. Never throws.
   */
  fail(error: unknown): void {
    const exchange = this.#exchange;
    if (exchange !== null) {
      exchange.fail(error);
      return;
    }
    const id = this.lane.requestId();
    this.lane.failed(error, id);
    try {
      const before = this.#owed;
      const p = problem('internal');
      if (before === owed.all) {
        const tunnel = this.#role.tunnel;
        this.#recordRefusal(id, tunnel?.access ?? null, '-', '', tunnel?.target ?? null, p);
      }
      if (before !== owed.nothing && !this.#closing) {
        this.writeRefusal(p, id, false, false);
        this.close();
        return;
      }
    } catch {
      // There is nothing left to say.
    }
    this.destroy();
  }

  /** Writes the broker's own answer (protocol, "Errors"); `X-Broker-Error` tells it from an upstream's. */
  writeRefusal(p: Problem, id: string, keep: boolean, bodiless: boolean): void {
    this.#owed = owed.nothing;
    const body = problemBody(p, id);
    const status = statusOf(p.code);
    let head = `HTTP/1.1 ${status} ${reasonPhrase(status)}\r\nContent-Type: application/json\r\n`;
    head += `Content-Length: ${Buffer.byteLength(body)}\r\nCache-Control: no-store\r\nX-Broker-Error: ${p.code}\r\n`;
    if (status === 407) head += 'Proxy-Authenticate: Basic realm="broker"\r\n';
    if (p.retryAfterSeconds !== undefined) head += `Retry-After: ${p.retryAfterSeconds}\r\n`;
    if (!keep) head += 'Connection: close\r\n';
    this.socket.write(`${head}\r\n${bodiless ? '' : body}`);
  }

  /** An exchange is over. `keep`: the connection goes on with the next request. */
  finish(exchange: Exchange, keep: boolean): void {
    if (this.#exchange !== exchange) return;
    this.#exchange = null;
    if (!keep || this.lane.draining) this.close();
    else this.#resumeReading();
  }

  #resumeReading(): void {
    // Pipelined requests are short and their answers long: a client that reads none must not fill our memory.
    this.#stalled = this.socket.writableNeedDrain;
    if (this.#stalled) {
      this.deadline = this.lane.sweeper.now + this.lane.timeouts.body;
      this.pause();
      return;
    }
    this.deadline = this.lane.sweeper.now + this.lane.timeouts.keepAlive;
    if (this.#pending !== null) {
      // A thousand pipelined ones must neither nest nor have everybody wait for all of them.
      this.#waitsTurn = true;
      this.lane.turns.wait(this.#intake.owner, this);
    } else if (this.#endedAt >= 0) this.close();
    else this.resume();
  }

  onTurn(): void {
    this.#waitsTurn = false;
    const bytes = this.takePending();
    if (this.#closing || bytes === null) return;
    this.#next(bytes, 0);
    if (!this.#waitsTurn) this.resume();
  }

  /** Ends the connection after what was written: half-closes, reads over what still comes, then closes. */
  close(): void {
    if (this.#closing || this.#detached) return;
    this.#closing = true;
    this.#exchange?.abort('client_closed');
    this.#exchange = null;
    this.#pending = null;
    this.socket.end();
    this.#intake.resume();
    // A slow reader fetches the end of its answer as it fetched the rest; the grace begins when all is out.
    this.deadline = this.lane.sweeper.now + this.lane.timeouts.body;
    this.socket.once('finish', onFinish);
  }

  onFinish(): void {
    this.deadline = this.lane.sweeper.now + (this.#endedAt >= 0 ? 250 : lingerMs);
  }

  destroy(): void {
    this.socket.destroy();
  }

  /** Ends the connection so that no client can take what it has for the whole, not even by the end of the stream. */
  cutOff(): void {
    // Over TLS the missing close_notify says so.
    if (this.socket instanceof TLSSocket) this.socket.destroy();
    else this.socket.resetAndDestroy();
  }

  pause(): void {
    this.#intake.pause();
  }

  resume(): void {
    if (!this.#detached) this.#intake.resume();
  }

  /** @param ms from now; Infinity: none */
  setDeadline(ms: number): void {
    if (this.#closing) return;
    const limit = this.#endedAt >= 0 && !this.#readsOn ? Math.min(ms, halfCloseGraceMs) : ms;
    this.deadline = this.lane.sweeper.now + limit;
  }

  /** What was read ahead of the exchange, or null; it is the caller's then. */
  takePending(): Buffer | null {
    const bytes = this.#pending?.take() ?? null;
    this.#pending = null;
    return bytes;
  }

  /** Gives back what of `bytes` was not part of the body. */
  giveBack(bytes: Buffer, end: number): void {
    if (end < bytes.length && !this.#closing) this.#hold(bytes.subarray(end));
  }

  /** The exchange has all that came of its body, and wants the rest. */
  readMore(): void {
    if (this.#endedAt >= 0) this.destroy();
    else this.resume();
  }

  /** Hands what was read ahead to the exchange, which takes its body now. */
  pump(): void {
    const bytes = this.takePending();
    if (bytes === null || this.#exchange === null) return;
    const end = this.#exchange.onRequestData(bytes, 0);
    if (end < bytes.length) {
      this.giveBack(bytes, end);
      if (this.#exchange === null && !this.#closing) this.#resumeReading();
    }
  }

  /** Gives the socket away; returns what was read ahead. */
  detach(): Buffer {
    this.#detached = true;
    this.#owed = owed.nothing;
    this.lane.sweeper.remove(this);
    const { socket } = this;
    this.#intake.pause();
    socket.removeListener('data', onData);
    socket.removeListener('end', onEnd);
    socket.removeListener('drain', onDrain);
    socket.removeListener('close', onClose);
    return this.takePending() ?? Buffer.alloc(0);
  }

  onEnd(): void {
    if (this.#endedAt >= 0) return;
    this.#endedAt = this.lane.sweeper.now;
    if (this.#closing) {
      if (this.socket.writableFinished) this.destroy();
    } else if (this.#waitsTurn) return;
    else if (this.#exchange === null) this.close();
    else if (!this.#exchange.requestComplete && this.#pending === null) this.destroy();
    else {
      // A half-close and a close look alike from here. A client that still reads will see its answer begin;
      // towards one that is gone writing fails; where nothing is written within the grace, probes decide.
      this.#writtenAtEnd = this.#exchange.written;
      this.deadline = this.lane.sweeper.now + halfCloseGraceMs;
    }
  }

  onDrain(): void {
    if (this.#stalled) this.#resumeReading();
    else this.#exchange?.onClientDrain();
  }

  onClose(): void {
    this.lane.sweeper.remove(this);
    this.#closing = true;
    this.#exchange?.abort('client_closed');
    this.#exchange = null;
  }

  onDeadline(): void {
    const exchange = this.#exchange;
    if (this.#closing || this.#stalled) this.destroy();
    else if (exchange === null) {
      if (this.#pending === null) this.close();
      else this.#refuseHead(problem('request_timeout'));
    } else if (this.#endedAt >= 0) {
      if (this.#readsOn) exchange.onDeadline();
      else if (this.#probes === maxProbes || (this.#probes === 0 && exchange.written > this.#writtenAtEnd)) {
        this.#readsOn = true;
        this.setDeadline(exchange.answering ? this.lane.timeouts.body : this.lane.timeouts.responseHead);
      } else if (exchange.probe()) {
        this.#probes++;
        // At the next sweep: a reset has come by then from a client that is gone.
        this.deadline = this.lane.sweeper.now;
      } else if (exchange.written > this.#writtenAtEnd) {
        // The answer began between two probes: it is what finds out now.
        this.#probes = maxProbes;
        this.deadline = this.lane.sweeper.now;
      } else this.destroy();
    } else exchange.onDeadline();
  }

  onRevoked(why = 'unauthorized'): void {
    this.#exchange?.abort(why);
    this.#exchange = null;
    this.destroy();
  }

  onStop(): void {
    if (this.idle) this.close();
  }
}

const owner = Symbol('owner');
type Owned = net.Socket & { [owner]: ClientConnection };

// One set of listeners for all connections: an idle one holds no closures of its own.
function onData(this: net.Socket, chunk: Buffer): void {
  (this as Owned)[owner].receive(chunk);
}
const onEnd = contained('onEnd');
const onDrain = contained('onDrain');
const onFinish = contained('onFinish');
const onClose = contained('onClose');
function ignore(): void {}

function contained(event: 'onEnd' | 'onDrain' | 'onFinish' | 'onClose'): (this: net.Socket) => void {
  return function (this: net.Socket): void {
    const connection = (this as Owned)[owner];
    try {
      connection[event]();
    } catch (error) {
      connection.fail(error);
    }
  };
}

function same(a: Authority, b: Authority): boolean {
  return a.host === b.host && a.port === b.port;
}

function hasPort(host: string): boolean {
  return host.lastIndexOf(':') > host.lastIndexOf(']');
}

/** Why a tunnel's request can't name this host; null: it means the tunnel's own target. */
function hostRefusal(text: string | null, target: Target): Problem | null {
  const { scheme, authority } = target;
  // As nearly all clients write it: nothing to parse.
  if (text === hostHeader(scheme, authority)) return null;
  const host = text === null ? null : parseAuthority(text, scheme === 'https' ? 443 : 80);
  if (host === null) return problem('invalid_request', 'The Host field is missing or malformed.');
  // The default port may stand or not; a Host without a port on another port is that port's all the same.
  if (host.host === authority.host && (host.port === authority.port || !hasPort(text as string))) return null;
  return problem(
    'misdirected_request',
    `This tunnel is for ${authority.host}. Open another one for another host.`,
  );
}
