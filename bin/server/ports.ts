import net from 'node:net';
import { failed } from '../terminal.ts';

/**
 * Checks that a port can be had, and chooses one for 0. The lanes share theirs (`reusePort`), which would let
 * a second server join in silently; this bind does not share, so it fails where anyone listens.
 * @throws Failure naming the port
 */
export async function claimPort(host: string, port: number, what: string): Promise<number> {
  const server = net.createServer();
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host, port, exclusive: true }, resolve);
    });
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const why = code === 'EADDRINUSE' ? 'something else listens there' : `${code}`;
    throw failed(
      `${what} can't listen on ${host}:${port} (${why}). Choose another port, or stop what uses it.`,
    );
  }
  const chosen = (server.address() as net.AddressInfo).port;
  await new Promise((resolve) => server.close(resolve));
  return chosen;
}

/** Whether an address to listen on is reached from this machine only. */
export function isLoopbackAddress(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}
