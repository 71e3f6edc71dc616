import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type IncomingHttpHeaders, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { auditActor } from '../../src/actors/audit.ts';
import { openAuditLog } from '../../src/actors/audit-log.ts';
import type { Ref } from '../../src/actors/core/protocol.ts';
import { createSystem } from '../../src/actors/core/system.ts';
import { fileKek } from '../../src/actors/vault/keyfile.ts';
import { openLmdbStore } from '../../src/actors/vault/lmdb-store.ts';
import type { By, VaultProtocol } from '../../src/actors/vault/protocol.ts';
import { failureBytes, SignInFailures } from '../../src/actors/vault/sign-in-failures.ts';
import { vaultActor } from '../../src/actors/vault/vault-actor.ts';
import { prepareVault } from '../../src/actors/vault/vault-boot.ts';
import { createEventHub, type EventHub } from '../../src/http/event-hub.ts';
import { type Front, startFront } from '../../src/http/front.ts';
import type { FrontOptions } from '../../src/http/front-options.ts';

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
  /** The owner's. */
  readonly operator: string;
  readonly vault: Ref<VaultProtocol>;
  readonly hub: EventHub;
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

/** The real front on the real vault actor and store, in a directory of its own. */
export async function startBroker(
  options: Partial<FrontOptions> & { authFailures?: number } = {},
): Promise<TestBroker> {
  const directory = mkdtempSync(join(tmpdir(), 'broker-http-'));
  const system = createSystem();
  const { clock } = system;
  const log: string[] = [];
  const records: Record<string, unknown>[] = [];
  const auditLog = openAuditLog(directory, { clock });
  const health = new Int32Array(new SharedArrayBuffer(4));
  const onError = (error: Error) => log.push(error.message);
  const audit = system.spawn(auditActor({ log: auditLog, health, onError }));
  const store = await openLmdbStore(directory);
  const kek = await prepareVault({ store, kek: fileKek(directory), directory, now: clock.now() });
  const hub = createEventHub();
  const vault = system.spawn(vaultActor({ store, kek, audit, onEvent: hub.publish, onError }));
  const operator = readFileSync(join(directory, 'owner.token'), 'utf8').trim();

  const stopRest = async () => {
    await system.stop();
    auditLog.close();
    await store.close();
    rmSync(directory, { recursive: true });
  };
  const front = await startFront({
    host: '127.0.0.1',
    port: 0,
    tls: null,
    baseUrl: null,
    hostNames: ['127.0.0.1', 'localhost', 'broker.example'],
    proxyPort: 14322,
    proxyUrl: (token, name) => `https://${token}:${name}@127.0.0.1:14322`,
    caPem: () => '-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n',
    vault,
    events: hub,
    failures: new SignInFailures(new SharedArrayBuffer(failureBytes), options.authFailures ?? 50),
    ready: () => true,
    draining: () => false,
    clock,
    log: (level, message, fields) => log.push(JSON.stringify({ level, message, ...fields })),
    audit: (record) => records.push(record),
    ...options,
  }).catch(async (error: unknown) => {
    await stopRest();
    throw error;
  });

  const ask = (method: string, path: string, asked?: Asked) => send(front.port, method, path, asked);
  const must = async <T>(result: Promise<{ ok: true; value: T } | { ok: false; problem: unknown }>) => {
    const settled = await result;
    if (!settled.ok) throw new Error(JSON.stringify(settled.problem));
    return settled.value;
  };

  return {
    ...front,
    operator,
    vault,
    hub,
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
    async stop() {
      await front.close();
      await stopRest();
    },
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
