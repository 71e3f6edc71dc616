import type net from 'node:net';

/** A nonce for a WebSocket handshake, and what a server makes of it (the example of RFC 6455 1.3). */
export const webSocketKey = 'dGhlIHNhbXBsZSBub25jZQ==';
export const webSocketAccept = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=';

/** Generous: the machine may be busy. Every wait ends long before when all is well. */
const patienceMs = 15_000;

/** One end of a connection, for tests that say byte for byte what goes and what comes. Text is latin1. */
export interface Wire {
  readonly socket: net.Socket;
  /** All that has come so far, what was taken too. */
  readonly all: string;
  /** The other side sends no more, or the connection is gone. */
  readonly ended: boolean;
  send(data: string | Buffer): void;
  /**
   * Takes what comes up to and including `end`, or that many bytes.
   * @throws Error where the connection ends before, or nothing comes for a long time
   */
  take(end: string | number): Promise<string>;
  /** Takes what comes until the other side sends no more. */
  rest(): Promise<string>;
  close(): void;
}

/** Takes a socket over: reads it from here on. */
export function wireOf(socket: net.Socket): Wire {
  let all = '';
  let taken = 0;
  let ended = false;
  let wake: (() => void)[] = [];
  const notify = (): void => {
    const woken = wake;
    wake = [];
    for (const one of woken) one();
  };
  const end = (): void => {
    ended = true;
    notify();
  };
  socket.on('data', (chunk: Buffer) => {
    all += chunk.toString('latin1');
    notify();
  });
  socket.on('end', end);
  socket.on('close', end);
  socket.on('error', end);

  async function until(ready: () => boolean, what: string): Promise<void> {
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      notify();
    }, patienceMs);
    while (!ready()) {
      if (ended || late) {
        clearTimeout(timer);
        const came = JSON.stringify(all.slice(taken).slice(-300));
        throw new Error(
          `${late ? 'waited in vain for' : 'the connection ended before'} ${what}; came: ${came}`,
        );
      }
      await new Promise<void>((resolve) => wake.push(resolve));
    }
    clearTimeout(timer);
  }

  return {
    socket,
    get all() {
      return all;
    },
    get ended() {
      return ended;
    },
    send(data) {
      socket.write(data as string, 'latin1');
    },
    async take(end) {
      const stop = (): number => {
        if (typeof end === 'number') return all.length - taken >= end ? taken + end : -1;
        const at = all.indexOf(end, taken);
        return at < 0 ? -1 : at + end.length;
      };
      await until(() => stop() >= 0, typeof end === 'number' ? `${end} bytes` : JSON.stringify(end));
      const found = all.slice(taken, stop());
      taken += found.length;
      return found;
    },
    async rest() {
      await until(() => ended, 'the end').catch((error) => {
        if (!ended) throw error;
      });
      const found = all.slice(taken);
      taken = all.length;
      return found;
    },
    close: () => socket.destroy(),
  };
}

/** A message as it came, request or response. */
export interface Message {
  /** The first line. */
  readonly line: string;
  /** In order, as spelled. */
  readonly fields: readonly (readonly [name: string, value: string])[];
  /** All values of a field, any case, joined by `, `; undefined where there is none. */
  field(name: string): string | undefined;
  readonly body: string;
  /** Trailer lines, as they came. */
  readonly trailers: readonly string[];
  /** First lines of the interim answers before it. */
  readonly interim: readonly string[];
}

export interface Answer extends Message {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: each refusal has fields of its own
  readonly json: any;
}

/**
 * Reads one request and its body, in an own and plain way: what it takes for a message is what upstreams do.
 * `untilClose`: whether a message without framing fields goes on to the end of the connection.
 */
async function message(
  wire: Wire,
  bodiless: (line: string) => boolean,
  untilClose: boolean,
): Promise<Message> {
  const interim: string[] = [];
  let [line, ...lines] = (await wire.take('\r\n\r\n')).slice(0, -4).split('\r\n');
  while (/^HTTP\/1\.1 1(?!01)/.test(line)) {
    interim.push(line);
    [line, ...lines] = (await wire.take('\r\n\r\n')).slice(0, -4).split('\r\n');
  }
  const fields = lines.map((text) => {
    const colon = text.indexOf(': ');
    return [text.slice(0, colon), text.slice(colon + 2)] as const;
  });
  const field = (name: string) => {
    const found = fields.filter(([n]) => n.toLowerCase() === name.toLowerCase()).map(([, v]) => v);
    return found.length === 0 ? undefined : found.join(', ');
  };
  let body = '';
  const trailers: string[] = [];
  const length = field('content-length');
  if (bodiless(line)) body = '';
  else if (field('transfer-encoding') !== undefined) {
    for (;;) {
      const size = Number.parseInt(await wire.take('\r\n'), 16);
      if (size === 0) break;
      body += await wire.take(size);
      await wire.take('\r\n');
    }
    for (;;) {
      const text = await wire.take('\r\n');
      if (text === '\r\n') break;
      trailers.push(text.slice(0, -2));
    }
  } else if (length !== undefined) body = await wire.take(Number(length));
  else if (untilClose) body = await wire.rest();
  return { line, fields, field, body, trailers, interim };
}

/** Reads the next request off an upstream's end. */
export function nextRequest(wire: Wire): Promise<Message> {
  return message(wire, () => false, false);
}

/** Reads the next answer off a client's end. `toHead`: it has no body, whatever its fields say. */
export async function nextAnswer(wire: Wire, toHead = false): Promise<Answer> {
  const bodiless = (line: string) => toHead || /^HTTP\/1\.[01] (1\d\d|204|304)/.test(line);
  const found = await message(wire, bodiless, true);
  return {
    ...found,
    status: Number(found.line.split(' ')[1]),
    get json() {
      return JSON.parse(found.body);
    },
  };
}

/** Waits until something is so. */
export async function eventually(
  condition: () => boolean | Promise<boolean>,
  what: string,
  ms = patienceMs,
): Promise<void> {
  for (const end = performance.now() + ms; !(await condition()); ) {
    if (performance.now() > end) throw new Error(`waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
