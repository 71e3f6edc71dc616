/** The master password: hashing, wrapping, starts with and without it, changes, and what a crash leaves. */
import assert from 'node:assert/strict';
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { auditActor } from '../../src/actors/audit.ts';
import { createSystem } from '../../src/actors/core/system.ts';
import { keyFile } from '../../src/actors/vault/keyfile.ts';
import { openLmdbStore } from '../../src/actors/vault/lmdb-store.ts';
import { masterKek } from '../../src/actors/vault/master-key.ts';
import { createMasterPassword } from '../../src/actors/vault/master-password.ts';
import {
  hashPassword,
  isCost,
  passwordCost,
  passwordProblem,
  scryptKey,
  verifyPassword,
} from '../../src/actors/vault/password-hash.ts';
import { type Derive, unwrapKek, wrapKek } from '../../src/actors/vault/password-kek.ts';
import { newKey } from '../../src/actors/vault/seal.ts';
import { Secret } from '../../src/actors/vault/secret.ts';
import { type Store, StoreError } from '../../src/actors/vault/store.ts';
import { vaultActor } from '../../src/actors/vault/vault-actor.ts';
import { prepareVault, readKekRow } from '../../src/actors/vault/vault-boot.ts';
import password from '../../src/workers/password.ts';
import { openLog } from '../support/audit.ts';
import { temporary } from '../support/broker.ts';
import { usualQuotas } from '../support/compose.ts';
import { operator as by, filesUnder, vault as name, secrets, value } from './vault-harness.ts';

/** As the real one, but for the time that it takes. */
const cheap = { N: 2 ** 10, r: 8, p: 1 };
const derive: Derive = async (secret, salt, cost) =>
  password({
    job: 'derive',
    password: secret.reveal(),
    salt,
    cost: cost.N === passwordCost.N ? cheap : cost,
  }) as Uint8Array;

interface Given {
  readonly given?: string;
  readonly ask?: string;
}

const provider = (directory: string, { given, ask }: Given) =>
  masterKek({
    directory,
    given: given === undefined ? null : new Secret(given),
    ask: ask === undefined ? null : async () => new Secret(ask),
    derive,
  });

/** A start of the broker, as far as the vault is concerned. */
async function boot(t: Test, directory: string, given: Given = {}) {
  const real = await openLmdbStore(directory);
  const hooks = { beforeCommit: () => {}, afterCommit: () => {} };
  const store: Store = {
    ...real,
    async commit(changes) {
      hooks.beforeCommit();
      await real.commit(changes);
      hooks.afterCommit();
    },
  };
  const system = createSystem();
  const log = openLog(directory, { clock: system.clock });
  async function stop(): Promise<void> {
    await system.stop();
    log.close();
    await real.close();
  }
  try {
    const kek = await prepareVault({ store, kek: provider(directory, given), directory, now: Date.now() });
    const health = new Int32Array(new SharedArrayBuffer(4));
    const audit = system.spawn(auditActor({ log, health, onError: (error) => t.fail(error.message) }));
    const damaged: string[] = [];
    const onDamaged = (table: string, key: string) => damaged.push(`${table} ${key}`);
    const vault = system.spawn(
      vaultActor({ store, kek, audit, lastAudited: () => 0, quotas: usualQuotas, onDamaged }),
    );
    const change = createMasterPassword({ store, kek, directory, vault, derive, cost: cheap });
    const secret = (text: string | null) => (text === null ? null : new Secret(text));
    return {
      vault,
      hooks,
      damaged,
      stop,
      store: real,
      change: (current: string | null, next: string | null) =>
        change({ current: secret(current), next: secret(next), by }),
      async records() {
        await audit.ask('flush', {});
        return readdirSync(join(directory, 'audit')).map((file) =>
          readFileSync(join(directory, 'audit', file), 'utf8'),
        );
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

const one = 'first horse battery';
const two = 'second horse staple';

t.test('hashes: right, wrong, damaged', async (t) => {
  const encoded = hashPassword(one, cheap);
  t.match(encoded, /^scrypt\$1024\$8\$1\$[A-Za-z0-9+/]{22}==\$[A-Za-z0-9+/]{43}=$/);
  t.not(hashPassword(one, cheap), encoded, 'salted');
  t.ok(verifyPassword(one, encoded));
  t.notOk(verifyPassword(two, encoded));
  t.ok(
    verifyPassword('e\u0301clair au chocolat', hashPassword('\u00e9clair au chocolat', cheap)),
    'as it is composed',
  );
  const full = hashPassword(one);
  t.match(full, /^scrypt\$131072\$8\$1\$/, 'at its full cost');
  t.ok(password({ job: 'verify', password: one, encoded: full }));
  t.notOk(password({ job: 'verify', password: two, encoded: full }));
  for (const bad of [
    null,
    '',
    'scrypt$x',
    encoded.slice(0, -8),
    encoded.replace('1024', '1023'),
    encoded.replace('1024', '99999999'),
    encoded.replace('$8$', '$999$'),
    encoded.replace('scrypt', 'bcrypt'),
  ]) {
    t.notOk(verifyPassword(one, bad), String(bad));
  }
  t.throws(() => scryptKey(one, Buffer.alloc(16), { N: 2 ** 24, r: 8, p: 1 }), RangeError);
  // RFC 7914 section 12: the second test vector, as far as our 32 octets go.
  const vector = scryptKey('password', Buffer.from('NaCl'), { N: 1024, r: 8, p: 16 });
  t.equal(vector.toString('hex'), 'fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162');
  for (const [N, r, p] of [
    [0, 8, 1],
    [3, 8, 1],
    [1024, 0, 1],
    [1024, 8, 1.5],
    [2 ** 20, 8, 1],
    [Number.NaN, 8, 1],
  ]) {
    t.notOk(isCost({ N, r, p }), `${N} ${r} ${p}`);
  }
  t.notOk(isCost(null) || isCost({ N: '1024', r: 8, p: 1 }));
  t.ok(isCost(passwordCost));
});

t.test('what may be a password', async (t) => {
  for (const text of [
    '12345678',
    'é'.repeat(8),
    '😀'.repeat(8),
    'x'.repeat(1024),
    '😀'.repeat(1024),
    '        ',
  ]) {
    t.equal(passwordProblem(text, 'new'), null, `${text.length}`);
  }
  for (const text of ['', '1234567', '😀'.repeat(7), 'x'.repeat(1025), 'x'.repeat(1e6), '1234567\ud800']) {
    t.match(passwordProblem(text, 'new'), { extra: { field: 'new' } }, `${text.length}`);
    t.notMatch(passwordProblem(text, 'new')?.message, '1234567');
  }
});

t.test('wrapping: opens with the password alone, and nothing of the row can be changed', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ maxLength: 40 }), fc.string({ maxLength: 40 }), async (right, wrong) => {
      const key = newKey();
      const row = await wrapKek(key, new Secret(right), derive, { N: 16, r: 1, p: 1 });
      assert.ok((await unwrapKek(row, new Secret(right), derive))?.equals(key));
      if (right.normalize('NFC') !== wrong.normalize('NFC')) {
        assert.equal(await unwrapKek(row, new Secret(wrong), derive), null);
      }
      const other = await wrapKek(key, new Secret(right), derive, { N: 16, r: 1, p: 1 });
      assert.equal(await unwrapKek({ ...row, salt: other.salt }, new Secret(right), derive), null);
      assert.equal(await unwrapKek({ ...row, wrapped: other.wrapped }, new Secret(right), derive), null);
      assert.equal(await unwrapKek({ ...row, wrapped: row.check }, new Secret(right), derive), null);
    }),
    { numRuns: 50 },
  );
});

t.test('a new store with a password never has a key file', async (t) => {
  const path = temporary(t);
  const first = await boot(t, path, { given: one });
  await value(
    first.vault.ask('credential.set', { vault: name, values: secrets({ K: 'v' }), byAgent: false, by }),
  );
  await first.stop();
  t.notOk(existsSync(keyFile(path)));
  t.same(
    filesUnder(path).filter(({ bytes }) => bytes.includes(one)),
    [],
    'the password is nowhere',
  );
  const second = await boot(t, path, { ask: one });
  t.same(second.damaged, [], 'asked for, it opens what the given one closed');
  await second.stop();
  const weak = temporary(t);
  await t.rejects(boot(t, weak, { given: 'short' }), { code: 'key_wrong', message: /8 to 1024/ });
  t.notOk(existsSync(keyFile(weak)));
});

t.test('a wrong password, or none, is refused and nothing is touched', async (t) => {
  const path = temporary(t);
  await (await boot(t, path, { given: one })).stop();
  // What a crash left over stays, too, until the password is right.
  writeFileSync(keyFile(path), 'left over', { mode: 0o600 });
  const contents = () => filesUnder(path).filter(({ file }) => !/lock|audit/.test(file));
  const before = contents();
  await t.rejects(boot(t, path, { given: two }), { code: 'key_wrong', message: /password is wrong/ });
  await t.rejects(boot(t, path, { ask: two }), { code: 'key_wrong' });
  await t.rejects(boot(t, path), { code: 'key_missing', message: /--master-password-file/ });
  t.same(contents(), before);
  await (await boot(t, path, { given: one })).stop();
  t.notOk(existsSync(keyFile(path)), 'the right one clears up');
  const plain = temporary(t);
  await (await boot(t, plain)).stop();
  await t.rejects(boot(t, plain, { given: one }), { code: 'key_wrong', message: /master-password set/ });
  await (await boot(t, plain, { ask: one })).stop();
  t.ok(existsSync(keyFile(plain)), 'nobody is asked where a file opens it');
});

t.test('set, change, remove', async (t) => {
  const path = temporary(t);
  const first = await boot(t, path);
  await value(
    first.vault.ask('credential.set', { vault: name, values: secrets({ K: 'v' }), byAgent: false, by }),
  );
  const file = readFileSync(keyFile(path), 'utf8');
  for (const [current, next, code] of [
    [one, two, 'conflict'],
    [one, null, 'conflict'],
    [null, null, 'invalid_request'],
    [null, 'short', 'invalid_request'],
  ] as const) {
    t.match(await first.change(current, next), { ok: false, problem: { code } });
  }
  t.equal(readFileSync(keyFile(path), 'utf8'), file);
  t.same(await first.change(null, one), { ok: true, value: { source: 'password' } });
  t.notOk(existsSync(keyFile(path)));
  for (const [current, next, code] of [
    [null, two, 'conflict'],
    [null, null, 'conflict'],
    [two, two, 'forbidden'],
    [two, null, 'forbidden'],
    [one, 'short', 'invalid_request'],
  ] as const) {
    t.match(await first.change(current, next), { ok: false, problem: { code } });
  }
  t.same(await first.change(one, two), { ok: true, value: { source: 'password' } });
  const log = (await first.records()).join('');
  t.match(log, /"action":"master-password.set".*"action":"master-password.change"/s);
  t.notMatch(log, 'horse');
  await first.stop();
  await t.rejects(boot(t, path, { given: one }), { code: 'key_wrong' });

  const second = await boot(t, path, { given: two });
  t.same(second.damaged, [], 'what was stored under the file opens');
  t.same(await second.change(two, null), { ok: true, value: { source: 'file' } });
  t.equal(readFileSync(keyFile(path), 'utf8'), file, 'the key itself is what it was');
  t.equal(statSync(keyFile(path)).mode & 0o777, 0o600);
  await second.stop();
  const third = await boot(t, path);
  t.same(third.damaged, []);
  await third.stop();
});

t.test('a change that isn’t stored leaves the old password and no key file', async (t) => {
  const path = temporary(t);
  const running = await boot(t, path, { given: one });
  running.hooks.beforeCommit = () => {
    throw new StoreError('store_failed', 'made to');
  };
  t.match(await running.change(one, two), { ok: false, problem: { code: 'store_unavailable' } });
  t.match(await running.change(one, null), { ok: false, problem: { code: 'store_unavailable' } });
  t.notOk(existsSync(keyFile(path)));
  await running.stop();
  await (await boot(t, path, { given: one })).stop();
});

t.test('where nobody can say whether it was stored, the row decides', async (t) => {
  for (const when of ['beforeCommit', 'afterCommit'] as const) {
    const path = temporary(t);
    const running = await boot(t, path, { given: one });
    running.hooks[when] = () => {
      running.hooks[when] = () => {};
      throw new StoreError('store_lost', 'made to');
    };
    t.match(await running.change(one, null), { problem: { extra: { applied: 'unknown' } } });
    t.ok(existsSync(keyFile(path)), 'the file is not taken away from a row that may ask for it');
    const row = await readKekRow(running.store);
    t.equal(row?.source, when === 'beforeCommit' ? 'password' : 'file');
    await running.stop();
    await (await boot(t, path, when === 'beforeCommit' ? { given: one } : {})).stop();
    t.equal(existsSync(keyFile(path)), when === 'afterCommit', when);
  }
});

t.test('a store of a later version, and a key file that others may read', async (t) => {
  const path = temporary(t);
  const running = await boot(t, path);
  const later = { source: 'hsm', check: {} } as never;
  await value(running.vault.ask('kek.set', { row: later, action: 'x', by }));
  await running.stop();
  await t.rejects(boot(t, path), { code: 'store_newer' });
  const open = temporary(t);
  await (await boot(t, open)).stop();
  chmodSync(keyFile(open), 0o644);
  await t.rejects(boot(t, open), { code: 'directory_refused' });
});
