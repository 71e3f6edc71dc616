/** What listens on another port of the broker's host, such as an agent's own server: cookies know no port. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Lasting } from './stage.ts';

export interface Neighbour {
  readonly origin: string;
  /** The session's cookie that a browser has brought along. */
  stolen(): string;
  /** Asks the broker with it, and with whatever else a page of the broker's would send. */
  ask(method: string, url: string, fields?: Readonly<Record<string, string>>): Promise<Response>;
  /** Sends a form of a page of the broker's, with all that can be read off the page. */
  forge(url: string, fields: Readonly<Record<string, string>>): Promise<Response>;
}

/** @param leaves the cookie that it puts in the place of the broker's */
export async function startNeighbour(t: Lasting, leaves?: string): Promise<Neighbour> {
  let cookie = '';
  const server = createServer((request, reply) => {
    cookie = /broker_session=brk_opr_\w+/.exec(request.headers.cookie ?? '')?.[0] ?? cookie;
    if (leaves !== undefined) reply.setHeader('set-cookie', leaves);
    reply.setHeader('content-type', 'text/html').end('<title>a neighbour</title>');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });

  function ask(method: string, url: string, fields?: Readonly<Record<string, string>>): Promise<Response> {
    const { origin } = new URL(url);
    const headers = {
      cookie,
      origin,
      referer: url,
      'sec-fetch-site': 'same-origin',
      'sec-fetch-mode': 'navigate',
    };
    return fetch(url, { method, headers, body: fields && new URLSearchParams(fields), redirect: 'manual' });
  }
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stolen: () => cookie,
    ask,
    async forge(url, fields) {
      const page = await (await ask('GET', url)).text();
      const hidden = [...page.matchAll(/type="hidden" name="([^"]+)" value="([^"]*)"/g)];
      const read = Object.fromEntries(hidden.map(([, name, value]) => [name, value]));
      return ask('POST', url, { ...read, ...fields });
    },
  };
}
