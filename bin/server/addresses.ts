import { lookup } from 'node:dns/promises';
import { isIP, isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { FrontAddress } from '../../src/http/front-options.ts';
import { isLoopback } from '../local-socket.ts';
import type { ServerSettings } from './options.ts';

/** The names that the API answers to, so that a web page can't reach it under another by DNS rebinding. */
export function hostNames(settings: ServerSettings, baseUrl: string): string[] {
  return [
    ...new Set([new URL(baseUrl).hostname, ...bareNames(settings.host), 'localhost', '127.0.0.1', '[::1]']),
  ];
}

/** The one address that is listened on where a name is given: of several, others may have the rest. */
export async function listeningAddress({ host }: ServerSettings): Promise<string> {
  if (isIP(host) !== 0) return host;
  return (await lookup(host).catch(() => ({ address: host }))).address;
}

/** An address to listen on that is no name to be reached by gives none. */
export function bareNames(host: string): string[] {
  return host === '0.0.0.0' || host === '::' ? [] : [host];
}

export function urlHost(host: string): string {
  return host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
}

/**
 * Whether a connection to `address` and `port` ends at this server: at an address that it listens on, or by the public
 * URL, whose way here is the operator's own.
 * @param listening the address that the API listens on
 */
export function ownsOf(settings: ServerSettings, listening: string, apiPort: number): FrontAddress['owns'] {
  const publicUrl = settings['public-url'] === null ? null : new URL(settings['public-url']);
  const publicPort = Number(publicUrl?.port || (publicUrl?.protocol === 'https:' ? 443 : 80));
  return ({ host, port, address }) => {
    if (port === apiPort && listensOn(listening, address)) return true;
    // A name of this machine leads to more than one address of it, and others may listen there.
    return publicUrl?.hostname === host && publicPort === port && !isLoopback(host);
  };
}

function listensOn(host: string, address: string): boolean {
  if (host === address) return true;
  if (host !== '0.0.0.0' && host !== '::') return false;
  const isOther = host === '0.0.0.0' && isIPv6(address);
  const own = Object.values(networkInterfaces()).flat();
  return !isOther && (/^127\.|^::1$/.test(address) || own.some((each) => each?.address === address));
}

/** What links begin with. */
export function baseUrlOf(settings: ServerSettings, apiPort: number, isTls: boolean): string {
  const own = `${isTls ? 'https' : 'http'}://${urlHost(settings.host)}:${apiPort}`;
  return (settings['public-url'] ?? own).replace(/\/+$/, '');
}
