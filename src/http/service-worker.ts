import type { Incoming } from './incoming.ts';
import type { Reply } from './reply.ts';

/*
 * Pages of ours have no service worker. Whoever held our port for a moment, while the broker was down, may have planted
 * one, which would stand between this origin and its pages from then on. Browsers ask for a worker's script anew when a
 * page is visited: this answer, for whatever path it has, makes it give up its place and load its pages again.
 */
const script = `addEventListener('install', () => skipWaiting());
addEventListener('activate', async () => {
  await registration.unregister();
  for (const client of await clients.matchAll({ type: 'window' })) client.navigate(client.url);
});
`;

/** Whether a browser asks for the script of a service worker (Service Workers, "Service-Worker" header). */
export function asksForWorker(incoming: Incoming): boolean {
  return incoming.values('service-worker').includes('script');
}

export const noWorker: Reply = {
  status: 200,
  headers: {
    'content-type': 'text/javascript; charset=utf-8',
    // Of the planted one, which may be wider than its path.
    'service-worker-allowed': '/',
  },
  body: script,
};
