import net from 'node:net';
import tls from 'node:tls';
import type { Broker } from './broker.ts';

interface Answer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** One CONNECT through a broker, with TLS inside, kept open: requests go through it one after the other. */
export interface Tunnel {
  /**
   * Rejects when the tunnel ends before the whole answer is there.
   * @param fields more of the head's lines, each with its line end
   */
  request(path: string, method?: string, fields?: string): Promise<Answer>;
  readonly closed: boolean;
  close(): void;
}

export interface Target {
  readonly token: string;
  readonly vault?: string;
  readonly host: string;
  readonly port: number;
}

/** Opens a tunnel. Rejects with the answer's status line where the CONNECT is refused. */
export async function openTunnel(broker: Broker, rootPem: string, target: Target): Promise<Tunnel> {
  const { token, vault = 'default', host, port } = target;
  const outer = net.connect(broker.proxyPort, '127.0.0.1');
  outer.setNoDelay(true);
  const basic = Buffer.from(`${token}:${vault}`).toString('base64');
  outer.write(
    `CONNECT ${host}:${port} HTTP/1.1\r\nHost: ${host}:${port}\r\nProxy-Authorization: Basic ${basic}\r\n\r\n`,
  );
  const connected = await readAnswer(outer, Buffer.alloc(0), true);
  if (connected.answer.status !== 200) {
    outer.destroy();
    throw new Error(`CONNECT: ${connected.answer.status} ${connected.answer.body}`);
  }
  const socket = tls.connect({ socket: outer, ca: rootPem, servername: host });
  await new Promise<void>((resolve, reject) => {
    socket.once('secureConnect', resolve);
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('the tunnel ended in its handshake')));
  });
  socket.on('error', () => {});
  let rest: Buffer = Buffer.alloc(0);
  return {
    async request(path, method = 'GET', fields = '') {
      if (socket.destroyed) throw new Error('the tunnel has ended');
      socket.write(`${method} ${path} HTTP/1.1\r\nHost: ${host}:${port}\r\n${fields}\r\n`);
      const read = await readAnswer(socket, rest, false);
      rest = read.rest;
      return read.answer;
    },
    get closed() {
      return socket.destroyed;
    },
    close: () => socket.destroy(),
  };
}

/** Enough for the answers of our own upstream and of the broker: a Content-Length, or no body. */
async function readAnswer(
  socket: net.Socket,
  before: Buffer,
  isConnect: boolean,
): Promise<{ answer: Answer; rest: Buffer }> {
  let bytes = before;
  for (;;) {
    const end = bytes.indexOf('\r\n\r\n');
    if (end >= 0) {
      const [first, ...fields] = bytes.toString('latin1', 0, end).split('\r\n');
      const headers = Object.fromEntries(
        fields.map((field) => [
          field.slice(0, field.indexOf(':')).toLowerCase(),
          field.slice(field.indexOf(':') + 2),
        ]),
      );
      const status = Number(first.slice(9, 12));
      const length = isConnect && status === 200 ? 0 : Number(headers['content-length']);
      if (bytes.length >= end + 4 + length) {
        const body = bytes.toString('utf8', end + 4, end + 4 + length);
        return { answer: { status, headers, body }, rest: bytes.subarray(end + 4 + length) };
      }
    }
    bytes = Buffer.concat([bytes, await nextChunk(socket)]);
  }
}

function nextChunk(socket: net.Socket): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const settle = (done: () => void) => {
      socket.off('data', onData).off('error', onError).off('close', onClose);
      done();
    };
    const onData = (chunk: Buffer) => settle(() => resolve(chunk));
    const onError = (error: Error) => settle(() => reject(error));
    const onClose = () => settle(() => reject(new Error('the connection ended before the answer')));
    socket.on('data', onData).on('error', onError).on('close', onClose);
  });
}

/** The broker's root, as any client gets it. */
export async function rootOf(broker: Broker): Promise<string> {
  return (await fetch(`${broker.address}/v1/ca.pem`)).text();
}

/**
 * Which life of which lane a tunnel is on: what the id of a refusal begins with. TRACE is refused wherever credentials
 * are injected, and the host itself where it is not among the services.
 */
export async function laneOf(tunnel: Tunnel): Promise<string> {
  const { body } = await tunnel.request('/lane', 'TRACE');
  return JSON.parse(body).request_id.split('-')[0];
}

/**
 * Tunnels to `target` on both lanes of a broker with two, `each` on each, those of one lane first: the kernel deals
 * connections out by their ports, so more are opened until there are enough.
 */
export async function openOnBothLanes(broker: Broker, target: Target, each: number): Promise<Tunnel[]> {
  const rootPem = await rootOf(broker);
  const byLane = new Map<string, Tunnel[]>();
  for (let tries = 0; tries < 200; tries++) {
    const tunnel = await openTunnel(broker, rootPem, target);
    const lane = await laneOf(tunnel);
    const sameLane = byLane.get(lane) ?? [];
    byLane.set(lane, sameLane);
    sameLane.push(tunnel);
    if (byLane.size === 2 && [...byLane.values()].every((tunnels) => tunnels.length >= each)) {
      for (const surplus of [...byLane.values()].flatMap((tunnels) => tunnels.slice(each))) surplus.close();
      return [...byLane.values()].flatMap((tunnels) => tunnels.slice(0, each));
    }
  }
  throw new Error('all connections went to one lane');
}
