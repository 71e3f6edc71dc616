import dns from 'node:dns';
import net from 'node:net';
import { isMainThread } from 'node:worker_threads';

/*
 * Preloaded into a broker (NODE_OPTIONS=--import): what a machine would do on which every name is at 127.0.0.1, and
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
  const system = net.connect as (options: net.NetConnectOpts) => net.Socket;
  const connect = (options: net.TcpNetConnectOpts) => {
    const port = ports.get(options.port);
    return system(port === undefined ? options : { ...options, host: '127.0.0.1', port });
  };
  Object.assign(dns, { lookup });
  Object.assign(net, { connect });
}
