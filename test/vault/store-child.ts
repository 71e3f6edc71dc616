/*
 * The parts of the store's tests that may end their process, run by it as `node store-child.ts JOB DIRECTORY`:
 * `commit` commits until it is killed, `fill` commits against a limit on file sizes, `survive` opens damaged copies.
 */
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { openDirectory } from '../../src/actors/vault/directory.ts';
import { openLmdbStore } from '../../src/actors/vault/lmdb-store.ts';
import { type Change, type Store, StoreError } from '../../src/actors/vault/store.ts';

const [job, directory, ...rest] = process.argv.slice(2);

const say = (value: object) => process.stdout.write(`${JSON.stringify(value)}\n`);

/** One commit of the tests: `parts` rows that say which commit they are of. */
export function numbered(commit: number, parts: number, padding: string): Change[] {
  return Array.from({ length: parts }, (_, part) => ({
    table: 'meta',
    key: `part-${part}`,
    value: { commit, padding },
  }));
}

async function count(store: Store): Promise<number> {
  let rows = 0;
  for await (const _ of store.load()) rows++;
  return rows;
}

/** Says each commit once it is acknowledged. */
async function commitForEver(): Promise<void> {
  try {
    openDirectory(directory);
  } catch (error) {
    say({ refused: (error as StoreError).code });
    return;
  }
  const store = await openLmdbStore(directory);
  for (let commit = 1; ; commit++) {
    await store.commit(numbered(commit, 40, 'x'.repeat(commit % 700)));
    say({ commit });
  }
}

/** Fills the disk (a limit on file sizes), waits for room, and goes on. */
async function fill(): Promise<void> {
  // Its default is to end the process; a full disk gives ENOSPC without it.
  process.on('SIGXFSZ', () => {});
  const store = await openLmdbStore(directory);
  const put = (key: string) =>
    store.commit([{ table: 'meta', key, value: { padding: 'x'.repeat(30_000) } }]).then(
      () => 'stored',
      (error: StoreError) => error.code,
    );
  let stored = 0;
  while ((await put(`before-${stored}`)) === 'stored') stored++;
  say({ stored, rows: await count(store), again: await put('full') });
  for await (const _ of createInterface({ input: process.stdin })) break;
  say({ after: await put('after'), rows: await count(store) });
  await store.close();
}

/** Opens copies of a store with random bytes changed. Whatever happens, it must not be the end of the process. */
async function survive(): Promise<void> {
  const [seed, rounds] = rest.map(Number);
  let state = seed;
  const random = (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const original = readFileSync(join(directory, 'data.mdb'));
  const outcomes: Record<string, number> = {};
  for (let round = 0; round < rounds; round++) {
    const copy = mkdtempSync(join(directory, 'copy-'));
    copyFileSync(join(directory, 'lock.mdb'), join(copy, 'lock.mdb'));
    const bytes = Buffer.from(original);
    // Half of the time in the two heads, where the most depends on each byte.
    for (let flips = 1 + random(3); flips > 0; flips--) {
      const at = random(2) === 0 ? 4096 * random(2) + random(168) : random(bytes.length);
      bytes[at] ^= 1 << random(8);
    }
    const end = random(8) === 0 ? random(bytes.length) : bytes.length;
    writeFileSync(join(copy, 'data.mdb'), bytes.subarray(0, end));
    const outcome = await use(copy);
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    rmSync(copy, { recursive: true });
  }
  say(outcomes);
}

async function use(copy: string): Promise<string> {
  try {
    const store = await openLmdbStore(copy);
    try {
      await count(store);
      await store.commit(numbered(1, 50, 'y'.repeat(500)));
      await store.commit([{ table: 'meta', key: 'large', value: { padding: 'z'.repeat(20_000) } }]);
      return 'worked';
    } finally {
      await store.close();
    }
  } catch (error) {
    if (error instanceof StoreError) return error.code;
    throw error;
  }
}

if (job === 'commit') await commitForEver();
if (job === 'fill') await fill();
if (job === 'survive') await survive();
