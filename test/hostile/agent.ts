import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import tls from 'node:tls';
import type { Attack } from './attack.ts';
import { ByteReader } from './byte-reader.ts';
import { readBody, readHead } from './message.ts';

/** Who an agent is, and where it goes. */
export interface Identity {
  readonly token: string;
  readonly vault: string;
}

export interface Way {
  readonly proxyPort: number;
  readonly rootPem: string;
  readonly ports: { readonly secure: number; readonly plain: number };
}

/** One answer, as its reader took it. */
export interface Answer {
  readonly status: number;
  readonly seen: string;
  /** The broker's own: its error code. */
  readonly refused: string;
  readonly coding: string;
  readonly content: Buffer | null;
}

/** What became of one hostile request. */
export interface Outcome {
  readonly answers: readonly Answer[];
  /** Every byte that the agent got for it, framing and all. */
  readonly received: Buffer;
  /** Its sender had to give up on it. */
  readonly late: boolean;
}

/** Longer than anything here takes that ends by itself. */
const patienceMs = 8_000;
const malformedMs = 300;

/** One at a time: connections that go on are used again, per target. */
export class Track {
  readonly #who: Identity;
  readonly #way: Way;
  readonly #open = new Map<string, ByteReader>();

  constructor(who: Identity, way: Way) {
    this.#who = who;
    this.#way = way;
  }

  async send(one: Attack): Promise<Outcome> {
    const port = one.tls ? this.#way.ports.secure : this.#way.ports.plain;
    const target = `${one.host}:${port}`;
    const kept = this.#open.get(target);
    this.#open.delete(target);
    const reader = kept !== undefined && !kept.ended ? kept : await this.#connect(target, one);
    if (reader === null) return { answers: [], received: Buffer.alloc(0), late: false };
    let late = false;
    const patience = one.answers === 0 ? malformedMs : patienceMs;
    const timer = setTimeout(() => {
      late = true;
      reader.socket.destroy();
    }, patience);
    const answers = await this.#converse(reader, one);
    clearTimeout(timer);
    const received = Buffer.concat(reader.transcript.splice(0));
    const complete = answers.length === one.answers && answers.every(({ content }) => content !== null);
    if (complete && one.ending === 'wait' && !reader.ended && this.#open.size < 6)
      this.#open.set(target, reader);
    else reader.socket.destroy();
    return { answers, received, late };
  }

  async #converse(reader: ByteReader, one: Attack): Promise<Answer[]> {
    const { socket } = reader;
    let at = 0;
    for (const cut of [...one.cuts, one.text.length]) {
      socket.write(one.text.slice(at, cut), 'latin1');
      at = cut;
      if (cut === one.text.length) break;
      if (one.holdsBack) await reader.some();
      else await new Promise(setImmediate);
    }
    if (one.ending === 'end') socket.end();
    if (one.ending === 'leave') {
      await sleep(one.text.length % 100);
      socket.destroy();
      return [];
    }
    if (one.answers === 0) {
      await reader.through(' sentinel\r\n');
      return [];
    }
    const answers: Answer[] = [];
    while (answers.length < one.answers) {
      const answer = await readAnswer(reader, one.head && answers.length === 0);
      if (answer === null) break;
      answers.push(answer);
      if (answer.content === null) break;
    }
    return answers;
  }

  /** A tunnel, with TLS inside where it is asked for; null: it came to nothing. */
  async #connect(target: string, { host, tls: isTls }: Attack): Promise<ByteReader | null> {
    const { proxyPort, rootPem } = this.#way;
    const outer = net.connect({ port: proxyPort, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
    const reader = new ByteReader(outer);
    const basic = Buffer.from(`${this.#who.token}:${this.#who.vault}`).toString('base64');
    outer.write(
      `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\nProxy-Authorization: Basic ${basic}\r\n\r\n`,
    );
    const answer = await readHead(reader);
    if (answer === null || !/ 200 /.test(`${answer.line} `)) {
      outer.destroy();
      throw new Error(`no tunnel to ${target}: ${answer?.line}`);
    }
    reader.transcript.length = 0;
    if (!isTls) return reader;
    outer.removeAllListeners('data');
    const inner = tls.connect({
      socket: outer,
      ca: rootPem,
      servername: host,
      allowHalfOpen: true,
    } as object);
    const made = new ByteReader(inner);
    const up = await new Promise<boolean>((resolve) => {
      inner.once('secureConnect', () => resolve(true)).once('close', () => resolve(false));
    });
    return up ? made : null;
  }

  close(): void {
    for (const { socket } of this.#open.values()) socket.destroy();
  }
}

/** The next final answer; null: the end came before its head's. */
async function readAnswer(reader: ByteReader, isHead: boolean): Promise<Answer | null> {
  for (;;) {
    const head = await readHead(reader);
    if (head === null) return null;
    const status = Number(head.line.split(' ')[1]);
    if (status < 200 && status !== 101) continue;
    const bodiless = isHead || status === 204 || status === 304 || status === 101;
    return {
      status,
      seen: head.field('x-seen'),
      refused: head.field('x-broker-error'),
      coding: head.field('content-encoding'),
      content: bodiless ? Buffer.alloc(0) : await readBody(reader, head, true),
    };
  }
}
