import { writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import tls from 'node:tls';
import type { Test } from 'tap';
import { type Broker, temporary } from '../support/broker.ts';
import { createAuthority } from '../support/upstream.ts';
import { type Answer, type Message, nextAnswer, nextRequest, wireOf } from '../support/wire.ts';

/** A request as an upstream got it, byte for byte. */
export interface Got extends Message {
  readonly method: string;
  /** As it stood in the request line. */
  readonly target: string;
  /** All values of a field, in any case. */
  values(name: string): string[];
}

export interface Upstream {
  readonly port: number;
  readonly got: Got[];
}

const plainAnswer = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

/** An upstream on 127.0.0.1 that keeps what it gets and answers with what `answer` says, as it stands. */
export async function startUpstream(
  t: Test,
  options: { readonly tls?: tls.SecureContextOptions; answer?(got: Got): string } = {},
): Promise<Upstream> {
  const got: Got[] = [];
  const serve = async (socket: net.Socket) => {
    socket.on('error', () => {});
    const wire = wireOf(socket);
    for (;;) {
      const message = await nextRequest(wire);
      const [method, target] = message.line.split(' ');
      const values = (name: string) =>
        message.fields
          .filter(([each]) => each.toLowerCase() === name.toLowerCase())
          .map(([, value]) => value);
      const one: Got = { ...message, method, target, values };
      got.push(one);
      wire.send(options.answer?.(one) ?? plainAnswer);
    }
  };
  // A connection that ends between two requests is no failure.
  const take = (socket: net.Socket) => void serve(socket).catch(() => socket.destroy());
  const server = options.tls ? tls.createServer(options.tls, take) : net.createServer(take);
  const open = new Set<net.Socket>();
  server.on('connection', (socket: net.Socket) => {
    open.add(socket);
    socket.on('close', () => open.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  return { port: (server.address() as net.AddressInfo).port, got };
}

/** A certificate for these names, and the file of the root that signed it, for `--upstream-ca`. */
export function certificateFor(
  t: Test,
  ...names: string[]
): { readonly tls: tls.SecureContextOptions; readonly caFile: string } {
  const authority = createAuthority('protocol test root');
  const caFile = join(temporary(t), 'ca.pem');
  writeFileSync(caFile, authority.certPem);
  return { tls: authority.issue(names), caFile };
}

export interface Through {
  /** Sent as `Basic TOKEN:VAULT`. */
  readonly token?: string;
  readonly vault?: string;
  /** In the place of what `token` and `vault` make. */
  readonly authorization?: string;
  readonly method?: string;
  /** Besides Host and the credentials, in this order. */
  readonly fields?: readonly (readonly [name: string, value: string])[];
  readonly body?: string;
}

function credentials({ token, vault = 'default', authorization }: Through): string {
  if (authorization !== undefined) return `Proxy-Authorization: ${authorization}\r\n`;
  return token === undefined ? '' : `Proxy-Authorization: Basic ${btoa(`${token}:${vault}`)}\r\n`;
}

function head(target: string, authority: string, through: Through, extra: string): string {
  const { method = 'GET', fields = [], body } = through;
  const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  const hasLength = fields.some(([name]) => /^(content-length|transfer-encoding)$/i.test(name));
  const length =
    body !== undefined && !hasLength ? `Content-Length: ${Buffer.byteLength(body, 'latin1')}\r\n` : '';
  return `${method} ${target} HTTP/1.1\r\nHost: ${authority}\r\n${extra}${lines}${length}\r\n${body ?? ''}`;
}

/** One request in absolute form over a connection of its own, byte for byte as given. */
export async function absolute(broker: Broker, url: string, through: Through): Promise<Answer> {
  const socket = net.connect(broker.proxyPort, '127.0.0.1');
  const wire = wireOf(socket);
  const authority = /^\w+:\/\/([^/?]*)/.exec(url)?.[1] ?? '';
  wire.send(head(url, authority, through, credentials(through)));
  try {
    return await nextAnswer(wire, through.method === 'HEAD');
  } finally {
    wire.close();
  }
}

/** What a CONNECT is answered; a 200 has no body. */
export async function connect(broker: Broker, authority: string, through: Through): Promise<Answer> {
  const wire = wireOf(net.connect(broker.proxyPort, '127.0.0.1'));
  wire.send(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${credentials(through)}\r\n`);
  try {
    const { line, fields, field, trailers, interim, status } = await nextAnswer(wire, true);
    const body = status === 200 ? '' : await wire.take(Number(field('content-length')));
    const json = body === '' ? null : JSON.parse(body);
    return { line, fields, field, trailers, interim, status, body, json };
  } finally {
    wire.close();
  }
}

/** One request inside a CONNECT, in the clear. Its fields may be those that the proxy itself would take. */
export async function tunnelled(
  broker: Broker,
  authority: string,
  path: string,
  through: Through,
): Promise<Answer> {
  const wire = wireOf(net.connect(broker.proxyPort, '127.0.0.1'));
  try {
    wire.send(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${credentials(through)}\r\n`);
    const first = await wire.take('\r\n\r\n');
    if (!first.startsWith('HTTP/1.1 200 ')) throw new Error(`CONNECT ${authority}: ${first}`);
    wire.send(head(path, authority, through, ''));
    return await nextAnswer(wire, through.method === 'HEAD');
  } finally {
    wire.close();
  }
}

/**
 * One request as most clients make it: TLS to the proxy, CONNECT, TLS inside. Both are verified against the broker's
 * root, by the names `localhost` and that of the authority.
 */
export async function secured(
  broker: Broker,
  authority: string,
  path: string,
  through: Through,
): Promise<Answer> {
  const ca = await (await fetch(`${broker.address}/v1/ca.pem`)).text();
  const outer = tls.connect({ port: broker.proxyPort, host: '127.0.0.1', servername: 'localhost', ca });
  const wire = wireOf(outer);
  try {
    wire.send(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${credentials(through)}\r\n`);
    const first = await wire.take('\r\n\r\n');
    if (!first.startsWith('HTTP/1.1 200 ')) throw new Error(`CONNECT ${authority}: ${first}`);
    outer.removeAllListeners('data');
    const inner = tls.connect({ socket: outer, servername: authority.replace(/:\d+$/, ''), ca });
    const inside = wireOf(inner);
    inside.send(head(path, authority, through, ''));
    return await nextAnswer(inside, through.method === 'HEAD');
  } finally {
    wire.close();
  }
}
