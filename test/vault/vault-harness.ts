import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { type AuditProtocol, auditActor } from '../../src/actors/audit.ts';
import { lastChange } from '../../src/actors/audit-tail.ts';
import type { ActorSpec } from '../../src/actors/core/behavior.ts';
import type { Ref } from '../../src/actors/core/protocol.ts';
import { createSystem } from '../../src/actors/core/system.ts';
import { fileKek } from '../../src/actors/vault/keyfile.ts';
import { openLmdbStore } from '../../src/actors/vault/lmdb-store.ts';
import type { Service } from '../../src/actors/vault/model.ts';
import type { Problem, Result } from '../../src/actors/vault/problem.ts';
import type { By, Identity, VaultEvent, VaultProtocol } from '../../src/actors/vault/protocol.ts';
import { Secret } from '../../src/actors/vault/secret.ts';
import { type Change, type Store, StoreError } from '../../src/actors/vault/store.ts';
import { hashToken } from '../../src/actors/vault/token.ts';
import { vaultActor } from '../../src/actors/vault/vault-actor.ts';
import { prepareVault } from '../../src/actors/vault/vault-boot.ts';
import { openLog } from '../support/audit.ts';
import { usualQuotas } from '../support/compose.ts';
import { type ManualClock, manualClock } from '../support/manual-clock.ts';

export const operator: By = { actor: 'operator:owner', label: null, request_id: 'r-op' };
export const agent: By = { actor: 'session:s1', label: 'ci', request_id: 'r-ag' };
export const other: By = { actor: 'session:s2', label: null, request_id: 'r-ot' };

/** Not 0, so that a wall clock taken for a monotonic one shows. */
export const start = Date.parse('2031-05-06T07:08:09.000Z');

export interface Running {
  readonly vault: Ref<VaultProtocol>;
  readonly clock: ManualClock;
  readonly path: string;
  readonly store: Store;
  readonly events: VaultEvent[];
  readonly errors: Error[];
  readonly damaged: string[];
  /** While true every commit is made to fail in the middle of its transaction. */
  failing: boolean;
  /** Runs inside the commit, before it: what it throws is thrown instead. */
  beforeCommit: () => void;
  /** The audit's control records so far. */
  audit(): Promise<Record<string, unknown>[]>;
  stop(): Promise<void>;
}

function temporary(t: Test): string {
  const path = mkdtempSync(join(tmpdir(), 'broker-vault.'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** The real actor on the real store, key file, audit actor and audit log; only the clock stands still. */
export async function startVault(
  t: Test,
  path = temporary(t),
  clock = manualClock(start),
  auditSpec?: ActorSpec<AuditProtocol>,
  quotas = usualQuotas,
): Promise<Running> {
  const real = await openLmdbStore(path);
  const kek = await prepareVault({ store: real, kek: fileKek(path), directory: path, now: clock.now() });
  const log = openLog(path, { clock });
  const health = new Int32Array(new SharedArrayBuffer(4));
  const system = createSystem({
    clock,
    onEscalate: (reason) => t.fail('the vault failed for good', { reason: String(reason) }),
  });
  const audit = system.spawn(
    auditSpec ?? auditActor({ log, health, onError: (error) => t.fail(error.message) }),
  );
  let commits = 0;
  clock.waitWhile(() => commits > 0);
  const store: Store = {
    ...real,
    async commit(changes) {
      running.beforeCommit();
      commits++;
      await real.commit(running.failing ? [...changes, halfWay] : changes).finally(() => commits--);
    },
  };
  const events: VaultEvent[] = [];
  const errors: Error[] = [];
  const damaged: string[] = [];
  const spec = vaultActor({
    store,
    kek,
    audit,
    lastAudited: () => lastChange(path),
    quotas,
    onEvent: (event) => events.push(event),
    onError: (error) => errors.push(error),
    onDamaged: (table, key) => damaged.push(`${table} ${key}`),
  });
  let stopped: Promise<void> | undefined;
  async function stop(): Promise<void> {
    await system.stop();
    log.close();
    await real.close();
  }
  const running: Running = {
    vault: system.spawn(spec),
    clock,
    path,
    store: real,
    events,
    errors,
    damaged,
    failing: false,
    beforeCommit() {},
    async audit() {
      await audit.ask('flush', {});
      const records: Record<string, unknown>[] = [];
      for await (const line of log.read({})) records.push(JSON.parse(line));
      return records.filter(({ kind }) => kind === 'control');
    },
    stop() {
      stopped ??= stop();
      return stopped;
    },
  };
  t.teardown(running.stop);
  // Its first look at what has expired is over, so that later ones come of what is written later.
  await running.vault.ask('vault.list', {});
  await clock.advance(0);
  return running;
}

/** A row that throws once the rows before it are written. */
const halfWay: Change = {
  table: 'meta',
  key: 'half-way',
  value: {
    toJSON() {
      throw new StoreError('store_failed', 'made to fail');
    },
  },
};

export async function value<T>(answer: Promise<Result<T>>): Promise<T> {
  const result = await answer;
  if (!result.ok) throw new Error(`${result.problem.code}: ${result.problem.message}`);
  return result.value;
}

export async function refusal(answer: Promise<Result<unknown>>): Promise<Problem> {
  const result = await answer;
  if (result.ok) throw new Error('it was not refused');
  return result.problem;
}

export function secrets(values: Record<string, string>): Map<string, Secret> {
  return new Map(Object.entries(values).map(([key, text]) => [key, new Secret(text)]));
}

/** Every byte of every file under a directory. */
export function filesUnder(path: string): { file: string; bytes: Buffer }[] {
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((file) => ({ file, bytes: readFileSync(file) }));
}

/** The vault that is always there. */
export const vault = 'default';

export const bearer = (token: string) => ({ type: 'bearer', token }) as const;
export const passthrough = { type: 'passthrough' } as const;
export const iso = (ms: number) => new Date(ms).toISOString();

export async function store(running: Running, values: Record<string, string>): Promise<void> {
  const message = { vault, values: secrets(values), byAgent: false, by: operator };
  await value(running.vault.ask('credential.set', message));
}

export async function setServices(
  running: Running,
  services: VaultProtocol['service.set']['in']['services'],
  mode: 'replace' | 'upsert' = 'upsert',
): Promise<readonly Service[]> {
  return (await value(running.vault.ask('service.set', { vault, mode, services, by: operator }))).services;
}

/** Has a service refer to each of these keys, since lanes are given no others. They have to be there. */
export async function refer(running: Running, ...keys: string[]): Promise<void> {
  await setServices(
    running,
    keys.map((key) => ({ host: `${key.toLowerCase()}.refers.example`, auth: bearer(key) })),
  );
}

export async function identify(running: Running, token: Secret): Promise<Identity | null> {
  return await running.vault.ask('identify', { hash: hashToken(token.reveal()) });
}
