/** The routes of operators and of credentials, over real sockets, on the real vault. */
import t from 'tap';
import { mintToken } from '../../src/actors/vault/token.ts';
import { startBroker } from './start-front.ts';

const bearer = (host: string, token: string) => ({ host, auth: { type: 'bearer', token } });
t.test('health, readiness, root, guide', async (t) => {
  let ready = false;
  let draining = false;
  const broker = await startBroker({
    alter: ({ health }) => ({ health: { ...health, ready: () => ready, draining: () => draining } }),
  });
  t.teardown(broker.stop);
  t.match(await broker.ask('GET', '/health'), { status: 200, text: '{"status":"ok"}' });
  t.match(await broker.ask('GET', '/ready'), {
    status: 503,
    json: { error: 'overloaded' },
    headers: { 'retry-after': '1' },
  });
  ready = true;
  t.match(await broker.ask('GET', '/ready'), { status: 200, text: '{"status":"ok"}' });
  draining = true;
  t.match(await broker.ask('GET', '/ready'), { status: 503, json: { message: /stopping/ } });
  t.match(await broker.ask('GET', '/v1/ca.pem'), {
    status: 200,
    text: /^-----BEGIN CERTIFICATE-----/,
    headers: { 'x-broker-proxy-port': String(broker.proxyPort) },
  });
  const guide = await broker.ask('GET', '/v1/skill.md');
  t.match(guide, { status: 200, headers: { 'content-type': /^text\/markdown/ } });
  for (const word of [
    broker.baseUrl,
    'BROKER_SESSION_TOKEN',
    '/discover',
    '/v1/proposals',
    '?wait=',
    'Retry-After',
  ]) {
    t.ok(guide.text.includes(word), word);
  }
  const head = await broker.ask('HEAD', '/health');
  t.match(head, { status: 200, text: '', headers: { 'content-length': '15' } });
  t.match((await broker.ask('GET', '/health')).headers, {
    'cache-control': 'no-store',
    'content-security-policy': /frame-ancestors 'none'/,
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'x-request-id': /./,
    uwebsockets: undefined,
    server: undefined,
    'strict-transport-security': undefined,
  });
  t.match(await broker.ask('GET', '/v1/nothing', { token: broker.operator }), {
    status: 404,
    json: { error: 'not_found' },
  });
});

t.test('vaults and services', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const ask = (method: string, path: string, body?: unknown) =>
    broker.ask(method, path, { token: broker.operator, body });

  t.match(await ask('POST', '/v1/vaults', { name: 'v1' }), {
    status: 201,
    json: { name: 'v1', cleared: false },
  });
  t.match(await ask('POST', '/v1/vaults', { name: 'v1' }), { status: 409, json: { error: 'conflict' } });
  t.match(await ask('POST', '/v1/vaults', { name: 'V 1' }), { status: 400, json: { field: 'name' } });
  t.same(
    (await ask('GET', '/v1/vaults')).json.vaults.map(({ name }: { name: string }) => name),
    ['default', 'v1'],
  );
  t.match(await ask('PATCH', '/v1/vaults/v1', { unmatched_host_policy: 'deny' }), {
    status: 200,
    json: { name: 'v1', unmatched_host_policy: 'deny' },
  });
  t.match(await ask('PATCH', '/v1/vaults/v1', { unmatched_host_policy: 'no' }), {
    status: 400,
    json: { field: 'unmatched_host_policy' },
  });
  t.match(await ask('PATCH', '/v1/vaults/v1', { odd: 1 }), { status: 400, json: { field: 'odd' } });
  t.match(await ask('GET', '/v1/vaults/v1'), { status: 200, json: { unmatched_host_policy: 'deny' } });
  t.match(await ask('GET', '/v1/vaults/v9'), { status: 404, json: { error: 'not_found' } });

  const services = '/v1/vaults/v1/services';
  t.match(await ask('PUT', services, { services: [bearer('a.example', 'K')] }), {
    status: 400,
    json: { error: 'unresolved_credential', key: 'K', field: 'services[0].auth.token' },
  });
  await broker.ask('POST', '/v1/credentials', {
    token: broker.operator,
    vault: 'v1',
    body: { credentials: { K: 'x' } },
  });
  t.match(
    await ask('PUT', services, { services: [bearer('A.example.', 'K'), bearer('*.b.example:8443', 'K')] }),
    {
      status: 200,
      json: { services: [{ host: 'a.example' }, { host: '*.b.example:8443' }] },
    },
  );
  t.match(await ask('POST', services, { services: [bearer('c.example', 'K')] }), {
    status: 200,
    json: { services: { length: 3 } },
  });
  t.match(await ask('PUT', services, { services: [{ ...bearer('a.example', 'K'), odd: 1 }] }), {
    status: 400,
    json: { field: 'services[0].odd' },
  });
  t.match(await ask('PUT', services, { services: {} }), { status: 400, json: { field: 'services' } });
  t.match(
    await ask('PUT', services),
    { status: 400, json: { error: 'invalid_request', field: 'services' } },
    'an empty body is no list',
  );
  t.match(await ask('PATCH', `${services}/%2A.b.example%3A8443`, { enabled: false }), {
    status: 200,
    json: { host: '*.b.example:8443', enabled: false },
  });
  t.match(await ask('PATCH', `${services}/c.example`, { enabled: 0 }), {
    status: 400,
    json: { field: 'enabled' },
  });
  t.match(await ask('DELETE', `${services}/C.example`), { status: 204, text: '' });
  t.match(await ask('DELETE', `${services}/c.example`), { status: 404 });
  t.match(await ask('GET', services), {
    status: 200,
    json: { services: [{ host: 'a.example' }, { enabled: false }] },
  });
  t.match(await ask('DELETE', services), { status: 204 });
  t.match(await ask('GET', '/v1/vaults/v1'), { json: { cleared: true, counters: { services: 0 } } });

  t.match(await ask('DELETE', '/v1/vaults/v1'), { status: 400, json: { field: 'confirm' } });
  t.match(await ask('DELETE', '/v1/vaults/v1?confirm=v2'), { status: 400, json: { field: 'confirm' } });
  t.match(await ask('DELETE', '/v1/vaults/v1?confirm=v1'), { status: 204 });
  t.match(await ask('DELETE', '/v1/vaults/default?confirm=default'), { status: 409 });
});

t.test('credentials: set and listed, never read (EXF-015)', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const { operator } = broker;
  const first = await broker.session();
  const second = await broker.session();
  const set = (token: string, credentials: unknown, vault?: string) =>
    broker.ask('POST', '/v1/credentials', { token, vault, body: { credentials } });

  t.match(await set(operator, { HUMAN: 'human value' }, 'default'), {
    status: 200,
    json: { set: ['HUMAN'] },
  });
  t.match(await set(first, { AGENT: 'one' }), { status: 200, json: { set: ['AGENT'] } });
  t.match(await set(first, { AGENT: 'two' }), { status: 200 }, 'its own');
  t.match(await set(first, { HUMAN: 'stolen' }), {
    status: 409,
    json: { error: 'credential_exists', key: 'HUMAN' },
  });
  t.match(await set(second, { AGENT: 'three' }), { status: 409 }, "another agent's");
  t.match(await set(first, { NEW: 'x', HUMAN: 'y' }), { status: 409 }, 'all or nothing');
  t.match(await broker.ask('GET', '/v1/credentials', { token: second }), {
    status: 200,
    json: { keys: ['AGENT', 'HUMAN'] },
  });
  for (const [credentials, field] of [
    [{ lower: 'x' }, 'credentials.lower'],
    [{ EMPTY: '' }, 'credentials.EMPTY'],
    [{ BIG: 'x'.repeat(65_537) }, 'credentials.BIG'],
    [{ NUMBER: 1 }, 'credentials.NUMBER'],
    [{}, 'credentials'],
    [[], 'credentials'],
  ] as const) {
    t.match(await set(first, credentials), { status: 400, json: { error: 'invalid_request', field } }, field);
  }
  const path = '/v1/credentials/HUMAN';
  t.match(await broker.ask('DELETE', path, { token: first }), { status: 403, json: { error: 'forbidden' } });
  t.match(await broker.ask('DELETE', path, { token: operator }), { status: 400, json: { field: 'X-Vault' } });
  const use = { services: [bearer('a.example', 'HUMAN')] };
  await broker.ask('PUT', '/v1/vaults/default/services', { token: operator, body: use });
  t.match(await broker.ask('DELETE', path, { token: operator, vault: 'default' }), {
    status: 409,
    json: { error: 'credential_in_use', services: ['a.example'] },
  });
  t.match(await broker.ask('DELETE', `${path}?force=true`, { token: operator, vault: 'default' }), {
    status: 204,
  });
  t.match(await broker.ask('DELETE', path, { token: operator, vault: 'default' }), { status: 404 });
});

t.test('sessions', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const { operator } = broker;
  const create = (body: unknown) => broker.ask('POST', '/v1/sessions', { token: operator, body });
  const made = await create({ vault: 'default', ttl_seconds: 60, label: 'build' });
  t.match(made, {
    status: 201,
    json: { id: /^\w+$/, token: /^brk_ses_/, vault: 'default', expires_at: /^20/ },
  });
  t.equal(made.json.proxy_url, `https://${made.json.token}:default@127.0.0.1:${broker.proxyPort}`);
  const { token, id } = made.json;
  t.match(await broker.ask('GET', '/discover', { token }), { status: 200 });
  t.match(await broker.ask('GET', '/v1/sessions', { token: operator }), {
    json: { sessions: [{ id, label: 'build', vault: 'default' }] },
  });
  t.notMatch((await broker.ask('GET', '/v1/sessions', { token: operator })).text, token);
  t.match(await broker.ask('GET', '/v1/sessions', { token }), { status: 403 });
  t.match(await broker.ask('DELETE', `/v1/sessions/${id}`, { token: operator }), { status: 204 });
  t.match(await broker.ask('DELETE', `/v1/sessions/${id}`, { token: operator }), { status: 404 });
  t.match(await broker.ask('GET', '/discover', { token }), { status: 401, json: { error: 'unauthorized' } });
  for (const [body, field] of [
    [{}, 'vault'],
    [{ vault: 'default', ttl_seconds: 59 }, 'ttl_seconds'],
    [{ vault: 'default', ttl_seconds: 604_801 }, 'ttl_seconds'],
    [{ vault: 'default', ttl_seconds: '60' }, 'ttl_seconds'],
    [{ vault: 'default', label: 'x'.repeat(201) }, 'label'],
  ] as const) {
    t.match(await create(body), { status: 400, json: { field } });
  }
  t.match(await create({ vault: 'nowhere' }), { status: 404 });
});

t.test('agents and invites', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const asOwner = (method: string, path: string, body?: unknown) =>
    broker.ask(method, path, { token: broker.operator, body });
  const invite = async (body: object) =>
    new URL((await asOwner('POST', '/v1/agents/invites', body)).json.invite_url).pathname;

  const path = await invite({ name: 'builder', vaults: ['default'] });
  t.match(path, /^\/invite\/brk_inv_/);
  t.match(await broker.ask('GET', path), {
    status: 405,
    headers: { allow: 'POST' },
    json: { message: /Use POST/ },
  });
  t.match(await broker.ask('POST', path, { body: { name: 'other' } }), {
    status: 400,
    json: { field: 'name' },
  });
  t.match(await broker.ask('POST', path, { body: { odd: 1 } }), { status: 400, json: { field: 'odd' } });
  t.match(await broker.ask('POST', path, { body: { name: 'x'.repeat(5000) } }), { status: 413 });
  const joined = await broker.ask('POST', path, { body: '' });
  t.match(joined, {
    status: 201,
    json: {
      BROKER_ADDR: broker.baseUrl,
      BROKER_SESSION_TOKEN: /^brk_agt_/,
      agent: 'builder',
      vaults: ['default'],
      proxy_port: broker.proxyPort,
      ca_url: `${broker.baseUrl}/v1/ca.pem`,
      instructions: /X-Vault/,
    },
  });
  t.match(await broker.ask('POST', path), { status: 410, json: { error: 'gone' } });
  t.match(await broker.ask('POST', `/invite/${mintToken('invite').token.reveal()}`), { status: 404 });
  t.match(await broker.ask('POST', '/invite/nonsense'), { status: 404 });
  const again = await invite({ vaults: ['default'] });
  t.match(await broker.ask('POST', again, { body: { name: 'builder' } }), {
    status: 409,
    json: { error: 'conflict' },
  });
  t.match(
    await broker.ask('POST', again, { body: { name: 'second' } }),
    { status: 201, json: { agent: 'second' } },
    'not burnt by that',
  );

  t.match(await asOwner('GET', '/v1/agents'), {
    json: { agents: [{ name: 'builder', vaults: ['default'], expires_at: /^20/ }, { name: 'second' }] },
  });
  const old = joined.json.BROKER_SESSION_TOKEN;
  const rotated = await asOwner('POST', '/v1/agents/builder/rotate', { overlap_seconds: 60 });
  t.match(rotated, { status: 200, json: { token: /^brk_agt_/, expires_at: /^20/ } });
  const discover = (token: string) => broker.ask('GET', '/discover', { token, vault: 'default' });
  t.match([await discover(old), await discover(rotated.json.token)], [{ status: 200 }, { status: 200 }]);
  const third = await asOwner('POST', '/v1/agents/builder/rotate');
  t.match([await discover(old), await discover(third.json.token)], [{ status: 401 }, { status: 200 }]);
  t.match(await asOwner('DELETE', '/v1/agents/builder'), { status: 204 });
  t.match(await discover(third.json.token), { status: 401 });
  t.match(await asOwner('DELETE', '/v1/agents/builder'), { status: 404 });
  for (const [body, field] of [
    [{}, 'vaults'],
    [{ vaults: [] }, 'vaults'],
    [{ vaults: ['default'], name: '../x' }, 'name'],
    [{ vaults: ['default'], ttl_seconds: 0 }, 'ttl_seconds'],
    [{ vaults: ['default'], ttl_seconds: 2_592_001 }, 'ttl_seconds'],
    [{ vaults: ['default'], token_ttl_seconds: 0 }, 'token_ttl_seconds'],
    [{ vaults: ['default'], token_ttl_seconds: 'ever' }, 'token_ttl_seconds'],
  ] as const) {
    t.match(await asOwner('POST', '/v1/agents/invites', body), { status: 400, json: { field } }, field);
  }
  const forever = await broker.ask(
    'POST',
    await invite({ name: 'forever', vaults: ['default'], token_ttl_seconds: null }),
  );
  t.equal(forever.json.expires_at, null);
  for (const [ttl_seconds, token_ttl_seconds] of [
    [1, 1],
    [2_592_000, 316_224_000],
  ]) {
    const body = { vaults: ['default'], ttl_seconds, token_ttl_seconds };
    t.match(await asOwner('POST', '/v1/agents/invites', body), { status: 201 }, `${ttl_seconds} s`);
  }
  const never = await invite({ name: 'too', vaults: ['default'], token_ttl_seconds: 'never' });
  t.equal((await broker.ask('POST', never)).json.expires_at, null);
});
