import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import tls from 'node:tls';
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { auditLine } from '../../src/actors/audit.ts';
import { type AuditLog, openAuditLog } from '../../src/actors/audit-log.ts';
import { systemClock } from '../../src/actors/core/clock.ts';
import { createSystem } from '../../src/actors/core/system.ts';
import { startTree, type Tree } from '../../src/actors/guardian.ts';
import { clearSnapshots } from '../../src/actors/vault/backup.ts';
import { openDirectory } from '../../src/actors/vault/directory.ts';
import { openLmdbStore } from '../../src/actors/vault/lmdb-store.ts';
import { masterKek } from '../../src/actors/vault/master-key.ts';
import type { VaultEvent } from '../../src/actors/vault/protocol.ts';
import type { Secret } from '../../src/actors/vault/secret.ts';
import { failureBytes, SignInFailures } from '../../src/actors/vault/sign-in-failures.ts';
import { StoreError } from '../../src/actors/vault/store.ts';
import { vaultActor } from '../../src/actors/vault/vault-actor.ts';
import { prepareVault } from '../../src/actors/vault/vault-boot.ts';
import { startFront } from '../../src/http/front.ts';
import { limitBytes } from '../../src/proxy/limits.ts';
import { meterBytes, readMeters } from '../../src/proxy/meters.ts';
import { createNetguard, type Netguard } from '../../src/proxy/netguard.ts';
import { ownAddresses } from '../../src/proxy/own-addresses.ts';
import type { LaneBoot, ProxyOptions, SharedMemory } from '../../src/workers/boot.ts';
import { createPool } from '../../src/workers/pool.ts';
import { dataDirectory, defaultAddress } from '../target.ts';
import { failed } from '../terminal.ts';
import { createExplain } from './explain.ts';
import { createKeeping, rootStore } from './keeping.ts';
import { failureFields, log } from './log.ts';
import { askMasterPassword } from './master-password.ts';
import { createMetrics } from './metrics.ts';
import type { ServerSettings } from './options.ts';
import { createPasswords } from './passwords.ts';
import { claimPort, isLoopbackAddress } from './ports.ts';

/**
 * Runs the broker until it is told to stop: opens the data directory and the store, starts the tree of actors
 * and the lanes, then the front. Whatever fails on the way is said in one line, and nothing is left behind.
 * @param masterPassword as it was given with the start; null: it wasn't
 * @returns the exit code
 */
export async function runServer(settings: ServerSettings, masterPassword: Secret | null): Promise<number> {
  const undo: (() => unknown)[] = [];
  try {
    const running = await start(settings, masterPassword, undo);
    // Before anyone is told that there is something to stop.
    const stopped = stopSignal();
    announce(settings, running);
    const signal = await stopped;
    log('info', 'stopping', { signal });
    running.drain();
    return 0;
  } catch (error) {
    if (error instanceof StoreError) throw failed(error.message);
    throw error;
  } finally {
    for (const step of undo.reverse()) await step();
  }
}

interface Running {
  readonly apiPort: number;
  readonly proxyPort: number;
  readonly baseUrl: string;
  readonly directory: string;
  /** Tells `/ready` that this server takes no new work. */
  drain(): void;
}

async function start(
  settings: ServerSettings,
  masterPassword: Secret | null,
  undo: (() => unknown)[],
): Promise<Running> {
  checkExposure(settings);
  const tlsFiles = readTls(settings);
  const upstreamCa = settings['upstream-ca'].map((file) => readPem(file, '--upstream-ca'));
  checkNetwork(settings);

  const directory = openDirectory(settings['data-dir']);
  undo.push(() => directory.close());
  const store = await openLmdbStore(directory.path);
  undo.push(() => store.close());
  const passwords = createPasswords(moduleUrl('password'));
  undo.push(() => passwords.close());
  const masterKey = masterKek({
    directory: directory.path,
    given: masterPassword,
    ask: askMasterPassword,
    derive: passwords.derive,
  });
  const kek = await prepareVault({ store, kek: masterKey, directory: directory.path, now: Date.now() });
  const roots = rootStore(store, kek, () => tree.vault);
  // The first one is made before the vault actor starts, which is the only writer from then on.
  await roots.load();
  clearSnapshots(directory.path);
  const auditLog = openAudit(directory.path, settings);
  undo.push(() => auditLog.close());

  const apiPort = await claimPort(settings.host, settings.port, 'The API');
  let proxyPort: number;
  // A free port that is chosen may be the one that the API was given.
  do proxyPort = await claimPort(settings.host, settings['proxy-port'], 'The proxy');
  while (proxyPort === apiPort && settings['proxy-port'] === 0);
  if (apiPort === proxyPort)
    throw failed(`The API and the proxy can't share port ${apiPort}. Choose two ports.`);
  const scheme = tlsFiles === null ? 'http' : 'https';
  const baseUrl = (settings['public-url'] ?? `${scheme}://${urlHost(settings.host)}:${apiPort}`).replace(
    /\/+$/,
    '',
  );
  const lanes = process.platform === 'linux' ? Math.max(1, settings.workers) : 1;
  const shared: SharedMemory = {
    epoch: new SharedArrayBuffer(4),
    limits: new SharedArrayBuffer(limitBytes(lanes)),
    failures: new SharedArrayBuffer(failureBytes),
    auditHealth: new SharedArrayBuffer(4),
    meters: new SharedArrayBuffer(meterBytes(lanes)),
  };

  const system = createSystem();
  const pool = createPool({ filename: moduleUrl('entry'), threads: lanes });
  undo.push(() => pool.close());
  undo.push(() => system.stop());
  const leafKeyPem = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
    type: 'pkcs8',
    format: 'pem',
  }) as string;
  const subscribers = new Set<(event: VaultEvent) => void>();
  const up = new Set<number>();
  let draining = false;
  const allUp = Promise.withResolvers<void>();
  const ticketKeys = randomBytes(48);
  const options = proxyOptions(settings, { apiPort, proxyPort, baseUrl, upstreamCa });

  const tree: Tree = startTree(system, {
    audit: {
      log: auditLog,
      health: new Int32Array(shared.auditHealth),
      onError: (error) => log('error', 'the audit log cannot be written', failureFields(error)),
    },
    ca: { root: roots, leafKey: { privatePem: leafKeyPem } },
    vault: (audit) =>
      vaultActor({
        store,
        kek,
        audit,
        onEvent: (event) => {
          for (const subscriber of subscribers) subscriber(event);
        },
        onError: (error) => log('error', 'a change could not be stored', failureFields(error)),
        onDamaged: (table, key) => log('error', 'a stored row is damaged and left out', { table, key }),
      }),
    lanes,
    drainMs: options.drainMs,
    onLaneUp: (lane) => {
      up.add(lane);
      if (up.size === lanes) allUp.resolve();
    },
    onLaneDown: (lane, error) => {
      up.delete(lane);
      if (draining) return;
      log('error', 'a lane ended and is started again', { lane, ...failureFields(error) });
      recordLaneDown(tree, lane, error);
    },
    async runLane(lane, port, signal) {
      const state = new MessageChannel();
      await tree.vault.ask('lane.attach', { lane, port: state.port1, epoch: shared.epoch });
      const names = [
        'localhost',
        '127.0.0.1',
        '::1',
        hostname(),
        ...settings['public-host'],
        ...bareNames(settings.host),
      ];
      const boot: LaneBoot = {
        lane,
        lanes,
        port: port as MessagePort,
        statePort: state.port2,
        shared,
        options,
        leafKeyPem,
        listenerNames: [...new Set(names)],
        ticketKeys,
      };
      return pool.run(boot, { signal, transferList: [boot.port, boot.statePort] });
    },
  });

  // A start that fails takes the lanes down again, which is no failure of theirs.
  undo.push(() => {
    draining = true;
  });
  const front = await startFront({
    host: settings.host,
    port: apiPort,
    tls:
      tlsFiles === null
        ? null
        : { certFile: settings['tls-cert'] as string, keyFile: settings['tls-key'] as string },
    baseUrl,
    hostNames: hostNames(settings, baseUrl),
    proxyPort,
    proxyUrl: (token, vault) =>
      `https://${token}:${vault}@${urlHost(new URL(baseUrl).hostname)}:${proxyPort}`,
    caPem: async () => (await tree.ca.ask('root', {})).certPem,
    caSwitchesAt: async () => (await tree.ca.ask('root', {})).switchesAt ?? null,
    rotateCa: (rotation) => tree.ca.ask('rotate', rotation),
    passwords,
    ...createKeeping({ store, kek, directory: directory.path, derive: passwords.derive, vault: tree.vault }),
    vault: tree.vault,
    events: {
      subscribe(listener) {
        subscribers.add(listener);
        return () => subscribers.delete(listener);
      },
    },
    ready: () => up.size === lanes && !draining,
    draining: () => draining,
    clock: systemClock,
    log,
    audit: (record) => appendRecord(tree, { time: new Date().toISOString(), kind: 'control', ...record }),
    auditSettled: () => settleAudit(tree),
    auditRead: auditLog.read,
    auditFollow: auditLog.follow,
    explain: createExplain({ vault: tree.vault, baseUrl, netguard: guardOf(options) }),
    metrics: createMetrics({
      read: () => readMeters(shared.meters, lanes),
      vaults: () => tree.vault.ask('vault.list', {}),
      actors: () => system.counters(),
      lanesUp: () => up.size,
      auditHealthy: () => new Int32Array(shared.auditHealth)[0] === 0,
    }),
    metricsPublic: settings['metrics-public'],
    failures: new SignInFailures(shared.failures, settings['auth-failures']),
  });
  undo.push(() => front.close());
  // While the lanes drain, the front still says that this server is not ready.
  undo.push(() => tree.stopLanes());
  await Promise.race([
    allUp.promise,
    timeout(15_000, 'The proxy threads did not start within 15 s. See the log above.'),
  ]);
  return { apiPort, proxyPort, baseUrl, directory: directory.path, drain: () => (draining = true) };
}

/** Lanes send their records off every 20 ms; the actor writes what it has when it is asked to. */
async function settleAudit(tree: Tree): Promise<void> {
  await sleep(50);
  await tree.audit.ask('flush', {});
}

/** A lane that dies took the requests in flight on it along: the audit says that it happened. */
function recordLaneDown(tree: Tree, lane: number, error: unknown): void {
  const { kind, code } = failureFields(error);
  appendRecord(tree, {
    time: new Date().toISOString(),
    kind: 'event',
    event: 'lane.failed',
    lane,
    // A lane whose heart stopped was killed by us.
    reason: kind === 'AbortError' ? 'unresponsive' : (code ?? kind),
  });
}

function appendRecord(tree: Tree, record: object): void {
  tree.audit.tell('append', { lines: auditLine(record), count: 1 });
}

function guardOf(options: ProxyOptions): Netguard {
  const { allowPrivateRanges, networkAllow: allow, port, apiPort } = options;
  return createNetguard({ allowPrivateRanges, allow, ownPorts: [port, apiPort], ownAddresses });
}

function announce(settings: ServerSettings, running: Running): void {
  const at = `http://${urlHost(settings.host)}`;
  const address = running.baseUrl === defaultAddress ? '' : ` --address ${running.baseUrl}`;
  const usual = dataDirectory({ ...process.env, BROKER_DATA_DIR: undefined });
  const flags = address + (running.directory === usual ? '' : ` --data-dir ${shellWord(running.directory)}`);
  process.stdout.write(
    `broker is ready.\n` +
      `  API    ${running.baseUrl}\n` +
      `  proxy  ${at.replace('http', 'https')}:${running.proxyPort} (TLS or plain)\n` +
      `  data   ${running.directory}\n\n` +
      `To the first brokered request:\n` +
      `  bin/broker vault credential set GH_TOKEN${flags}\n` +
      `  bin/broker vault service set -f services.yaml${flags}\n` +
      `  bin/broker vault run${flags} -- curl https://api.github.com/user\n` +
      `Or in a browser, by the link that this prints: bin/broker login${flags}\n`,
  );
}

function shellWord(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Resolves at the first SIGTERM or SIGINT; a second one ends the process at once. */
function stopSignal(): Promise<string> {
  return new Promise((resolve) => {
    let asked = false;
    const onSignal = (signal: string): void => {
      if (asked) process.exit(1);
      asked = true;
      resolve(signal);
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
  });
}

function checkExposure(settings: ServerSettings): void {
  if (isLoopbackAddress(settings.host) || settings['tls-cert'] !== null || settings['insecure-http']) return;
  throw failed(
    `${settings.host} is reached from other machines, and tokens would cross the network in the clear. ` +
      `Give --tls-cert and --tls-key, or --insecure-http if something in front of the broker does TLS.`,
  );
}

function readTls(settings: ServerSettings): { cert: string; key: string } | null {
  const { 'tls-cert': cert, 'tls-key': key } = settings;
  if (cert === null && key === null) return null;
  if (cert === null || key === null) throw failed('--tls-cert and --tls-key go together. Give both.');
  const files = { cert: readPem(cert, '--tls-cert'), key: readText(key, '--tls-key') };
  try {
    tls.createSecureContext(files);
  } catch {
    throw failed(`${cert} and ${key} are not a certificate and its key in PEM form.`);
  }
  return files;
}

function readPem(file: string, flag: string): string {
  const text = readText(file, flag);
  if (!text.includes('-----BEGIN CERTIFICATE-----'))
    throw failed(`${file} (${flag}) holds no certificate in PEM form.`);
  return text;
}

function readText(file: string, flag: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw failed(
      `${file} (${flag}) can't be read (${(error as NodeJS.ErrnoException).code}). Check the path.`,
    );
  }
}

/** Bad CIDR texts are found here, before anything is opened; the lanes make their own guard. */
function checkNetwork(settings: ServerSettings): void {
  try {
    createNetguard({
      allowPrivateRanges: false,
      allow: settings['network-allow'],
      ownPorts: [],
      ownAddresses: () => [],
    });
  } catch (error) {
    throw failed(`--network-allow: ${(error as Error).message}`);
  }
}

function openAudit(directory: string, settings: ServerSettings): AuditLog {
  const { 'audit-retain-days': retainDays, 'audit-retain-bytes': retainBytes } = settings;
  try {
    return openAuditLog(directory, {
      clock: systemClock,
      retainDays: retainDays ?? undefined,
      retainBytes: retainBytes ?? undefined,
    });
  } catch (error) {
    throw failed(
      `The audit log in ${directory} can't be opened (${(error as NodeJS.ErrnoException).code ?? 'damaged'}). Check the disk and its rights.`,
    );
  }
}

function proxyOptions(
  settings: ServerSettings,
  found: { apiPort: number; proxyPort: number; baseUrl: string; upstreamCa: readonly string[] },
): ProxyOptions {
  const ms = (name: `${string}-timeout` & keyof ServerSettings): number => (settings[name] as number) * 1000;
  return {
    host: settings.host,
    port: found.proxyPort,
    apiPort: found.apiPort,
    baseUrl: found.baseUrl,
    plain: settings['proxy-plain'],
    timeouts: {
      clientTls: ms('client-tls-timeout'),
      head: ms('head-timeout'),
      keepAlive: ms('idle-timeout'),
      connect: ms('connect-timeout'),
      upstreamTls: ms('tls-timeout'),
      responseHead: ms('response-timeout'),
      body: ms('body-timeout'),
      relay: ms('relay-timeout'),
    },
    limit: {
      rps: settings['rate-limit'],
      burst: settings['rate-burst'],
      inflight: settings['rate-inflight'],
    },
    authFailures: settings['auth-failures'],
    allowPrivateRanges: settings['allow-private-ranges'],
    networkAllow: settings['network-allow'],
    upstreamCa: found.upstreamCa,
    auditFailOpen: settings['audit-on-error'] === 'open',
    drainMs: ms('drain-timeout'),
  };
}

/** The names that the API answers to, so that a web page can't reach it under another by DNS rebinding. */
function hostNames(settings: ServerSettings, baseUrl: string): string[] {
  return [
    ...new Set([new URL(baseUrl).hostname, ...bareNames(settings.host), 'localhost', '127.0.0.1', '[::1]']),
  ];
}

/** An address to listen on that is no name to be reached by gives none. */
function bareNames(host: string): string[] {
  return host === '0.0.0.0' || host === '::' ? [] : [host];
}

function urlHost(host: string): string {
  return host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
}

/** A module for threads: `.ts` where the sources run as they are, `.js` where they were compiled. */
function moduleUrl(name: 'entry' | 'password'): URL {
  const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
  return new URL(`../../src/workers/${name}${extension}`, import.meta.url);
}

function timeout(ms: number, message: string): Promise<never> {
  return new Promise((_, reject) => setTimeout(() => reject(failed(message)), ms).unref());
}
