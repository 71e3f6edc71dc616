import { codingOf, type Decoder, decoderOf } from './coding.ts';
import { EchoScanner } from './echo-scanner.ts';
import type { ResponseHead } from './head.ts';
import type { SessionEntry } from './lane-state.ts';
import type { Watch } from './watch.ts';

/** So many octets of a coded body are decoded only to be looked at, and so many may wait for it. */
const mostDecoded = 1024 * 1024;
const mostWaiting = 256 * 1024;
/** A look that isn't over so long after its answer is given up, in ms. */
const lookMs = 1000;
/** A decoder that makes no progress for so long gives its place to others, in ms. */
const idleMs = 10_000;
/** Of a coded body: what is said of it isn't true of its decoded form (RFC 9110 8.8.3, RFC 9530). */
const ofCodedBody = new Set(['content-encoding', 'content-md5', 'content-digest', 'repr-digest', 'digest']);

/** Where a decoded body goes on. */
export interface DecodedSink {
  /** false: no more for now, until `resume`. */
  onDecoded(content: Buffer): boolean;
  onDecodedEnd(): void;
  /** The body isn't what its coding says, or no more of it came for too long. */
  onBadCoding(): void;
  /** More coded bytes may come. */
  onDecoderDrain(): void;
  /** Something of ours threw while the body was looked at. Never throws. */
  fail(error: unknown): void;
}

/**
 * Looks through one answer for what was put into its request (protocol, "Reflection"): the head, the body as it
 * streams, the trailers. Under `redact` what is found becomes asterisks; else it is only told in `names`.
 */
export class Reflection {
  readonly #watch: Watch;
  readonly #scanner: EchoScanner;
  readonly #session: SessionEntry;
  #decoder: Decoder | null = null;
  #decoded = 0;
  #bytesIn = 0;
  #idle: NodeJS.Timeout | null = null;
  #onOver: (() => void) | null = null;
  /** The body was coded, passed as it came, and wasn't looked into, or not to its end. */
  unlooked = false;
  /** The body goes on decoded, and comes to the sink later than it was written. */
  decodes = false;

  /** @param session whom the answer is for */
  constructor(watch: Watch, session: SessionEntry) {
    this.#watch = watch;
    this.#session = session;
    this.#scanner = new EchoScanner(watch.automaton);
  }

  /** Keys whose values were found; null: none were. */
  get names(): ReadonlySet<string> | null {
    return this.#scanner.names;
  }

  /** A body is still being looked at beside its way to the client. */
  get pending(): boolean {
    return this.#decoder !== null;
  }

  /** The head as the client may see it. `raw`: its bytes. */
  show(head: ResponseHead, raw: Buffer): ResponseHead {
    this.#scanner.look(raw, true);
    if (this.#scanner.names === null || !this.#watch.redacts) return head;
    const kept = head.names.map((name) => this.text(name.name) === name.name);
    return {
      ...head,
      reason: this.text(head.reason),
      names: head.names.filter((_, i) => kept[i]),
      values: head.values.filter((_, i) => kept[i]).map((value) => this.text(value)),
    };
  }

  /** A text of a head or of trailers as the client may see it. */
  text(latin1: string): string {
    const scanner = new EchoScanner(this.#watch.automaton);
    const bytes = Buffer.from(latin1, 'latin1');
    const shown = this.#watch.redacts ? scanner.redact(bytes, true) : scanner.look(bytes, true);
    if (scanner.names === null) return latin1;
    this.#scanner.add(scanner.names);
    return shown.latin1Slice();
  }

  /**
   * Prepares for the body behind a head.
   * @returns the head as the client may see it; null: under `redact` the body can't be looked into
   */
  begin(head: ResponseHead, sink: DecodedSink): ResponseHead | null {
    const coding = codingOf(head);
    if (coding === null) return head;
    const decoder = decoderOf(coding, head, this.#session);
    if (decoder === null) {
      this.unlooked = !this.#watch.redacts;
      return this.unlooked ? head : null;
    }
    this.#decoder = decoder;
    this.#idle = setTimeout(() => this.#onIdle(sink), idleMs);
    if (this.#watch.redacts) {
      this.decodes = true;
      this.#feed(decoder, sink);
      const kept = head.names.map(
        ({ lower }, i) => !ofCodedBody.has(lower) && !(lower === 'etag' && !head.values[i].startsWith('W/')),
      );
      return {
        ...head,
        names: head.names.filter((_, i) => kept[i]),
        values: head.values.filter((_, i) => kept[i]),
      };
    }
    this.#on(decoder, sink, 'data', (content) => {
      this.#scanner.look(content, false);
      this.#idle?.refresh();
      this.#decoded += content.length;
      // What is made to be long isn't decoded to its end.
      if (this.#decoded > mostDecoded) this.end();
    });
    this.#on(decoder, sink, 'end', () => this.end(true));
    // Nothing at all is an empty body in any coding.
    this.#on(decoder, sink, 'error', () => this.end(this.#bytesIn === 0));
    return head;
  }

  /** Nobody else contains what goes wrong in a timer. */
  #onIdle(sink: DecodedSink): void {
    if (this.#decoder === null) return;
    try {
      this.end();
      if (this.#watch.redacts) sink.onBadCoding();
    } catch (error) {
      sink.fail(error);
    }
  }

  /** Nobody else contains what goes wrong in a decoder's events. */
  #on(decoder: Decoder, sink: DecodedSink, event: string, tell: (content: Buffer) => void): void {
    decoder.on(event, (content) => {
      try {
        tell(content);
      } catch (error) {
        sink.fail(error);
        decoder.destroy();
      }
    });
  }

  /** The next piece of the body; what of it goes on now. */
  push(content: Buffer, last: boolean): Buffer {
    if (this.#decoder === null) {
      return this.#watch.redacts ? this.#scanner.redact(content, last) : this.#scanner.look(content, last);
    }
    // The piece is a view of what is read into next.
    if (content.length > 0) {
      this.#bytesIn += content.length;
      this.#idle?.refresh();
      this.#decoder.write(Buffer.from(content));
    }
    if (last) this.#decoder.end();
    else if (this.#decoder.writableLength > mostWaiting) this.end();
    return content;
  }

  /** The next piece of a body that goes on decoded. false: no more, until `onDecoderDrain`. */
  decode(content: Buffer | null, last: boolean): boolean {
    const decoder = this.#decoder as Decoder;
    let takesMore = true;
    if (content !== null) {
      this.#bytesIn += content.length;
      this.#idle?.refresh();
      takesMore = decoder.write(Buffer.from(content));
    }
    if (last) decoder.end();
    return takesMore;
  }

  resume(): void {
    this.#decoder?.resume();
  }

  /** Calls back when nothing is pending any more, a second later at most. */
  whenOver(then: () => void): void {
    const timer = setTimeout(() => this.end(), lookMs);
    this.#onOver = () => {
      clearTimeout(timer);
      then();
    };
  }

  /** No more is looked at. `whole`: all of the body was. */
  end(whole = false): void {
    const decoder = this.#decoder;
    if (decoder === null) return;
    this.#decoder = null;
    clearTimeout(this.#idle as NodeJS.Timeout);
    if (!whole && !this.#watch.redacts) this.unlooked = true;
    decoder.destroy();
    this.#onOver?.();
  }

  #feed(decoder: Decoder, sink: DecodedSink): void {
    const isOver = () => this.#decoder === null;
    this.#on(decoder, sink, 'data', (content) => {
      if (isOver()) return;
      this.#idle?.refresh();
      const shown = this.#scanner.redact(content, false);
      if (shown.length > 0 && !sink.onDecoded(shown)) decoder.pause();
    });
    this.#on(decoder, sink, 'drain', () => isOver() || sink.onDecoderDrain());
    const finish = () => {
      if (isOver()) return;
      const rest = this.#scanner.redact(Buffer.alloc(0), true);
      if (rest.length > 0) sink.onDecoded(rest);
      this.end();
      sink.onDecodedEnd();
    };
    this.#on(decoder, sink, 'end', finish);
    this.#on(decoder, sink, 'error', () => {
      if (isOver()) return;
      // Nothing at all is an empty body in any coding.
      if (this.#bytesIn === 0) finish();
      else {
        this.end();
        sink.onBadCoding();
      }
    });
  }
}
