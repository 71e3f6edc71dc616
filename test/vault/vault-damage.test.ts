/** Rows of the store that are damaged, cut or exchanged: each is set aside by itself and named, the rest serves. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { StoreError } from '../../src/actors/vault/store.ts';
import { hashToken } from '../../src/actors/vault/token.ts';
import {
  agent,
  bearer,
  operator,
  type Running,
  secrets,
  setServices,
  startVault,
  store,
  value,
  vault,
} from './vault-harness.ts';
import { snapshot } from './vault-lane.ts';

/** A row of each table, two and more of most, and nothing running. */
async function furnished(t: Test): Promise<Running> {
  const running = await startVault(t);
  const { vault: ref } = running;
  await value(ref.ask('vault.create', { name: 'second', by: operator }));
  for (const name of [vault, 'second']) {
    const values = secrets({ ONE: `1-${name}`.padEnd(30), TWO: `2-${name}`.padEnd(30) });
    await value(ref.ask('credential.set', { vault: name, values, byAgent: false, by: operator }));
    await value(ref.ask('session.create', { vault: name, ttlSeconds: 600, label: 'ci', by: operator }));
    const body = { credentials: [{ action: 'set', key: 'NEW', value: 'given' }] } as const;
    await value(ref.ask('proposal.create', { vault: name, body, by: agent }));
    const ttls = { ttlSeconds: 600, tokenTtlSeconds: null };
    const invite = { name: `of-${name}`, vaults: [name], ...ttls, by: operator };
    const { token } = await value(ref.ask('invite.create', invite));
    await value(ref.ask('invite.redeem', { hash: hashToken(token.reveal()), name: null, by: operator }));
    await value(ref.ask('operator.create', { name: `op-${name}`, role: 'owner', vaults: [], by: operator }));
  }
  await setServices(running, [
    { host: 'one.example', auth: bearer('ONE') },
    { host: 'two.example', auth: bearer('TWO') },
  ]);
  await running.stop();
  return running;
}

/** Where the text of each row's JSON begins in the file, its prefix of 16 digits before it. */
function rowsIn(bytes: Buffer): { at: number; end: number; prefix: string; json: string }[] {
  const found = [];
  for (const { 0: text, index } of bytes.toString('latin1').matchAll(/([0-9a-f]{16})(\{"[\x20-\x7e]*\})/g)) {
    const row = { at: index, end: index + text.length, prefix: text.slice(0, 16), json: text.slice(16) };
    found.push(row);
  }
  return found;
}

/** A copy of the store with its bytes changed. */
function copyOf(t: Test, { path }: Running, change: (bytes: Buffer) => void): string {
  const copy = mkdtempSync(join(tmpdir(), 'broker-damage.'));
  t.teardown(() => rmSync(copy, { recursive: true, force: true }));
  cpSync(path, copy, { recursive: true });
  const file = join(copy, 'data.mdb');
  const bytes = readFileSync(file);
  change(bytes);
  writeFileSync(file, bytes);
  return copy;
}

/** Changes the row whose JSON matches, wherever the file has it (older pages hold older states). */
function edit(bytes: Buffer, pattern: RegExp, change: (row: Buffer) => void): void {
  const rows = rowsIn(bytes).filter(({ json }) => pattern.test(json));
  if (rows.length === 0) throw new Error(`no row is like ${pattern}`);
  for (const { at, end } of rows) change(bytes.subarray(at, end));
}

function exchange(bytes: Buffer, a: RegExp, b: RegExp): void {
  const rows = rowsIn(bytes);
  const [one, two] = [a, b].map((pattern) => rows.find(({ json }) => pattern.test(json)));
  if (!one || !two || one.end - one.at !== two.end - two.at) throw new Error('no two rows of one length');
  const [first, second] = [one, two].map(({ at, end }) => Buffer.from(bytes.subarray(at, end)));
  for (const { at, end, json } of rows) {
    const as = json === one.json ? second : json === two.json ? first : null;
    as?.copy(bytes, at, 0, end - at);
  }
}

t.test('two rows exchanged whole, and a digit of a prefix: named, set aside, the rest serves', async (t) => {
  const sound = await furnished(t);
  const open = (path: string) => startVault(t, path, sound.clock);
  const service = (host: string) => new RegExp(`^\\{"place":\\d+,"service":\\{"host":"${host}`);

  const services = await open(copyOf(t, sound, (all) => exchange(all, service('one'), service('two'))));
  t.match(services.damaged.sort(), [/^services .*one\.example$/, /^services .*two\.example$/]);
  t.match((await value(services.vault.ask('service.list', { vault }))).services, [
    { host: 'one.example', enabled: false },
    { host: 'two.example', enabled: false },
  ]);
  await setServices(services, [{ host: 'one.example', auth: bearer('ONE'), enabled: true }]);

  const digit = copyOf(t, sound, (all) =>
    edit(all, service('one'), (row) => row.write(row[0] === 0x30 ? '1' : '0')),
  );
  t.match((await open(digit)).damaged, [/^services .*one\.example$/]);

  const sealed = /^\{"version":1,"nonce":.*"added_by"/;
  const credentials = await open(
    copyOf(t, sound, (all) => {
      const own = [...new Set(rowsIn(all).flatMap(({ json }) => (sealed.test(json) ? [json] : [])))];
      const [a, b] = own.map((json) => new RegExp(`^${json.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`));
      exchange(all, a, b);
    }),
  );
  t.match(credentials.damaged, [/^credentials .*\/(ONE|TWO)$/, /^credentials .*\/(ONE|TWO)$/]);
  await store(credentials, { ONE: 'mended', TWO: 'mended' });
});

t.test('a vault or an operator whose row is damaged', async (t) => {
  const sound = await furnished(t);
  const spoil = (pattern: RegExp) =>
    startVault(
      t,
      copyOf(t, sound, (all) => edit(all, pattern, (row) => row.write('#', 20))),
      sound.clock,
    );
  const second = await spoil(/^\{"id":"[0-9a-f]{16}","name":"second"/);
  t.match(second.damaged, [/^vaults [0-9a-f]{16}$/]);
  const listed = await second.vault.ask('vault.list', {});
  t.match(listed, [
    { name: /^damaged-[0-9a-f]{16}$/, cleared: true, unmatched_host_policy: 'deny' },
    { name: vault },
  ]);
  await store(second, { ONE: 'as before' });
  await value(second.vault.ask('vault.delete', { vault: listed[0].name, by: operator }));

  const nobody = await spoil(/^\{"name":"op-second"/);
  t.match(nobody.damaged, ['operators op-second']);
  t.equal((await nobody.vault.ask('operator.list', {})).length, 2);
  const owner = await spoil(/^\{"name":"owner","role":"owner"/);
  t.match(owner.damaged, ['operators owner']);
  const token = readFileSync(join(sound.path, 'owner.token'), 'utf8').trim();
  t.match(await owner.vault.ask('identify', { hash: hashToken(token) }), { name: 'owner', role: 'owner' });
});

const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);

t.test(`any byte or row: the vault starts, or says why not (seed ${seed})`, async (t) => {
  const sound = await furnished(t);
  const before = await startVault(t, sound.path, sound.clock);
  const all = new Map((await snapshot(before.vault)).map(([key, delta]) => [key, JSON.stringify(delta)]));
  await before.stop();
  const damage = fc.record({
    what: fc.constantFrom('flip', 'cut', 'exchange', 'key'),
    row: fc.nat(),
    other: fc.nat(),
    at: fc.nat(),
  });
  const refused: string[] = [];
  for (const { what, row, other, at } of fc.sample(damage, { numRuns: 40, seed })) {
    const name = `${what} ${row} ${other} ${at}`;
    const path = copyOf(t, sound, (bytes) => spoilOne(bytes, what, row, other, at));
    try {
      const running = await startVault(t, path, sound.clock);
      const after = new Map(
        (await snapshot(running.vault)).map(([key, delta]) => [key, JSON.stringify(delta)]),
      );
      const lost = [...all].filter(([key, delta]) => after.get(key) !== delta);
      // A vault that is lost takes what lies in it along, two rows at most are changed otherwise.
      const vaults = lost.filter(([key]) => key.startsWith('vault ')).length;
      t.ok(vaults > 0 || lost.length <= 4, `${name}: ${lost.length} of ${all.size} differ`);
      await value(running.vault.ask('vault.create', { name: 'new', by: operator }));
      await running.stop();
    } catch (error) {
      if (!(error instanceof StoreError)) throw new Error(`${name}`, { cause: error });
      t.match(error.message, /Restore a backup|damaged/, name);
      refused.push(`${name}: ${error.code}`);
    }
  }
  t.ok(refused.length < 20, refused.join(', '));
});

function spoilOne(bytes: Buffer, what: string, row: number, other: number, at: number): void {
  const rows = rowsIn(bytes);
  const one = rows[row % rows.length];
  const same = rows.filter((each) => each.end - each.at === one.end - one.at && each.json !== one.json);
  for (const each of rows.filter(({ json }) => json === one.json)) {
    const text = bytes.subarray(each.at, each.end);
    if (what === 'cut') text.fill(0x20, at % text.length);
    // The key lies right before the value, ordered-binary: two texts with a zero between them.
    else if (what === 'key') bytes[each.at - 2 - (at % 12)] ^= 1 << (at % 7);
    else if (what === 'flip' || same.length === 0) text[at % text.length] ^= 1 << (other % 7);
  }
  if (what !== 'exchange' || same.length === 0) return;
  const two = same[other % same.length];
  const first = Buffer.from(bytes.subarray(one.at, one.end));
  bytes.copy(bytes, one.at, two.at, two.end);
  first.copy(bytes, two.at);
}
