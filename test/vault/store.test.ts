import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { openDirectory } from '../../src/actors/vault/directory.ts';
import { fileKek, readPrivateFile } from '../../src/actors/vault/keyfile.ts';
import { openLmdbStore } from '../../src/actors/vault/lmdb-store.ts';
import { migrate, schemaRow } from '../../src/actors/vault/schema.ts';
import {
  newDataKey,
  openBlob,
  openSealed,
  seal,
  sealBlob,
  takeKey,
  unwrapDataKey,
} from '../../src/actors/vault/seal.ts';
import type { Change, Row, Store } from '../../src/actors/vault/store.ts';
import { prepareVault, storedBlob } from '../../src/actors/vault/vault-boot.ts';
import { loadState } from '../../src/actors/vault/vault-load.ts';

const child = new URL('store-child.ts', import.meta.url).pathname;

function temporary(t: Test): string {
  const path = mkdtempSync(join(tmpdir(), 'broker-store.'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

async function opened(t: Test, path: string): Promise<Store> {
  const store = await openLmdbStore(path);
  t.teardown(() => store.close());
  return store;
}

async function rowsOf(store: Store): Promise<Row[]> {
  const rows: Row[] = [];
  for await (const row of store.load()) if (row.key !== 'revision') rows.push(row);
  return rows;
}

function meta(key: string, value: object | null): Change {
  return { table: 'meta', key, value };
}

/** The jobs of `store-child.ts`, in a process of its own. */
function run(t: Test, job: string, directory: string, ...more: string[]): ChildProcess {
  const process_ = spawn(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', child, job, directory, ...more],
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  );
  t.teardown(() => process_.kill('SIGKILL'));
  return process_;
}

async function* answers(of: ChildProcess): AsyncGenerator<Record<string, unknown>> {
  if (!of.stdout) return;
  for await (const line of createInterface({ input: of.stdout })) yield JSON.parse(line);
}

t.test('commits are read back, before and after opening anew', async (t) => {
  const path = temporary(t);
  const store = await openLmdbStore(path);
  t.same(await rowsOf(store), []);
  const text = {
    text: 'line\nbreak \u0000 \u{1f600} \ud800',
    list: [1, null, { deep: true }],
    ['__proto__']: 1,
  };
  await store.commit([meta('a', text), meta('b', { n: 2 })]);
  await store.commit([meta('b', null), meta('c', { n: 3 }), meta('absent', null)]);
  const wanted = [meta('a', text), meta('c', { n: 3 })];
  t.same(await rowsOf(store), wanted);
  await store.close();
  t.same(await rowsOf(await opened(t, path)), wanted);
  t.equal(statSync(join(path, 'data.mdb')).mode & 0o777, 0o600);
});

t.test('a directory with a dot in its name is a directory', async (t) => {
  const path = join(temporary(t), 'broker.data');
  mkdirSync(path);
  await (await opened(t, path)).commit([meta('a', {})]);
  t.ok(statSync(join(path, 'data.mdb')).isFile());
});

t.test('a commit that fails half-way changes nothing, and the next one works', async (t) => {
  const store = await opened(t, temporary(t));
  await store.commit([meta('a', { n: 1 })]);
  const throwing = meta('c', {
    toJSON() {
      throw new Error('half-way');
    },
  });
  await t.rejects(store.commit([meta('a', { n: 2 }), meta('b', { n: 2 }), throwing]), {
    code: 'store_failed',
  });
  t.same(await rowsOf(store), [meta('a', { n: 1 })]);
  // A key that LMDB itself refuses: the fault lies below, the outcome is the same.
  const tooLong = meta('k'.repeat(4000), {});
  await t.rejects(store.commit([meta('a', { n: 3 }), tooLong]), { code: 'store_failed' });
  t.same(await rowsOf(store), [meta('a', { n: 1 })]);
  await store.commit([meta('a', { n: 4 })]);
  t.same(await rowsOf(store), [meta('a', { n: 4 })]);
});

t.test('a closed store refuses', async (t) => {
  const store = await openLmdbStore(temporary(t));
  await store.close();
  await t.rejects(store.commit([meta('a', {})]), { code: 'store_lost' });
});

t.test('it grows far past its first size', async (t) => {
  const path = temporary(t);
  const store = await opened(t, path);
  for (let i = 0; i < 64; i++) await store.commit([meta(`k${i}`, { padding: 'x'.repeat(500_000) })]);
  t.ok(statSync(join(path, 'data.mdb')).size > 32_000_000);
  t.equal((await rowsOf(store)).length, 64);
});

t.test('a backup is a store of its own, complete and private', async (t) => {
  const store = await opened(t, temporary(t));
  await store.commit([meta('a', { n: 1 })]);
  const path = temporary(t);
  await store.backup(path);
  await store.commit([meta('a', { n: 2 })]);
  t.same(await rowsOf(await opened(t, path)), [meta('a', { n: 1 })]);
  t.equal(statSync(join(path, 'data.mdb')).mode & 0o777, 0o600);
});

t.test('a full disk: the commit is refused, the process lives, and with room it goes on', async (t) => {
  const path = temporary(t);
  const shell = spawn(
    'bash',
    ['-c', 'ulimit -S -f 400 && exec "$0" "$@"', process.execPath, child, 'fill', path],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  t.teardown(() => shell.kill('SIGKILL'));
  const said = answers(shell);
  const full = (await said.next()).value as { stored: number; rows: number; again: string };
  t.ok(full.stored > 0);
  t.equal(full.rows, full.stored + 1, 'the failed commit left nothing (one row is the revision)');
  t.equal(full.again, 'store_failed');
  const room = spawn('prlimit', ['--pid', String(shell.pid), '--fsize=unlimited'], { stdio: 'inherit' });
  await once(room, 'exit');
  shell.stdin?.write('go on\n');
  t.same((await said.next()).value, { after: 'stored', rows: full.rows + 1 });
});

t.test('kill -9 during commits: what was acknowledged is there, nothing is there by halves', async (t) => {
  for (let round = 0; round < 4; round++) {
    const path = temporary(t);
    const writer = run(t, 'commit', path);
    let acknowledged = 0;
    for await (const { commit } of answers(writer)) {
      acknowledged = commit as number;
      if (acknowledged === 20 + round * 7) writer.kill('SIGKILL');
    }
    // The kernel has dropped the lock with the process.
    const directory = openDirectory(path);
    const store = await openLmdbStore(path);
    const commits = new Set((await rowsOf(store)).map(({ value }) => (value as { commit: number }).commit));
    const [last] = commits;
    t.equal(commits.size, 1, 'all rows are of one commit');
    t.ok(last >= acknowledged && last <= acknowledged + 1, `${last} of ${acknowledged} acknowledged`);
    await store.commit([meta('part-0', { commit: 0 })]);
    await store.close();
    directory.close();
  }
});

t.test('what is not a store, or no longer one, is refused and left alone', async (t) => {
  const source = temporary(t);
  const store = await openLmdbStore(source);
  for (let i = 0; i < 30; i++) {
    await store.commit(
      Array.from({ length: 10 }, (_, j) => meta(`k${i}-${j}`, { padding: 'x'.repeat(i * 200) })),
    );
  }
  await store.close();
  const sound = readFileSync(join(source, 'data.mdb'));
  const changed = (...edits: [at: number, byte: number][]) => {
    const bytes = Buffer.from(sound);
    for (const [at, byte] of edits) bytes[at] = byte;
    return bytes;
  };
  const cases: Record<string, Buffer> = {
    empty: Buffer.alloc(0),
    text: Buffer.from('this is not a database\n'.repeat(1000)),
    zeros: Buffer.alloc(65_536),
    'one byte short of a head': sound.subarray(0, 167),
    'one page': sound.subarray(0, 4096),
    'the heads only': sound.subarray(0, 8192),
    half: sound.subarray(0, sound.length >> 1),
    'one magic number wrong': changed([24, 0]),
    'the other wrong': changed([4096 + 24, 0]),
    'another data version': changed([28, 1], [4096 + 28, 1]),
    'another page size': changed([49, 0x20], [4096 + 49, 0x20]),
    'no page size': changed([49, 0], [4096 + 49, 0]),
    'roots out of range': changed([138, 0xff], [4096 + 138, 0xff]),
    'too deep': changed([102, 0xff], [4096 + 102, 0xff]),
  };
  for (const [name, bytes] of Object.entries(cases)) {
    const path = temporary(t);
    writeFileSync(join(path, 'data.mdb'), bytes);
    await t.rejects(openLmdbStore(path), { code: 'store_unreadable', message: /Restore a backup/ }, name);
    t.same(readdirSync(path), ['data.mdb'], `${name}: nothing was added`);
    t.ok(readFileSync(join(path, 'data.mdb')).equals(bytes), `${name}: nothing was changed`);
  }
  const path = temporary(t);
  mkdirSync(join(path, 'data.mdb'));
  await t.rejects(openLmdbStore(path), { code: 'store_unreadable' }, 'a directory');
});

t.test('a lock file of LMDB that is damaged does not matter', async (t) => {
  const path = temporary(t);
  await (await openLmdbStore(path)).close();
  writeFileSync(join(path, 'lock.mdb'), 'garbage'.repeat(999));
  await (await opened(t, path)).commit([meta('a', {})]);
});

const seed = Number(process.env.SEED ?? Date.now() % 2 ** 32);

t.test(`no damage to the file ends the process (SEED=${seed})`, async (t) => {
  const path = temporary(t);
  const store = await openLmdbStore(path);
  for (let i = 0; i < 100; i++) {
    await store.commit([meta(`k${i}`, { padding: 'x'.repeat((i * 131) % 9000) }), meta(`k${i - 40}`, null)]);
  }
  await store.close();
  const survivor = run(t, 'survive', path, String(seed), '200');
  const exited = once(survivor, 'exit');
  const { value: outcomes } = await answers(survivor).next();
  t.same(await exited, [0, null], JSON.stringify(outcomes));
  t.ok(outcomes?.worked && outcomes.store_unreadable, 'both outcomes were met');
});

t.test('a row whose bytes or whose place are damaged is given as null', async (t) => {
  const path = temporary(t);
  const store = await openLmdbStore(path);
  await store.commit([meta('some-key', { host: 'api.good.example' }), meta('other', { n: 1 })]);
  await store.close();
  const file = join(path, 'data.mdb');
  const sound = readFileSync(file);

  function flip(text: string): void {
    const bytes = Buffer.from(sound);
    for (let at = bytes.indexOf(text); at !== -1; at = bytes.indexOf(text, at + 1)) bytes[at] ^= 1;
    writeFileSync(file, bytes);
  }
  flip('good.example');
  const damaged = await openLmdbStore(path);
  t.same(await rowsOf(damaged), [meta('other', { n: 1 }), meta('some-key', null)]);
  await damaged.close();
  flip('some-key');
  const misplaced = await opened(t, path);
  t.match(await rowsOf(misplaced), [meta('other', { n: 1 }), { table: 'meta', value: null }]);
});

t.test('schema', async (t) => {
  const store = await opened(t, temporary(t));
  t.equal(await migrate(store), false, 'an empty store');
  await store.commit([meta('a', {})]);
  await t.rejects(migrate(store), { code: 'store_unreadable' }, 'rows of no version');
  await store.commit([schemaRow]);
  t.equal(await migrate(store), true);
  await store.commit([meta('schema', { version: 1000 })]);
  await t.rejects(migrate(store), { code: 'store_newer', message: /later version.*schema 1000/ });
  t.same(await rowsOf(store), [meta('a', {}), meta('schema', { version: 1000 })]);
});

t.test('data directory', async (t) => {
  const mask = process.umask();
  t.teardown(() => void process.umask(mask));
  const base = temporary(t);

  const made = openDirectory(join(base, 'deep/er'));
  t.equal(statSync(made.path).mode & 0o777, 0o700);
  t.throws(() => openDirectory(made.path), { code: 'directory_in_use', message: /Another broker/ });
  symlinkSync(made.path, join(base, 'link'));
  t.throws(() => openDirectory(join(base, 'link')), { code: 'directory_in_use' }, 'by another name');
  const other = answers(run(t, 'commit', made.path));
  t.same((await other.next()).value, { refused: 'directory_in_use' }, 'refused in another process too');
  made.close();
  openDirectory(made.path).close();
  writeFileSync(join(made.path, 'broker.lock'), 'no database'.repeat(100));
  t.throws(() => openDirectory(made.path), { code: 'directory_refused', message: /broker.lock/ });

  mkdirSync(join(base, 'empty'));
  chmodSync(join(base, 'empty'), 0o755);
  const empty = openDirectory(join(base, 'empty'));
  t.equal(statSync(empty.path).mode & 0o777, 0o700, 'an empty one is made private');
  empty.close();

  chmodSync(made.path, 0o750);
  t.throws(() => openDirectory(made.path), { code: 'directory_refused', message: /chmod 700/ });
  writeFileSync(join(base, 'file'), '');
  t.throws(() => openDirectory(join(base, 'file')), { code: 'directory_refused' });
  t.throws(() => openDirectory(join(base, 'file/in')), { code: 'directory_refused' });
});

t.test('key file', async (t) => {
  const path = temporary(t);
  const file = join(path, 'master.key');
  const provider = fileKek(path);
  const { row, key } = await provider(null);
  t.equal(statSync(file).mode & 0o777, 0o600);
  t.match(readFileSync(file, 'utf8'), /^[0-9a-f]{64}\n$/);
  t.ok((await provider(row)).key.equals(key));
  t.ok((await provider(null)).key.equals(key), 'left by a first start that did not get further');

  chmodSync(file, 0o640);
  await t.rejects(provider(row), { code: 'directory_refused', message: /chmod 600/ });
  chmodSync(file, 0o600);
  const right = readFileSync(file);
  writeFileSync(file, `${'0'.repeat(64)}\n`);
  await t.rejects(provider(row), { code: 'key_wrong' }, 'of another store');
  writeFileSync(file, 'short');
  await t.rejects(provider(row), { code: 'key_wrong' }, 'no key');
  rmSync(file);
  await t.rejects(provider(row), { code: 'key_missing' }, 'gone while there is data');
  t.same(readdirSync(path), [], 'none was made in its place');
  writeFileSync(file, right, { mode: 0o600 });
  t.ok((await provider(row)).key.equals(key));
});

t.test('sealing', (t) => {
  const kek = takeKey(Buffer.alloc(32, 1));
  const { key, wrapped } = newDataKey(kek, 'v1');
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 300 }),
      fc.string(),
      fc.string(),
      fc.nat(),
      (bytes, a, b, version) => {
        const value = Buffer.from(bytes);
        const sealed = seal(key, ['credential', a, b], version, value);
        const opensAt = (...place: string[]) => openSealed(key, ['credential', ...place], sealed);
        if (!opensAt(a, b)?.equals(value)) return false;
        // Another place, the same characters cut otherwise, another version, another kind, another key.
        const others = [
          opensAt(a, `${b}x`),
          opensAt(`${a}${b}`),
          opensAt(`${a}x`, b),
          openSealed(key, ['credential', a, b], { ...sealed, version: version + 1 }),
          openSealed(key, ['slot', a, b], sealed),
          openSealed(kek, ['credential', a, b], sealed),
        ];
        return others.every((opened) => opened === null);
      },
    ),
  );
  const sealed = seal(key, ['credential', 'v1', 'K'], 1, Buffer.from('value'));
  t.not(seal(key, ['credential', 'v1', 'K'], 1, Buffer.from('value')).nonce, sealed.nonce);
  for (const field of ['nonce', 'ct', 'tag'] as const) {
    const bytes = Buffer.from(sealed[field], 'base64');
    for (let at = 0; at < bytes.length; at++) {
      const flipped = Buffer.from(bytes);
      flipped[at] ^= 1;
      const damaged = { ...sealed, [field]: flipped.toString('base64') };
      t.equal(openSealed(key, ['credential', 'v1', 'K'], damaged), null, `${field} ${at}`);
    }
    t.equal(openSealed(key, ['credential', 'v1', 'K'], { ...sealed, [field]: '' }), null, `no ${field}`);
    t.equal(openSealed(key, ['credential', 'v1', 'K'], { ...sealed, [field]: 1 as never }), null);
  }
  // A tag cut short would be easier to forge; GCM itself takes one of four octets.
  const short = Buffer.from(sealed.tag, 'base64').subarray(0, 4).toString('base64');
  t.equal(openSealed(key, ['credential', 'v1', 'K'], { ...sealed, tag: short }), null);
  t.equal(openSealed(key, ['credential', 'v1', 'K'], null), null);

  t.ok(unwrapDataKey(kek, 'v1', wrapped)?.equals(key));
  t.equal(unwrapDataKey(kek, 'v2', wrapped), null, 'for its own vault only');
  t.same(openBlob(kek, 'ca', sealBlob(kek, 'ca', Buffer.from('pem'))), Buffer.from('pem'));
  t.equal(openBlob(kek, 'other', sealBlob(kek, 'ca', Buffer.from('pem'))), null);
  t.end();
});

t.test('first and later starts', async (t) => {
  const path = temporary(t);
  const store = await opened(t, path);
  const prepare = () => prepareVault({ store, kek: fileKek(path), directory: path, now: 0 });
  const kek = await prepare();
  const token = readPrivateFile(join(path, 'owner.token'));
  t.match(token, /^brk_opr_[0-9a-f]{72}\n$/);
  t.equal(statSync(join(path, 'owner.token')).mode & 0o777, 0o600);
  const damaged: string[] = [];
  const load = () => loadState(store, kek, (table, key) => damaged.push(`${table} ${key}`));
  const first = await load();
  t.same([...first.vaultIds.keys()], ['default']);
  t.same([...first.operators.keys()], ['owner']);
  const [session] = first.operatorSessions.values();
  t.match(session, { operator: 'owner', kind: 'file', expires_at_ms: null });

  const before = await rowsOf(store);
  await prepare();
  t.same(await rowsOf(store), before, 'the next start changes nothing');
  t.equal(readPrivateFile(join(path, 'owner.token')), token);

  rmSync(join(path, 'owner.token'));
  await prepare();
  const second = readPrivateFile(join(path, 'owner.token'));
  t.not(second, token);
  const sessions = [...(await load()).operatorSessions.values()];
  t.equal(sessions.length, 1, 'the old token is revoked');
  t.not(sessions[0].hash, session.hash);

  chmodSync(join(path, 'owner.token'), 0o644);
  await t.rejects(prepare(), { code: 'directory_refused' });
  chmodSync(join(path, 'owner.token'), 0o600);

  let made = 0;
  const blob = () =>
    storedBlob(store, kek, 'ca', () => {
      made++;
      return Buffer.from('PRIVATE KEY');
    });
  t.same(await blob(), Buffer.from('PRIVATE KEY'));
  t.same(await blob(), Buffer.from('PRIVATE KEY'));
  t.equal(made, 1);
  t.same(damaged, []);
  for (const file of readdirSync(path))
    t.notOk(readFileSync(join(path, file)).includes('PRIVATE KEY'), `not in ${file}`);
  await store.commit([meta('blob/ca', sealBlob(kek, 'other', Buffer.from('x')))]);
  await t.rejects(blob(), { code: 'store_unreadable' });

  rmSync(join(path, 'master.key'));
  await t.rejects(prepare(), { code: 'key_missing' });
});
