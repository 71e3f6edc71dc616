import { randomBytes } from 'node:crypto';
import net from 'node:net';
import type { Secret } from '../src/actors/vault/secret.ts';
import { hashToken } from '../src/actors/vault/token.ts';
import { type ProofQuestion, proves, tokenNameLength } from '../src/actors/vault/token-proof.ts';
import { localSocketOf } from './local-socket.ts';
import { failed } from './terminal.ts';

const connectMs = 5_000;
const proofMs = 10_000;
/** An answer with a proof has some hundred octets. */
const maxAnswer = 16 * 1024;

/** Where a command's connections go, and what the other end has to prove. */
export interface Way {
  /** Origin of the broker. */
  readonly address: string;
  /** Where the broker would be whose commands needn't cross the network. */
  readonly directory: string;
  /** What is going to be sent there; null: nothing that is anyone's. */
  readonly token: Secret | null;
}

type Connector = (options: unknown, done: (...result: [null, net.Socket] | [Error, null]) => void) => void;

/**
 * Makes the connections of a command: over the data directory's Unix socket where the address is that broker's own,
 * which nobody else can listen on; over TCP else, where whoever holds the port has to prove that it knows the token
 * before anything else is sent. TLS proves the server by its certificate.
 *
 * @returns undefined: undici's own connections do, for they are TLS
 */
export function connectorTo({ address, directory, token }: Way): Connector | undefined {
  const url = new URL(address);
  const socket = localSocketOf(directory, address);
  if (url.protocol === 'https:' && socket === null) return undefined;
  return (_options, done) => {
    connectTo(url, socket?.path ?? null, token).then(
      (connection) => {
        socket?.release();
        done(null, connection);
      },
      (error: Error) => {
        socket?.release();
        done(error, null);
      },
    );
  };
}

async function connectTo(url: URL, path: string | null, token: Secret | null): Promise<net.Socket> {
  if (path !== null) {
    const local = await opened({ path }).catch(() => null);
    // Its broker has ended without a word: another one may be at the address, and has to prove itself.
    if (local !== null) return local;
    if (url.protocol === 'https:') throw failed(`The broker of this data directory doesn't run.`);
  }
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const socket = await opened({ host, port: Number(url.port || 80), autoSelectFamily: true });
  try {
    if (token !== null) await askForProof(socket, url, token);
  } catch (error) {
    socket.destroy();
    throw error;
  }
  return socket;
}

function opened(to: net.NetConnectOpts): Promise<net.Socket> {
  const socket = net.connect({ ...to, noDelay: true });
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => socket.destroy(Object.assign(new Error(), { code: 'ETIMEDOUT' })),
      connectMs,
    );
    socket.once('error', reject);
    socket.once('connect', () => {
      clearTimeout(timer);
      socket.off('error', reject);
      resolve(socket);
    });
  });
}

/** @throws Failure where the other end does not prove that it knows the token */
async function askForProof(socket: net.Socket, url: URL, token: Secret): Promise<void> {
  const hash = hashToken(token.reveal());
  const question: ProofQuestion = {
    token: hash.slice(0, tokenNameLength),
    nonce: randomBytes(32).toString('hex'),
    host: url.hostname,
    port: socket.remotePort ?? 0,
    address: socket.remoteAddress ?? '',
  };
  const body = JSON.stringify(question);
  socket.write(
    `POST /v1/prove HTTP/1.1\r\nHost: ${url.host}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  const { status, json } = await answerOn(socket);
  if (status === 200 && proves(hash, question, json?.proof)) return;
  // A broker that says no has not seen the token; what it says can be anybody's word.
  if (status === 401) {
    throw failed(
      `${url.origin} doesn't know the token, so it wasn't sent. Is it of this broker, and still valid?`,
    );
  }
  if (status === 421) {
    throw failed(
      `What answers at ${url.origin} doesn't listen there itself, so no token was sent. Use the broker's own address, or have its operator name this one with --public-url.`,
    );
  }
  if (status === 429)
    throw failed(`${url.origin} has had too many wrong tokens from here. Wait some minutes.`);
  throw failed(
    `What answers at ${url.origin} can't prove that it is the broker of this token, so nothing was sent. Check --address and BROKER_ADDR.`,
  );
}

interface Answer {
  readonly status: number;
  readonly json: { readonly proof?: unknown } | null;
}

/** Reads one answer with a length, which is all that a broker gives here, and leaves the connection as it was. */
function answerOn(socket: net.Socket): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let text = '';
    const fail = (error?: Error): void =>
      end(() => reject(error ?? Object.assign(new Error(), { code: 'ECONNRESET' })));
    const closed = (): void => fail();
    const timer = setTimeout(() => fail(Object.assign(new Error(), { code: 'ETIMEDOUT' })), proofMs);
    function end(then: () => void): void {
      clearTimeout(timer);
      socket.pause();
      socket.off('data', read).off('error', fail).off('close', closed);
      then();
    }
    function read(chunk: Buffer): void {
      text += chunk.toString('latin1');
      const head = text.indexOf('\r\n\r\n');
      if (head < 0 && text.length <= maxAnswer) return;
      const length = Number(
        /^content-length: *(\d{1,5})\r?$/im.exec(text.slice(0, head + 2))?.[1] ?? Number.NaN,
      );
      const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1] ?? 0);
      const whole = head + 4 + length;
      if (head < 0 || Number.isNaN(length) || text.length > Math.min(whole, maxAnswer)) {
        end(() => resolve({ status: 0, json: null }));
      } else if (text.length === whole) end(() => resolve({ status, json: parsed(text.slice(head + 4)) }));
    }
    socket.on('data', read).once('error', fail).once('close', closed);
  });
}

function parsed(text: string): Answer['json'] {
  try {
    const value = JSON.parse(text);
    return typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}
