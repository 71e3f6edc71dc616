import t from 'tap';
import type { Problem } from '../../src/actors/vault/problem.ts';
import { Secret } from '../../src/actors/vault/secret.ts';
import { hashToken } from '../../src/actors/vault/token.ts';
import {
  agent,
  bearer,
  filesUnder,
  identify,
  iso,
  operator,
  other,
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
import { attachLane, comparable, snapshot } from './vault-lane.ts';

const hour = 3_600_000;

async function signIn(running: Running, name: string, kind: 'token' | 'cookie' | 'login-link') {
  return (await value(running.vault.ask('operator.signIn', { name, kind, by: operator }))).token;
}

t.test("an operator's value for a key of an agent's says where it goes, and with `ask` waits", async (t) => {
  const running = await startVault(t);
  const put = (values: Record<string, string>, by = operator, ask = false) =>
    running.vault.ask('credential.set', {
      vault,
      values: secrets(values),
      byAgent: by !== operator,
      ask,
      by,
    });
  await value(put({ SENT: 'mine', KEPT: 'mine' }, agent));
  await store(running, { OWN: 'o' });
  await setServices(running, [
    { host: 'a.example', auth: bearer('SENT') },
    { host: 'b.example', auth: bearer('SENT') },
    { host: 'c.example', auth: bearer('OWN') },
  ]);
  const replaced = [{ key: 'SENT', given_by: agent.actor, hosts: ['a.example', 'b.example'] }];
  const all = { KEPT: '1', OWN: '1', SENT: '1', NEW: '1' };
  t.match(await refusal(put(all, operator, true)), { code: 'confirmation_required', extra: { replaced } });
  t.same(await value(running.vault.ask('credential.list', { vault })), { keys: ['KEPT', 'OWN', 'SENT'] });
  t.same(await value(put({ SENT: 'again' }, agent, true)), { set: ['SENT'] }, 'its own');
  t.same(await value(put(all)), { set: Object.keys(all), replaced });
  t.same(await value(put(all, operator, true)), { set: Object.keys(all) }, "the operator's by now");
});

t.test('vaults: create, change, list', async (t) => {
  const running = await startVault(t);
  const created = {
    name: 'ci-1',
    unmatched_host_policy: 'passthrough',
    unmatched_tls: 'intercept',
    require_tls: false,
    rate_limit: null,
    cleared: false,
    created_at: iso(start),
    counters: { services: 0, credentials: 0, pending_proposals: 0 },
  };
  t.same(await value(running.vault.ask('vault.create', { name: 'ci-1', by: operator })), created);
  t.match(await refusal(running.vault.ask('vault.create', { name: 'ci-1', by: operator })), {
    code: 'conflict',
  });
  for (const name of ['', 'A', 'a b', 'ä', 'x'.repeat(65), '../v', 'a\n'])
    t.match(
      await refusal(running.vault.ask('vault.create', { name, by: operator })),
      { code: 'invalid_request', extra: { field: 'name' } },
      JSON.stringify(name),
    );
  const patch = { unmatched_host_policy: 'deny', rate_limit: { rps: 0 } } as const;
  const changed = await value(running.vault.ask('vault.update', { vault: 'ci-1', patch, by: operator }));
  t.same(changed, { ...created, ...patch });
  t.same(await value(running.vault.ask('vault.get', { vault: 'ci-1' })), changed);
  const nothing = { unmatched_host_policy: undefined };
  t.same(
    await value(running.vault.ask('vault.update', { vault: 'ci-1', patch: nothing, by: operator })),
    changed,
  );
  t.match(await running.vault.ask('vault.list', {}), [{ name: 'ci-1' }, { name: 'default' }]);
  const wrong: [object, string][] = [
    [{ unmatched_host_policy: 'allow' }, 'unmatched_host_policy'],
    [{ unmatched_tls: true }, 'unmatched_tls'],
    [{ require_tls: 1 }, 'require_tls'],
    [{ rate_limit: 5 }, 'rate_limit'],
    [{ rate_limit: { rps: -1 } }, 'rate_limit.rps'],
    [{ rate_limit: { burst: 1.5 } }, 'rate_limit.burst'],
    [{ rate_limit: { other: 1 } }, 'rate_limit.other'],
    [{ name: 'x' }, 'name'],
  ];
  for (const [bad, field] of wrong)
    t.match(
      await refusal(running.vault.ask('vault.update', { vault: 'ci-1', patch: bad, by: operator })),
      { code: 'invalid_request', extra: { field } },
      field,
    );
});

t.test('an unknown vault is not_found, whatever is asked of it', async (t) => {
  const { vault: ref } = await startVault(t);
  const none = { vault: 'none', by: operator };
  const answers = [
    ref.ask('vault.get', none),
    ref.ask('vault.update', { ...none, patch: {} }),
    ref.ask('vault.delete', none),
    ref.ask('discover', none),
    ref.ask('service.list', none),
    ref.ask('service.set', { ...none, mode: 'upsert', services: [] }),
    ref.ask('service.enable', { ...none, host: 'a.example', enabled: true }),
    ref.ask('service.remove', { ...none, host: 'a.example' }),
    ref.ask('service.clear', none),
    ref.ask('credential.list', none),
    ref.ask('credential.set', { ...none, values: secrets({ A: 'x' }), byAgent: false }),
    ref.ask('credential.delete', { ...none, key: 'A', force: false }),
    ref.ask('session.create', { ...none, ttlSeconds: 60, label: null }),
    ref.ask('invite.create', { ...none, name: null, vaults: ['none'], ttlSeconds: 60, tokenTtlSeconds: 60 }),
    ref.ask('operator.create', { ...none, name: 'x', role: 'admin', vaults: ['none'] }),
  ];
  for (const answer of answers) t.match(await refusal(answer), { code: 'not_found' });
});

t.test('deleting a vault takes everything in it along', async (t) => {
  const running = await startVault(t);
  const { vault: ref } = running;
  t.match(await refusal(ref.ask('vault.delete', { vault, by: operator })), { code: 'conflict' });
  const lane = await attachLane(ref);
  lane.drain();
  const before = comparable(lane.known);
  await value(ref.ask('vault.create', { name: 'gone', by: operator }));
  const values = secrets({ A: 'x' });
  await value(ref.ask('credential.set', { vault: 'gone', values, byAgent: false, by: operator }));
  const services = [{ host: 'a.example', auth: bearer('A') }];
  await value(ref.ask('service.set', { vault: 'gone', mode: 'upsert', services, by: operator }));
  const session = await value(
    ref.ask('session.create', { vault: 'gone', ttlSeconds: 60, label: null, by: operator }),
  );
  const invite = (vaults: string[], name: string) =>
    value(ref.ask('invite.create', { name, vaults, ttlSeconds: 60, tokenTtlSeconds: null, by: operator }));
  const first = await invite(['gone', vault], 'both');
  const { token } = await value(
    ref.ask('invite.redeem', { hash: hashToken(first.token.reveal()), name: null, by: agent }),
  );
  const second = await invite(['gone'], 'late');
  await value(ref.ask('operator.create', { name: 'adm', role: 'admin', vaults: ['gone'], by: operator }));
  await value(
    ref.ask('proposal.create', {
      vault: 'gone',
      body: { services: [{ action: 'delete', host: 'a.example' }] },
      by: agent,
    }),
  );

  await value(ref.ask('vault.delete', { vault: 'gone', by: operator }));
  lane.drain();
  t.same(
    comparable(lane.known).filter(([key]) => !key.startsWith('session')),
    before,
    'lanes know nothing of it',
  );
  t.equal(await identify(running, session.token), null);
  t.match(await identify(running, token), { kind: 'agent', vaults: [vault] });
  t.same((await ref.ask('operator.list', {})).find(({ name }) => name === 'adm')?.vaults, []);
  t.match(await value(ref.ask('proposal.get', { id: 1 })), { status: 'cancelled', vault: 'gone' });
  t.match(running.events.at(-1), { type: 'proposal.cancelled', vault: 'gone', actor: agent.actor });
  t.match(
    await refusal(
      ref.ask('invite.redeem', { hash: hashToken(second.token.reveal()), name: null, by: agent }),
    ),
    { code: 'gone' },
  );
  await value(ref.ask('vault.create', { name: 'gone', by: operator }));
  t.same(await value(ref.ask('credential.list', { vault: 'gone' })), { keys: [] }, 'the name starts afresh');
  t.match(await refusal(ref.ask('proposal.get', { id: 1, vault: 'gone' })), { code: 'not_found' });
  for await (const { table, key } of running.store.load())
    if (table === 'services' || table === 'credentials' || table === 'sessions')
      t.fail(`${table} ${key} is left`);
});

t.test('services: upsert, replace, enable, remove, clear', async (t) => {
  const running = await startVault(t);
  const { vault: ref } = running;
  await store(running, { A: 'x' });
  const list = await setServices(running, [
    { host: 'B.example.', auth: bearer('A'), description: 'b' },
    { host: '*.c.example:8443', auth: passthrough },
    { host: 'a.example', auth: passthrough },
  ]);
  t.same(
    list.map(({ host }) => host),
    ['b.example', '*.c.example:8443', 'a.example'],
    'canonical, in their order',
  );
  t.same(await setServices(running, [{ host: 'b.example', auth: passthrough }]), [
    { host: 'b.example', description: 'b', auth: passthrough },
    ...list.slice(1),
  ]);
  t.same(await value(ref.ask('service.enable', { vault, host: 'B.EXAMPLE', enabled: false, by: operator })), {
    host: 'b.example',
    description: 'b',
    auth: passthrough,
    enabled: false,
  });
  t.match(await setServices(running, [{ host: 'b.example', auth: bearer('A') }]), [
    { enabled: false },
    {},
    {},
  ]);
  const again = await value(
    ref.ask('service.enable', { vault, host: 'b.example', enabled: true, by: operator }),
  );
  t.notOk('enabled' in again);

  const refusals: [services: object[], problem: Partial<Problem>][] = [
    [
      [{ host: 'x.example', auth: bearer('NONE') }],
      { code: 'unresolved_credential', extra: { key: 'NONE', field: 'services[0].auth.token' } },
    ],
    [[{ host: 'x.example' }], { code: 'invalid_request', extra: { field: 'services[0].auth' } }],
    [
      [
        { host: 'a.example', auth: passthrough },
        { host: 'A.example', auth: passthrough },
      ],
      { code: 'invalid_request' },
    ],
    [
      [{ host: '*.com', auth: passthrough }],
      { code: 'invalid_request', extra: { field: 'services[0].host' } },
    ],
  ];
  const before = await snapshot(ref);
  for (const mode of ['replace', 'upsert'] as const)
    for (const [services, problem] of refusals) {
      const message = { vault, mode, services: services as never, by: operator };
      t.match(await refusal(ref.ask('service.set', message)), problem);
    }
  t.same(await snapshot(ref), before, 'all or nothing');

  const replaced = await setServices(
    running,
    [{ host: 'z.example', auth: passthrough }, list[2], list[1]],
    'replace',
  );
  t.same(
    replaced,
    [{ host: 'z.example', auth: passthrough }, list[2], list[1]],
    'exactly these, in this order',
  );
  t.same(await value(ref.ask('service.remove', { vault, host: 'Z.example', by: operator })), null);
  for (const message of ['service.remove', 'service.enable'] as const)
    t.match(await refusal(ref.ask(message, { vault, host: 'z.example', enabled: true, by: operator })), {
      code: 'not_found',
    });

  await value(ref.ask('service.clear', { vault, by: operator }));
  t.match(await value(ref.ask('vault.get', { vault })), { cleared: true, counters: { services: 0 } });
  await setServices(running, [], 'replace');
  t.match(await value(ref.ask('vault.get', { vault })), { cleared: true }, 'nothing set, still cleared');
  await setServices(running, [{ host: 'a.example', auth: passthrough }]);
  t.match(await value(ref.ask('vault.get', { vault })), { cleared: false });
});

t.test('discovery shows what an agent needs, and no value', async (t) => {
  const running = await startVault(t);
  await store(running, { KEY_B: 'secret-b', KEY_A: 'secret-a' });
  const substitutions = [
    { key: 'KEY_A', placeholder: '__a__' },
    { key: 'KEY_B', placeholder: '__b__', in: ['header'] as const },
  ];
  await setServices(running, [
    { host: 'a.example', auth: bearer('KEY_B'), substitutions, description: 'A' },
    { host: 'b.example', auth: passthrough, enabled: false },
  ]);
  t.same(await value(running.vault.ask('discover', { vault })), {
    vault,
    services: [
      {
        host: 'a.example',
        description: 'A',
        enabled: true,
        auth_type: 'bearer',
        substitutions: [
          { placeholder: '__a__', in: ['path', 'query'] },
          { placeholder: '__b__', in: ['header'] },
        ],
      },
      { host: 'b.example', description: '', enabled: false, auth_type: 'passthrough', substitutions: [] },
    ],
    available_credentials: ['KEY_A', 'KEY_B'],
  });
});

t.test('credentials: who may set and delete what', async (t) => {
  const running = await startVault(t);
  const { vault: ref } = running;
  const put = (values: Record<string, string>, by = agent) =>
    ref.ask('credential.set', { vault, values: secrets(values), byAgent: by !== operator, by });
  await store(running, { HUMAN: 'h' });
  t.same(await value(put({ B: '1', A: '2' })), { set: ['B', 'A'] });
  t.same(await value(put({ A: '3' })), { set: ['A'] }, 'its own');
  t.match(await refusal(put({ NEW: 'x', HUMAN: 'x' })), {
    code: 'credential_exists',
    extra: { key: 'HUMAN' },
  });
  t.match(await refusal(put({ A: 'x' }, other)), { code: 'credential_exists' }, 'another agent’s');
  t.same(await value(put({ A: '4' }, operator)), { set: ['A'] }, 'an operator sets any');
  t.match(await refusal(put({ A: 'x' })), { code: 'credential_exists' }, 'the operator’s now');
  t.same(await value(ref.ask('credential.list', { vault })), { keys: ['A', 'B', 'HUMAN'] });

  for (const key of ['a', '1A', '', 'A-B', 'A'.repeat(129), '__proto__'])
    t.match(await refusal(put({ [key]: 'x' }, operator)), { code: 'invalid_request' }, JSON.stringify(key));
  for (const text of ['', 'x'.repeat(65_537), 'é'.repeat(32_769), '\ud800'])
    t.match(await refusal(put({ A: text }, operator)), {
      code: 'invalid_request',
      extra: { field: 'credentials.A' },
    });
  t.match(await refusal(put({}, operator)), { code: 'invalid_request' });

  const lane = await attachLane(ref);
  const texts = [
    'x',
    'x'.repeat(65_536),
    'é'.repeat(32_768),
    '-----BEGIN\r\nline\n\u0000\u{1f600} \t',
    ' a ',
  ];
  for (const text of texts) {
    await value(put({ A: text }, operator));
    lane.drain();
    if (text === 'x') await refer(running, 'A');
    lane.drain();
    t.ok([...lane.known.values()].some((delta) => delta.type === 'credential' && delta.value === text));
  }

  await setServices(running, [{ host: 'a.example', auth: bearer('A') }]);
  const remove = (key: string, force = false) =>
    ref.ask('credential.delete', { vault, key, force, by: operator });
  t.match(await refusal(remove('A')), {
    code: 'credential_in_use',
    extra: { services: ['a.refers.example', 'a.example'] },
  });
  await value(remove('A', true));
  t.match(await refusal(remove('A')), { code: 'not_found' });
  await value(remove('B'));
  t.same(await value(ref.ask('credential.list', { vault })), { keys: ['HUMAN'] });
});

t.test('sessions', async (t) => {
  const running = await startVault(t);
  const { vault: ref } = running;
  const create = (ttlSeconds: number, label: string | null = null, name = vault) =>
    ref.ask('session.create', { vault: name, ttlSeconds, label, by: operator });
  await value(ref.ask('vault.create', { name: 'second', by: operator }));
  const session = await value(create(3600, 'build'));
  const { token, ...view } = session;
  t.match(token.reveal(), /^brk_ses_/);
  t.match(view, { vault, label: 'build', created_by: operator.actor, expires_at: iso(start + hour) });
  t.same(await identify(running, token), {
    kind: 'session',
    id: view.id,
    vault,
    label: 'build',
    expires_at_ms: start + hour,
  });
  t.equal(await running.vault.ask('identify', { hash: hashToken('x') }), null);
  for (const ttl of [59, 604_801, 60.5, Number.NaN, Number.POSITIVE_INFINITY])
    t.match(await refusal(create(ttl)), { code: 'invalid_request', extra: { field: 'ttl_seconds' } });
  t.match(await refusal(create(60, 'x'.repeat(201))), { extra: { field: 'label' } });

  const brief = await value(create(60, null, 'second'));
  t.same(await ref.ask('session.list', {}), [view, (({ token: _, ...rest }) => rest)(brief)]);
  t.match(await ref.ask('session.list', { vaults: ['second'] }), [{ id: brief.id }]);
  t.match(await refusal(ref.ask('session.revoke', { id: brief.id, vaults: [vault], by: operator })), {
    code: 'not_found',
  });

  const lane = await attachLane(ref);
  lane.drain();
  await running.clock.advance(59_999);
  t.ok(await identify(running, brief.token));
  await running.clock.advance(1);
  t.equal(await identify(running, brief.token), null, 'expired');
  t.match(lane.drain(), [{ deltas: [{ type: 'session-gone' }] }], 'and the lanes were told');
  await value(ref.ask('session.revoke', { id: view.id, by: operator }));
  t.equal(await identify(running, token), null, 'revoked');
  t.match(lane.drain(), [{ deltas: [{ type: 'session-gone' }] }]);
  t.match(await refusal(ref.ask('session.revoke', { id: view.id, by: operator })), { code: 'not_found' });
});

t.test('invites and agents', async (t) => {
  const running = await startVault(t);
  const { vault: ref } = running;
  await value(ref.ask('vault.create', { name: 'second', by: operator }));
  const invite = async (name: string | null, tokenTtlSeconds: number | null = 86_400) => {
    const vaults = [vault, 'second', vault];
    const made = await value(
      ref.ask('invite.create', { name, vaults, ttlSeconds: 3600, tokenTtlSeconds, by: operator }),
    );
    t.equal(made.expires_at, iso(running.clock.now() + hour));
    t.match(made.token.reveal(), /^brk_inv_/);
    return hashToken(made.token.reveal());
  };
  const redeem = (hash: string, name: string | null = null) =>
    ref.ask('invite.redeem', { hash, name, by: agent });

  const fixed = await invite('builder');
  t.match(await refusal(redeem(fixed, 'other')), { code: 'invalid_request', extra: { field: 'name' } });
  const joined = await value(redeem(fixed, 'builder'));
  t.same(joined.agent, {
    name: 'builder',
    vaults: [vault, 'second'],
    created_at: iso(start),
    expires_at: iso(start + 24 * hour),
  });
  t.match(await identify(running, joined.token), {
    kind: 'agent',
    name: 'builder',
    agent: { id: /^[0-9a-f]{16}$/, since: iso(start) },
    vaults: [vault, 'second'],
  });
  t.match(await refusal(redeem(fixed)), { code: 'gone' }, 'used');
  t.match(await refusal(redeem(hashToken('x'))), { code: 'not_found' });
  const free = await invite(null, null);
  t.match(await refusal(redeem(free, 'builder')), { code: 'conflict' }, 'the name is taken');
  t.match(await refusal(redeem(free, '../x')), { code: 'invalid_request' });
  const unnamed = await value(redeem(free));
  t.match(unnamed.agent, { name: /^agent-[0-9a-f]{8}$/, expires_at: null });
  for (const bad of [
    { name: 'builder' },
    { name: 'a b' },
    { vaults: [] },
    { ttlSeconds: 0 },
    { tokenTtlSeconds: 0 },
  ]) {
    const good = { name: null, vaults: [vault], ttlSeconds: 60, tokenTtlSeconds: null, by: operator };
    t.match(await refusal(ref.ask('invite.create', { ...good, ...bad })), {
      code: /conflict|invalid_request/,
    });
  }
  const late = await invite(null);
  await running.clock.advance(hour);
  t.match(await refusal(redeem(late)), { code: 'gone' }, 'expired');
  await running.clock.advance(31 * 24 * hour);
  t.match(await refusal(redeem(late)), { code: 'not_found' }, 'and forgotten');
  t.equal(await identify(running, joined.token), null, 'its token has expired');
  t.same(
    (await ref.ask('agent.list', {})).map(({ name }) => name),
    ['builder', unnamed.agent.name],
  );
  await value(ref.ask('agent.remove', { name: unnamed.agent.name, by: operator }));
  t.equal(await identify(running, unnamed.token), null);
  t.match(await refusal(ref.ask('agent.remove', { name: unnamed.agent.name, by: operator })), {
    code: 'not_found',
  });
});

t.test('rotating an agent’s token', async (t) => {
  const running = await startVault(t);
  const { vault: ref } = running;
  const invite = { name: 'a', vaults: [vault], ttlSeconds: 60, tokenTtlSeconds: 86_400, by: operator };
  const { token: invitation } = await value(ref.ask('invite.create', invite));
  const hash = hashToken(invitation.reveal());
  const first = (await value(ref.ask('invite.redeem', { hash, name: null, by: agent }))).token;
  const rotate = (overlapSeconds: number) =>
    ref.ask('agent.rotate', { name: 'a', overlapSeconds, by: operator });
  t.match(await refusal(rotate(-1)), { extra: { field: 'overlap_seconds' } });
  t.match(await refusal(ref.ask('agent.rotate', { name: 'b', overlapSeconds: 0, by: operator })), {
    code: 'not_found',
  });
  const lane = await attachLane(ref);
  lane.drain();
  const second = await value(rotate(600));
  t.equal(second.expires_at, iso(start + 24 * hour));
  t.ok((await identify(running, first)) && (await identify(running, second.token)), 'both');
  lane.drain();
  const sessions = [...lane.known.values()].flatMap((delta) => (delta.type === 'session' ? delta : []));
  t.match(sessions, [
    { id: 'a', expires_at_ms: start + 600_000 },
    { id: 'a', kind: 'agent' },
  ]);
  t.same(sessions[0].vaults, sessions[1].vaults, 'one rate limit for both');
  await running.clock.advance(600_000);
  t.equal(await identify(running, first), null);
  t.match(lane.drain(), [{ deltas: [{ type: 'session-gone' }, { type: 'session' }] }]);
  const third = await value(rotate(600));
  const fourth = await value(rotate(0));
  t.equal(await identify(running, second.token), null, 'two rotations back');
  t.equal(await identify(running, third.token), null, 'no overlap');
  t.ok(await identify(running, fourth.token));
});

t.test('operators', async (t) => {
  const running = await startVault(t);
  const { vault: ref } = running;
  const create = (name: string) =>
    ref.ask('operator.create', { name, role: 'admin', vaults: [vault], by: operator });
  await value(create('ann'));
  t.match(await refusal(create('ann')), { code: 'conflict' });
  t.match(await refusal(create('')), { code: 'invalid_request' });
  t.same(await ref.ask('operator.list', {}), [
    { name: 'owner', role: 'owner', vaults: [] },
    { name: 'ann', role: 'admin', vaults: [vault] },
  ]);
  t.equal(await ref.ask('operator.passwordHash', { name: 'ann' }), null);
  t.equal(await ref.ask('operator.passwordHash', { name: 'nobody' }), null);
  await value(ref.ask('operator.password', { name: 'ann', encoded: 'scrypt$x', by: operator }));
  t.equal(await ref.ask('operator.passwordHash', { name: 'ann' }), 'scrypt$x');
  const nobody = { name: 'nobody', by: operator };
  t.match(await refusal(ref.ask('operator.password', { ...nobody, encoded: 'x' })), { code: 'not_found' });
  t.match(await refusal(ref.ask('operator.signIn', { ...nobody, kind: 'token' })), { code: 'not_found' });
  t.match(await refusal(ref.ask('operator.remove', nobody)), { code: 'not_found' });
  t.match(await refusal(ref.ask('operator.remove', { ...nobody, name: 'owner' })), { code: 'conflict' });

  const token = await signIn(running, 'ann', 'token');
  const cookie = await signIn(running, 'ann', 'cookie');
  t.same(await identify(running, token), {
    kind: 'operator',
    name: 'ann',
    role: 'admin',
    vaults: [vault],
    via: 'token',
    session: hashToken(token.reveal()),
  });
  t.match(await identify(running, cookie), { via: 'cookie' });
  await value(ref.ask('operator.signOut', { hash: hashToken(cookie.reveal()), by: operator }));
  t.equal(await identify(running, cookie), null);
  t.same(await value(ref.ask('operator.signOut', { hash: 'unknown', by: operator })), null);

  const link = await signIn(running, 'ann', 'login-link');
  t.equal(await identify(running, link), null, 'a link is no token');
  const use = () => ref.ask('operator.redeemLink', { hash: hashToken(link.reveal()), by: operator });
  const redeemed = await value(use());
  t.match([redeemed.name, await identify(running, redeemed.token)], ['ann', { via: 'cookie' }]);
  t.match(await refusal(use()), { code: 'gone' }, 'one use');
  t.match(
    await refusal(ref.ask('operator.redeemLink', { hash: hashToken(token.reveal()), by: operator })),
    { code: 'gone' },
    'a token is no link',
  );
  const slow = await signIn(running, 'ann', 'login-link');
  await running.clock.advance(600_000);
  t.match(await refusal(ref.ask('operator.redeemLink', { hash: hashToken(slow.reveal()), by: operator })), {
    code: 'gone',
  });

  const useCode = (name: string, code: Secret) => ref.ask('operator.useCode', { name, code, by: operator });
  const newCode = async () => (await value(ref.ask('operator.code', { name: 'ann', by: operator }))).code;
  const code = await newCode();
  t.match(code.reveal(), /^[0-9]{6}$/);
  t.match(await refusal(useCode('owner', code)), { code: 'unauthorized' }, 'it is one operator’s');
  t.same(await value(useCode('ann', code)), null);
  t.match(await refusal(useCode('ann', code)), { code: 'unauthorized' }, 'one use');
  const late = await newCode();
  await running.clock.advance(120_000);
  t.match(await refusal(useCode('ann', late)), { code: 'unauthorized' }, 'two minutes');
  t.equal(await identify(running, late), null);

  const originKey = 'K'.repeat(87);
  const bound = async () =>
    value(ref.ask('operator.signIn', { name: 'ann', kind: 'cookie', originKey, by: operator }));
  const [first, second] = [await bound(), await bound()];
  t.equal(await identify(running, first.token), null, 'a key has one session');
  t.match(await identify(running, second.token), { originKey });
  t.match(await ref.ask('operator.byKey', { originKey }), { name: 'ann', originKey });
  const resumed = await value(ref.ask('operator.resume', { originKey, by: operator }));
  t.equal(await identify(running, second.token), null, 'another cookie in its place');
  t.match(await identify(running, resumed.token), { originKey });

  await value(ref.ask('operator.remove', { name: 'ann', by: operator }));
  t.equal(await ref.ask('operator.byKey', { originKey }), null);
  t.match(await refusal(ref.ask('operator.resume', { originKey, by: operator })), { code: 'unauthorized' });
  t.equal(await identify(running, token), null, 'removed, and signed out with that');
});

t.test('an operator’s 12 hours slide; the file’s token stays', async (t) => {
  const running = await startVault(t);
  const token = await signIn(running, 'owner', 'token');
  const idle = await signIn(running, 'owner', 'cookie');
  for (let i = 0; i < 4; i++) {
    await running.clock.advance(11 * hour);
    t.ok(await identify(running, token), `${11 * (i + 1)} h`);
  }
  t.equal(await identify(running, idle), null);
  await running.clock.advance(12 * hour);
  t.equal(await identify(running, token), null);
  const file = filesUnder(running.path).find((each) => each.file.endsWith('owner.token'));
  const owner = new Secret(file?.bytes.toString().trim() ?? '');
  t.match(await identify(running, owner), { name: 'owner', role: 'owner', via: 'file' });
  const signOut = running.vault.ask('operator.signOut', { hash: hashToken(owner.reveal()), by: operator });
  t.match(await refusal(signOut), { code: 'conflict' });
});
