import { STATUS_CODES } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import './header-limit.ts';
import * as uWS from 'uWebSockets.js';
import { createBodyReader } from './body-reader.ts';
import { type Arriving, addressOf, Connections } from './connections.ts';
import { type Incoming, maxBody } from './incoming.ts';
import type { Reply } from './reply.ts';

export interface ServerOptions {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  readonly tls: { readonly certFile: string; readonly keyFile: string } | null;
  /** A Unix socket to listen on beside it, without TLS: who may open it is for its directory to say. */
  readonly socketPath: string;
  /** Connections by TCP at once. */
  readonly maxConnections: number;
  /** Gives the reply to each request. It never rejects. */
  answer(incoming: Incoming): Promise<Reply>;
  /** Told of bodies that broke off in their middle. */
  onError(error: unknown): void;
}

export interface Server {
  readonly port: number;
  /** Takes no further connection, and ends each that is open with its next reply. To be called once. */
  stopListening(): void;
  /** Requests without a whole reply. */
  active(): number;
  /** Ends all connections as they are. To be called once, after the other. */
  close(): void;
}

/** What the package has and its types lack. */
const native = uWS as unknown as { LIBUS_LISTEN_EXCLUSIVE_PORT: number; _cfg(option: string): void };
// Else each reply names the server and its version.
native._cfg('silent');

/**
 * Listens for HTTP/1.1 on one address, and on a Unix socket.
 *
 * @throws Error where it can't, saying what to do
 */
export function listen({
  host,
  port,
  tls,
  socketPath,
  maxConnections,
  answer,
  onError,
}: ServerOptions): Server {
  const app = createApp(tls);
  const local = tls === null ? app : uWS.App();
  let active = 0;
  let isStopping = false;
  const connections = new Connections(maxConnections);

  function serve(res: uWS.HttpResponse, req: uWS.HttpRequest): Receiving['arriving'] {
    active++;
    const request = receive(res, req);
    void answer(request.incoming).then(async (reply) => {
      // Not within the call that brought the request: it belongs to its connection once that has returned.
      await nextTurn();
      try {
        const close = isStopping || reply.close === true || connections.isStray(request.arriving);
        await send(res, reply, request, close, () => connections.rest(request.arriving));
      } catch (error) {
        // The reply has begun: all that can be said of it is that it isn't whole.
        if (!request.incoming.over.aborted) res.close();
        onError(error);
      } finally {
        active--;
        request.end();
      }
    });
    return request.arriving;
  }

  for (const each of new Set([app, local])) connections.serve(each, serve);
  const socket = bind(app, host, port);
  const localSocket = bindLocal(local, socketPath);
  return {
    port: uWS.us_socket_local_port(socket as uWS.us_socket),
    stopListening() {
      isStopping = true;
      uWS.us_listen_socket_close(socket);
      uWS.us_listen_socket_close(localSocket);
    },
    active: () => active,
    close: () => {
      for (const each of new Set([app, local])) each.close();
    },
  };
}

function createApp(tls: ServerOptions['tls']): uWS.TemplatedApp {
  if (tls === null) return uWS.App();
  try {
    return uWS.SSLApp({ cert_file_name: tls.certFile, key_file_name: tls.keyFile });
  } catch {
    throw new Error(
      `The certificate ${tls.certFile} and the key ${tls.keyFile} can't be used for TLS. Give a PEM certificate chain and its PEM private key.`,
    );
  }
}

function bind(app: uWS.TemplatedApp, host: string, port: number): uWS.us_listen_socket {
  let socket: uWS.us_listen_socket | false = false;
  // Not exclusive, a second server on the port would be given every other connection. The types lack this form.
  const listenOn = app.listen as unknown as (
    host: string,
    port: number,
    options: number,
    listening: (socket: uWS.us_listen_socket | false) => void,
  ) => void;
  listenOn.call(app, host, port, native.LIBUS_LISTEN_EXCLUSIVE_PORT, (listening) => {
    socket = listening;
  });
  if (socket) return socket;
  throw new Error(
    `The API can't listen on ${host} port ${port}: the port is in use, or the address is not of this machine. Choose another with --port or --host, or stop what uses it.`,
  );
}

function bindLocal(app: uWS.TemplatedApp, path: string): uWS.us_listen_socket {
  let socket: uWS.us_listen_socket | false = false;
  app.listen_unix((listening) => {
    socket = listening;
  }, path);
  if (socket) return socket;
  throw new Error(`The socket for local commands can't be made at ${path}. Check the disk and its rights.`);
}

interface Receiving {
  readonly incoming: Incoming;
  readonly arriving: Arriving & { readonly isChunked: boolean };
  /** Resolves when the client takes more, or is gone. */
  writable(): Promise<void>;
  /** The reply is sent, or there is nobody left to send it to. */
  end(): void;
}

/** Takes all out of `req`, which is valid in this turn only. */
function receive(res: uWS.HttpResponse, req: uWS.HttpRequest): Receiving {
  const headers: [name: string, value: string][] = [];
  let headSize = req.getUrl().length + (req.getQuery()?.length ?? 0);
  req.forEach((name, value) => {
    headers.push([name, value]);
    if (name !== 'cookie') headSize += name.length + value.length + 4;
  });
  const over = new AbortController();
  const body = createBodyReader(maxBody);
  let wake = () => {};

  function end(): void {
    // With a reason of its own it makes no error, and no stack trace for it.
    over.abort('over');
    body.discard();
    wake();
  }

  res.onWritable(() => {
    wake();
    return true;
  });

  const incoming: Incoming = {
    method: req.getCaseSensitiveMethod(),
    path: req.getUrl(),
    query: req.getQuery() ?? '',
    peer: addressOf(res),
    headSize,
    over: over.signal,
    values: (name) => headers.flatMap(([key, value]) => (key === name ? value : [])),
    body: body.read,
  };
  return {
    incoming,
    arriving: {
      isChunked: incoming.values('transfer-encoding').length > 0,
      onData: body.add,
      onAborted: end,
    },
    writable: () =>
      new Promise((resolve) => {
        wake = resolve;
      }),
    end,
  };
}

/** What is longer, in about octets, goes in chunks: handed over whole, what isn't taken would wait without an end. */
const atOnce = 64 * 1024;
/** How long a reader of a long reply may take nothing of it. */
const stalledMs = 20_000;
/**
 * Octets written at once. uWebSockets.js collects 16 KiB per `cork`; what doesn't fit there with its framing it drops
 * where the socket takes no more, although its length was sent.
 */
const maxWrite = 12 * 1024;

/** @param done called in the very call that writes the end */
async function send(
  res: uWS.HttpResponse,
  reply: Reply,
  request: Receiving,
  close: boolean,
  done: () => void,
): Promise<void> {
  const { incoming } = request;
  const { body } = reply;
  if (incoming.over.aborted) return;
  const isWhole = typeof body === 'string' || body instanceof Uint8Array;
  const isBodiless = incoming.method === 'HEAD' || reply.status === 204;
  res.cork(() => {
    res.writeStatus(`${reply.status} ${STATUS_CODES[reply.status]}`);
    for (const [name, value] of Object.entries(reply.headers)) res.writeHeader(name, value);
    if (isBodiless) {
      // uWebSockets.js can't end these with a length or a close of its own without sending or awaiting a body.
      if (isWhole && reply.status !== 204) res.writeHeader('content-length', String(Buffer.byteLength(body)));
      if (close) res.writeHeader('connection', 'close');
      res.endWithoutBody();
      done();
    } else if (isWhole && body.length <= atOnce) {
      res.end(body, close);
      done();
    }
  });
  if (isBodiless || (isWhole && body.length <= atOnce)) return;
  for await (const piece of isWhole ? [body] : body) {
    const bytes = typeof piece === 'string' ? Buffer.from(piece) : piece;
    for (let at = 0; at < bytes.length; at += maxWrite) {
      if (incoming.over.aborted) return;
      let isRoom = true;
      res.cork(() => {
        isRoom = res.write(bytes.subarray(at, at + maxWrite));
      });
      if (isRoom) continue;
      // What waits here holds files and memory: a reader that takes nothing is ended.
      const stalled = setTimeout(() => {
        if (!incoming.over.aborted) res.close();
      }, stalledMs);
      await request.writable().finally(() => clearTimeout(stalled));
    }
  }
  if (incoming.over.aborted) return;
  res.cork(() => {
    res.end('', close);
    done();
  });
}
