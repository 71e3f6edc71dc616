import { createSecretKey } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MessageChannel, Worker } from 'node:worker_threads';
import t from 'tap';
import type { AuditProtocol } from '../../src/actors/audit.ts';
import type { ActorSpec } from '../../src/actors/core/behavior.ts';
import { openLmdbStore } from '../../src/actors/vault/lmdb-store.ts';
import { createRateSlots } from '../../src/actors/vault/rate-slots.ts';
import { type Change, StoreError } from '../../src/actors/vault/store.ts';
import { applyChanges } from '../../src/actors/vault/vault-apply.ts';
import { emptyState } from '../../src/actors/vault/vault-state.ts';
import {
  agent,
  bearer,
  filesUnder,
  identify,
  iso,
  operator,
  passthrough,
  type Running,
  refer,
  refusal,
  secrets,
  setServices,
  start,
  startVault,
  store,
  value,
  vault,
} from './vault-harness.ts';
import { attachLane, snapshot } from './vault-lane.ts';

t.test('a commit that fails leaves everything as it was', async (t) => {
  const running = await startVault(t);
  const { vault: ref } = running;
  await store(running, { A: 'x', B: 'y' });
  await setServices(running, [{ host: 'a.example', auth: bearer('A') }]);
  const credentials = [{ action: 'set', key: 'NEW' }] as const;
  await value(ref.ask('proposal.create', { vault, body: { credentials }, by: agent }));
  const session = await value(
    ref.ask('session.create', { vault, ttlSeconds: 60, label: null, by: operator }),
  );
  const lane = await attachLane(ref);
  lane.drain();
  const before = [await snapshot(ref), await ref.ask('proposal.list', {}), await ref.ask('vault.list', {})];
  const events = running.events.length;

  running.failing = true;
  const failures = [
    ref.ask('vault.create', { name: 'v', by: operator }),
    ref.ask('vault.update', { vault, patch: { require_tls: true }, by: operator }),
    ref.ask('service.set', { vault, mode: 'replace', services: [], by: operator }),
    ref.ask('service.clear', { vault, by: operator }),
    ref.ask('service.enable', { vault, host: 'a.example', enabled: false, by: operator }),
    ref.ask('service.remove', { vault, host: 'a.example', by: operator }),
    ref.ask('credential.set', { vault, values: secrets({ A: 'z' }), byAgent: false, by: operator }),
    ref.ask('credential.delete', { vault, key: 'B', force: false, by: operator }),
    ref.ask('proposal.create', { vault, body: { credentials }, by: agent }),
    ref.ask('proposal.approve', {
      id: 1,
      credentials: secrets({ NEW: 'n' }),
      confirm: null,
      by: operator,
    }),
    ref.ask('proposal.reject', { id: 1, reason: '', by: operator }),
    ref.ask('proposal.cancel', { id: 1, vault, by: agent }),
    ref.ask('session.create', { vault, ttlSeconds: 60, label: null, by: operator }),
    ref.ask('session.revoke', { id: session.id, by: operator }),
    ref.ask('operator.create', { name: 'x', role: 'owner', vaults: [], by: operator }),
  ];
  for (const failure of failures)
    t.match(await refusal(failure), { code: 'store_unavailable', extra: { applied: false } });
  t.equal(running.errors.length, failures.length);
  t.same(lane.drain(), [], 'no lane heard of it');
  t.same([await snapshot(ref), await ref.ask('proposal.list', {}), await ref.ask('vault.list', {})], before);
  t.equal(running.events.length, events);
  await running.clock.advance(120_000);
  t.equal(await identify(running, session.token), null, 'what is over is over, stored or not');
  const refused = (await running.audit()).filter(({ status }) => status === 503);
  t.ok(refused.length >= failures.length);

  running.failing = false;
  const approve = { id: 1, credentials: secrets({ NEW: 'n' }), confirm: null, by: operator };
  t.match(await value(ref.ask('proposal.approve', approve)), { status: 'applied' });
  await running.clock.advance(1000);
  t.match(lane.drain(), [{ deltas: [{ type: 'session-gone' }] }], 'no lane hears of a key without a service');
});

t.test('a store that is lost in a commit: the actor starts anew from what is stored', async (t) => {
  const running = await startVault(t);
  const lane = await attachLane(running.vault);
  await store(running, { A: 'old' });
  await refer(running, 'A');
  lane.drain();
  running.beforeCommit = () => {
    running.beforeCommit = () => {};
    throw new StoreError('store_lost', 'made to');
  };
  const answer = running.vault.ask('credential.set', {
    vault,
    values: secrets({ A: 'x' }),
    byAgent: false,
    by: operator,
  });
  t.match(await refusal(answer), { code: 'store_unavailable', extra: { applied: 'unknown' } });
  const next = running.vault.ask('credential.list', { vault });
  await running.clock.advance(1000);
  t.same(await value(next), { keys: ['A'] });
  t.match(lane.drain(), [{ full: true }], 'lanes are told everything');
  await store(running, { A: 'new' });
  t.match(lane.drain(), [{ full: false, deltas: [{ value: 'new' }] }], 'and hear what comes after');
});

t.test('a change is in the audit once, wherever the process ended', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'broker-outbox.'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  /** Takes records and never writes any: what is left when the process is killed before the next batch. */
  const deaf: ActorSpec<AuditProtocol> = {
    name: 'audit',
    start: () => ({ handlers: { append: () => {}, ready: () => {}, flush: () => ({ written: false }) } }),
  };
  const changes = async (running: Running) => {
    const records = await running.audit();
    return records.map(({ keys }) => (keys as string[])[0]);
  };
  const committed: string[] = [];
  const change = async (running: Running, keys: readonly string[]) => {
    for (const key of keys) await store(running, { [key]: 'x' });
    committed.push(...keys);
  };

  const killed = await startVault(t, path, undefined, deaf);
  await change(killed, ['A', 'B', 'C']);
  await killed.stop();
  const again = await startVault(t, path);
  t.same(await changes(again), committed, 'none was written: all are now');
  await change(again, ['D', 'E']);
  await again.audit();
  await again.stop();
  const third = await startVault(t, path);
  t.same(
    await changes(third),
    committed,
    'they were written, and their rows were still there: they are not again',
  );
  await change(third, ['F']);
  await third.audit();
  await third.stop();
  const deafAgain = await startVault(t, path, undefined, deaf);
  await change(deafAgain, ['G']);
  await deafAgain.stop();
  const last = await startVault(t, path);
  t.same(await changes(last), committed, 'some were written, and one was not');

  const rows = async () => {
    let count = 0;
    for await (const { key } of last.store.load('outbox')) if (key !== 'last') count++;
    return count;
  };
  t.equal(await rows(), committed.length);
  for (let i = 0; i < 4; i++) await last.clock.advance(2000);
  t.equal(await rows(), 0, 'what is written is taken out, without another change');
  await last.stop();
});

t.test('every change leaves one line in the audit, without values', async (t) => {
  const running = await startVault(t);
  const { vault: ref } = running;
  await store(running, { A: 'canary-1', B: 'canary-2' });
  await setServices(running, [{ host: 'a.example', auth: bearer('A') }]);
  const credentials = [{ action: 'set', key: 'C', value: 'canary-3' }] as const;
  await value(ref.ask('proposal.create', { vault, body: { credentials, message: 'canary-4' }, by: agent }));
  await value(
    ref.ask('proposal.approve', {
      id: 1,
      credentials: secrets({ C: 'canary-5' }),
      confirm: null,
      by: operator,
    }),
  );
  const session = await value(
    ref.ask('session.create', { vault, ttlSeconds: 60, label: null, by: operator }),
  );
  await refusal(ref.ask('credential.delete', { vault, key: 'A', force: false, by: operator }));
  await running.clock.advance(60_000);
  const records = await running.audit();
  const base = {
    time: iso(start),
    kind: 'control',
    request_id: 'r-op',
    actor: operator.actor,
    vault,
    status: 200,
  };
  t.same(
    records.map(({ change }) => change),
    records.map((_, i) => i + 1),
    'numbered',
  );
  for (const record of records) delete record.change;
  t.same(records, [
    { ...base, action: 'credential.set', keys: ['A', 'B'] },
    { ...base, action: 'service.set', mode: 'upsert', hosts: ['a.example'], keys: ['A'], removed: [] },
    {
      ...base,
      request_id: 'r-ag',
      actor: agent.actor,
      action: 'proposal.create',
      target: 1,
      hosts: [],
      keys: ['C'],
    },
    { ...base, action: 'proposal.approve', target: 1, hosts: [], keys: ['C'] },
    { ...base, action: 'session.create', target: session.id },
    {
      ...base,
      time: iso(start + 60_000),
      request_id: '',
      actor: 'system',
      action: 'session.expire',
      target: session.id,
    },
  ]);
  const forms = (text: string) => [
    text,
    Buffer.from(text).toString('base64').slice(0, -4),
    Buffer.from(text).toString('hex'),
  ];
  for (const { file, bytes } of filesUnder(running.path))
    for (const secret of ['canary-1', 'canary-2', 'canary-3', 'canary-5', session.token.reveal()])
      for (const form of forms(secret)) t.notOk(bytes.includes(form), `${form} in ${file}`);
});

t.test(
  'an audit that has no room: lines wait in their order, and past a bound nothing is changed',
  async (t) => {
    const lines: string[] = [];
    let release = () => {};
    const blocked = new Promise<void>((resolve) => {
      release = resolve;
    });
    const slow: ActorSpec<AuditProtocol> = {
      name: 'audit',
      mailbox: 1,
      start: () => ({
        handlers: {
          async append(batch) {
            await blocked;
            lines.push(...batch.lines.toString().trim().split('\n'));
          },
          ready: () => {},
          flush: () => ({ written: true }),
        },
      }),
    };
    const running = await startVault(t, undefined, undefined, slow);
    const keys = Array.from({ length: 300 }, (_, i) => `K${i}_`.padEnd(128, 'X'));
    const values = Object.fromEntries(keys.map((key) => [key, 'x']));
    const names: string[] = [];
    const create = async (name: string) => {
      const answer = await running.vault.ask('vault.create', { name, by: operator });
      if (answer.ok) names.push(name);
      return answer;
    };
    for (let i = 0; i < 5; i++) t.ok((await create(`v${i}`)).ok, 'not held up by it');
    const message = { vault, values: secrets(values), byAgent: false, by: operator };
    let changed = 0;
    while ((await running.vault.ask('credential.set', message)).ok) changed++;
    t.ok(changed > 10 && changed < 100, `${changed} held`);
    t.match(await refusal(create('refused')), { code: 'audit_unavailable' });
    t.match(await refusal(running.vault.ask('vault.get', { vault: 'refused' })), { code: 'not_found' });
    release();
    await running.clock.advance(1000);
    t.ok((await create('after')).ok);
    await running.clock.advance(1000);
    const created = lines.map((line) => JSON.parse(line)).filter(({ action }) => action === 'vault.create');
    t.same(
      created.map((record) => record.vault),
      names,
      'all of them, in their order',
    );
  },
);

t.test('stored values: swapped rows do not open, a damaged vault key does not stop the start', async (t) => {
  const running = await startVault(t);
  await store(running, { A: 'value-a', B: 'value-b' });
  await refer(running, 'B');
  await setServices(running, [{ host: 'a.example', auth: bearer('A') }]);
  const rows: Change[] = [];
  for await (const row of running.store.load()) rows.push(row);
  await running.stop();
  const edit = async (...changes: Change[]) => {
    const direct = await openLmdbStore(running.path);
    await direct.commit(changes);
    await direct.close();
  };
  const values = async (again: Running) => {
    const lane = await attachLane(again.vault);
    lane.drain();
    return [...lane.known.values()].flatMap((delta) => (delta.type === 'credential' ? [delta.value] : []));
  };
  const [a, b] = rows.flatMap((row) => (row.table === 'credentials' ? row : []));
  const key = rows.find((row) => row.key.startsWith('key/'));
  if (key?.table !== 'meta') throw new Error('no key row');

  await edit({ ...a, value: b.value }, { ...b, value: a.value });
  const swapped = await startVault(t, running.path, running.clock);
  t.same(await values(swapped), [null, null]);
  t.same(swapped.damaged, [`credentials ${a.key}`, `credentials ${b.key}`]);
  t.same(await value(swapped.vault.ask('credential.list', { vault })), { keys: ['A', 'B'] });
  await store(swapped, { A: 'mended' });
  t.same(await values(swapped), ['mended', null]);
  await swapped.stop();

  await edit({ ...key, value: { ...key.value, tag: 'AAAAAAAAAAAAAAAAAAAAAA==' } });
  const keyless = await startVault(t, running.path, running.clock);
  t.same(await values(keyless), [null, null]);
  await store(keyless, { A: 'again' });
  t.same(await values(keyless), ['again', null], 'the vault has a new key');
  await keyless.stop();
  t.same(await values(await startVault(t, running.path, running.clock)), ['again', null], 'which was stored');

  rmSync(join(running.path, 'master.key'));
  await t.rejects(startVault(t, running.path), { code: 'key_missing' });
});

t.test('damaged rows fail closed, each for itself', async (t) => {
  const running = await startVault(t);
  await store(running, { A: 'x' });
  await setServices(running, [
    { host: 'one.example', auth: bearer('A') },
    { host: 'two.example', auth: bearer('A') },
  ]);
  const { token } = await value(
    running.vault.ask('session.create', { vault, ttlSeconds: 60, label: 'a-label', by: operator }),
  );
  await running.stop();
  const file = join(running.path, 'data.mdb');
  const bytes = readFileSync(file);
  for (const text of ['"host":"one.example"', 'a-label'])
    for (let at = bytes.indexOf(text); at !== -1; at = bytes.indexOf(text, at + 1)) bytes[at + 3] ^= 1;
  writeFileSync(file, bytes);

  const damaged = await startVault(t, running.path, running.clock);
  t.match((await value(damaged.vault.ask('service.list', { vault }))).services, [
    { host: 'one.example', auth: passthrough, enabled: false },
    { host: 'two.example', auth: bearer('A') },
  ]);
  t.equal(await identify(damaged, token), null);
  t.match(damaged.damaged.sort(), [/^services .*one\.example$/, /^sessions /]);
});

t.test('lanes: everything at first, then what changes, before the answer', async (t) => {
  const running = await startVault(t);
  const { vault: ref } = running;
  await store(running, { A: 'x' });
  await setServices(running, [{ host: 'a.example', auth: bearer('A') }]);
  const first = await attachLane(ref);
  const [full] = first.drain();
  t.match(full, {
    full: true,
    deltas: [{ type: 'vault' }, { type: 'service' }, { type: 'credential', value: 'x' }],
  });
  const second = await attachLane(ref, first.epoch);
  second.drain();
  for (let i = 0; i < 50; i++) {
    const epoch = Atomics.load(first.word, 0);
    await store(running, { A: `v${i}` });
    t.not(Atomics.load(first.word, 0), epoch);
    for (const lane of [first, second])
      t.match(lane.drain(), [{ full: false, deltas: [{ value: `v${i}` }] }]);
  }
  ref.tell('lane.detach', { lane: -1 });
  second.close();
  await store(running, { A: 'after' });
  t.match(first.drain(), [{ deltas: [{ value: 'after' }] }], 'a lane that is gone does not matter');
});

t.test('on another thread, no read that begins after the answer is stale', async (t) => {
  const running = await startVault(t);
  const epoch = new SharedArrayBuffer(4);
  const answered = new Int32Array(new SharedArrayBuffer(8));
  const { port1, port2 } = new MessageChannel();
  await running.vault.ask('lane.attach', { lane: 0, port: port1, epoch });
  const reader = `
    const { workerData: { port, epoch, answered, url }, parentPort } = require('node:worker_threads');
    import(url).then(({ StateReader }) => {
      let held = -1, reads = 0, stale = 0, behind = 0, last = false;
      const apply = (deltas) => {
        for (const { type, value } of deltas) if (type === 'credential') held = Number(value);
      };
      const state = new StateReader(port, epoch, { clear() {}, apply });
      parentPort.postMessage('ready');
      while (!last) {
        last = Atomics.load(answered, 1) === 1;
        const promised = Atomics.load(answered, 0);
        if (!state.gate()) behind++;
        reads++;
        if (held < promised) stale++;
      }
      parentPort.postMessage({ reads, stale, behind, held });
    });
  `;
  await store(running, { N: '0' });
  await refer(running, 'N');
  const worker = new Worker(reader, {
    eval: true,
    workerData: {
      port: port2,
      epoch,
      answered,
      url: new URL('../../src/workers/state-reader.ts', import.meta.url).href,
    },
    transferList: [port2],
  });
  await once(worker, 'message');
  for (let i = 1; i <= 400; i++) {
    await store(running, { N: String(i) });
    Atomics.store(answered, 0, i);
  }
  Atomics.store(answered, 1, 1);
  const [seen] = await once(worker, 'message');
  t.match(seen, { stale: 0, behind: 0, held: 400 });
  t.ok(seen.reads > 400, `${seen.reads} reads`);
});

t.test('rate-limit slots', async (t) => {
  const slots = createRateSlots(3);
  t.same(slots.assign('a', ['x', 'y']), [
    { id: 'x', slot: 0 },
    { id: 'y', slot: 1 },
  ]);
  t.same(slots.assign('a', ['y']), [{ id: 'y', slot: 1 }], 'kept');
  t.equal(slots.available, 2);
  t.same(slots.assign('b', ['x']), [{ id: 'x', slot: 2 }], 'a freed one comes last');
  t.same(slots.assign('c', ['x']), [{ id: 'x', slot: 0 }]);
  t.throws(() => slots.assign('d', ['x']));
  slots.release('b');
  slots.release('never');
  t.same(slots.assign('d', ['x']), [{ id: 'x', slot: 2 }]);
  t.equal(slots.available, 0);

  const state = emptyState(createSecretKey(Buffer.alloc(32)));
  const { available } = state.slots;
  const base = { label: null, created_at: '', created_by: '', expires_at_ms: 0, vault_id: 'v' };
  applyChanges(state, [{ table: 'sessions', key: 'h', value: { ...base, id: 's', hash: 'h' } }]);
  t.equal(state.slots.available, available - 1);
  applyChanges(state, [{ table: 'sessions', key: 'h', value: null }]);
  const agentRow = { name: 'a', vault_ids: ['v', 'w'], tokens: [], token_ttl_seconds: null, created_at: '' };
  applyChanges(state, [{ table: 'agents', key: 'a', value: agentRow }]);
  t.equal(state.slots.available, available - 2);
  applyChanges(state, [{ table: 'agents', key: 'a', value: null }]);
  t.equal(state.slots.available, available, 'given back');

  const running = await startVault(t);
  const session = () =>
    running.vault.ask('session.create', { vault, ttlSeconds: 60, label: null, by: operator });
  const lane = await attachLane(running.vault);
  await value(session());
  await value(session());
  lane.drain();
  const taken = [...lane.known.values()].flatMap((d) => (d.type === 'session' ? d.vaults[0].slot : []));
  t.equal(new Set(taken).size, 2);
});

t.test('a notice of a lane is passed on', async (t) => {
  const running = await startVault(t);
  const notice = { type: 'host.denied', vault, actor: null, at: iso(start), data: { host: 'x' } } as const;
  running.vault.tell('notice', notice);
  await running.vault.ask('vault.list', {});
  t.same(running.events, [notice]);
});

t.test('approvals, revocations and tokens do not wait for what agents write', async (t) => {
  const running = await startVault(t);
  const { vault: ref } = running;
  const body = { credentials: [{ action: 'set', key: 'NEW' }] } as const;
  await value(ref.ask('proposal.create', { vault, body, by: agent }));
  const ttl = { ttlSeconds: 60, label: null };
  const session = await value(ref.ask('session.create', { vault, ...ttl, by: operator }));
  const done: string[] = [];
  const note = (what: string, answer: Promise<unknown>) => answer.then(() => void done.push(what));
  const writes = Array.from({ length: 100 }, (_, i) =>
    note(
      `write ${i}`,
      ref.ask('credential.set', { vault, values: secrets({ A: `${i}` }), byAgent: true, by: agent }),
    ),
  );
  const approve = { id: 1, credentials: secrets({ NEW: 'n' }), by: operator };
  await Promise.all([
    ...writes,
    note('approve', ref.ask('proposal.approve', { ...approve, confirm: null })),
    note('revoke', ref.ask('session.revoke', { id: session.id, by: operator })),
    note('identify', identify(running, session.token)),
  ]);
  t.equal(done.length, 103);
  t.ok(done.indexOf('identify') < 5, done.slice(0, 6).join());
  t.same(
    done.filter((what) => !/^write/.test(what)),
    ['approve', 'revoke', 'identify'],
  );
  t.same(
    done.filter((what) => /^write/.test(what)),
    writes.map((_, i) => `write ${i}`),
  );
});
