import type { ServerSettings } from './options.ts';

/** The names that the API answers to, so that a web page can't reach it under another by DNS rebinding. */
export function hostNames(settings: ServerSettings, baseUrl: string): string[] {
  return [
    ...new Set([new URL(baseUrl).hostname, ...bareNames(settings.host), 'localhost', '127.0.0.1', '[::1]']),
  ];
}

/** An address to listen on that is no name to be reached by gives none. */
export function bareNames(host: string): string[] {
  return host === '0.0.0.0' || host === '::' ? [] : [host];
}

export function urlHost(host: string): string {
  return host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
}

/** What links begin with. */
export function baseUrlOf(settings: ServerSettings, apiPort: number, isTls: boolean): string {
  const own = `${isTls ? 'https' : 'http'}://${urlHost(settings.host)}:${apiPort}`;
  return (settings['public-url'] ?? own).replace(/\/+$/, '');
}
