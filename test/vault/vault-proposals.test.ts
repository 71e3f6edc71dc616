import t, { type Test } from 'tap';
import { openLmdbStore } from '../../src/actors/vault/lmdb-store.ts';
import type { ProposalBody } from '../../src/actors/vault/protocol.ts';
import { hashToken } from '../../src/actors/vault/token.ts';
import {
  agent,
  bearer,
  operator,
  other,
  type Running,
  refusal,
  secrets,
  start,
  startVault,
  value,
  vault,
} from './vault-harness.ts';
import { attachLane } from './vault-lane.ts';

const github: ProposalBody = {
  services: [{ action: 'set', host: 'API.github.com.', auth: bearer('GH_TOKEN'), description: 'GitHub' }],
  credentials: [{ action: 'set', key: 'GH_TOKEN', description: 'a token' }],
  message: 'm',
  user_message: 'u',
};

async function propose(running: Running, body = github, by = agent) {
  return await value(running.vault.ask('proposal.create', { vault, body, by }));
}

async function approve(
  running: Running,
  id: number,
  credentials: Record<string, string> = {},
  confirm: string | null = null,
) {
  return await running.vault.ask('proposal.approve', {
    id,
    credentials: secrets(credentials),
    confirm,
    by: operator,
  });
}

/** What a human who has looked confirms. */
async function seen(running: Running, id: number): Promise<string> {
  const { review } = await value(running.vault.ask('proposal.get', { id, reviewed: true }));
  if (review === undefined) throw new Error('nothing to review');
  return review.fingerprint;
}

async function listed(running: Running) {
  return (await value(running.vault.ask('service.list', { vault }))).services;
}

async function keys(running: Running) {
  return (await value(running.vault.ask('credential.list', { vault }))).keys;
}

/** A vault with one service and two credentials of the operator. */
async function prepared(t: Test): Promise<Running> {
  const running = await startVault(t);
  const values = secrets({ OLD: 'old value', SPARE: 'spare value' });
  await value(running.vault.ask('credential.set', { vault, values, byAgent: false, by: operator }));
  await value(
    running.vault.ask('service.set', {
      vault,
      mode: 'replace',
      services: [{ host: 'old.example', auth: bearer('OLD') }],
      by: operator,
    }),
  );
  return running;
}

t.test('create: what comes back, and what is refused', async (t) => {
  const running = await prepared(t);
  const { proposal, approvalToken } = await propose(running);
  t.match(approvalToken.reveal(), /^brk_apr_/);
  t.same(proposal, {
    id: 1,
    status: 'pending',
    vault,
    services: [{ action: 'set', host: 'api.github.com', auth: bearer('GH_TOKEN'), description: 'GitHub' }],
    credentials: github.credentials,
    message: 'm',
    user_message: 'u',
    review_note: null,
    reviewed_by: null,
    created_at: new Date(start).toISOString(),
    reviewed_at: null,
    expires_at: new Date(start + 7 * 86_400_000).toISOString(),
    requested_by: { kind: 'session', id: 's1', label: 'ci' },
  });
  const refusals: [body: ProposalBody, code: string, extra: object][] = [
    [{}, 'invalid_request', { field: 'services' }],
    [
      { services: [{ action: 'set', host: 'b.example', auth: bearer('NONE') }] },
      'unresolved_credential',
      { key: 'NONE', field: 'services[0].auth.token' },
    ],
    [
      {
        services: [{ action: 'set', host: 'b.example', auth: bearer('OLD') }],
        credentials: [{ action: 'delete', key: 'OLD' }],
      },
      'unresolved_credential',
      { key: 'OLD' },
    ],
    [
      { services: [{ action: 'set', host: 'b.example', enabled: true }] },
      'invalid_request',
      { field: 'services[0].auth' },
    ],
  ];
  for (const [body, code, extra] of refusals) {
    t.match(await refusal(running.vault.ask('proposal.create', { vault, body, by: agent })), { code, extra });
  }
  t.match(await refusal(running.vault.ask('proposal.create', { vault: 'no', body: github, by: agent })), {
    code: 'not_found',
  });
  t.match(running.events, [{ type: 'proposal.created', vault, actor: agent.actor, data: { id: 1 } }]);
});

t.test('get, list and cancel: each sees its own', async (t) => {
  const running = await prepared(t);
  const { ask } = running.vault;
  await value(running.vault.ask('vault.create', { name: 'second', by: operator }));
  await propose(running);
  await propose(running, github, other);
  const ids = async (query: Parameters<typeof ask<'proposal.list'>>[1]) =>
    (await value(running.vault.ask('proposal.list', query))).proposals.map(({ id }) => id);
  t.same(await ids({}), [1, 2]);
  t.same(await ids({ vault }), [1, 2]);
  t.same(await ids({ vault: 'second' }), []);
  t.same(await ids({ vault: 'unknown' }), []);
  t.same(await ids({ vaults: ['second', vault] }), [1, 2]);
  t.same(await ids({ vaults: [vault], vault: 'second' }), []);
  t.same(await ids({ own: other }), [2]);
  t.same(await ids({ status: 'applied' }), []);

  t.match(await value(running.vault.ask('proposal.get', { id: 1, vault, own: agent })), { id: 1 });
  for (const query of [{ id: 3 }, { id: 1, vault: 'second' }, { id: 1, own: other }, { id: 1.5 }])
    t.match(await refusal(running.vault.ask('proposal.get', query)), { code: 'not_found' });

  t.match(await refusal(running.vault.ask('proposal.cancel', { id: 1, vault, by: other })), {
    code: 'forbidden',
  });
  const elsewhere = { id: 1, vault: 'second', by: agent };
  t.match(await refusal(running.vault.ask('proposal.cancel', elsewhere)), { code: 'not_found' });
  const cancelled = await value(running.vault.ask('proposal.cancel', { id: 1, vault, by: agent }));
  t.match(cancelled, { status: 'cancelled', reviewed_by: null, reviewed_at: cancelled.created_at });
  t.same(await value(running.vault.ask('proposal.cancel', { id: 1, vault, by: agent })), cancelled, 'again');
  t.match(await approve(running, 1, { GH_TOKEN: 'x' }), {
    problem: { code: 'already_decided', extra: { status: 'cancelled' } },
  });
});

t.test('approve: everything in one transaction, and the next request sees it', async (t) => {
  const running = await prepared(t);
  await value(running.vault.ask('service.clear', { vault, by: operator }));
  const lane = await attachLane(running.vault);
  lane.drain();
  const { proposal } = await propose(running, {
    ...github,
    credentials: [...(github.credentials ?? []), { action: 'delete', key: 'SPARE' }],
  });
  t.same(lane.drain(), [], 'a proposal is no news to lanes');

  t.match(await approve(running, 1), {
    problem: { code: 'invalid_request', extra: { field: 'credentials.GH_TOKEN' } },
  });
  t.match(await approve(running, 1, { GH_TOKEN: 'x', MORE: 'y' }), {
    problem: { code: 'invalid_request', extra: { field: 'credentials.MORE' } },
  });
  t.match(await approve(running, 1, { GH_TOKEN: '' }), { problem: { code: 'invalid_request' } });
  t.match(await value(running.vault.ask('proposal.get', { id: 1 })), { status: 'pending' });

  t.same(await approve(running, 1, { GH_TOKEN: 'ghp_secret' }), {
    ok: true,
    value: { id: 1, status: 'applied' },
  });
  const messages = lane.drain();
  t.equal(messages.length, 1, 'one transaction, one message');
  t.match(
    [...lane.known.values()],
    [
      { type: 'vault', cleared: false },
      { type: 'service', service: { host: 'api.github.com' } },
      { type: 'credential', key: 'GH_TOKEN', value: 'ghp_secret' },
    ],
  );
  t.same(await keys(running), ['GH_TOKEN', 'OLD']);
  const applied = await value(running.vault.ask('proposal.get', { id: 1 }));
  t.same(applied, {
    ...proposal,
    status: 'applied',
    reviewed_by: 'operator:owner',
    reviewed_at: new Date(start).toISOString(),
  });

  t.match(await approve(running, 1, { GH_TOKEN: 'other' }), { ok: true, value: { status: 'applied' } });
  t.same(lane.drain(), [], 'nothing is applied twice');
  t.match(await refusal(running.vault.ask('proposal.reject', { id: 1, reason: '', by: operator })), {
    code: 'already_decided',
    extra: { status: 'applied' },
  });
  t.match(await approve(running, 2), { problem: { code: 'not_found' } });
  const types = running.events.map(({ type }) => type);
  t.same(types, ['proposal.created', 'proposal.applied']);
});

t.test('approve: the vault as it is now counts, not as it was', async (t) => {
  const running = await prepared(t);
  const use = { services: [{ action: 'set', host: 'new.example', auth: bearer('OLD') }] } as const;
  await propose(running, use);
  t.match(await approve(running, 1), {
    problem: {
      code: 'confirmation_required',
      message: /OLD to new.example/,
      extra: { review: { increases: [{ key: 'OLD', hosts: ['new.example'] }] } },
    },
  });
  await value(running.vault.ask('credential.delete', { vault, key: 'OLD', force: true, by: operator }));
  t.match(await approve(running, 1, {}, await seen(running, 1)), {
    problem: { code: 'unresolved_credential', extra: { key: 'OLD', field: 'services[0].auth.token' } },
  });
  const values = secrets({ OLD: 'again' });
  await value(running.vault.ask('credential.set', { vault, values, byAgent: false, by: operator }));
  t.match(await approve(running, 1, {}, await seen(running, 1)), { ok: true });

  // A switch needs no auth, as long as the service is there.
  await propose(running, { services: [{ action: 'set', host: 'new.example', enabled: false }] });
  await value(running.vault.ask('service.remove', { vault, host: 'new.example', by: operator }));
  t.match(await approve(running, 2), { problem: { code: 'invalid_request' } });

  await propose(running, { credentials: [{ action: 'delete', key: 'OLD' }] });
  t.match(await approve(running, 3), {
    problem: { code: 'credential_in_use', extra: { key: 'OLD', services: ['old.example'] } },
  });
  await propose(running, {
    services: [{ action: 'delete', host: 'old.example' }],
    credentials: [
      { action: 'delete', key: 'OLD' },
      { action: 'delete', key: 'NEVER_WAS' },
    ],
  });
  t.match(await approve(running, 4), { ok: true });
  t.same(await listed(running), []);
  t.same(await keys(running), ['SPARE']);
});

t.test('a set keeps what it does not say, and a disabled service stays disabled', async (t) => {
  const running = await prepared(t);
  await value(
    running.vault.ask('service.enable', { vault, host: 'old.example', enabled: false, by: operator }),
  );
  await propose(running, {
    services: [
      { action: 'set', host: 'new.example', auth: { type: 'passthrough' } },
      { action: 'set', host: 'old.example', auth: bearer('OLD'), description: 'said' },
    ],
  });
  t.match(await approve(running, 1), { ok: true });
  t.same(await listed(running), [
    { host: 'old.example', description: 'said', auth: bearer('OLD'), enabled: false },
    { host: 'new.example', auth: { type: 'passthrough' } },
  ]);
});

t.test('a value that the agent gives with its slot', async (t) => {
  const running = await startVault(t);
  const lane = await attachLane(running.vault);
  const body: ProposalBody = {
    ...github,
    credentials: [{ action: 'set', key: 'GH_TOKEN', value: 'from-the-agent' }],
  };
  const { proposal } = await propose(running, body);
  t.same(proposal.credentials, [{ action: 'set', key: 'GH_TOKEN', has_value: true }]);
  const review = await value(running.vault.ask('proposal.review', { id: 1, approvalHash: null }));
  t.same(review.needs_value, []);
  t.notMatch(JSON.stringify(review), 'from-the-agent');
  t.match(await approve(running, 1), { ok: true });
  lane.drain();
  t.match([...lane.known.values()], [{}, {}, { key: 'GH_TOKEN', value: 'from-the-agent' }]);
  t.match(
    await refusal(
      running.vault.ask('credential.set', {
        vault,
        values: secrets({ GH_TOKEN: 'x' }),
        byAgent: true,
        by: agent,
      }),
    ),
    { code: 'credential_exists' },
    'what was approved is the operator’s',
  );

  await propose(running, body);
  t.match(await approve(running, 2, { GH_TOKEN: 'from-the-human' }), { ok: true });
  lane.drain();
  t.match([...lane.known.values()][2], { value: 'from-the-human' });

  await propose(running, body);
  await value(running.vault.ask('proposal.reject', { id: 3, reason: 'no', by: operator }));
  const left = [];
  for await (const row of running.store.load('slot_values')) left.push(row.key);
  t.same(left, [], 'no value outlives its proposal');
});

t.test('a kept value that no longer opens is asked for', async (t) => {
  const running = await startVault(t);
  const body: ProposalBody = { ...github, credentials: [{ action: 'set', key: 'GH_TOKEN', value: 'v1' }] };
  await propose(running, body);
  await propose(running, body);
  const rows = [];
  for await (const row of running.store.load('slot_values')) rows.push(row);
  const [first, second] = rows;
  if (first?.table !== 'slot_values' || second?.table !== 'slot_values') throw new Error('no rows');
  await running.stop();
  // The values of two proposals, swapped.
  const store = await openLmdbStore(running.path);
  await store.commit([
    { ...first, value: second.value },
    { ...second, value: first.value },
  ]);
  await store.close();
  const swapped = await startVault(t, running.path, running.clock);
  t.match(await approve(swapped, 1), {
    problem: { code: 'invalid_request', extra: { field: 'credentials.GH_TOKEN' } },
  });
  t.match(await approve(swapped, 1, { GH_TOKEN: 'given' }), { ok: true });
});

t.test('reject', async (t) => {
  const running = await startVault(t);
  await propose(running);
  const reject = (reason: string) => running.vault.ask('proposal.reject', { id: 1, reason, by: operator });
  t.match(await refusal(reject('x'.repeat(2001))), { code: 'invalid_request', extra: { field: 'reason' } });
  t.same(await value(reject('not this host')), { id: 1, status: 'rejected' });
  t.match(await value(running.vault.ask('proposal.get', { id: 1 })), {
    status: 'rejected',
    review_note: 'not this host',
    reviewed_by: 'operator:owner',
  });
  t.same(await value(reject('again')), { id: 1, status: 'rejected' });
  t.match(await approve(running, 1, { GH_TOKEN: 'x' }), {
    problem: { code: 'already_decided', extra: { status: 'rejected' } },
  });
  t.match(await refusal(running.vault.ask('proposal.cancel', { id: 1, vault, by: agent })), {
    code: 'already_decided',
  });
});

t.test('review: by link or by operator', async (t) => {
  const running = await prepared(t);
  const { approvalToken } = await propose(running, {
    services: [
      { action: 'set', host: 'old.example', auth: bearer('OLD') },
      { action: 'set', host: 'new.example', auth: bearer('OLD') },
      { action: 'delete', host: 'none.example' },
    ],
    credentials: [{ action: 'set', key: 'MORE' }],
  });
  const approvalHash = hashToken(approvalToken.reveal());
  const review = await value(running.vault.ask('proposal.review', { id: 1, approvalHash }));
  t.match(review, {
    id: 1,
    requested_by: { kind: 'session', id: 's1', label: agent.label },
    before: [{ host: 'old.example' }, null, null],
    review: { increases: [{ key: 'OLD', hosts: ['new.example'], ticked_by: 'confirm' }] },
    needs_value: ['MORE'],
  });
  t.notMatch(JSON.stringify(review), approvalHash);
  t.same(await value(running.vault.ask('proposal.review', { id: 1, approvalHash: null })), review);
  for (const hash of [hashToken('other'), '', 'x'])
    t.match(await refusal(running.vault.ask('proposal.review', { id: 1, approvalHash: hash })), {
      code: 'not_found',
    });
  await approve(running, 1, { MORE: 'x' }, await seen(running, 1));
  t.match(await refusal(running.vault.ask('proposal.review', { id: 1, approvalHash })), { code: 'gone' });
  t.match(await value(running.vault.ask('proposal.review', { id: 1, approvalHash: null })), {
    status: 'applied',
  });
});

t.test('at most 20 of an agent are pending', async (t) => {
  const running = await startVault(t);
  for (let i = 0; i < 20; i++) await propose(running);
  const more = running.vault.ask('proposal.create', { vault, body: github, by: agent });
  t.match(await refusal(more), { code: 'too_many_pending_proposals', retryAfterSeconds: 60 });
  await value(running.vault.ask('vault.create', { name: 'second', by: operator }));
  await value(running.vault.ask('proposal.create', { vault: 'second', body: github, by: other }));
  await value(running.vault.ask('proposal.cancel', { id: 7, vault, by: agent }));
  t.equal((await propose(running)).proposal.id, 22, 'ids count up over all vaults');
  t.match(await value(running.vault.ask('vault.get', { vault })), { counters: { pending_proposals: 20 } });
});

t.test('decided ones are kept up to a bound, and ids are not used again', async (t) => {
  const running = await startVault(t);
  for (let i = 1; i <= 1003; i++) {
    await propose(running);
    await value(running.vault.ask('proposal.cancel', { id: i, vault, by: agent }));
  }
  await propose(running);
  const { proposals } = await value(running.vault.ask('proposal.list', {}));
  t.equal(proposals.length, 1000);
  t.equal(proposals.at(-1)?.id, 1004);
  t.equal(proposals[0].id, 5);
});

t.test('decided ones are kept up to so many octets', async (t) => {
  const running = await startVault(t);
  const text = `${'x'.repeat(8000)}{{ A }}`;
  const headers = Object.fromEntries(Array.from({ length: 8 }, (_, i) => [`X-Key-${i}`, text]));
  const services = Array.from({ length: 10 }, (_, i) => ({
    action: 'set' as const,
    host: `h${i}.example`,
    auth: { type: 'custom' as const, headers },
  }));
  await propose(running, github, other);
  await value(running.vault.ask('proposal.cancel', { id: 1, vault, by: other }));
  for (let id = 2; id <= 40; id++) {
    await propose(running, { services, credentials: [{ action: 'set', key: 'A' }] });
    await value(running.vault.ask('proposal.cancel', { id, vault, by: agent }));
  }
  const { proposals } = await value(running.vault.ask('proposal.list', {}));
  t.ok(proposals.length < 30, `${proposals.length} are kept`);
  t.equal(proposals.at(-1)?.id, 40, 'the newest');
  t.equal(proposals[0].id, 1, "whoever has the most gives way: another's is not driven out");
});

t.test('a proposal expires by itself, and no moment late', async (t) => {
  const running = await startVault(t);
  await propose(running);
  await running.clock.advance(3 * 86_400_000);
  await propose(running);
  const status = async (id: number) => (await value(running.vault.ask('proposal.get', { id }))).status;
  await running.clock.advance(4 * 86_400_000 - 1);
  t.same([await status(1), await status(2)], ['pending', 'pending']);
  await running.clock.advance(1);
  t.same([await status(1), await status(2)], ['expired', 'pending']);
  t.match(running.events.at(-1), { type: 'proposal.expired', actor: agent.actor, data: { id: 1 } });
  t.match(await approve(running, 1, { GH_TOKEN: 'x' }), {
    problem: { code: 'already_decided', extra: { status: 'expired' } },
  });
  await running.clock.advance(3 * 86_400_000);
  t.equal(await status(2), 'expired');
});

t.test('two approvals at once: one is applied, the other gets its answer', async (t) => {
  const running = await startVault(t);
  await propose(running);
  const answers = await Promise.all([
    approve(running, 1, { GH_TOKEN: 'first' }),
    running.vault.ask('proposal.reject', { id: 1, reason: 'r', by: operator }),
    approve(running, 1, { GH_TOKEN: 'second' }),
  ]);
  t.match(answers, [{ ok: true }, { problem: { code: 'already_decided' } }, { ok: true }]);
  const lane = await attachLane(running.vault);
  lane.drain();
  t.match([...lane.known.values()][2], { value: 'first' });
});
