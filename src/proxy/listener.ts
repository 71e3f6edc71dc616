import net from 'node:net';
import { networkOf } from '../actors/vault/network.ts';
import type { Caller } from './caller.ts';
import { ClientConnection } from './client-connection.ts';
import { Descriptors } from './descriptors.ts';
import type { Lane } from './lane.ts';
import { serverSocket } from './server-socket.ts';
import type { Swept } from './sweep.ts';
import { Tunnel } from './tunnel.ts';

const TLS_HANDSHAKE = 0x16;

export interface Listener {
  /** Stops accepting; connections that are open go on. */
  stop(): Promise<void>;
}

/**
 * Listens on the proxy port. One port takes TLS-wrapped and plain connections: the first byte tells. Each
 * lane has a listener of its own on the same port (`reusePort`), so that the kernel spreads connections.
 * @throws where the port can't be bound
 */
export function listen(
  lane: Lane,
  caller: Caller,
  options: { host: string; port: number; reusePort: boolean },
): Promise<Listener> {
  const descriptors = new Descriptors();
  const server = net.createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    try {
      const network = networkOf(socket.remoteAddress ?? '');
      const { connections } = lane.shares;
      const slot = lane.shares.networkSlot(network);
      const room = descriptors.roomFor(socket, connections.of(slot), lane.sweeper.now);
      if (room === 'full') {
        socket.destroy();
        return;
      }
      connections.add(slot);
      socket.once('close', () => connections.sub(slot));
      accept(lane, caller, socket, network, room === 'crowded');
    } catch (error) {
      lane.failed(error, null);
      socket.on('error', () => {});
      socket.destroy();
    }
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ ...options, backlog: 1024 }, () => {
      server.removeListener('error', reject);
      // A listener that fails later (too many open files) has refused one connection, no more.
      server.on('error', () => {});
      resolve({ stop: () => new Promise((done) => void server.close(() => done())) });
    });
  });
}

/** @param crowded there is hardly room for this connection: it gets an answer that says so, and no more */
function accept(lane: Lane, caller: Caller, socket: net.Socket, network: string, crowded: boolean): void {
  lane.meters.count('connectionsOpened');
  const sniff: Swept = {
    deadline: lane.sweeper.now + lane.timeouts.clientTls,
    session: null,
    onDeadline: () => socket.destroy(),
    onRevoked: () => {},
    fail: (error) => {
      lane.failed(error, null);
      gone();
    },
  };
  lane.sweeper.add(sniff);
  const gone = (): void => {
    lane.sweeper.remove(sniff);
    socket.destroy();
  };
  socket.on('error', gone);
  socket.once('end', gone);
  socket.once('close', gone);
  socket.once('data', (chunk: Buffer) => {
    try {
      lane.sweeper.remove(sniff);
      socket.removeListener('end', gone);
      socket.removeListener('close', gone);
      if (chunk[0] === TLS_HANDSHAKE) {
        serverSocket(lane, socket, chunk, lane.listenerContext, network, (secure) =>
          serve(lane, caller, secure, network, crowded),
        );
      } else if (!plainAllowed(lane, socket)) socket.destroy();
      else serve(lane, caller, socket, network, crowded).receive(chunk);
    } catch (error) {
      sniff.fail(error);
    }
  });
}

function serve(
  lane: Lane,
  caller: Caller,
  socket: net.Socket,
  network: string,
  crowded: boolean,
): ClientConnection {
  return new ClientConnection(lane, socket, {
    tunnel: null,
    caller,
    crowded,
    network,
    onConnect: (authority, access, early) => {
      new Tunnel(lane, socket, authority, access, early);
    },
  });
}

function plainAllowed(lane: Lane, socket: net.Socket): boolean {
  if (lane.plain !== 'loopback') return lane.plain === 'always';
  const address = socket.remoteAddress ?? '';
  return address === '::1' || address.startsWith('127.') || address.startsWith('::ffff:127.');
}
