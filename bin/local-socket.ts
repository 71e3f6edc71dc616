import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Longer ones don't fit in a socket's name: `sun_path` has 108 octets on Linux and 104 on macOS, NUL included. */
const maxPath = 103;

/** The socket of local commands, in the data directory, which nobody but the broker's user can enter. */
const socketName = 'broker.sock';
/** Beside it: the addresses by which that broker is reached otherwise, a line each. */
const addressName = 'broker.address';

/** A name for a socket that fits, and what takes away what had to be made for it. */
export interface SocketPath {
  readonly path: string;
  release(): void;
}

/** By way of a link to the directory, in a private directory with a short name, where its own path is too long. */
function socketPath(directory: string): SocketPath {
  const path = join(directory, socketName);
  if (Buffer.byteLength(path) <= maxPath) return { path, release: () => {} };
  const folder = mkdtempSync(join(tmpdir().length > 60 ? '/tmp' : tmpdir(), 'broker-'));
  const link = join(folder, 'd');
  symlinkSync(directory, link);
  return { path: join(link, socketName), release: () => rmSync(folder, { recursive: true, force: true }) };
}

/**
 * For the server, which holds the directory's lock: takes away what a predecessor left, and says beside it which
 * addresses are its own.
 */
export function claimLocalSocket(directory: string, addresses: readonly string[]): SocketPath {
  rmSync(join(directory, socketName), { force: true });
  writeFileSync(join(directory, addressName), addresses.map((each) => `${each}\n`).join(''), { mode: 0o600 });
  const { path, release } = socketPath(directory);
  return {
    path,
    release() {
      for (const name of [socketName, addressName]) rmSync(join(directory, name), { force: true });
      release();
    },
  };
}

/** For commands: the socket of the broker on a directory, if `address` is that broker's own; null: it isn't. */
export function localSocketOf(directory: string, address: string): SocketPath | null {
  let own: string[];
  try {
    own = readFileSync(join(directory, addressName), 'utf8').trim().split('\n');
  } catch {
    return null;
  }
  const asked = new URL(address);
  return own.some((each) => isSame(URL.parse(each), asked)) ? socketPath(directory) : null;
}

function isSame(own: URL | null, asked: URL): boolean {
  return own?.port === asked.port && (own.hostname === asked.hostname || isLoopback(asked.hostname));
}

/** Whether a URL's host name is this machine itself. */
export function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname);
}
