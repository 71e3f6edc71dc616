/** What an agent and a vault may keep: refused before anything changes, freed by what goes, over restarts too. */
import fc from 'fast-check';
import t from 'tap';
import type { By } from '../../src/actors/vault/protocol.ts';
import { type Quotas, Usage } from '../../src/actors/vault/quotas.ts';
import type { Change } from '../../src/actors/vault/store.ts';
import { usualQuotas } from '../support/compose.ts';
import {
  agent,
  operator,
  other,
  type Running,
  refusal,
  secrets,
  startVault,
  store,
  value,
  vault,
} from './vault-harness.ts';

const small: Quotas = {
  agent: { keys: 3, bytes: 100, proposals: 2 },
  vault: { keys: 5, bytes: 400, proposals: 3 },
};

const started = (t: Parameters<typeof startVault>[0], quotas = small, before?: Running) =>
  startVault(t, before?.path, before?.clock, undefined, quotas);

const set = ({ vault: ref }: Running, values: Record<string, string>, by: By = agent) =>
  ref.ask('credential.set', { vault, values: secrets(values), byAgent: by !== operator, by });

const propose = ({ vault: ref }: Running, key: string, by: By = agent, text = '', name = vault) =>
  ref.ask('proposal.create', {
    vault: name,
    body: { credentials: [{ action: 'set', key, ...(text !== '' && { value: text }) }] },
    by,
  });

const exceeded = (quota: string, limit: number) => ({
  code: 'quota_exceeded',
  extra: { quota, limit },
  message: new RegExp(`--quota-${quota.replace('_', '-')}`),
});

t.test('an agent keeps so many keys and octets; an operator is bound by the vault alone', async (t) => {
  const running = await started(t);
  await value(set(running, { A1: 'x', A2: 'x', A3: 'x'.repeat(98) }));
  t.match(await refusal(set(running, { A4: 'x' })), exceeded('agent_keys', 3));
  t.match(await refusal(set(running, { A1: 'xx' })), exceeded('agent_bytes', 100));
  await value(set(running, { A3: 'y'.repeat(98) }));
  await value(set(running, { A3: 'y' }));
  await value(set(running, { A1: 'x'.repeat(98) }));
  await value(set(running, { B1: 'x' }, other));
  await store(running, { O1: 'x' });
  t.match(await refusal(set(running, { O2: 'x' }, operator)), exceeded('vault_keys', 5));
  await value(set(running, { O1: 'x'.repeat(299) }, operator));
  t.match(await refusal(set(running, { O1: 'x'.repeat(301) }, operator)), exceeded('vault_bytes', 400));
  await value(running.vault.ask('credential.delete', { vault, key: 'A2', force: false, by: operator }));
  t.match(await refusal(set(running, { A2: 'xxx' })), exceeded('agent_bytes', 100), 'all or none');
  await running.stop();

  const again = await started(t, small, running);
  t.match(
    await refusal(set(again, { A1: 'x'.repeat(101) })),
    exceeded('agent_bytes', 100),
    'after a restart',
  );
  await again.stop();
  const lower = await started(t, { ...small, agent: { ...small.agent, keys: 1, bytes: 1 } }, running);
  await value(set(lower, { A1: 'x' }));
  t.match(await refusal(set(lower, { A2: 'x' })), { code: 'quota_exceeded' }, 'coming down is never refused');
});

t.test('values in proposals count while they wait', async (t) => {
  const running = await started(t, {
    ...small,
    agent: { ...small.agent, bytes: 0 },
    vault: usualQuotas.vault,
  });
  await value(set(running, { A1: 'x' }));
  await value(propose(running, 'P1', agent, 'x'));
  await value(propose(running, 'P2', agent, 'x'));
  t.match(await refusal(set(running, { A2: 'x' })), exceeded('agent_keys', 3));
  const id = 1;
  await value(
    running.vault.ask('proposal.approve', { id, credentials: new Map(), confirm: null, by: operator }),
  );
  await value(set(running, { A2: 'x' }));
  t.match(await refusal(propose(running, 'P3', agent, 'x')), exceeded('agent_keys', 3));
  await value(running.vault.ask('proposal.cancel', { id: 2, vault, by: agent }));
  await value(propose(running, 'P3', agent, 'x'));
});

t.test('the text of a proposal that waits counts, and goes with it', async (t) => {
  const running = await started(t, {
    ...small,
    agent: { keys: 0, bytes: 1100, proposals: 0 },
    vault: usualQuotas.vault,
  });
  await value(propose(running, 'P1'));
  await value(propose(running, 'P2'));
  t.match(await refusal(propose(running, 'P3')), exceeded('agent_bytes', 1100));
  await value(running.vault.ask('proposal.reject', { id: 1, reason: '', by: operator }));
  await value(propose(running, 'P3'));
});

t.test('proposals wait per agent, over its vaults, and per vault', async (t) => {
  const running = await started(t, {
    ...usualQuotas,
    agent: { ...usualQuotas.agent, proposals: 2 },
    vault: { ...usualQuotas.vault, proposals: 3 },
  });
  await value(running.vault.ask('vault.create', { name: 'second', by: operator }));
  await value(propose(running, 'P1'));
  await value(propose(running, 'P2', agent, '', 'second'));
  const many = { code: 'too_many_pending_proposals', retryAfterSeconds: 60 };
  t.match(await refusal(propose(running, 'P3')), { ...many, extra: { limit: 2 }, message: /This agent/ });
  await value(propose(running, 'P3', other));
  await value(propose(running, 'P4', other));
  const third = { actor: 'session:s3', label: null, request_id: 'r' };
  t.match(await refusal(propose(running, 'P5', third)), {
    ...many,
    extra: { limit: 3 },
    message: /'default'/,
  });
});

t.test('what is counted is what a fresh count of the rows gives', async () => {
  const row = fc.record({
    key: fc.integer({ min: 0, max: 5 }),
    owner: fc.constantFrom('agent:a', 'session:b', 'operator:o'),
    bytes: fc.integer({ min: 1, max: 60 }),
    gone: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(fc.array(row, { maxLength: 4 }), { maxLength: 12 }), (commits) => {
      const quotas = {
        agent: { keys: 3, bytes: 90, proposals: 0 },
        vault: { keys: 5, bytes: 200, proposals: 0 },
      };
      const usage = new Usage();
      const rows = new Map<number, { owner: string; bytes: number }>();
      for (const commit of commits) {
        const distinct = [...new Map(commit.map((each) => [each.key, each])).values()];
        const after = new Map(rows);
        for (const { key, owner, bytes, gone } of distinct) {
          if (gone) after.delete(key);
          else after.set(key, { owner, bytes });
        }
        const changes = distinct.map(({ key, owner, bytes, gone }) =>
          credential(key, owner, gone ? null : bytes),
        );
        const refused = usage.problem(changes, new Map(), quotas);
        const wanted = over(rows, after, quotas);
        if ((refused === null) === wanted) throw new Error(`${JSON.stringify(refused)}, wanted ${wanted}`);
        if (refused) continue;
        for (const change of changes) usage.take(change, new Map());
        rows.clear();
        for (const [key, each] of after) rows.set(key, each);
      }
    }),
  );
});

type Rows = ReadonlyMap<number, { readonly owner: string; readonly bytes: number }>;

function over(before: Rows, after: Rows, quotas: Quotas): boolean {
  const sum = (rows: Rows, owner?: string) => {
    const own = [...rows.values()].filter((each) => owner === undefined || each.owner === owner);
    return { keys: own.length, bytes: own.reduce((total, { bytes }) => total + bytes, 0) };
  };
  const grown = (quota: Quotas['agent'], owner?: string) => {
    const [was, is] = [sum(before, owner), sum(after, owner)];
    return (is.keys > was.keys && is.keys > quota.keys) || (is.bytes > was.bytes && is.bytes > quota.bytes);
  };
  return grown(quotas.agent, 'agent:a') || grown(quotas.agent, 'session:b') || grown(quotas.vault);
}

function credential(key: number, added_by: string, bytes: number | null): Change {
  const at = '2031-01-01T00:00:00.000Z';
  const ct = Buffer.alloc(bytes ?? 0).toString('base64');
  const value =
    bytes === null ? null : { version: 1, nonce: '', ct, tag: '', added_by, created_at: at, updated_at: at };
  return { table: 'credentials', key: `v/K${key}`, value };
}
