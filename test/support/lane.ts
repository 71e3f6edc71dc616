import { generateKeyPairSync, randomBytes } from 'node:crypto';
import dns from 'node:dns';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import tls from 'node:tls';
import { MessageChannel } from 'node:worker_threads';
import { proxyOptions } from '../../bin/server/proxy-options.ts';
import { caActor } from '../../src/actors/ca.ts';
import { serve } from '../../src/actors/core/link.ts';
import { createSystem } from '../../src/actors/core/system.ts';
import { defaultSettings, type Service, type VaultSettings } from '../../src/actors/vault/model.ts';
import { failureMemory } from '../../src/actors/vault/sign-in-failures.ts';
import type { Delta, StateMessage } from '../../src/actors/vault/state.ts';
import { hashToken, mintToken } from '../../src/actors/vault/token.ts';
import { createRoot } from '../../src/actors/x509.ts';
import type { Timeouts } from '../../src/proxy/lane.ts';
import { limitBytes } from '../../src/proxy/limits.ts';
import type { Lookup } from '../../src/proxy/lookups.ts';
import { meterBytes } from '../../src/proxy/meters.ts';
import { shareMemory } from '../../src/proxy/shares.ts';
import type { ProxyOptions } from '../../src/workers/boot.ts';
import lane from '../../src/workers/entry.ts';
import { createRecordings } from '../../src/workers/recordings.ts';
import { openRunFiles } from '../../src/workers/run-files.ts';
import { usualSettings } from './compose.ts';
import { eventually, type Wire, wireOf } from './wire.ts';

export interface TestVault {
  readonly services?: readonly Service[];
  readonly credentials?: Readonly<Record<string, string>>;
  readonly settings?: Partial<VaultSettings>;
  readonly cleared?: boolean;
}

export interface TestLane {
  readonly port: number;
  /** A session token for each vault, by the vault's name. */
  readonly tokens: Readonly<Record<string, string>>;
  /** Vault ids, by the vault's name. */
  readonly ids: Readonly<Record<string, string>>;
  readonly rootPem: string;
  /** Audit records so far, parsed. */
  readonly records: Record<string, unknown>[];
  /** Publishes deltas as the vault actor does: post, then move the epoch on. */
  publish(...deltas: Delta[]): void;
  /** Another session of some vaults; its token. Slots are the given ones, or as the vaults' first sessions have. */
  addSession(given: {
    vaults: readonly string[];
    kind?: 'session' | 'agent';
    id?: string;
    expiresAt?: number;
    slot?: number;
  }): string;
  revoke(token: string): void;
  /** Whether the audit can be written, as its actor would say. */
  setAuditHealthy(healthy: boolean): void;
  /** Waits until there are this many audit records of a path, and for any that are too many; all of them. */
  recordsOf(path: string, count?: number): Promise<Record<string, unknown>[]>;
  /** Connections that tests have open to it; `stop` ends them. */
  readonly clients: Set<net.Socket>;
  stop(): Promise<void>;
}

export interface TestLaneOptions extends Partial<Omit<ProxyOptions, 'timeouts'>> {
  timeouts?: Partial<Timeouts>;
  /** Addresses of names, or how a look-up goes; `*.test` for all that are not named, else they are at 127.0.0.1. */
  names?: Readonly<Record<string, readonly string[] | Lookup>>;
}

/**
 * One real lane on this thread, on the real ca actor, with the state given here in place of a store: for
 * tests of what a lane does with connections. Everything in front of it is the whole server's tests' to show.
 */
export async function startLane(
  vaults: Readonly<Record<string, TestVault>>,
  { names = {}, ...options }: TestLaneOptions = {},
): Promise<TestLane> {
  const port = options.port ?? (await freePort());
  const system = createSystem();
  const root = createRoot({ commonName: 'test root', now: Date.now() });
  const leafKeyPem = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
    type: 'pkcs8',
    format: 'pem',
  }) as string;
  const ca = system.spawn(caActor({ root, leafKey: { privatePem: leafKeyPem } }));
  const records: Record<string, unknown>[] = [];
  const folder = mkdtempSync(join(tmpdir(), 'broker-lane.'));
  const recordings = createRecordings(openRunFiles(folder), () => {
    for (const source of recordings.sources) {
      for (let lines = source.read(2 ** 20); lines !== null; lines = source.read(2 ** 20)) {
        const text = Buffer.from(lines).toString().trimEnd();
        source.written(lines.length);
        records.push(...text.split('\n').map((line) => JSON.parse(line)));
      }
    }
  });
  const vault = system.spawn<{ notice: { in: unknown } }>({
    name: 'vault',
    start: () => ({ handlers: { notice: () => {} } }),
  });

  const control = new MessageChannel();
  const state = new MessageChannel();
  const epoch = new SharedArrayBuffer(8);
  const word = new Int32Array(epoch);
  serve(system, control.port1, { ca, vault });
  const tokens: Record<string, string> = {};
  const ids = Object.fromEntries(Object.keys(vaults).map((name, i) => [name, `v${i}`]));
  let extra = 0;
  const publish = (full: boolean, deltas: readonly Delta[]): void => {
    const next = word[0] + 1;
    state.port1.postMessage({ epoch: next, full, deltas } satisfies StateMessage);
    Atomics.store(word, 0, next);
  };
  publish(
    true,
    Object.entries(vaults).flatMap(([name, given], i) => deltasOf(name, given, i, tokens)),
  );

  const up = new Promise<void>((resolve) => {
    control.port1.on('message', (m) => {
      if (m.beat === 'up') resolve();
    });
  });
  const auditHealth = new SharedArrayBuffer(4);
  const found = { apiPort: 1, proxyPort: port, baseUrl: 'http://broker.test', upstreamCa: [] };
  const usual = proxyOptions(usualSettings(), found);
  const boot = {
    lane: 0,
    lanes: 1,
    port: control.port2,
    statePort: state.port2,
    audit: recordings.open(0).boot,
    shared: {
      epoch,
      limits: new SharedArrayBuffer(limitBytes(1)),
      shares: shareMemory(1),
      failures: failureMemory(),
      meters: new SharedArrayBuffer(meterBytes(1)),
      auditHealth,
    },
    options: {
      ...usual,
      limit: { rps: 0, burst: 0, inflight: 0 },
      authFailures: 0,
      allowPrivateRanges: true,
      auditRefusalRate: 0,
      drainMs: 2000,
      ...options,
      timeouts: { ...usual.timeouts, ...options.timeouts },
    },
    leafKeyPem,
    listenerNames: ['localhost', '127.0.0.1', '::1'],
    ticketKeys: randomBytes(48),
  };
  const ended = lane(boot, { lookup: lookupOf(names) });
  await Promise.race([up, ended]);
  const clients = new Set<net.Socket>();
  return {
    port,
    clients,
    tokens,
    ids,
    rootPem: root.certPem,
    records,
    publish: (...deltas) => publish(false, deltas),
    addSession({ vaults: named, kind = 'session', id = `extra-${++extra}`, expiresAt, slot }) {
      const { token, hash } = mintToken(kind);
      const slots = named.map((name) => ({ id: ids[name], slot: slot ?? Number(ids[name].slice(1)) }));
      const expires_at_ms = expiresAt ?? null;
      publish(false, [{ type: 'session', hash, kind, id, label: null, vaults: slots, expires_at_ms }]);
      return token.reveal();
    },
    revoke: (token) => publish(false, [{ type: 'session-gone', hash: hashToken(token) }]),
    setAuditHealthy(healthy) {
      Atomics.store(new Int32Array(auditHealth), 0, healthy ? 0 : 1);
    },
    async recordsOf(path, count = 1) {
      const found = () => records.filter((record) => record.path === path);
      await eventually(() => found().length >= count, `${count} audit records of ${path}`);
      // A batch is sent off after 20 ms: a record too many would be there by now.
      await new Promise((resolve) => setTimeout(resolve, 60));
      return found();
    },
    async stop() {
      for (const client of clients) client.destroy();
      control.port1.postMessage({ beat: 'drain' });
      await new Promise<void>((resolve) => {
        control.port1.on('message', (m) => {
          if (m.beat === 'drained') resolve();
        });
      });
      control.port1.postMessage({ beat: 'stop' });
      await ended;
      await recordings.settled();
      rmSync(folder, { recursive: true });
      control.port1.close();
      state.port1.close();
      await system.stop();
    },
  };
}

function deltasOf(name: string, given: TestVault, i: number, tokens: Record<string, string>): Delta[] {
  const { token, hash } = mintToken('session');
  tokens[name] = token.reveal();
  const id = `v${i}`;
  return [
    {
      type: 'vault',
      id,
      name,
      cleared: given.cleared ?? false,
      settings: { ...defaultSettings, ...given.settings },
    },
    ...(given.services ?? []).map((service): Delta => ({ type: 'service', vault: id, service })),
    ...Object.entries(given.credentials ?? {}).map(
      ([key, value]): Delta => ({ type: 'credential', vault: id, key, value }),
    ),
    {
      type: 'session',
      hash,
      kind: 'session',
      id: `s${i}`,
      label: null,
      vaults: [{ id, slot: i }],
      expires_at_ms: null,
    },
  ];
}

function lookupOf(names: NonNullable<TestLaneOptions['names']>): Lookup {
  return (host, options, done) => {
    const given = names[host] ?? (host.endsWith('.test') ? names['*.test'] : undefined);
    if (typeof given === 'function') given(host, options, done);
    else if (given === undefined && !host.endsWith('.test')) dns.lookup(host, options, done);
    else {
      const found = (given ?? ['127.0.0.1']).map((address) => ({ address, family: net.isIP(address) }));
      setImmediate(done, null, found);
    }
  };
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as net.AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** The header line that carries a token and a vault to the proxy. */
export function proxyAuth(token: string, vault = ''): string {
  return `Proxy-Authorization: Basic ${Buffer.from(`${token}:${vault}`).toString('base64')}\r\n`;
}

/** A connection to the proxy port: plain, or TLS-wrapped as the protocol has it. */
export async function openProxy(at: TestLane, wrapped = false): Promise<net.Socket> {
  const raw = net.connect({ port: at.port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
  at.clients.add(raw);
  raw.on('close', () => at.clients.delete(raw));
  if (!wrapped) {
    await opened(raw, 'connect');
    return raw;
  }
  const socket = tls.connect({
    socket: raw,
    ca: at.rootPem,
    host: '127.0.0.1',
    allowHalfOpen: true,
  } as object);
  await opened(socket, 'secureConnect');
  return socket;
}

export interface TunnelOptions {
  /** Default: the token of the vault's own session. */
  token?: string;
  /** TLS to the proxy, too. */
  wrapped?: boolean;
  tls?: tls.ConnectionOptions;
}

/** A connection to the proxy with a tunnel to `target` open on it. Throws the answer where it is not 200. */
export async function openTunnel(
  at: TestLane,
  vault: string,
  target: string,
  options: TunnelOptions = {},
): Promise<net.Socket> {
  const socket = await openProxy(at, options.wrapped);
  const auth = proxyAuth(options.token ?? at.tokens[vault], vault);
  socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${auth}\r\n`);
  const answer = await new Promise<string>((resolve, reject) => {
    socket.once('data', (chunk) => resolve(chunk.toString('latin1')));
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('closed before the answer to CONNECT')));
  });
  if (!answer.startsWith('HTTP/1.1 200')) throw new Error(answer);
  return socket;
}

/** The same, with TLS inside, verified against the lane's root. */
export async function openTlsTunnel(
  at: TestLane,
  vault: string,
  target: string,
  options: TunnelOptions = {},
): Promise<tls.TLSSocket> {
  const socket = await openTunnel(at, vault, target, options);
  const host = target.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
  const secure = tls.connect({
    socket,
    ca: at.rootPem,
    ...(net.isIP(host) === 0 ? { servername: host } : { host }),
    ALPNProtocols: ['http/1.1'],
    ...options.tls,
  });
  await opened(secure, 'secureConnect');
  return secure;
}

/** A tunnel with TLS inside, ready for requests. */
export async function tunnelWire(
  at: TestLane,
  vault: string,
  target: string,
  options?: TunnelOptions,
): Promise<Wire> {
  return wireOf(await openTlsTunnel(at, vault, target, options));
}

function opened(socket: net.Socket, event: string): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once(event, resolve);
    socket.once('error', reject);
    socket.once('close', () => reject(new Error(`closed before ${event}`)));
  });
}
