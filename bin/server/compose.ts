import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { auditLine } from '../../src/actors/audit.ts';
import { lastChange } from '../../src/actors/audit-tail.ts';
import type { Clock } from '../../src/actors/core/clock.ts';
import type { Ref } from '../../src/actors/core/protocol.ts';
import { createSystem } from '../../src/actors/core/system.ts';
import { startTree, type Tree } from '../../src/actors/guardian.ts';
import { clearSnapshots } from '../../src/actors/vault/backup.ts';
import { openDirectory } from '../../src/actors/vault/directory.ts';
import { openLmdbStore } from '../../src/actors/vault/lmdb-store.ts';
import { masterKek } from '../../src/actors/vault/master-key.ts';
import type { VaultProtocol } from '../../src/actors/vault/protocol.ts';
import type { Secret } from '../../src/actors/vault/secret.ts';
import { failureMemory, SignInFailures } from '../../src/actors/vault/sign-in-failures.ts';
import { vaultActor } from '../../src/actors/vault/vault-actor.ts';
import { prepareVault } from '../../src/actors/vault/vault-boot.ts';
import { createEventHub } from '../../src/http/event-hub.ts';
import type { Front } from '../../src/http/front.ts';
import type { FrontOptions } from '../../src/http/front-options.ts';
import { apiConnections } from '../../src/proxy/descriptors.ts';
import { limitBytes } from '../../src/proxy/limits.ts';
import { meterBytes } from '../../src/proxy/meters.ts';
import { shareMemory } from '../../src/proxy/shares.ts';
import type { LaneBoot, SharedMemory } from '../../src/workers/boot.ts';
import { createPool } from '../../src/workers/pool.ts';
import { createRecordings } from '../../src/workers/recordings.ts';
import { openRunFiles } from '../../src/workers/run-files.ts';
import { claimLocalSocket } from '../local-socket.ts';
import { failed } from '../terminal.ts';
import { bareNames, baseUrlOf, hostNames, listeningAddress, ownsOf, urlHost } from './addresses.ts';
import { keepAudit } from './audit-keeping.ts';
import { checkSettings } from './checks.ts';
import { createControlRecords } from './control-records.ts';
import { createExplain } from './explain.ts';
import { createHealth } from './health.ts';
import { createKeeping, rootStore } from './keeping.ts';
import { failureFields, type log } from './log.ts';
import { askMasterPassword } from './master-password.ts';
import type { ServerSettings } from './options.ts';
import { createPasswords } from './passwords.ts';
import { claimPort } from './ports.ts';
import { guardOf, proxyOptions } from './proxy-options.ts';
import { quotasOf } from './quotas.ts';
import { recordUnclean } from './unclean.ts';

/** What the process gives a server beside its settings. */
export interface Surroundings {
  readonly clock: Clock;
  readonly log: typeof log;
  /** As it was given with the start; null: it wasn't. */
  readonly masterPassword: Secret | null;
  /** Starts the front with all that was composed for it. */
  readonly startFront: (options: FrontOptions) => Promise<Front>;
}

/** A server that serves. */
export interface Running {
  readonly front: Front;
  readonly proxyPort: number;
  /** The data directory. */
  readonly directory: string;
  /** What is wrong with the audit log, in one line; null: nothing. */
  readonly auditDamage: string | null;
  readonly tree: Tree;
  /** Tells `/ready` that this server takes no new work. */
  drain(): void;
  /** Once it has stopped: audit records that the log could not take. */
  recordsLost(): number;
}

/** Lanes that don't serve by then never will. */
/** For the vault to read the store. */
const loadMs = 600_000;
const startMs = 60_000;

/**
 * Composes the server, the only way in which one is made: the data directory, the store and the audit log, the tree
 * of actors with the lanes, then the front.
 * @param undo is given what takes each part down again, in the order in which they were made; also where this throws
 * @throws Failure, or `StoreError`: in one line what is wrong, and what to do
 */
export async function compose(
  settings: ServerSettings,
  { clock, log, masterPassword, startFront }: Surroundings,
  undo: (() => unknown)[],
): Promise<Running> {
  const { tls, upstreamCa } = checkSettings(settings);
  const directory = openDirectory(settings['data-dir']);
  undo.push(() => directory.close());
  const store = await openLmdbStore(directory.path);
  undo.push(() => store.close());
  const passwords = createPasswords(moduleUrl('password'));
  undo.push(() => passwords.close());
  const { derive } = passwords;
  const masterKey = masterKek({
    directory: directory.path,
    given: masterPassword,
    ask: askMasterPassword,
    derive,
  });
  const kek = await prepareVault({ store, kek: masterKey, directory: directory.path, now: clock.now() });
  const vault = (): Ref<VaultProtocol> => tree.vault;
  const roots = rootStore(store, kek, vault);
  // The first one is made before the vault actor starts, which is the only writer from then on.
  await roots.load();
  clearSnapshots(directory.path);
  const audit = await keepAudit({ directory: directory.path, store, kek, clock, settings });
  undo.push(() => audit.close());
  if (audit.damage !== null) log('error', 'the audit log is damaged', { damage: audit.damage });

  const listening = await listeningAddress(settings);
  const { apiPort, proxyPort } = await claimPorts(settings);
  const local = claimLocalSocket(directory.path, [
    baseUrlOf(settings, apiPort, tls !== null),
    `http://${urlHost(settings.host)}:${apiPort}`,
  ]);
  undo.push(() => local.release());
  const baseUrl = baseUrlOf(settings, apiPort, tls !== null);
  const options = proxyOptions(settings, { apiPort, proxyPort, baseUrl, upstreamCa });
  const lanes = process.platform === 'linux' ? Math.max(1, settings.workers) : 1;
  const shared: SharedMemory = {
    epoch: new SharedArrayBuffer(4),
    limits: new SharedArrayBuffer(limitBytes(lanes)),
    shares: shareMemory(lanes),
    failures: failureMemory(),
    auditHealth: new SharedArrayBuffer(4),
    meters: new SharedArrayBuffer(meterBytes(lanes)),
  };
  const system = createSystem({ clock });
  const pool = createPool({ filename: moduleUrl('entry'), threads: lanes });
  undo.push(() => pool.close());
  undo.push(() => system.stop());
  const control = createControlRecords(() => tree.audit, clock, settings['audit-refusal-rate']);
  undo.push(() => control.flush());
  const leafKeyPem = newLeafKey();
  const ticketKeys = randomBytes(48);
  const listenerNames = listenerNamesOf(settings);
  const events = createEventHub();
  const up = new Set<number>();
  const allUp = Promise.withResolvers<void>();
  let draining = false;
  let recordsLost = 0;
  const runFiles = openRunFiles(directory.path);
  const recordings = createRecordings(runFiles, () => tree.audit.tell('ready', {}));

  const tree: Tree = startTree(system, {
    audit: {
      log: audit.log,
      sources: recordings.sources,
      health: new Int32Array(shared.auditHealth),
      onError: (error) => log('error', 'the audit log cannot be written', failureFields(error)),
      onLost: (records) => {
        recordsLost = records;
        log('error', 'audit records are lost: the log could not be written before the stop', { records });
      },
    },
    ca: { root: roots, leafKey: { privatePem: leafKeyPem } },
    vault: (audit) =>
      vaultActor({
        store,
        kek,
        audit,
        lastAudited: () => lastChange(directory.path),
        quotas: quotasOf(settings),
        onEvent: events.publish,
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
      append(laneDown(clock, lane, error));
    },
    async runLane(lane, port, signal) {
      const state = new MessageChannel();
      const attach = { lane, port: state.port1, epoch: shared.epoch };
      await tree.vault.ask('lane.attach', attach, { timeoutMs: loadMs });
      const recording = recordings.open(lane);
      const boot: LaneBoot = {
        lane,
        audit: recording.boot,
        lanes,
        port: port as MessagePort,
        statePort: state.port2,
        shared,
        options,
        leafKeyPem,
        listenerNames,
        ticketKeys,
      };
      try {
        return await pool.run(boot, { signal, transferList: [boot.port, boot.statePort, boot.audit.port] });
      } finally {
        recording.close();
      }
    },
  });
  audit.handOver(tree.vault);
  const append = (record: object): void => {
    tree.audit.tell('append', { lines: auditLine(record), count: 1 });
  };

  if (runFiles.left !== null) await recordUnclean(runFiles.left, { clock, log, audit: tree.audit });

  // A start that fails takes the lanes down again, which is no failure of theirs.
  undo.push(() => {
    draining = true;
  });
  const front = await startFront({
    address: {
      host: listening,
      port: apiPort,
      tls,
      socketPath: local.path,
      maxConnections: apiConnections(),
      owns: ownsOf(settings, listening, apiPort),
      baseUrl,
      hostNames: hostNames(settings, baseUrl),
    },
    proxy: {
      port: proxyPort,
      url: (token, name) => `https://${token}:${name}@${urlHost(new URL(baseUrl).hostname)}:${proxyPort}`,
      explain: createExplain({ vault: tree.vault, baseUrl, netguard: guardOf(options) }),
    },
    ca: {
      pem: async () => (await tree.ca.ask('root', {})).certPem,
      switchesAt: async () => (await tree.ca.ask('root', {})).switchesAt ?? null,
      rotate: (rotation) => tree.ca.ask('rotate', rotation),
    },
    vault: tree.vault,
    events,
    audit: {
      append: control.append,
      // Lanes' records are where the actor reads them as soon as they are made.
      async settled() {
        control.flush();
        await tree.audit.ask('flush', {});
      },
      read: audit.log.read,
      follow: audit.log.follow,
      verify: audit.verify,
    },
    keeping: createKeeping({ store, kek, directory: directory.path, derive, vault: tree.vault }),
    health: createHealth({
      vault: tree.vault,
      shared,
      lanes,
      lanesUp: () => up.size,
      draining: () => draining,
      actors: () => system.counters(),
      metricsPublic: settings['metrics-public'],
    }),
    passwords,
    failures: new SignInFailures(shared.failures, settings['auth-failures']),
    apiRate: { rate: settings['api-rate'], burst: settings['api-burst'] },
    clock,
    log,
  });
  undo.push(() => front.close());
  // While the lanes drain, the front still says that this server is not ready.
  undo.push(() => recordings.settled());
  undo.push(() => tree.stopLanes());
  // However much there is to be read: the lanes start when it has been.
  await tree.vault.ask('vault.list', {}, { timeoutMs: loadMs });
  await Promise.race([allUp.promise, notInTime()]);
  return {
    front,
    proxyPort,
    directory: directory.path,
    auditDamage: audit.damage,
    tree,
    drain: () => (draining = true),
    recordsLost: () => recordsLost,
  };
}

async function claimPorts(settings: ServerSettings): Promise<{ apiPort: number; proxyPort: number }> {
  const apiPort = await claimPort(settings.host, settings.port, 'The API');
  let proxyPort: number;
  // A free port that is chosen may be the one that the API was given.
  do proxyPort = await claimPort(settings.host, settings['proxy-port'], 'The proxy');
  while (proxyPort === apiPort && settings['proxy-port'] === 0);
  if (apiPort !== proxyPort) return { apiPort, proxyPort };
  throw failed(`The API and the proxy can't share port ${apiPort}. Choose two ports.`);
}

/** What a lane that died had under way is on record by itself; this says why it ended so. */
function laneDown(clock: Clock, lane: number, error: unknown): object {
  const { kind, code } = failureFields(error);
  // A lane whose heart stopped was killed by us.
  const reason = kind === 'AbortError' ? 'unresponsive' : (code ?? kind);
  return { time: new Date(clock.now()).toISOString(), kind: 'event', event: 'lane.failed', lane, reason };
}

/** The one key of all leaves, for as long as this server runs: PKCS #8, PEM. */
function newLeafKey(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
}

/** What the proxy is reached by. */
function listenerNamesOf(settings: ServerSettings): string[] {
  const names = ['localhost', '127.0.0.1', '::1', hostname(), ...settings['public-host']];
  return [...new Set([...names, ...bareNames(settings.host)])];
}

/** A module for threads: `.ts` where the sources run as they are, `.js` where they were compiled. */
function moduleUrl(name: 'entry' | 'password'): URL {
  const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
  return new URL(`../../src/workers/${name}${extension}`, import.meta.url);
}

function notInTime(): Promise<never> {
  const message = `The proxy threads did not start within ${startMs / 1000} s. See the log above.`;
  return new Promise((_, reject) => setTimeout(() => reject(failed(message)), startMs).unref());
}
