import { type IncomingHttpHeaders, request } from 'node:http';
import type { Ref } from '../../src/actors/core/protocol.ts';
import type { By, VaultProtocol } from '../../src/actors/vault/protocol.ts';
import type { Front } from '../../src/http/front.ts';
import { type Composed, composeBroker } from '../support/compose.ts';

interface Asked {
  readonly token?: string;
  readonly vault?: string;
  /** Sent as JSON, unless it is text or bytes. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string | string[]>>;
}

interface Answered {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: the tests say what is in it.
  readonly json: any;
}

export interface TestBroker extends Front {
  readonly proxyPort: number;
  /** The owner's. */
  readonly operator: string;
  readonly vault: Ref<VaultProtocol>;
  /** What the front gave to be logged and audited, as JSON. */
  readonly log: string[];
  readonly records: Record<string, unknown>[];
  /** The data directory. */
  readonly directory: string;
  ask(method: string, path: string, asked?: Asked): Promise<Answered>;
  /** A session's token. */
  session(vault?: string): Promise<string>;
  /** An agent's token. */
  agent(...vaults: string[]): Promise<string>;
  /** The token of a new operator who administers these vaults. */
  admin(...vaults: string[]): Promise<string>;
  stop(): Promise<void>;
}

export const by: By = { actor: 'operator:test', label: 'test', request_id: 'test' };

/** The server, for tests of its API: it answers to the name `broker.example` too. */
export async function startBroker(given: Composed = {}): Promise<TestBroker> {
  const composed = await composeBroker({
    ...given,
    alter(options) {
      const { address } = options;
      const hostNames = [...address.hostNames, 'broker.example'];
      return { address: { ...address, hostNames }, ...given.alter?.(options) };
    },
  });
  const { front, operator, log, records, directory, stop } = composed;
  const { vault } = composed.tree;

  const ask = (method: string, path: string, asked?: Asked) => send(front.port, method, path, asked);
  const must = async <T>(result: Promise<{ ok: true; value: T } | { ok: false; problem: unknown }>) => {
    const settled = await result;
    if (!settled.ok) throw new Error(JSON.stringify(settled.problem));
    return settled.value;
  };

  return {
    ...front,
    proxyPort: composed.proxyPort,
    operator,
    vault,
    log,
    records,
    directory,
    ask,
    async session(name = 'default') {
      const made = await must(
        vault.ask('session.create', { vault: name, ttlSeconds: 3600, label: 'ci', by }),
      );
      return made.token.reveal();
    },
    async agent(...vaults) {
      const invite = { name: null, vaults, ttlSeconds: 3600, tokenTtlSeconds: null, by };
      const { token } = await must(vault.ask('invite.create', invite));
      const joined = await ask('POST', `/invite/${token.reveal()}`);
      return joined.json.BROKER_SESSION_TOKEN;
    },
    async admin(...vaults) {
      const name = `admin-${vaults.join('-')}`;
      await must(vault.ask('operator.create', { name, role: 'admin', vaults, by }));
      return (await must(vault.ask('operator.signIn', { name, kind: 'token', by }))).token.reveal();
    },
    stop,
  };
}

/** One request over a connection of its own. */
function send(port: number, method: string, path: string, asked: Asked = {}): Promise<Answered> {
  const { token, vault, body, headers } = asked;
  const isRaw = typeof body === 'string' || body instanceof Uint8Array;
  const bytes = body === undefined ? undefined : isRaw ? body : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const outgoing = request(
      {
        host: '127.0.0.1',
        port,
        method,
        path,
        agent: false,
        headers: {
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
          ...(vault !== undefined && { 'x-vault': vault }),
          ...(bytes !== undefined && {
            'content-type': 'application/json',
            'content-length': Buffer.byteLength(bytes),
          }),
          ...headers,
        },
      },
      (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on('data', (chunk) => chunks.push(chunk));
        incoming.on('error', reject);
        incoming.on('end', () => {
          const text = Buffer.concat(chunks).toString('utf8');
          const isJson = incoming.headers['content-type'] === 'application/json' && text !== '';
          resolve({
            status: incoming.statusCode ?? 0,
            headers: incoming.headers,
            text,
            json: isJson ? JSON.parse(text) : null,
          });
        });
      },
    );
    outgoing.on('error', reject);
    outgoing.end(bytes);
  });
}
