import { hostHeader } from '../actors/vault/authority.ts';
import { type Problem, problem, statusOf } from '../actors/vault/problem.ts';
import { Accumulator } from './accumulator.ts';
import type { RequestFacts } from './audit-line.ts';
import { noSlot } from './audit-sink.ts';
import { asChunk, BodyReader, bodyState, join, lastChunk } from './body.ts';
import type { ClientConnection } from './client-connection.ts';
import { isUnasked, type Vetted } from './dial.ts';
import { isReserved, role } from './fields.ts';
import {
  chunked,
  maxHeadBytes,
  parseResponseHead,
  type RequestHead,
  type ResponseHead,
  untilClose,
} from './head.ts';
import { canBeHead } from './head-prefix.ts';
import type { Access, SessionEntry } from './lane-state.ts';
import { lingerBytes } from './linger.ts';
import { definesBody, isIdempotent } from './methods.ts';
import { admit, type Plan, passingTrailers, plan, type Target } from './plan.ts';
import { type DecodedSink, Reflection } from './reflection.ts';
import { Relay } from './relay.ts';
import { type Upstream, type UpstreamUser, upstreamKey } from './upstreams.ts';
import { acceptsWebSocket, webSocketKey } from './websocket.ts';

/** More interim answers than this before the final one are an upstream gone wrong. */
const maxInterim = 32;
/** How long the rest of a refused request may take to come, where its connection is to go on, in ms. */
const discardMs = 5_000;
const headEnd = Buffer.from('\r\n\r\n');
/** Says that an answer is the broker's own: no upstream may say so. */
const brokerErrorField = 'x-broker-error';
const noBytes = Buffer.alloc(0);
/** Fields that are reserved in requests, and that an answer may have. */
const freeInAnswers: ReadonlySet<string> = new Set(['host', 'x-vault', 'authorization', 'expect']);
const keptBack: ReadonlySet<string> = new Set([brokerErrorField]);
/** No second delivery can be ruled out, nor can the first. */
const unknownOutcome = 'Whether it acted on the request is not known.';

const phase = { waiting: 0, head: 1, body: 2, done: 3 } as const;

/**
 * One request and its answer: decides, gets a connection, relays both bodies with back-pressure, follows an
 * abort on one side with an abort on the other, and leaves one audit record, however it ends.
 */
export class Exchange implements UpstreamUser, DecodedSink {
  readonly #client: ClientConnection;
  readonly #access: Access;
  readonly #target: Target;
  readonly #path: string;
  readonly #head: RequestHead;
  readonly requestId: string;
  readonly #startedAt = performance.now();
  readonly #wallTime = Date.now();

  #plan: Plan | null = null;
  #service: string | null = null;
  #upstream: Upstream | null = null;
  /** The upstream connection had served a request before this one. */
  #reused = false;
  /** How often the request was sent, or was about to be. */
  #attempts = 1;
  #cancelDial: (() => void) | null = null;
  #phase: number = phase.waiting;

  readonly #request: BodyReader;
  /** The request's body is read and thrown away: it was refused, or its upstream takes no more. */
  #discarding = false;
  #headBytes: Accumulator | null = null;
  #response: BodyReader | null = null;
  #answer: ResponseHead | null = null;
  /** Looks through the answer for what was put into the request; null: there is nothing to look for. */
  #reflection: Reflection | null = null;
  #interim = 0;
  #asChunks = false;
  /** The answer's end is certain and the upstream keeps the connection: another exchange may use it. */
  #reusable = false;
  #keepClient = true;
  /** Bytes of any kind written to the client: what tells a half-closed client from a gone one. */
  written = 0;
  /** Bytes to the client after an upgrade. */
  #bytesRelayed = 0;
  #status = 0;
  /** The head of the answer was written. */
  #headOut = false;
  #finished = false;
  #recorded = false;
  #holdsSlot = true;
  /** Something of the request left the broker: its name to be looked up, a connection, or itself. */
  #sent = false;
  /** Where the request is on record while it is under way, and as what. */
  #recordSlot = noSlot;
  #facts: RequestFacts | null = null;

  constructor(
    client: ClientConnection,
    access: Access,
    target: Target,
    path: string,
    head: RequestHead,
    id: string,
  ) {
    this.#client = client;
    this.#access = access;
    this.#target = target;
    this.#path = path;
    this.#head = head;
    this.requestId = id;
    this.#request = new BodyReader(head.bodyLength);
    this.#keepClient = head.keepAlive;
  }

  get session(): SessionEntry {
    return this.#access.session;
  }

  /** The client's next bytes are this request's body, and there is somewhere for them to go. */
  get wantsBody(): boolean {
    return this.#request.state === bodyState.more && (this.#upstream !== null || this.#discarding);
  }

  get requestComplete(): boolean {
    return this.#request.state === bodyState.done;
  }

  /** The answer's head is with the client. */
  get answering(): boolean {
    return this.#phase >= phase.body;
  }

  /**
   * Writes an interim answer, which any client of HTTP/1.1 reads over (RFC 9110 15.2), to find out whether there still
   * is one. false: it can't stand here.
   */
  probe(): boolean {
    if (this.#head.minor === 0 || this.answering) return false;
    this.#write('HTTP/1.1 100 Continue\r\n\r\n');
    return true;
  }

  /** Decides and starts (protocol, "Order of refusals"); the limits were taken before. */
  start(): void {
    const { vault } = this.#access;
    const { authority } = this.#target;
    const matched = vault.match(authority.host, authority.port, authority.literal !== 0);
    this.#service = matched?.service.host ?? null;
    const refused = admit(vault, this.#target, matched, this.#client.lane);
    if (refused !== null) {
      if (refused.code === 'forbidden') {
        this.#client.lane.notice('host.denied', vault.name, { host: authority.host, port: authority.port });
      }
      this.refuse(refused);
      return;
    }
    const idle = this.#client.lane.upstreams.take(this.#access.session, upstreamKey(vault.id, this.#target));
    if (idle === null) this.#connect();
    else if (this.#decide()) {
      this.#reused = true;
      this.#send(idle);
    } else idle.putBack();
  }

  /** Gets a new connection. What was decided before it is there is decided again once it is. */
  #connect(): void {
    const { session } = this.#access;
    const { upstreams } = this.#client.lane;
    this.#client.setDeadline(Number.POSITIVE_INFINITY);
    if (this.#recordSlot === noSlot && !this.#begin()) return;
    const { authority } = this.#target;
    const before = this.#sent;
    this.#sent ||= authority.literal === 0;
    const cancel = upstreams.dialler.resolve(session, authority, (vetted) => {
      if ('code' in vetted && isUnasked(vetted)) this.#sent = before;
      try {
        this.#onVetted(vetted);
      } catch (error) {
        this.fail(error);
      }
    });
    // A literal was vetted at once, and what there is to cancel is its connection.
    if (!this.#finished) this.#cancelDial ??= cancel;
  }

  #onVetted(vetted: Vetted | Problem): void {
    this.#cancelDial = null;
    if (this.#finished) return;
    if ('code' in vetted) this.#unreached(vetted);
    else if (this.#decide()) {
      const { session, vault } = this.#access;
      const key = upstreamKey(vault.id, this.#target);
      const { upstreams } = this.#client.lane;
      this.#sent = true;
      this.#cancelDial = upstreams.open(session, key, this.#target, vetted, (result) => {
        try {
          this.#onDialled(result);
        } catch (error) {
          if ('socket' in result) result.destroy();
          this.fail(error);
        }
      });
    }
  }

  #onDialled(result: Upstream | Problem): void {
    this.#cancelDial = null;
    if ('code' in result) this.#unreached(result);
    else if (!this.#finished && this.#decide()) this.#send(result);
    else result.destroy();
  }

  #unreached(why: Problem): void {
    this.refuse(this.#attempts === 1 ? why : { ...why, message: `${why.message} ${unknownOutcome}` });
  }

  /**
   * A server may close a kept connection as the next request arrives. What comes to the same if it is done twice, has no
   * body and got no byte of an answer is sent once more, on a new connection (RFC 9110 9.2.2). false: it may not be.
   */
  #sendAgain(): boolean {
    if (!this.#reused || this.#headBytes !== null || this.#interim > 0) return false;
    if (this.#head.bodyLength !== 0 || !isIdempotent(this.#head.method)) return false;
    this.#reused = false;
    this.#attempts++;
    this.#phase = phase.waiting;
    this.#connect();
    return true;
  }

  /** Makes the plan from the state as it is now, and puts it on record; false where it refused. */
  #decide(): boolean {
    const { vault, session } = this.#access;
    const { authority } = this.#target;
    if (!this.#client.lane.gate()) {
      this.refuse(problem('overloaded', undefined, undefined, 1));
      return false;
    }
    if (vault.gone || !session.valid(Date.now())) {
      this.#keepClient = false;
      this.refuse(problem('unauthorized'));
      return false;
    }
    // Looked up again: the service may have changed while the name was resolved.
    const matched = vault.match(authority.host, authority.port, authority.literal !== 0);
    const refused = admit(vault, this.#target, matched, this.#client.lane);
    if (refused !== null) {
      this.refuse(refused);
      return false;
    }
    const decided = plan(vault, this.#target, matched, this.#path, this.#head);
    this.#service = decided.service;
    if ('refusal' in decided) {
      if (decided.refusal.code === 'credential_not_found') {
        this.#client.lane.notice('credential.missing', vault.name, {
          ...decided.refusal.extra,
          service: this.#service,
        });
      }
      this.refuse(decided.refusal);
      return false;
    }
    this.#plan = decided;
    return this.#begin();
  }

  /** Puts on record what is known, before the upstream may learn of it; false: there was no room, and it is refused. */
  #begin(): boolean {
    const known = this.#facts;
    const keys = this.#plan?.keys ?? [];
    // A new connection is decided on twice, mostly the same way.
    if (known !== null && known.service === this.#service && isSame(known.keys, keys)) return true;
    this.#facts = this.#describe();
    this.#recordSlot = this.#client.lane.audit.begin(this.#facts, this.#recordSlot);
    if (this.#recordSlot !== noSlot) return true;
    this.refuse(problem('overloaded', undefined, undefined, 1));
    return false;
  }

  #describe(): RequestFacts {
    const { authority, scheme } = this.#target;
    const mark = this.#path.indexOf('?');
    return {
      time: this.#wallTime,
      requestId: this.requestId,
      access: this.#access,
      method: this.#head.method,
      scheme,
      host: hostHeader(scheme, authority),
      path: mark < 0 ? this.#path : this.#path.slice(0, mark),
      service: this.#service,
      keys: this.#plan?.keys ?? [],
    };
  }

  #send(upstream: Upstream): void {
    this.#upstream = upstream;
    this.#sent = true;
    upstream.user = this;
    this.#phase = phase.head;
    const head = this.#head;
    let text = (this.#plan as Plan).head;
    if (head.bodyLength === chunked) text += 'Transfer-Encoding: chunked\r\n';
    else if (head.framed) text += `Content-Length: ${head.bodyLength}\r\n`;
    if (head.expectContinue) text += 'Expect: 100-continue\r\n';
    if (head.websocket) text += 'Connection: Upgrade\r\nUpgrade: websocket\r\n';
    text += '\r\n';
    this.#client.setDeadline(this.#client.lane.timeouts.responseHead);
    // What has come of the body goes in the same write as the head.
    const early = this.#request.state === bodyState.more ? this.#client.takePending() : null;
    if (early === null) upstream.socket.write(text, 'latin1');
    else if (this.#relayRequest(text, early, 0)) this.#client.giveBack(early, this.#request.end);
    if (this.#request.state === bodyState.more && !this.#finished) this.#client.readMore();
  }

  /** Bytes of the request's body, from `at`; returns the index of the first byte that is not part of it. */
  onRequestData(chunk: Buffer, at: number): number {
    if (this.#discarding) {
      this.#request.read(chunk, at, false);
      if (this.#request.state === bodyState.failed || this.#request.bytes > lingerBytes) this.#client.close();
      else if (this.#request.state === bodyState.done) {
        const end = this.#request.end;
        this.#client.finish(this, this.#keepClient);
        return end;
      }
      return this.#request.end;
    }
    this.#relayRequest('', chunk, at);
    return this.#request.end;
  }

  /** Sends on what `chunk` holds of the body, behind `head`. false: the exchange has ended over it. */
  #relayRequest(head: string, chunk: Buffer, at: number): boolean {
    const upstream = this.#upstream as Upstream;
    const asChunks = this.#head.bodyLength === chunked;
    const content = this.#request.read(chunk, at, asChunks);
    let tail = '';
    if (this.#request.state === bodyState.failed) {
      this.#badBody('The request body is not valid chunked encoding.');
      return false;
    }
    if (this.#request.state === bodyState.done && asChunks) {
      const trailers = this.#request.trailers;
      if (trailers?.names.some((n) => n.role === role.contentLength || n.role === role.transferEncoding)) {
        this.#badBody('The request trailers hold a framing field.');
        return false;
      }
      tail = lastChunk(
        trailers === null ? '' : passingTrailers(trailers, this.#head.nominated, (this.#plan as Plan).slots),
      );
    }
    if (content !== null || head !== '' || tail !== '') {
      if (!upstream.socket.write(join(head, content, tail) as string, 'latin1')) this.#client.pause();
    }
    this.#client.setDeadline(
      this.#request.state === bodyState.done && this.#phase !== phase.body
        ? this.#client.lane.timeouts.responseHead
        : this.#client.lane.timeouts.body,
    );
    if (this.#request.state === bodyState.done && this.#phase === phase.done) this.#complete();
    return true;
  }

  /** The client broke its own framing: the upstream must not take what it has for a whole message. */
  #badBody(message: string): void {
    this.#dropUpstream();
    if (this.#phase <= phase.head) {
      this.#keepClient = false;
      this.refuse(problem('invalid_request', message));
    } else {
      this.#finish('invalid_request');
      this.#client.close();
    }
  }

  onUpstreamDrain(): void {
    this.#client.resume();
  }

  onClientDrain(): void {
    this.#reflection?.resume();
    this.#upstream?.resume();
  }

  onUpstreamData(chunk: Buffer): void {
    if (this.#phase === phase.body) {
      this.#relayResponse('', chunk, 0);
      return;
    }
    if (this.#phase !== phase.head) {
      // The answer has ended and the request has not: nothing more may come.
      this.#dropUpstream();
      this.#complete();
      return;
    }
    let bytes = chunk;
    if (this.#headBytes !== null) {
      this.#headBytes.push(chunk);
      bytes = this.#headBytes.view();
    }
    let at = 0;
    // What came before was searched then.
    const before = bytes.length - chunk.length;
    for (;;) {
      const end = bytes.indexOf(headEnd, Math.max(at, before - 3));
      if (end < 0) {
        const broken = bytes.length - at > maxHeadBytes || !canBeHead(bytes, at, Math.max(at, before));
        if (broken) this.#brokenAnswer();
        else if (this.#headBytes === null || at > 0) {
          this.#headBytes = new Accumulator();
          this.#headBytes.push(Buffer.from(bytes.subarray(at)));
        }
        return;
      }
      let head = end - at > maxHeadBytes ? null : parseResponseHead(bytes.latin1Slice(at, end));
      if (head === null) {
        this.#brokenAnswer();
        return;
      }
      if (this.#plan !== null && this.#plan.watch !== null) {
        this.#reflection ??= new Reflection(this.#plan.watch, this.#access.session);
        head = this.#reflection.show(head, bytes.subarray(at, end));
      }
      at = end + 4;
      if (head.status >= 200 || head.status === 101) {
        this.#headBytes = null;
        this.#onAnswer(head, bytes, at);
        return;
      }
      if (++this.#interim > maxInterim) {
        this.#brokenAnswer();
        return;
      }
      // RFC 9110 15.2: a proxy passes interim answers on; HTTP/1.0 knows none.
      if (this.#head.minor === 1) this.#write(`${answerLine(head)}${answerFields(head)}\r\n`);
      if (at === bytes.length) {
        this.#headBytes = null;
        return;
      }
    }
  }

  #onAnswer(head: ResponseHead, bytes: Buffer, at: number): void {
    if (head.status === 101) {
      const key = this.#head.websocket && head.upgradeTo === 'websocket' ? webSocketKey(this.#head) : null;
      if (key === null || !acceptsWebSocket(head, key)) this.#brokenAnswer();
      else this.#upgrade(head, bytes.subarray(at));
      return;
    }
    if (head.status === 407) {
      // The client would take it for the broker's, and show its token to whoever asks for one.
      this.#brokenAnswer(
        'The upstream host asked for proxy credentials, as only a proxy may; its answer was dropped.',
      );
      return;
    }
    const bodiless = this.#head.method === 'HEAD' || head.status === 204 || head.status === 304;
    const shown =
      bodiless || head.bodyLength === 0 || this.#reflection === null
        ? head
        : this.#reflection.begin(head, this);
    if (shown === null) {
      this.#brokenAnswer(
        'The answer is in a coding, or a part of one, that can’t be looked into, or eight coded ones are open; it was dropped. Ask for it without Range.',
      );
      return;
    }
    const decodes = this.#reflection?.decodes === true;
    this.#answer = head;
    this.#status = head.status;
    this.#phase = phase.body;
    this.#response = new BodyReader(bodiless ? 0 : head.bodyLength);
    // A 204 that announces a body may send one all the same: the next answer would begin with it.
    const doubtful = head.status === 204 && head.framed && head.bodyLength !== 0;
    this.#reusable =
      head.keepAlive &&
      !doubtful &&
      (bodiless || head.bodyLength !== untilClose) &&
      (this.#head.bodyLength === 0 || this.#bodyWasRead(head.status));
    let text = answerLine(head) + answerFields(shown);
    if (head.framed && head.bodyLength >= 0 && !decodes) {
      // RFC 9110 8.6: a 204 carries none.
      if (head.status !== 204) text += `Content-Length: ${head.bodyLength}\r\n`;
    } else if (this.#head.minor === 1) {
      // RFC 9112 6.1: nor does a 204 carry this one.
      if (!bodiless || (head.bodyLength === chunked && head.status !== 204))
        text += 'Transfer-Encoding: chunked\r\n';
      this.#asChunks = !bodiless;
    } else this.#keepClient = false;
    // An early refusal means that the rest of the request will not be read.
    if (!this.requestComplete && (head.status >= 400 || !head.keepAlive)) this.#keepClient = false;
    if (this.#client.lane.draining) this.#keepClient = false;
    if (!this.#keepClient) text += 'Connection: close\r\n';
    this.#relayResponse(`${text}\r\n`, bytes, at);
  }

  /**
   * Whether the upstream can be trusted to have read the request's body. Where it is done without it (the method
   * defines none, the answer is early, or none of success), it may take the body for the next request.
   */
  #bodyWasRead(status: number): boolean {
    return (
      status < 300 &&
      definesBody(this.#head.method) &&
      this.requestComplete &&
      this.#upstream?.socket.writableLength === 0
    );
  }

  /** Sends on what `chunk` holds of the answer's body, behind `head`. */
  #relayResponse(head: string, chunk: Buffer, at: number): void {
    const response = this.#response as BodyReader;
    const content =
      at < chunk.length || response.state === bodyState.done ? this.#readResponse(response, chunk, at) : null;
    if (response.state === bodyState.failed) {
      if (head === '') this.#truncated();
      else this.#brokenAnswer();
      return;
    }
    const ended = response.state === bodyState.done;
    if (this.#reflection?.decodes === true) {
      this.#relayDecoded(this.#reflection, head, content, ended);
      return;
    }
    const tail = ended && this.#asChunks ? this.#responseTail(response) : '';
    if (head !== '' || content !== null || tail !== '') {
      const data = join(head, content, tail);
      // Content that stands alone may still be a view of what is read into next.
      this.#write(data === content ? Buffer.from(content) : data);
      this.#headOut = true;
    }
    if (!ended) {
      this.#client.setDeadline(this.#client.lane.timeouts.body);
      return;
    }
    if (response.end < chunk.length && this.#upstream !== null) {
      // A surplus byte: this connection's next answer could be anybody's.
      this.#dropUpstream();
    }
    this.#onAnswered();
  }

  #readResponse(response: BodyReader, chunk: Buffer, at: number): Buffer | null {
    if (response.state === bodyState.done) {
      response.end = at;
      return null;
    }
    const reflection = this.#reflection;
    if (reflection === null) return response.read(chunk, at, this.#asChunks);
    const content = response.read(chunk, at, false);
    if (reflection.decodes || response.state === bodyState.failed) return content;
    const shown = reflection.push(content ?? noBytes, response.state === bodyState.done);
    return shown.length === 0 ? null : this.#asChunks ? asChunk([shown], shown.length) : shown;
  }

  /** A coded body goes through its decoder, and on from there; its connection isn't used again. */
  #relayDecoded(reflection: Reflection, head: string, content: Buffer | null, ended: boolean): void {
    if (head !== '') {
      this.#write(head);
      this.#headOut = true;
    }
    if (!reflection.decode(content, ended)) this.#upstream?.pause();
    if (ended) this.#dropUpstream();
    this.#client.setDeadline(this.#client.lane.timeouts.body);
  }

  onDecoded(content: Buffer): boolean {
    this.#write(this.#asChunks ? asChunk([content], content.length) : content);
    this.#client.setDeadline(this.#client.lane.timeouts.body);
    return !this.#client.socket.writableNeedDrain;
  }

  onDecodedEnd(): void {
    if (this.#asChunks) this.#write(this.#responseTail(this.#response as BodyReader));
    this.#dropUpstream();
    this.#onAnswered();
  }

  onBadCoding(): void {
    this.#truncated();
  }

  onDecoderDrain(): void {
    if (!this.#client.socket.writableNeedDrain) this.#upstream?.resume();
  }

  #responseTail(response: BodyReader): string {
    const nominated = this.#answer?.nominated ?? null;
    if (response.trailers === null) return lastChunk('');
    const lines = passingTrailers(response.trailers, nominated, keptBack);
    return lastChunk(this.#reflection === null ? lines : this.#reflection.text(lines));
  }

  /** The whole answer is with the client. */
  #onAnswered(): void {
    this.#phase = phase.done;
    if (this.requestComplete) this.#complete();
    else if (!this.#keepClient || this.#upstream === null) {
      this.#dropUpstream();
      this.#complete();
    } else this.#client.setDeadline(this.#client.lane.timeouts.body);
  }

  #complete(): void {
    const upstream = this.#upstream;
    const answer = this.#answer;
    if (upstream !== null) {
      this.#upstream = null;
      if (answer !== null && this.#reusable && this.requestComplete)
        upstream.release(answer.keepAliveSeconds);
      else {
        upstream.user = null;
        upstream.destroy();
      }
    }
    this.#finish(null);
    this.#client.finish(this, this.#keepClient && this.requestComplete);
  }

  onUpstreamEnd(): void {
    if (this.#phase === phase.body && this.#answer?.bodyLength === untilClose) {
      this.#keepClient &&= this.#asChunks;
      if (this.#reflection?.decodes === true) {
        this.#relayDecoded(this.#reflection, '', null, true);
        return;
      }
      const rest = this.#reflection?.push(noBytes, true) ?? noBytes;
      if (rest.length > 0) this.#write(this.#asChunks ? asChunk([rest], rest.length) : rest);
      if (this.#asChunks) this.#write(lastChunk(''));
      this.#dropUpstream();
      this.#onAnswered();
    } else if (this.#phase === phase.head || this.#phase === phase.body) this.#upstreamGone();
    else {
      this.#dropUpstream();
      if (this.#phase === phase.done) this.#complete();
    }
  }

  onUpstreamClose(): void {
    this.#upstream = null;
    if (this.#phase === phase.done) {
      this.#keepClient &&= this.requestComplete;
      this.#complete();
    } else this.#upstreamGone();
  }

  #upstreamGone(): void {
    this.#dropUpstream();
    if (this.#phase === phase.body) this.#truncated();
    else if (this.#headBytes !== null && this.#headBytes.length > 0) this.#brokenAnswer();
    else if (this.#phase !== phase.head || !this.#sendAgain()) {
      this.refuse(
        problem(
          'upstream_unreachable',
          `${this.#target.authority.host} closed the connection without an answer. ${unknownOutcome}`,
        ),
      );
    }
  }

  #brokenAnswer(message?: string): void {
    this.#dropUpstream();
    this.refuse(problem('upstream_protocol', message));
  }

  /** The answer broke off: the client must not take what it has for the whole. */
  #truncated(): void {
    this.#dropUpstream();
    this.#finish('upstream_protocol');
    // To a client of HTTP/1.0 the end of the stream can be the end of the body.
    if (this.#head.minor === 0) this.#client.cutOff();
    else this.#client.destroy();
  }

  #dropUpstream(): void {
    const upstream = this.#upstream;
    if (upstream === null) return;
    this.#upstream = null;
    upstream.user = null;
    upstream.destroy();
  }

  #upgrade(head: ResponseHead, surplus: Buffer): void {
    const upstream = this.#upstream as Upstream;
    this.#upstream = null;
    this.#status = 101;
    this.#phase = phase.done;
    this.#write(`${answerLine(head)}${answerFields(head)}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
    const early = this.#client.detach();
    const relay = new Relay(
      this.#client.lane,
      this.#client.socket,
      upstream,
      this.#access.session,
      (error) => {
        this.#request.bytes = relay.bytesUp;
        this.#bytesRelayed = relay.bytesDown;
        this.#finish(error);
      },
    );
    upstream.user = relay;
    relay.start(early, surplus);
  }

  #write(data: string | Buffer): void {
    this.written += data.length;
    if (!this.#client.socket.write(data as string, 'latin1') && this.#upstream !== null) {
      this.#upstream.pause();
    }
  }

  /** Answers with a refusal, if there is still an answer to give. */
  refuse(refusal: Problem): void {
    if (this.#finished) return;
    this.#cancelDial?.();
    this.#cancelDial = null;
    this.#dropUpstream();
    // What was read of an answer whose head has not gone out yet is not told.
    if (this.#phase === phase.body && !this.#headOut) {
      this.#phase = phase.head;
      this.#response = null;
    }
    if (this.#phase >= phase.body) {
      this.#finish(refusal.code);
      this.#client.destroy();
      return;
    }
    this.#phase = phase.done;
    this.#status = statusOf(refusal.code);
    // A client that waits for a 100 may or may not send its body now: only a new connection is unambiguous.
    if (this.#head.expectContinue) this.#keepClient = false;
    if (this.#client.lane.draining) this.#keepClient = false;
    this.#client.writeRefusal(refusal, this.requestId, this.#keepClient, this.#head.method === 'HEAD');
    this.#finish(refusal.code);
    if (this.requestComplete) this.#client.finish(this, this.#keepClient);
    else if (!this.#keepClient) this.#client.finish(this, false);
    else {
      this.#discarding = true;
      this.#client.setDeadline(discardMs);
      this.#client.pump();
      this.#client.resume();
    }
  }

  /** The client's connection is gone, or its session is: what is under way upstream ends with it. */
  abort(error: string): void {
    this.#cancelDial?.();
    this.#cancelDial = null;
    this.#dropUpstream();
    this.#finish(error);
  }

  /**
   * Something of the broker's own threw while it worked on this. It costs this request: 500, or the end of the
   * connection where its answer has begun, and both connections with it. Never throws.
   */
  fail(error: unknown): void {
    const client = this.#client;
    client.lane.failed(error, this.requestId);
    this.#keepClient = false;
    try {
      if (!this.#finished) {
        this.refuse(problem('internal'));
        return;
      }
      if (!this.#recorded) this.#record('internal');
      // Its record waits for what was being looked at.
      else this.#reflection?.end();
    } catch {
      this.#giveUp();
    }
    client.destroy();
  }

  /** Not even a refusal could be given. */
  #giveUp(): void {
    try {
      this.#dropUpstream();
      this.#finish('internal');
    } catch {
      // Its record stays among those under way: the audit will say that its outcome is not known.
    }
  }

  /** The body is held up by the upstream, which takes no more of it or has not asked for it yet; not by the client. */
  get #awaitsUpstream(): boolean {
    const asks = this.#head.expectContinue && this.#interim === 0 && this.#request.bytes === 0;
    return asks || this.#upstream?.socket.writableNeedDrain === true;
  }

  onDeadline(): void {
    if (this.#phase >= phase.body) {
      this.abort('timeout');
      this.#client.destroy();
    } else if (!this.requestComplete && !this.#awaitsUpstream) {
      this.#keepClient = false;
      this.refuse(problem('request_timeout'));
    } else {
      if (!this.requestComplete) this.#keepClient = false;
      this.refuse(
        problem(
          'upstream_timeout',
          `${this.#target.authority.host} did not answer in time. ${unknownOutcome}`,
        ),
      );
    }
  }

  /** Ends the books: gives the limit back and writes the one audit record. */
  #finish(error: string | null): void {
    if (this.#finished) return;
    this.#finished = true;
    const { lane } = this.#client;
    if (this.#holdsSlot) lane.limits.release(this.#access.slot);
    this.#holdsSlot = false;
    this.#record(error);
  }

  #record(error: string | null): void {
    const { lane } = this.#client;
    const outcome = {
      sent: this.#sent,
      status: this.#status,
      error,
      attempts: this.#attempts,
      bytesIn: this.#request.bytes,
      bytesOut: this.#response?.bytes ?? this.#bytesRelayed,
      milliseconds: performance.now() - this.#startedAt,
    };
    let facts = this.#facts;
    if (facts === null || facts.service !== this.#service) {
      // It got no further than its refusal, or was refused for what became of its service meanwhile.
      facts = this.#describe();
      if (this.#recordSlot !== noSlot) lane.audit.begin(facts, this.#recordSlot);
    }
    const reflection = this.#reflection;
    if (reflection === null) lane.record(facts, outcome, this.#recordSlot);
    else if (!reflection.pending || error !== null) {
      reflection.end();
      const { names: reflected, unlooked } = reflection;
      lane.record(facts, { ...outcome, reflected, unlooked }, this.#recordSlot);
    } else {
      // The body is with the client, and its decoded form is still being looked at.
      reflection.whenOver(() => {
        try {
          const { names: reflected, unlooked } = reflection;
          lane.record(facts, { ...outcome, reflected, unlooked }, this.#recordSlot);
        } catch (error) {
          lane.failed(error, this.requestId);
        }
      });
    }
    this.#recorded = true;
  }
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((key, i) => key === b[i]);
}

function answerLine(head: ResponseHead): string {
  return `HTTP/1.1 ${head.status} ${head.reason}\r\n`;
}

/** The upstream's fields but the hop-by-hop ones, the broker's, and the framing, which is written anew; order and case kept. */
function answerFields(head: ResponseHead): string {
  let text = '';
  for (let i = 0; i < head.names.length; i++) {
    const name = head.names[i];
    const r = name.role;
    if (
      r !== role.endToEnd &&
      r !== role.authorization &&
      r !== role.host &&
      r !== role.vault &&
      r !== role.expect
    )
      continue;
    if (name.lower === brokerErrorField || head.nominated?.includes(name.lower)) continue;
    // `X_Broker_Error` is `X-Broker-Error` to a CGI-like reader.
    if (name.alias !== null && (name.alias === brokerErrorField || isReserved(name.alias))) {
      if (!freeInAnswers.has(name.alias)) continue;
    }
    text += `${name.name}: ${head.values[i]}\r\n`;
  }
  return text;
}
