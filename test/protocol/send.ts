import { type IncomingHttpHeaders, request } from 'node:http';

export interface Asked {
  readonly token?: string;
  readonly vault?: string;
  /** Sent as JSON, unless it is text or bytes. */
  readonly body?: unknown;
  /** In the place of those that the rest makes. */
  readonly headers?: Readonly<Record<string, string | string[]>>;
}

export interface Answered {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: the tests say what is in it
  readonly json: any;
}

/** One request to a port of this machine, over a connection of its own. What stays open is read for a second. */
export function send(port: number, method: string, path: string, asked: Asked = {}): Promise<Answered> {
  const { token, vault, body, headers } = asked;
  const isRaw = typeof body === 'string' || body instanceof Uint8Array;
  const bytes = body === undefined ? undefined : isRaw ? body : JSON.stringify(body);
  const made = {
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
    ...(vault !== undefined && { 'x-vault': vault }),
    ...(bytes !== undefined && {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(bytes),
    }),
    ...headers,
  };
  return new Promise((resolve, reject) => {
    const outgoing = request({ host: '127.0.0.1', port, method, path, agent: false, headers: made });
    outgoing.on('response', (incoming) => {
      const chunks: Buffer[] = [];
      const finish = () => {
        clearTimeout(timer);
        const text = Buffer.concat(chunks).toString('utf8');
        const isJson = incoming.headers['content-type'] === 'application/json' && text !== '';
        const json = isJson ? JSON.parse(text) : null;
        resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, text, json });
      };
      const isStream = incoming.headers['content-type'] === 'text/event-stream';
      const timer = setTimeout(() => isStream && outgoing.destroy(), 1000);
      incoming.on('data', (chunk) => chunks.push(chunk));
      incoming.on('error', (error) => (isStream ? finish() : reject(error)));
      incoming.on('end', finish);
    });
    outgoing.on('error', reject);
    outgoing.end(bytes);
  });
}
