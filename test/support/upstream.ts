import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import tls from 'node:tls';
import type { Test } from 'tap';
import { createLeaf, createRoot, openRoot } from '../../src/actors/x509.ts';
import { type Wire, wireOf } from './wire.ts';

const leafKeyPem = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
  type: 'pkcs8',
  format: 'pem',
}) as string;

export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

export interface Authority {
  readonly certPem: string;
  /** PKCS #8. */
  readonly keyPem: string;
  /** A server certificate for these names; `now` in ms: when it is issued, for 24 hours. */
  issue(names: readonly string[], now?: number): Certificate;
}

/** A certification authority of the upstreams' own: nothing to do with the broker's. */
export function createAuthority(commonName: string): Authority {
  const pem = createRoot({ commonName, now: Date.now() - 10 * 86_400_000 });
  const root = openRoot(pem);
  const key = createPublicKey(leafKeyPem);
  return {
    ...pem,
    issue: ([host, ...extraNames], now = Date.now()) => ({
      key: leafKeyPem,
      cert: createLeaf({ root, key, host, extraNames, now }),
    }),
  };
}

/** The one that lanes under test are told to trust, and a certificate of it for all names of the tests. */
export const upstreamCa: Authority = createAuthority('upstream root');
export const anyName: Certificate = upstreamCa.issue([
  ...['localhost', '127.0.0.1', '::1', '*.good.test', '*.wild.test', 'a.b.wild.test', 'evilwild.test'],
  // No wildcard: node matches none right below a top-level domain.
  ...['basic', 'custom', 'sub', 'pass', 'off', 'evil', 'other', 'xn--mnchen-3ya'].map(
    (name) => `${name}.test`,
  ),
]);

export interface TestUpstream {
  readonly port: number;
  /** TCP connections so far. */
  readonly connections: number;
  /** Those that are open. */
  readonly open: ReadonlySet<net.Socket>;
  /** What came over connections so far, decrypted; one text for each. Only of scripted ones. */
  readonly wires: readonly Wire[];
  close(): Promise<void>;
}

export interface UpstreamOptions {
  /** false: plain. Default: TLS with `anyName`. */
  readonly tls?: false | tls.TlsOptions;
  /** Default 127.0.0.1. */
  readonly host?: string;
}

/**
 * An upstream that does byte for byte what its script says, once a connection; a throw in it closes that one.
 * `n` counts connections from 0.
 */
export async function rawUpstream(
  t: Test,
  script: (wire: Wire, n: number) => unknown,
  options: UpstreamOptions = {},
): Promise<TestUpstream> {
  const wires: Wire[] = [];
  const serve = (socket: net.Socket): void => {
    const wire = wireOf(socket);
    const n = wires.push(wire) - 1;
    Promise.resolve()
      .then(() => script(wire, n))
      .catch(() => socket.destroy());
  };
  const server =
    options.tls === false
      ? net.createServer({ allowHalfOpen: true, noDelay: true }, serve)
      : tls.createServer(
          { allowHalfOpen: true, noDelay: true, ...anyName, ...options.tls } as tls.TlsOptions,
          serve,
        );
  return running(t, server, wires, options);
}

/** An upstream of node's own HTTP server. */
export async function httpUpstream(
  t: Test,
  handler: http.RequestListener,
  options: UpstreamOptions = {},
): Promise<TestUpstream & { readonly server: http.Server }> {
  const server =
    options.tls === false
      ? http.createServer({ keepAliveTimeout: 60_000 }, handler)
      : https.createServer({ keepAliveTimeout: 60_000, ...anyName, ...options.tls }, handler);
  return Object.assign(await running(t, server, [], options), { server });
}

async function running(
  t: Test,
  server: net.Server,
  wires: Wire[],
  options: UpstreamOptions,
): Promise<TestUpstream> {
  const open = new Set<net.Socket>();
  let connections = 0;
  server.on('connection', (socket: net.Socket) => {
    connections++;
    open.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => open.delete(socket));
  });
  server.on('tlsClientError', (_, socket: tls.TLSSocket) => socket.destroy());
  await new Promise<void>((resolve) => server.listen(0, options.host ?? '127.0.0.1', resolve));
  const close = async (): Promise<void> => {
    for (const socket of open) socket.destroy();
    if (server.listening) await new Promise((resolve) => server.close(resolve));
  };
  t.teardown(close);
  return {
    port: (server.address() as net.AddressInfo).port,
    get connections() {
      return connections;
    },
    open,
    wires,
    close,
  };
}
