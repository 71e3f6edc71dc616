/** A store of any size starts, also with a small heap: values lie outside of it, once. */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { fileKek } from '../../src/actors/vault/keyfile.ts';
import { openLmdbStore } from '../../src/actors/vault/lmdb-store.ts';
import { seal, unwrapDataKey } from '../../src/actors/vault/seal.ts';
import type { Change } from '../../src/actors/vault/store.ts';
import { prepareVault } from '../../src/actors/vault/vault-boot.ts';
import { startBroker, temporary } from '../support/broker.ts';

/** A store as builds before quotas could leave it: written row by row, since no API takes so much any more. */
async function filled(t: Test, keys: number, bytes: number): Promise<string> {
  const directory = join(temporary(t), 'data');
  mkdirSync(directory, { mode: 0o700 });
  const store = await openLmdbStore(directory);
  const kek = await prepareVault({ store, kek: fileKek(directory), directory, now: Date.now() });
  let vault = '';
  for await (const row of store.load('vaults')) vault = row.key;
  let sealed: unknown = null;
  for await (const row of store.load('meta')) if (row.key === `key/${vault}`) sealed = row.value;
  const key = unwrapDataKey(kek, vault, sealed as Parameters<typeof unwrapDataKey>[2]);
  if (key === null) throw new Error('the vault has no key');
  const at = new Date().toISOString();
  for (let from = 0; from < keys; from += 50) {
    const changes: Change[] = [];
    for (let i = from; i < Math.min(keys, from + 50); i++) {
      const value = seal(key, ['credential', vault, `K${i}`], 1, Buffer.alloc(bytes, 'x'));
      const made = { added_by: 'session:a', created_at: at, updated_at: at };
      changes.push({ table: 'credentials', key: `${vault}/K${i}`, value: { ...value, ...made } });
    }
    await store.commit(changes);
  }
  await store.close();
  return directory;
}

const mebibytes = (kilobytes: string | undefined) => Math.round(Number(kilobytes) / 1024);

for (const [keys, bytes, referred] of [
  [10_000, 13_421, 500],
  [6_000, 65_536, 0],
] as const) {
  t.test(
    `${keys} keys of ${bytes} octets start with a heap of 256 MiB, and serve`,
    { timeout: 300_000 },
    async (t) => {
      const directory = await filled(t, keys, bytes);
      const broker = await startBroker(t, { directory, nodeOptions: ['--max-old-space-size=256'] });
      const listed = await broker.api<{ keys: string[] }>('GET', '/v1/credentials', { vault: 'default' });
      t.equal(listed.body.keys.length, keys);
      const services = Array.from({ length: referred }, (_, i) => ({
        host: `h${i}.example`,
        auth: { type: 'bearer', token: `K${i}` },
      }));
      if (referred > 0) {
        const put = await broker.api('PUT', '/v1/vaults/default/services', { body: { services } });
        t.equal(put.status, 200);
      }
      const body = { credentials: { K1: 'less' } };
      t.equal((await broker.api('POST', '/v1/credentials', { vault: 'default', body })).status, 200);
      const status = readFileSync(`/proc/${broker.process.pid}/status`, 'utf8');
      const anonymous = mebibytes(/RssAnon:\s+(\d+)/.exec(status)?.[1]);
      const stored = (keys * bytes) / 2 ** 20;
      t.ok(anonymous < 1.5 * stored + 400, `${anonymous} MiB for ${Math.round(stored)} MiB that are stored`);
      t.equal(broker.printed().code, null);
    },
  );
}
