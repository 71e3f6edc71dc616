/** The form of a backup: what was sealed comes back, and nothing else opens. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { clearSnapshots, openBackup } from '../../src/actors/vault/backup.ts';
import { newHead, openChunks, readHead, sealChunks } from '../../src/actors/vault/backup-format.ts';
import { fileKek, fileRow, keyFile, parseKey, readPrivateFile } from '../../src/actors/vault/keyfile.ts';
import { openLmdbStore } from '../../src/actors/vault/lmdb-store.ts';
import { restoreBackup } from '../../src/actors/vault/restore.ts';
import { newKey } from '../../src/actors/vault/seal.ts';
import { prepareVault } from '../../src/actors/vault/vault-boot.ts';
import { temporary } from '../support/broker.ts';

const chunk = 64 * 1024;
const key = newKey();
const never = new AbortController().signal;

async function collect(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const piece of pieces) all.push(piece);
  return Buffer.concat(all);
}

/** A backup of these bytes. */
async function sealed(folder: string, bytes: Buffer, with_ = key): Promise<Buffer> {
  const path = join(folder, 'snapshot');
  writeFileSync(path, bytes);
  const file = await open(path, 'r');
  const head = newHead('2031-05-06T07:08:09.000Z', fileRow(with_));
  const body = await collect(sealChunks(with_, head, file, bytes.length));
  await file.close();
  return Buffer.concat([head.line, body]);
}

/** What a backup opens to; the code of the error where it doesn't. */
async function opened(folder: string, backup: Buffer, with_ = key): Promise<Buffer | string> {
  const path = join(folder, 'backup');
  writeFileSync(path, backup);
  const file = await open(path, 'r');
  try {
    return await collect(openChunks(with_, await readHead(file), file, backup.length));
  } catch (error) {
    return (error as { code: string }).code ?? String(error);
  } finally {
    await file.close();
  }
}

t.test('sizes around the chunks come back as they were', async (t) => {
  const folder = temporary(t);
  for (const size of [1, chunk - 1, chunk, chunk + 1, 3 * chunk, 3 * chunk + 5]) {
    const bytes = Buffer.alloc(size, `${size} `);
    const backup = await sealed(folder, bytes);
    t.ok(bytes.equals((await opened(folder, backup)) as Buffer), `${size}`);
    t.equal(await opened(folder, backup, newKey()), 'store_unreadable');
    t.notOk(size > 1 && backup.includes(bytes.subarray(0, 64)));
  }
});

t.test('changed, cut, longer, reordered or put together from two: refused', async (t) => {
  const folder = temporary(t);
  const bytes = Buffer.alloc(3 * chunk + 100, 'snapshot ');
  const backup = await sealed(folder, bytes);
  const head = backup.indexOf(10) + 1;
  const step = chunk + 16;
  const part = (from: number, to?: number) => backup.subarray(head + from * step, to && head + to * step);
  const line = backup.subarray(0, head);
  const other = await sealed(folder, bytes);
  const cases: [string, Buffer][] = [
    ['nothing but the head', line],
    ['one chunk less', Buffer.concat([line, part(0, 3)])],
    ['two chunks less', Buffer.concat([line, part(0, 2)])],
    ['the first left out', Buffer.concat([line, part(1)])],
    ['one in the middle left out', Buffer.concat([line, part(0, 1), part(2)])],
    ['two exchanged', Buffer.concat([line, part(1, 2), part(0, 1), part(2)])],
    ['one twice', Buffer.concat([line, part(0, 1), part(0)])],
    ['a byte more', Buffer.concat([backup, Buffer.from('x')])],
    ['a chunk more', Buffer.concat([backup, part(0, 1)])],
    [
      'the head of another of the same store',
      Buffer.concat([other.subarray(0, other.indexOf(10) + 1), part(0)]),
    ],
    ['another time in the head', Buffer.from(backup.toString('latin1').replace('2031', '2030'), 'latin1')],
  ];
  for (const [about, bad] of cases) t.equal(await opened(folder, bad), 'store_unreadable', about);
  await fc.assert(
    fc.asyncProperty(fc.nat(backup.length - 1), fc.integer({ min: 1, max: 255 }), async (at, bits) => {
      const bad = Buffer.from(backup);
      bad[at] ^= bits;
      const outcome = await opened(folder, bad);
      assert.equal(typeof outcome, 'string', `byte ${at}`);
      assert.equal(typeof (await opened(folder, backup.subarray(0, at))), 'string', `${at} bytes of it`);
    }),
    {
      numRuns: 150,
      examples: [
        [head - 2, 1],
        [head, 1],
        [head - 1, 1],
        [backup.length - 1, 128],
      ],
    },
  );
});

t.test('what isn’t a backup is said to be none, and a later one to be later', async (t) => {
  const folder = temporary(t);
  for (const text of ['', '{}\n', 'null\n', '[]\n', '{"broker_backup":1}\n', 'x'.repeat(20_000)]) {
    t.equal(await opened(folder, Buffer.from(text)), 'store_unreadable', text.slice(0, 20));
  }
  t.equal(await opened(folder, Buffer.from('{"broker_backup":2}\n')), 'store_newer');
  const kek = { source: 'password', check: {}, salt: '', wrapped: {} };
  const head = (cost: object) =>
    Buffer.from(`${JSON.stringify({ broker_backup: 1, created: '', salt: '', kek: { ...kek, cost } })}\n`);
  t.equal(
    await opened(folder, head({ N: 2 ** 30, r: 8, p: 1 })),
    'store_unreadable',
    'it can’t ask for all the memory',
  );
});

/** A directory with a store in it, and a backup of that. */
async function backedUp(t: Test) {
  const folder = temporary(t);
  const directory = join(folder, 'data');
  mkdirSync(directory, { mode: 0o700 });
  const store = await openLmdbStore(directory);
  const kek = await prepareVault({ store, kek: fileKek(directory), directory, now: 0 });
  const made = await openBackup({ store, kek, directory, created: '2031-05-06T07:08:09.000Z' }, never);
  t.same(
    readdirSync(directory).filter((name) => name.startsWith('.')),
    [],
    'the snapshot has no name any more',
  );
  // What is written now isn't in it.
  await store.commit([{ table: 'meta', key: 'later', value: {} }]);
  const file = join(folder, 'backup');
  writeFileSync(file, await collect(made));
  await store.close();
  return { folder, file, key: parseKey(readPrivateFile(keyFile(directory)) ?? '') ?? newKey() };
}

async function restore(file: string, key: ReturnType<typeof newKey>, directory: string): Promise<void> {
  const opened = await open(file, 'r');
  try {
    await restoreBackup({ file: opened, head: await readHead(opened), key, directory });
  } finally {
    await opened.close();
  }
}

t.test(
  'restored: the store, its key, nothing else; private, and of the moment of the snapshot',
  async (t) => {
    const { folder, file, key } = await backedUp(t);
    const target = join(folder, 'restored');
    await restore(file, key, target);
    t.same(readdirSync(target).sort(), ['broker.lock', 'data.mdb', 'master.key']);
    for (const name of readdirSync(target)) t.equal(statSync(join(target, name)).mode & 0o777, 0o600, name);
    t.equal(statSync(target).mode & 0o777, 0o700);
    const store = await openLmdbStore(target);
    t.ok(await prepareVault({ store, kek: fileKek(target), directory: target, now: 0 }));
    const keys: string[] = [];
    for await (const row of store.load('meta')) keys.push(row.key);
    t.ok(keys.includes('kek') && !keys.includes('later'));
    await store.close();
    await t.rejects(restore(file, key, target), { code: 'directory_refused', message: /not empty/ });
  },
);

t.test('a refusal leaves the directory as it was', async (t) => {
  const { folder, file, key } = await backedUp(t);
  const target = join(folder, 'restored');
  await t.rejects(restore(file, newKey(), target), { code: 'key_wrong' });
  t.notOk(existsSync(target), 'not even made');
  const bytes = readFileSync(file);
  bytes[bytes.length - 1] ^= 1;
  const damaged = join(folder, 'damaged');
  writeFileSync(damaged, bytes);
  await t.rejects(restore(damaged, key, target), { code: 'store_unreadable' });
  t.same(readdirSync(target), ['broker.lock']);
  // What a crash of an earlier try left is no obstacle, nor is the key put there before.
  mkdirSync(join(target, '.restore-x'));
  writeFileSync(join(target, '.restore-x', 'data.mdb'), 'half');
  writeFileSync(keyFile(target), readFileSync(join(folder, 'data', 'master.key')), { mode: 0o600 });
  await restore(file, key, target);
  t.same(readdirSync(target).sort(), ['broker.lock', 'data.mdb', 'master.key']);
});

t.test(
  'a backup that nobody reads lets go of its snapshot, and a start clears what a crash left',
  async (t) => {
    const directory = temporary(t);
    const store = await openLmdbStore(directory);
    const kek = await prepareVault({ store, kek: fileKek(directory), directory, now: 0 });
    const handles = () => readdirSync('/proc/self/fd').length;
    const before = handles();
    for (let i = 0; i < 3; i++) {
      const over = new AbortController();
      await openBackup({ store, kek, directory, created: '' }, over.signal);
      over.abort();
    }
    for (let i = 0; i < 100 && handles() > before; i++)
      await new Promise((resolve) => setTimeout(resolve, 10));
    t.ok(handles() <= before, 'files are closed');
    mkdirSync(join(directory, '.backup-x'));
    writeFileSync(join(directory, '.backup-x', 'data.mdb'), 'half');
    clearSnapshots(directory);
    t.notOk(existsSync(join(directory, '.backup-x')));
    t.ok(existsSync(join(directory, 'data.mdb')));
    await store.close();
  },
);
