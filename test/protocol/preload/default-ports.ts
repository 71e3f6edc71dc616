import dns from 'node:dns';
import net from 'node:net';
import { isMainThread } from 'node:worker_threads';

/*
 * Preloaded into a broker (`--import`): what a machine would do on which every name is at 127.0.0.1, and
 * whose kernel sends the ports 80 and 443 of its own addresses on to those in BROKER_TEST_PORTS (`80=8080,443=8443`),
 * so that no test needs the rights to listen there.
 */

if (!isMainThread) {
  const ports = new Map(
    (process.env.BROKER_TEST_PORTS ?? '').split(',').map((pair) => {
      const [from, to] = pair.split('=').map(Number);
      return [from, to];
    }),
  );
  const found = [{ address: '127.0.0.1', family: 4 }];
  const lookup = (_name: string, _options: unknown, done: (error: null, all: unknown) => void) =>
    setImmediate(done, null, found);
  // What net.connect and tls.connect both come to; the first brings its arguments as one list.
  const system = net.Socket.prototype.connect as (...args: unknown[]) => net.Socket;
  function connect(this: net.Socket, first: unknown, ...rest: unknown[]): net.Socket {
    const options = (Array.isArray(first) ? first[0] : first) as net.TcpNetConnectOpts;
    const port = ports.get(options.port);
    if (port !== undefined) Object.assign(options, { host: '127.0.0.1', port });
    return system.call(this, first, ...rest);
  }
  Object.assign(dns, { lookup });
  Object.assign(net.Socket.prototype, { connect });
}
