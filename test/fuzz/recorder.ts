import net from 'node:net';

/** What the upstream does with a request, once the whole of it is there. */
export interface Answer {
  /** Written one after the other, each in a turn of the event loop of its own. */
  readonly pieces: readonly Buffer[];
  readonly thenClose: boolean;
}

/** An upstream that writes down what comes and answers each request. */
export interface Recorder {
  readonly authority: string;
  /** What came since the last call, in order, cut where it went on on another connection. */
  take(): Buffer[];
  /** true once no connection is in the middle of a request: the proxy has closed those that were. false: it doesn't. */
  settled(): Promise<boolean>;
  stop(): void;
}

/** What takes longer than this hangs, in ms. */
export const patience = 10_000;

export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/**
 * The length of the request at the start of `bytes`, or -1 while it isn't whole. It reads the one spelling
 * in which the proxy writes its framing, as the last fields of the head, and no other.
 */
function requestLength(bytes: Buffer): number {
  const end = bytes.indexOf('\r\n\r\n');
  if (end < 0) return -1;
  const head = bytes.latin1Slice(0, end);
  const framing =
    /\r\n(?:Transfer-Encoding: (chunked)|Content-Length: ([0-9]+))(?:\r\nExpect: 100-continue)?$/;
  const [, isChunked, length] = framing.exec(head) ?? [];
  let at = end + 4;
  if (isChunked === undefined) {
    at += Number(length ?? 0);
    return at <= bytes.length ? at : -1;
  }
  for (;;) {
    const eol = bytes.indexOf('\r\n', at);
    if (eol < 0) return -1;
    const size = Number.parseInt(bytes.latin1Slice(at, eol), 16);
    if (size === 0) {
      if (bytes.latin1Slice(eol, eol + 4) === '\r\n\r\n') return eol + 4;
      const blank = bytes.indexOf('\r\n\r\n', eol + 2);
      return blank < 0 ? -1 : blank + 4;
    }
    at = eol + 2 + size + 2;
  }
}

/** Starts one on a loopback port of its own. `answer` gets the head of each request, latin1. */
export async function startRecorder(answer: (head: string) => Answer): Promise<Recorder> {
  let records: Buffer[][] = [];
  let last: net.Socket | null = null;
  const busy = new Set<net.Socket>();
  const sockets = new Set<net.Socket>();
  let onSettled: (() => void) | null = null;

  const respond = async (socket: net.Socket, { pieces, thenClose }: Answer): Promise<void> => {
    for (const piece of pieces) {
      if (socket.destroyed) return;
      socket.write(piece);
      if (pieces.length > 1) await turn();
    }
    if (thenClose) socket.end();
  };
  const leave = (socket: net.Socket): void => {
    busy.delete(socket);
    if (busy.size === 0) onSettled?.();
  };
  const server = net.createServer({ noDelay: true }, (socket) => {
    let pending: Buffer = Buffer.alloc(0);
    sockets.add(socket);
    socket.on('data', (chunk) => {
      if (last !== socket) records.push([]);
      last = socket;
      records[records.length - 1].push(chunk);
      pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
      for (let n = requestLength(pending); n >= 0; n = requestLength(pending)) {
        const head = pending.latin1Slice(0, pending.indexOf('\r\n\r\n'));
        pending = pending.subarray(n);
        respond(socket, answer(head));
      }
      if (pending.length > 0) busy.add(socket);
      else leave(socket);
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      sockets.delete(socket);
      leave(socket);
    });
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  return {
    authority: `127.0.0.1:${(server.address() as net.AddressInfo).port}`,
    take() {
      const taken = records.map((chunks) => Buffer.concat(chunks));
      records = [];
      last = null;
      return taken;
    },
    async settled() {
      // What the proxy wrote before it told the client may still lie unread: accept, read, close, and one to spare.
      for (let i = 0; i < 4; i++) await turn();
      return new Promise((resolve) => {
        if (busy.size === 0) {
          resolve(true);
          return;
        }
        const timer = setTimeout(resolve, patience, false);
        onSettled = () => {
          clearTimeout(timer);
          resolve(true);
        };
      });
    },
    stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
