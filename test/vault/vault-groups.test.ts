/** What agents write together is one commit: each is judged against the others before it, and they fail as one. */
import t from 'tap';
import { StoreError } from '../../src/actors/vault/store.ts';
import {
  agent,
  bearer,
  operator,
  other,
  type Running,
  secrets,
  setServices,
  startVault,
  value,
  vault,
} from './vault-harness.ts';
import { attachLane, snapshot } from './vault-lane.ts';

const set = (running: Running, values: Record<string, string>, by = agent) =>
  running.vault.ask('credential.set', { vault, values: secrets(values), byAgent: true, by });

const keys = async (running: Running) => (await value(running.vault.ask('credential.list', { vault }))).keys;

/** They wait together, since nothing is handled before the caller waits. */
async function together<T>(
  running: Running,
  asked: () => Promise<T>[],
): Promise<{ answers: T[]; commits: number }> {
  let commits = 0;
  running.beforeCommit = () => void commits++;
  return { answers: await Promise.all(asked()), commits };
}

t.test('a hundred writes are a few commits, each answered, in the audit once and in order', async (t) => {
  const running = await startVault(t);
  const { answers, commits } = await together(running, () =>
    Array.from({ length: 100 }, (_, i) => set(running, { [`K${i}`]: `v${i}` })),
  );
  t.ok(answers.every(({ ok }) => ok));
  t.ok(commits <= 4, `${commits} commits`);
  t.equal((await keys(running)).length, 100);
  const records = (await running.audit()).filter(({ action }) => action === 'credential.set');
  t.same(
    records.map((record) => [record.keys, record.status]),
    Array.from({ length: 100 }, (_, i) => [[`K${i}`], 200]),
  );
  t.same(
    records.map(({ change }) => change),
    records.map((_, i) => i + 1),
  );
  await running.stop();
  const again = await startVault(t, running.path, running.clock);
  t.equal((await keys(again)).length, 100, 'stored');
});

t.test('each is judged against those before it in the commit', async (t) => {
  const running = await startVault(t);
  const { answers } = await together(running, () => [
    set(running, { A: '1' }),
    set(running, { A: '2' }, other),
    set(running, { A: '3', B: '3' }),
    set(running, { B: '4' }, other),
  ]);
  t.match(answers, [
    { ok: true },
    { ok: false, problem: { code: 'credential_exists' } },
    { ok: true },
    { ok: false, problem: { code: 'credential_exists' } },
  ]);
  const lane = await attachLane(running.vault);
  await setServices(running, [{ host: 'a.example', auth: bearer('A') }]);
  lane.drain();
  t.match(
    [...lane.known.values()].filter(({ type }) => type === 'credential'),
    [{ key: 'A', value: '3' }],
  );
});

for (const code of ['store_failed', 'store_lost'] as const) {
  t.test(
    `a commit of several that fails (${code}): all of them are refused, and nothing is left`,
    async (t) => {
      const running = await startVault(t);
      await value(set(running, { OLD: 'old' }));
      await setServices(running, [{ host: 'a.example', auth: bearer('OLD') }]);
      const lane = await attachLane(running.vault);
      lane.drain();
      const before = [await snapshot(running.vault), await keys(running)];
      const fails = () => {
        throw new StoreError(code, 'made to');
      };
      running.beforeCommit = fails;
      const answers = Promise.all([
        set(running, { OLD: 'new', NEW: '1' }),
        set(running, { NEW: '2' }, other),
        set(running, { MORE: '3' }, other),
      ]);
      const refused = { ok: false, problem: { code: 'store_unavailable' } };
      t.match(
        await answers,
        [refused, refused, refused],
        'also the one that was refused for what was taken back',
      );
      running.beforeCommit = () => {};
      const listed = running.vault.ask('credential.list', { vault });
      await running.clock.advance(1000);
      await listed;
      if (code === 'store_failed') t.same(lane.drain(), [], 'no lane heard of it');
      t.same([await snapshot(running.vault), await keys(running)], before);
      t.match(await set(running, { NEW: '4' }, other), { ok: true }, 'it is free again');
      t.match(await set(running, { OLD: 'newer' }), { ok: true });
      lane.drain();
      t.match(
        [...lane.known.values()].filter(({ type }) => type === 'credential'),
        [{ key: 'OLD', value: 'newer' }],
      );
      const answer = await running.vault.ask('credential.delete', {
        vault,
        key: 'NEW',
        force: false,
        by: operator,
      });
      t.ok(answer.ok);
    },
  );
}
