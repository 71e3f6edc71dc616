import { createHash, generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import tls from 'node:tls';
import type { Test } from 'tap';
import { createLeaf, createRoot, openRoot } from '../../src/actors/x509.ts';
import { temporary } from './broker.ts';

/** One request as the upstream got it. */
export interface Seen {
  readonly method: string;
  /** As it stood in the request line. */
  readonly url: string;
  readonly host: string;
  /** Names in lower case. */
  readonly headers: Readonly<http.IncomingHttpHeaders>;
  /** SHA-256 of the body, in hex. */
  readonly body: string;
}

export interface Upstream {
  readonly port: number;
  /** In the order in which they were complete. An answer's body names its index, as `{"seen":7,…}`. */
  readonly seen: Seen[];
  /** Answers the requests to `/hold`, those that wait and those to come. */
  release(): void;
}

type Handler = (request: http.IncomingMessage, response: http.ServerResponse) => boolean;

const root = createRoot({ commonName: 'upstream test root', now: Date.now() });

/** A file with the root of all TLS upstreams of this process, for `--upstream-ca`. */
function upstreamCaFile(t: Test): string {
  const file = join(temporary(t), 'upstream-ca.pem');
  writeFileSync(file, root.certPem);
  return file;
}

/** The flags and preload by which a broker reaches these upstreams, under any name below `.test`. */
export function reaching(t: Test): { args: string[]; preload: 'names'[] } {
  return { args: ['--upstream-ca', upstreamCaFile(t), '--allow-private-ranges'], preload: ['names'] };
}

/**
 * A real upstream on 127.0.0.1, closed after the test: it keeps what it saw and answers with which of these it was and
 * the digest of the body, never with a header, which may be a secret. `handle` may take a request instead, by saying so.
 */
export async function startUpstream(
  t: Test,
  { scheme = 'https', handle }: { scheme?: 'https' | 'http'; handle?: Handler } = {},
): Promise<Upstream> {
  const seen: Seen[] = [];
  const held: (() => void)[] = [];
  let holding = true;

  function answer(request: http.IncomingMessage, response: http.ServerResponse): void {
    const { method = '', url = '', headers } = request;
    const digest = createHash('sha256');
    request.on('data', (chunk) => digest.update(chunk));
    const taken = handle?.(request, response) ?? false;
    request.on('end', () => {
      const body = digest.digest('hex');
      const index = seen.push({ method, url, host: headers.host ?? '', headers, body }) - 1;
      if (taken) return;
      const finish = () => {
        response.setHeader('content-type', 'application/json');
        response.end(JSON.stringify({ seen: index, method, body }));
      };
      if (holding && url.startsWith('/hold')) held.push(finish);
      else finish();
    });
  }

  const server =
    scheme === 'http' ? http.createServer(answer) : https.createServer({ SNICallback: leafFor() }, answer);
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    release() {
      holding = false;
      for (const finish of held.splice(0)) finish();
    },
  };
}

/** Certificates by server name, each made when it is first asked for. */
function leafFor(): NonNullable<tls.TlsOptions['SNICallback']> {
  const signer = openRoot(root);
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = privateKey.export({ type: 'pkcs8', format: 'pem' });
  const contexts = new Map<string, tls.SecureContext>();
  return (host, done) => {
    let context = contexts.get(host);
    if (context === undefined) {
      const cert = createLeaf({ root: signer, key: publicKey, host, now: Date.now() });
      context = tls.createSecureContext({ key, cert });
      contexts.set(host, context);
    }
    done(null, context);
  };
}
