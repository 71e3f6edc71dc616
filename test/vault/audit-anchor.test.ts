/** What the store says of its audit log can't be taken away by somebody without its master key, unnoticed. */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type AuditKeeping, keepAudit } from '../../bin/server/audit-keeping.ts';
import type { ServerSettings } from '../../bin/server/options.ts';
import { genesis } from '../../src/actors/audit-chain.ts';
import { systemClock } from '../../src/actors/core/clock.ts';
import { auditRows, forgetHead } from '../../src/actors/vault/audit-rows.ts';
import { fileKek, type KekRow } from '../../src/actors/vault/keyfile.ts';
import { openLmdbStore } from '../../src/actors/vault/lmdb-store.ts';
import { sealBlob } from '../../src/actors/vault/seal.ts';
import type { Change } from '../../src/actors/vault/store.ts';
import { prepareVault, readKekRow } from '../../src/actors/vault/vault-boot.ts';
import { batchesOf, rechain, segmentPaths } from '../support/audit.ts';
import { temporary } from '../support/broker.ts';

const settings = { 'audit-retain-days': null, 'audit-retain-bytes': null } as unknown as ServerSettings;
const anchorGone: Change = { table: 'meta', key: 'blob/audit-anchor', value: null };

/** A store, and starts on it: each opens the log, does its work, and closes. */
async function setUp(t: Test) {
  const directory = temporary(t);
  const store = await openLmdbStore(directory);
  t.teardown(() => store.close());
  const kek = await prepareVault({ store, kek: fileKek(directory), directory, now: Date.now() });
  async function start(work: (audit: AuditKeeping) => unknown = () => {}) {
    const audit = await keepAudit({ directory, store, kek, clock: systemClock, settings });
    await work(audit);
    const { ok, firstBad } = await audit.verify();
    await audit.close();
    return { damage: audit.damage, ok, reason: firstBad?.reason };
  }
  return { directory, store, kek, start };
}

const append = (...names: string[]) => {
  return ({ log }: AuditKeeping) => {
    for (const name of names) log.append(`{"time":"${new Date().toISOString()}","n":"${name}"}\n`);
  };
};

const whole = { damage: null, ok: true };

/** As the log of a server without a key. */
const asBefore = (lines: string) => lines.replace('"version":2', '"version":1');

t.test('without the anchor a rewritten log without a key is found, at the start and for ever', async (t) => {
  const { directory, store, start } = await setUp(t);
  t.match(await start(append('ann', 'mallory', 'bob')), whole);
  t.match(await start(), whole);
  await store.commit([anchorGone, { table: 'meta', key: 'blob/audit-key', value: null }]);
  rechain(directory, (lines) => asBefore(lines).replace('mallory', 'nobody!'));
  const found = { ok: false, damage: /without the key/, reason: /without the key/ };
  t.match(await start(), found);
  t.match(await start(append('more')), found);
});

t.test('without the anchor a log with a cut end is called that, at the start and for ever', async (t) => {
  const { directory, store, start } = await setUp(t);
  t.match(await start(append('ann', 'mallory')), whole);
  await store.commit([anchorGone]);
  const [path] = segmentPaths(directory);
  writeFileSync(path, batchesOf(readFileSync(path, 'utf8'))[0]);
  t.match(await start(append('more')), { ok: false, damage: /has lost/, reason: /has lost/ });
  t.match(await start(), { ok: false, damage: /has lost/, reason: /has lost.*up to batch 1/ });
});

t.test('an emptied log of a store without its anchor is called lost', async (t) => {
  const { store, start } = await setUp(t);
  await store.commit([anchorGone]);
  t.match(await start(), { ok: false, damage: /has lost/ });
});

/** Makes the store one that no server with an anchor has opened, with a log of its time. */
async function ageBy({ directory, store, kek }: Awaited<ReturnType<typeof setUp>>): Promise<void> {
  const row = (await readKekRow(store)) as KekRow;
  const check = sealBlob(kek, 'check', Buffer.from('ok'));
  await store.commit([anchorGone, { table: 'meta', key: 'kek', value: { ...row, check } }]);
  const lines = `{"segment":{"version":1,"seq":1,"started":"2026-01-31T09:00:00.000Z","batch":1,"prev":"${genesis.hash}"}}\n{"n":"old"}\n`;
  const hash = createHash('sha256').update(genesis.hash, 'hex').update(lines).digest('hex');
  const chain = `{"chain":{"seq":1,"count":2,"prev":"${genesis.hash}","hash":"${hash}"}}\n`;
  mkdirSync(join(directory, 'audit'), { mode: 0o700 });
  writeFileSync(join(directory, 'audit', '20260131T090000000Z-00000001.ndjson'), lines + chain, {
    mode: 0o600,
  });
}

t.test('a store of before is taken over once, with its log', async (t) => {
  const made = await setUp(t);
  const { directory, store, kek, start } = made;
  await ageBy(made);
  t.match(await auditRows(store, kek), { anchor: null, unkeyed: null, lost: false });
  t.match(await start(append('new')), whole);
  t.match(await start(), whole);
  t.match(await auditRows(store, kek), { anchor: { unkeyed: { seq: 1 } }, vouching: null });
  await store.commit([anchorGone]);
  rechain(directory, asBefore);
  t.match(await start(), { ok: false, damage: /without the key/ });
});

t.test('a restored store knows which of its log has no key', async (t) => {
  for (const rewritten of [false, true]) {
    const made = await setUp(t);
    const { directory, store, kek, start } = made;
    await ageBy(made);
    t.match(await start(append('new')), whole);
    await forgetHead(store, kek);
    t.match(await auditRows(store, kek), { anchor: null, unkeyed: { seq: 1 }, lost: false });
    if (rewritten) rechain(directory, asBefore);
    const found = await start(append('newer'));
    t.match(found, rewritten ? { ok: false, damage: /without the key/ } : whole);
  }
});
