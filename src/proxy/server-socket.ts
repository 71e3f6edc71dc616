import type net from 'node:net';
import tls from 'node:tls';
import type { Lane } from './lane.ts';
import type { Swept } from './sweep.ts';
import { alpnHttp1 } from './tls-parameters.ts';

/**
 * The server's side of a TLS handshake on a connection whose first bytes were read already: the proxy
 * listener's own TLS, or the intercepted one inside a tunnel. It is the most that a client can make us compute, and
 * begins when it is its owner's turn. `ready` gets the decrypted side.
 */
export function serverSocket(
  lane: Lane,
  socket: net.Socket,
  early: Buffer,
  secureContext: tls.SecureContext,
  owner: unknown,
  ready: (socket: tls.TLSSocket) => void,
): void {
  socket.pause();
  if (early.length > 0) socket.unshift(early);
  lane.turns.wait(owner, {
    onTurn: () => {
      if (!socket.destroyed) handshake(lane, socket, secureContext, ready);
    },
    fail: (error) => {
      lane.failed(error, null);
      socket.destroy();
    },
  });
}

function handshake(
  lane: Lane,
  socket: net.Socket,
  secureContext: tls.SecureContext,
  ready: (socket: tls.TLSSocket) => void,
): void {
  const secure = new tls.TLSSocket(socket, {
    isServer: true,
    secureContext,
    ALPNProtocols: alpnHttp1,
    allowHalfOpen: true,
  } as tls.TLSSocketOptions);
  const swept: Swept = {
    deadline: lane.sweeper.now + lane.timeouts.clientTls,
    session: null,
    onDeadline: () => secure.destroy(),
    onRevoked: () => {},
    fail: (error) => {
      lane.failed(error, null);
      drop();
    },
  };
  lane.sweeper.add(swept);
  const drop = (): void => {
    lane.sweeper.remove(swept);
    secure.destroy();
  };
  secure.on('error', drop);
  secure.once('end', drop);
  secure.once('close', drop);
  secure.once('secure', () => {
    try {
      lane.sweeper.remove(swept);
      secure.removeListener('end', drop);
      secure.removeListener('close', drop);
      ready(secure);
      secure.resume();
    } catch (error) {
      swept.fail(error);
    }
  });
}
