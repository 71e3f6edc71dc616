/**
 * Endpoints and HTTP API: every route that there is, over a real broker. Each answer is held against the broker's own
 * description of it (`contract.ts`), its status and shape included; here stands what it means.
 */
import { request } from 'node:http';
import t from 'tap';
import { hashToken } from '../../src/actors/vault/token.ts';
import { type Contract, startContract } from './contract.ts';

let api: Contract;
/** A session's and an agent's token. */
let session: string;
let agent: string;

const bearer = (host: string, token: string) => ({ host, auth: { type: 'bearer', token } });
const setting = (host: string, token: string) => ({ action: 'set', ...bearer(host, token) });
const slot = (key: string) => ({ action: 'set', key });

t.before(async () => {
  api = await startContract(t);
  await api.own('POST', '/v1/vaults', { name: 'dev' });
});

t.test('health, readiness, metrics, root, description, guide: for anyone, but for metrics', async (t) => {
  t.match(await api.ask('GET', '/health'), { status: 200, text: '{"status":"ok"}' });
  t.match(await api.ask('GET', '/ready'), { status: 200, text: '{"status":"ok"}' });
  const root = await api.ask('GET', '/v1/ca.pem');
  t.match(root, { status: 200, text: /^-----BEGIN CERTIFICATE-----\n/ });
  t.equal(root.headers['x-broker-proxy-port'], String(api.broker.proxyPort));
  t.match(await api.ask('GET', '/v1/openapi.json'), { status: 200, json: { openapi: '3.1.0' } });
  t.match(await api.ask('GET', '/v1/skill.md'), {
    status: 200,
    headers: { 'content-type': /^text\/markdown/ },
  });
  const name = hashToken(api.owner).slice(0, 16);
  const port = Number(new URL(api.broker.address).port);
  const question = { token: name, nonce: '0'.repeat(64), host: '127.0.0.1', port, address: '127.0.0.1' };
  t.match(await api.ask('POST', '/v1/prove', { body: question }), {
    status: 200,
    json: { proof: /^[0-9a-f]{64}$/ },
  });
  t.match(await api.ask('POST', '/v1/prove', { body: { ...question, port: 1 } }), { status: 421 });
  t.match(await api.ask('GET', '/metrics'), { status: 401 });
  t.match(await api.own('GET', '/metrics'), { status: 200, text: /^# HELP /m });
});

t.test('vaults', async (t) => {
  t.match(await api.own('GET', '/v1/vaults'), { json: { vaults: [{ name: 'default' }, { name: 'dev' }] } });
  t.match(await api.own('POST', '/v1/vaults', { name: 'gone' }), {
    status: 201,
    json: {
      name: 'gone',
      unmatched_host_policy: 'passthrough',
      unmatched_tls: 'intercept',
      require_tls: false,
      cleared: false,
    },
  });
  t.match(await api.own('POST', '/v1/vaults', { name: 'gone' }), {
    status: 409,
    json: { error: 'conflict' },
  });
  for (const name of ['', 'Gone', 'a_b', 'x'.repeat(65)])
    t.match(await api.own('POST', '/v1/vaults', { name }), { status: 400, json: { field: 'name' } }, name);
  t.match(await api.own('PATCH', '/v1/vaults/gone', { unmatched_host_policy: 'deny' }), {
    status: 200,
    json: { name: 'gone', unmatched_host_policy: 'deny' },
  });
  const limited = { rate_limit: { rps: 5 }, unmatched_tls: 'tunnel', require_tls: true };
  t.match(await api.own('PATCH', '/v1/vaults/gone', limited), {
    json: { ...limited, unmatched_host_policy: 'deny' },
  });
  t.match(await api.own('PATCH', '/v1/vaults/gone', { rate_limit: null }), { json: { rate_limit: null } });
  t.match(await api.own('GET', '/v1/vaults/gone'), {
    json: { require_tls: true, counters: { services: 0 } },
  });
  t.match(await api.own('DELETE', '/v1/vaults/gone'), { status: 400, json: { field: 'confirm' } });
  t.match(await api.own('DELETE', '/v1/vaults/gone?confirm=gone'), { status: 204, text: '' });
  t.match(await api.own('GET', '/v1/vaults/gone'), { status: 404 });
  t.match(await api.own('DELETE', '/v1/vaults/default?confirm=default'), { status: 409 });
});

t.test('sessions', async (t) => {
  const made = await api.own('POST', '/v1/sessions', { vault: 'dev', ttl_seconds: 60, label: 'build' });
  t.match(made, { status: 201, json: { vault: 'dev', label: 'build' } });
  t.ok(Math.abs(Date.parse(made.json.expires_at) - Date.now() - 60_000) < 30_000, 'for as long as was asked');
  session = made.json.token;
  t.equal(made.json.proxy_url, `https://${session}:dev@127.0.0.1:${api.broker.proxyPort}`);
  const usual = await api.own('POST', '/v1/sessions', { vault: 'dev' });
  t.ok(Math.abs(Date.parse(usual.json.expires_at) - Date.now() - 86_400_000) < 60_000, 'or a day');
  for (const ttl_seconds of [59, 604_801])
    t.match(await api.own('POST', '/v1/sessions', { vault: 'dev', ttl_seconds }), {
      status: 400,
      json: { field: 'ttl_seconds' },
    });
  t.match(await api.own('POST', '/v1/sessions', { vault: 'nowhere' }), { status: 404 });
  const listed = await api.own('GET', '/v1/sessions');
  t.match(
    listed.json.sessions.find(({ id }: { id: string }) => id === made.json.id),
    { vault: 'dev', label: 'build', created_by: 'operator:owner' },
  );
  t.notMatch(listed.text, /brk_/);
  t.match(await api.own('DELETE', `/v1/sessions/${usual.json.id}`), { status: 204, text: '' });
  t.match(await api.own('DELETE', `/v1/sessions/${usual.json.id}`), { status: 404 });
  t.match(await api.ask('GET', '/discover', { token: usual.json.token }), { status: 401 }, 'and it is over');
});

t.test('invites and agents: POST {invite_url}', async (t) => {
  const wanted = { name: 'ci', vaults: ['dev', 'default'], ttl_seconds: 600, token_ttl_seconds: 3600 };
  const invite = await api.own('POST', '/v1/agents/invites', wanted);
  t.match(invite, {
    status: 201,
    json: { invite_url: new RegExp(`^${api.broker.address}/invite/brk_inv_`) },
  });
  const path = new URL(invite.json.invite_url).pathname;
  const looked = await api.ask('GET', path);
  t.match(
    looked,
    { status: 405, json: { message: /Use POST/ }, headers: { allow: 'POST' } },
    'looking burns nothing',
  );
  t.match(await api.ask('POST', path, { body: { name: 'another' } }), {
    status: 400,
    json: { field: 'name' },
  });
  const joined = await api.ask('POST', path, { body: {} });
  t.match(joined, {
    status: 201,
    json: {
      BROKER_ADDR: api.broker.address,
      agent: 'ci',
      vaults: ['dev', 'default'],
      proxy_port: api.broker.proxyPort,
      ca_url: `${api.broker.address}/v1/ca.pem`,
      instructions: /BROKER_SESSION_TOKEN.*X-Vault.*\/v1\/skill\.md/,
    },
  });
  agent = joined.json.BROKER_SESSION_TOKEN;
  t.match(await api.ask('POST', path), { status: 410, json: { error: 'gone' } });
  t.match(await api.ask('POST', path.replace(/.{8}$/, '00000000')), {
    status: 404,
    json: { error: 'not_found' },
  });
  const nameless = await api.own('POST', '/v1/agents/invites', { vaults: ['dev'] });
  const again = new URL(nameless.json.invite_url).pathname;
  t.match(await api.ask('POST', again, { body: { name: 'ci' } }), {
    status: 409,
    json: { error: 'conflict' },
  });
  t.match(
    await api.ask('POST', again),
    { status: 201, json: { agent: /^agent-[0-9a-f]{8}$/ } },
    'a name taken burned nothing',
  );
  t.match(await api.own('POST', '/v1/agents/invites', { name: 'ci', vaults: ['dev'] }), { status: 409 });
  t.match(await api.own('POST', '/v1/agents/invites', { vaults: [] }), {
    status: 400,
    json: { field: 'vaults' },
  });
  t.match(await api.own('POST', '/v1/agents/invites', { vaults: ['nowhere'] }), { status: 404 });

  const { agents } = (await api.own('GET', '/v1/agents')).json;
  t.match(
    agents.find(({ name }: { name: string }) => name === 'ci'),
    { vaults: ['dev', 'default'] },
  );
  const rotated = await api.own('POST', '/v1/agents/ci/rotate', { overlap_seconds: 60 });
  t.match(rotated, { status: 200, json: { agent: 'ci' } });
  for (const token of [agent, rotated.json.token])
    t.match(
      await api.ask('GET', '/discover', { token, vault: 'dev' }),
      { status: 200 },
      'both work for a while',
    );
  const once = await api.own('POST', '/v1/agents/ci/rotate');
  for (const [token, status] of [
    [agent, 401],
    [rotated.json.token, 401],
    [once.json.token, 200],
  ] as const)
    t.match(await api.ask('GET', '/discover', { token, vault: 'dev' }), { status });
  agent = once.json.token;
  const doomed = agents.find(({ name }: { name: string }) => name !== 'ci').name;
  t.match(await api.own('DELETE', `/v1/agents/${doomed}`), { status: 204, text: '' });
  t.match(await api.own('DELETE', `/v1/agents/${doomed}`), { status: 404 });
});

t.test('credentials: agents store them back, nobody reads them', async (t) => {
  const set = (token: string, credentials: object, vault?: string) =>
    api.ask('POST', '/v1/credentials', { token, vault, body: { credentials } });
  t.match(await set(session, { BY_SESSION: 'one' }), { status: 200, json: { set: ['BY_SESSION'] } });
  t.match(await set(session, { BY_SESSION: 'two' }), { status: 200 }, 'its own');
  t.match(await set(agent, { BY_AGENT: 'x' }, 'dev'), { status: 200 });
  t.match(await set(agent, { BY_SESSION: 'x' }, 'dev'), {
    status: 409,
    json: { error: 'credential_exists', key: 'BY_SESSION' },
  });
  t.match(
    await set(api.owner, { BY_SESSION: 'y', BY_HUMAN: 'z' }, 'dev'),
    { status: 200 },
    'an operator sets any',
  );
  const keys = ['BY_AGENT', 'BY_HUMAN', 'BY_SESSION'];
  for (const [token, vault] of [
    [session, undefined],
    [agent, 'dev'],
    [api.owner, 'dev'],
  ] as const)
    t.strictSame((await api.ask('GET', '/v1/credentials', { token, vault })).json, { keys });
  t.match(await api.own('DELETE', '/v1/credentials/BY_AGENT', undefined, 'dev'), { status: 204, text: '' });
  await api.own('PUT', '/v1/vaults/dev/services', { services: [bearer('used.test', 'BY_HUMAN')] });
  t.match(await api.own('DELETE', '/v1/credentials/BY_HUMAN', undefined, 'dev'), {
    status: 409,
    json: { error: 'credential_in_use', key: 'BY_HUMAN', services: ['used.test'] },
  });
  t.match(await api.own('DELETE', '/v1/credentials/BY_HUMAN?force=true', undefined, 'dev'), { status: 204 });
});

t.test('services of a vault, all and one', async (t) => {
  const path = '/v1/vaults/default/services';
  await api.own('POST', '/v1/credentials', { credentials: { K: 'v' } }, 'default');
  t.strictSame((await api.own('GET', path)).json, { services: [] });
  t.match(await api.own('PUT', path, { services: [bearer('A.test', 'K'), bearer('*.b.test:8443', 'K')] }), {
    status: 200,
    json: { services: [{ host: 'a.test' }, { host: '*.b.test:8443' }] },
  });
  t.match(await api.own('POST', path, { services: [{ host: 'c.test', auth: { type: 'passthrough' } }] }), {
    json: { services: { length: 3 } },
  });
  t.match(await api.own('POST', path, { services: [{ host: 'c.test', enabled: false }] }), {
    json: { services: [{}, {}, { enabled: false }] },
  });
  t.match(await api.own('PUT', path, { services: [bearer('a.test', 'NOWHERE')] }), {
    status: 400,
    json: { error: 'unresolved_credential', key: 'NOWHERE', field: 'services[0].auth.token' },
  });
  t.match(await api.own('PATCH', `${path}/%2A.b.test%3A8443`, { enabled: false }), {
    json: { host: '*.b.test:8443', enabled: false },
  });
  t.match(await api.own('PATCH', `${path}/*.b.test:8443`, { enabled: true }), { status: 200 });
  t.match(await api.own('DELETE', `${path}/c.test`), { status: 204, text: '' });
  t.match((await api.own('GET', path)).json.services, [{ host: 'a.test' }, { host: '*.b.test:8443' }]);
  t.match(await api.own('DELETE', path), { status: 204, text: '' });
  t.match(await api.own('GET', '/v1/vaults/default'), { json: { cleared: true, counters: { services: 0 } } });
});

t.test('GET /discover and POST /v1/explain', async (t) => {
  await api.own('POST', '/v1/credentials', { credentials: { K: 'v' } }, 'dev');
  const services = [
    { ...bearer('a.test', 'K'), description: 'The A', substitutions: [{ key: 'K', placeholder: '__k__' }] },
    { ...bearer('off.test', 'K'), enabled: false },
  ];
  await api.own('PUT', '/v1/vaults/dev/services', { services });
  const expected = {
    vault: 'dev',
    services: [
      {
        host: 'a.test',
        description: 'The A',
        enabled: true,
        auth_type: 'bearer',
        substitutions: [{ placeholder: '__k__', in: ['path', 'query'] }],
      },
      { host: 'off.test', description: '', enabled: false, auth_type: 'bearer', substitutions: [] },
    ],
    available_credentials: ['BY_SESSION', 'K'],
  };
  for (const [token, vault] of [
    [session, undefined],
    [agent, 'dev'],
    [api.owner, 'dev'],
  ] as const)
    t.strictSame((await api.ask('GET', '/discover', { token, vault })).json, expected);
  const explain = async (url: string, method?: string) =>
    (await api.ask('POST', '/v1/explain', { token: session, body: { method, url } })).json;
  t.match(await explain('https://a.test/x'), {
    vault: 'dev',
    method: 'GET',
    decision: 'inject',
    service: 'a.test',
    headers: ['Authorization'],
    keys: ['K'],
    error: null,
  });
  t.match(await explain('https://off.test/'), { decision: 'refuse', error: 'service_disabled', status: 403 });
  t.match(await explain('https://other.test/', 'POST'), {
    method: 'POST',
    decision: 'passthrough',
    service: null,
  });
  t.match(await explain('http://169.254.169.254/'), { decision: 'refuse', error: 'network_blocked' });
  t.match(await explain('https://a.test/__k__'), { keys: ['K'], decision: 'inject' });
  t.match(await explain('https://a.test/', 'TRACE'), {
    decision: 'refuse',
    error: 'method_not_allowed',
    status: 405,
  });
  t.match(await explain('https://a.test/', 'G T'), { error: 'invalid_request', field: 'method' });
  const blocked = await explain('http://169.254.169.254/');
  t.notMatch(blocked.reason, /metadata|link-local/, 'which range it is in is not for agents');
  t.match(await explain('a.test'), { error: 'invalid_request', field: 'url' });
});

t.test('proposals: create, look, wait, list, withdraw, reject, approve', async (t) => {
  const propose = (body: object, token = session, vault?: string) =>
    api.ask('POST', '/v1/proposals', { token, vault, body });
  const body = {
    services: [setting('p.test', 'P_KEY')],
    credentials: [slot('P_KEY')],
    message: 'm',
    user_message: 'u',
  };
  const made = await propose(body);
  const { id, approval_url } = made.json;
  t.match(made, { status: 201, json: { status: 'pending', vault: 'dev', message: approval_url } });
  t.match(approval_url, new RegExp(`^${api.broker.address}/approve/${id}\\?token=brk_apr_`));
  t.ok(Math.abs(Date.parse(made.json.expires_at) - Date.now() - 7 * 86_400_000) < 60_000);
  t.match(await propose({ services: [setting('p.test', 'NOWHERE')] }), {
    status: 400,
    json: { error: 'unresolved_credential', key: 'NOWHERE' },
  });
  t.match(
    await api.ask('POST', '/v1/proposals', { token: api.owner, vault: 'dev', body }),
    { status: 403 },
    'operators change the vault itself',
  );

  const look = (token: string, of = id, query = '', vault?: string) =>
    api.ask('GET', `/v1/proposals/${of}${query}`, { token, vault });
  const view = {
    id,
    status: 'pending',
    vault: 'dev',
    services: body.services,
    credentials: body.credentials,
    message: 'm',
    user_message: 'u',
    review_note: null,
    reviewed_by: null,
    reviewed_at: null,
  };
  t.match((await look(session)).json, view);
  t.match((await look(agent, id, '', 'dev')).json, view, 'another agent of the vault');
  t.match((await look(api.owner)).json, view);
  t.match(await look(agent, id, '', 'default'), { status: 404 });
  for (const wait of ['0', '61', 'x', '-1'])
    t.match(await look(session, id, `?wait=${wait}`), { status: 400, json: { field: 'wait' } }, wait);
  t.match(await look(session, id, '?wait=1'), { json: { status: 'pending' } }, 'the seconds pass');

  const waiting = look(session, id, '?wait=60');
  t.match(await api.own('POST', `/v1/proposals/${id}/approve`, {}), {
    status: 400,
    json: { field: 'credentials.P_KEY' },
  });
  t.match((await look(session)).json, { status: 'pending' }, 'a missing slot leaves it');
  t.match(await api.own('POST', `/v1/proposals/${id}/approve`, { credentials: { P_KEY: 'v' } }), {
    status: 200,
    json: { id, status: 'applied' },
  });
  t.match(
    (await waiting).json,
    { status: 'applied', reviewed_by: 'operator:owner' },
    'whoever waits hears of it',
  );
  t.match(
    await api.own('POST', `/v1/proposals/${id}/approve`, { credentials: { P_KEY: 'w' } }),
    { status: 200, json: { id, status: 'applied' } },
    'again: the same',
  );
  t.match(await api.own('POST', `/v1/proposals/${id}/reject`), {
    status: 409,
    json: { error: 'already_decided', status: 'applied' },
  });

  const second = (await propose({ credentials: [slot('Q')] }, agent, 'dev')).json.id;
  t.equal(second, id + 1, 'numbers count up');
  t.match(await api.own('POST', `/v1/proposals/${second}/reject`, { reason: 'Not now.' }), {
    status: 200,
    json: { id: second, status: 'rejected' },
  });
  t.match((await look(session, second)).json, { status: 'rejected', review_note: 'Not now.' });
  const third = (await propose({ credentials: [slot('Q')] })).json.id;
  t.match(
    await api.ask('DELETE', `/v1/proposals/${third}`, { token: agent, vault: 'dev' }),
    { status: 403, json: { error: 'forbidden' } },
    "not another's",
  );
  t.match(await api.ask('DELETE', `/v1/proposals/${third}`, { token: session }), {
    status: 200,
    json: { status: 'cancelled' },
  });
  t.match(await api.own('POST', `/v1/proposals/${third}/approve`, { credentials: { Q: 'v' } }), {
    status: 409,
    json: { status: 'cancelled' },
  });

  const ids = async (token: string, query = '', vault?: string) =>
    (await api.ask('GET', `/v1/proposals${query}`, { token, vault })).json.proposals.map(
      (each: { id: number }) => each.id,
    );
  t.same(await ids(session), [id, third], 'an agent its own');
  t.same(await ids(agent, '', 'dev'), [second]);
  t.same(await ids(api.owner), [id, second, third], 'an operator all');
  t.same(await ids(api.owner, '?status=rejected'), [second]);
  t.same(await ids(api.owner, '', 'default'), []);

  const existing = (await propose({ services: [setting('new.test', 'P_KEY')] })).json.id;
  const approval = `/v1/proposals/${existing}/approve`;
  const refused = await api.own('POST', approval, { confirm_existing: ['P_KEY'] });
  t.match(refused, {
    status: 409,
    json: {
      error: 'confirmation_required',
      review: { increases: [{ key: 'P_KEY', hosts: ['new.test'], ticked_by: 'confirm' }] },
    },
  });
  t.match(await api.own('GET', `/v1/proposals/${existing}`), {
    json: { review: { fingerprint: refused.json.review.fingerprint } },
  });
  t.match(await api.own('POST', approval, { confirm: refused.json.review.fingerprint }), { status: 200 });
  const elsewhere = await propose({ credentials: [slot('Q')] }, agent, 'default');
  t.equal(elsewhere.json.id, existing + 1, 'numbers count up across vaults');
  await api.own('POST', `/v1/proposals/${elsewhere.json.id}/reject`);
});

t.test('GET /approve/{id}: for whoever has the link, and only while it is pending', async (t) => {
  const made = await api.ask('POST', '/v1/proposals', {
    token: session,
    body: { credentials: [slot('SHOWN')], user_message: 'Please' },
  });
  const { pathname, search } = new URL(made.json.approval_url);
  t.match(await api.ask('GET', pathname + search), {
    status: 200,
    headers: { 'content-type': /^text\/html/ },
  });
  t.match(await api.ask('GET', pathname), { status: 404 });
  t.match(await api.ask('GET', `${pathname}?token=${session}`), { status: 404 });
  const token = search.slice('?token='.length);
  for (const path of ['/discover', pathname.replace('/approve', '/v1/proposals')])
    t.match(await api.ask('GET', path, { token }), { status: 401 }, 'the link opens nothing else');
  t.match(
    await api.ask('POST', `/v1/proposals/${made.json.id}/approve`, {
      token,
      body: { credentials: { SHOWN: 'v' } },
    }),
    { status: 401 },
  );
  await api.own('POST', `/v1/proposals/${made.json.id}/reject`);
  t.notSame((await api.ask('GET', pathname + search)).status, 200);
});

t.test('GET /v1/events: operators hear of their vaults, an agent of its own proposals', async (t) => {
  const port = Number(api.broker.address.split(':')[2]);
  const listen = async (token: string) => {
    const events: { type: string; vault: string }[] = [];
    const outgoing = request({
      host: '127.0.0.1',
      port,
      path: '/v1/events',
      headers: { authorization: `Bearer ${token}` },
    });
    await new Promise<void>((resolve) => {
      outgoing.on('response', (incoming) => {
        incoming.setEncoding('utf8').on('data', (text: string) => {
          for (const [, data] of text.matchAll(/^data: (.*)$/gm)) events.push(JSON.parse(data));
          resolve();
        });
        incoming.on('error', () => {});
      });
      outgoing.end();
    });
    t.teardown(() => outgoing.destroy());
    return events;
  };
  const [atOwner, atSession, atAgent] = [await listen(api.owner), await listen(session), await listen(agent)];
  const body = { credentials: [slot('EVENT')] };
  const { json } = await api.ask('POST', '/v1/proposals', { token: session, body });
  await api.ask('DELETE', `/v1/proposals/${json.id}`, { token: session });
  const next = await api.ask('POST', '/v1/proposals', { token: agent, vault: 'dev', body });
  await api.own('POST', `/v1/proposals/${next.json.id}/reject`);
  const last = await api.ask('POST', '/v1/proposals', { token: session, body });
  await api.own('POST', `/v1/proposals/${last.json.id}/approve`, { credentials: { EVENT: 'v' } });
  for (let tries = 0; tries < 200 && atOwner.length < 6; tries++)
    await new Promise((resolve) => setTimeout(resolve, 10));
  const types = (events: { type: string }[]) => events.map(({ type }) => type);
  const [created, cancelled, rejected, applied] = ['created', 'cancelled', 'rejected', 'applied'].map(
    (name) => `proposal.${name}`,
  );
  t.same(types(atOwner), [created, cancelled, created, rejected, created, applied]);
  t.same(types(atSession), [created, cancelled, created, applied]);
  t.same(types(atAgent), [created, rejected]);
  t.match(atOwner[0], { id: json.id, vault: 'dev', actor: /^session:/ });
  t.match(await api.ask('GET', '/v1/events', { token: session, vault: 'default' }), { status: 403 });
  t.match(await api.ask('GET', '/v1/events', { token: api.owner }), { status: 200, text: /^retry: / });
});

t.test('operators, sign-in, master password, backup, rotation', async (t) => {
  const password = 'correct horse battery';
  t.match(await api.own('POST', '/v1/operators', { name: 'ann', vaults: ['dev'], password }), {
    status: 201,
    json: { name: 'ann', role: 'admin', vaults: ['dev'] },
  });
  t.match(await api.own('POST', '/v1/operators', { name: 'ann' }), { status: 409 });
  t.match((await api.own('GET', '/v1/operators')).json, { operators: { length: 2 }, you: 'owner' });
  t.match(await api.ask('POST', '/v1/login', { body: { name: 'ann', password: 'wrong' } }), { status: 401 });
  const { json } = await api.ask('POST', '/v1/login', { body: { name: 'ann', password } });
  const token: string = json.token;
  t.same(
    (await api.ask('GET', '/v1/vaults', { token })).json.vaults.map(({ name }: { name: string }) => name),
    ['dev'],
    'what it administers',
  );
  t.match(await api.ask('POST', '/v1/operators', { token, body: { name: 'bob' } }), { status: 403 });
  t.match(await api.ask('POST', '/v1/login-links', { token }), {
    status: 201,
    json: { url: new RegExp(`^${api.broker.address}/login\\?token=brk_opr_`) },
  });
  t.match(await api.ask('POST', '/v1/login-codes', { token }), { status: 201, json: { code: /^[0-9]{6}$/ } });
  t.match(await api.own('PUT', '/v1/operators/ann/password', { password: `${password}!` }), { status: 204 });
  t.match(await api.ask('GET', '/v1/vaults', { token }), { status: 401 }, 'a new password signs out');
  const again = await api.ask('POST', '/v1/login', { body: { name: 'ann', password: `${password}!` } });
  t.match(await api.ask('POST', '/v1/logout', { token: again.json.token }), { status: 204 });
  t.match(await api.ask('GET', '/v1/vaults', { token: again.json.token }), { status: 401 });
  t.match(await api.own('DELETE', '/v1/operators/ann'), { status: 204 });
  t.match(await api.own('DELETE', '/v1/operators/owner'), { status: 409 });

  t.match(await api.own('PUT', '/v1/master-password', { new: password }), {
    status: 200,
    json: { source: 'password' },
  });
  t.match(await api.own('PUT', '/v1/master-password', { new: 'another one here' }), { status: 409 });
  t.match(await api.own('PUT', '/v1/master-password', { current: 'wrong' }), { status: 403 });
  t.match(await api.own('PUT', '/v1/master-password', { current: password }), { json: { source: 'file' } });
  t.match(await api.own('POST', '/v1/backup'), {
    status: 200,
    headers: { 'content-type': 'application/octet-stream' },
  });
  const before = (await api.ask('GET', '/v1/ca.pem')).text;
  t.match(await api.own('POST', '/v1/ca/rotate', {}), { status: 201 });
  const during = await api.ask('GET', '/v1/ca.pem');
  t.ok(
    during.text.startsWith(before.trimEnd()) && during.text.length > before.length,
    'the present root first, and the next',
  );
});

t.test('GET /v1/audit: every change by whom, newest last, in no vault but the one named', async (t) => {
  const read = async (query: string) => {
    const { text } = await api.own('GET', `/v1/audit${query}`);
    return text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
  };
  const all = await read('?limit=100000');
  t.match(all.at(-1), { action: 'ca.rotate', actor: 'operator:owner' });
  await api.own('PATCH', '/v1/vaults/dev', { require_tls: true });
  t.match(await read('?limit=1'), [{ action: 'vault.update' }], 'what was just done is there');
  t.ok(
    all.every((record, i) => i === 0 || record.time >= all[i - 1].time),
    'in order',
  );
  for (const action of [
    'vault.create',
    'session.create',
    'invite.redeem',
    'credential.set',
    'service.clear',
    'proposal.approve',
    'agent.rotate',
  ])
    t.ok(
      all.some((record) => record.action === action),
      action,
    );
  t.equal((await read('?limit=3')).length, 3);
  t.same(new Set((await read('?vault=dev')).map(({ vault }) => vault)), new Set(['dev']));
  const last = all.at(-1).time;
  t.ok((await read(`?since=${encodeURIComponent(last)}`)).every(({ time }) => time >= last));
  t.match(await api.own('GET', '/v1/audit?since=yesterday'), { status: 400, json: { field: 'since' } });
  t.match(await api.own('POST', '/v1/audit/verify', {}), { status: 200, json: { ok: true } });
  t.match(await api.ask('POST', '/v1/audit/verify', { token: session }), { status: 403 });
  t.match(await api.ask('GET', '/v1/audit', { token: session }), { status: 403 });
});

t.test('every success that is described was among these', async (t) => {
  t.same(api.unseen(), []);
});
