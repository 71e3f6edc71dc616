/** Who may do what, and what nobody is told. */
import t from 'tap';
import { mintToken } from '../../src/actors/vault/token.ts';
import { originKey } from '../support/origin-key.ts';
import { allRoutes, example } from './all-routes.ts';
import { by, startBroker, type TestBroker } from './start-front.ts';

const bearer = (host: string, token: string) => ({ host, auth: { type: 'bearer', token } });
const proposal = (host: string, key: string) => ({
  services: [{ action: 'set', ...bearer(host, key) }],
  credentials: [{ action: 'set', key }],
});

t.test('who may do what (ATH-008..012)', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const { operator } = broker;
  for (const name of ['v1', 'v2'])
    await broker.ask('POST', '/v1/vaults', { token: operator, body: { name } });
  const session = await broker.session('v1');
  const agent = await broker.agent('v1');
  const discover = (headers: Record<string, string | string[]>, path = '/discover') =>
    broker.ask('GET', path, { headers });

  const unauthorized = {
    status: 401,
    json: { error: 'unauthorized' },
    headers: { 'www-authenticate': /^Bearer/ },
  };
  t.match(await discover({}), unauthorized, 'nothing');
  t.match(await discover({ authorization: `Basic ${btoa(`${session}:v1`)}` }), unauthorized, 'Basic');
  t.match(
    await discover({ authorization: `bearer ${session}` }),
    { status: 200 },
    'schemes have no case (RFC 9110)',
  );
  t.match(await discover({ authorization: session }), unauthorized, 'no scheme');
  t.match(await discover({ authorization: `Bearer ${session} ${session}` }), unauthorized, 'two tokens');
  t.match(
    await discover({ authorization: [`Bearer ${session}`, `Bearer ${session}`] }),
    unauthorized,
    'two headers',
  );
  t.match(await discover({}, `/discover?token=${session}`), unauthorized, 'in the query');
  t.match(await discover({ cookie: `token=${session}` }), unauthorized, 'in a cookie');
  t.match(
    await discover({ authorization: `Bearer ${mintToken('session').token.reveal()}` }),
    unauthorized,
    'unknown',
  );
  t.match(await discover({ authorization: `Bearer ${session.slice(0, -1)}x` }), unauthorized, 'mistyped');

  t.match(await broker.ask('GET', '/discover', { token: session, vault: 'v1' }), { status: 200 });
  t.match(await broker.ask('GET', '/discover', { token: session, vault: 'v2' }), { status: 403 });
  t.match(await broker.ask('GET', '/discover', { token: agent }), {
    status: 400,
    json: { field: 'X-Vault' },
  });
  t.match(await broker.ask('GET', '/discover', { token: operator }), {
    status: 400,
    json: { field: 'X-Vault' },
  });
  t.match(await broker.ask('GET', '/discover', { token: operator, vault: 'v1' }), {
    status: 200,
    json: { vault: 'v1' },
  });
  t.match(await broker.ask('GET', '/discover', { token: operator, vault: 'v9' }), { status: 404 });
  // "v1 " is missing here: white space around a header's value is no part of it (RFC 9110 section 5.5).
  for (const vault of ['../v2', 'V1', 'v1,v2', 'v9', 'v2']) {
    t.match(
      await broker.ask('GET', '/discover', { token: agent, vault }),
      { status: 403, json: { error: 'forbidden' } },
      vault,
    );
  }
  const twice = { authorization: `Bearer ${agent}`, 'x-vault': ['v1', 'v1'] };
  t.match(await discover(twice), { status: 400, json: { field: 'X-Vault' } });

  for (const [method, path] of [
    ['GET', '/v1/vaults'],
    ['POST', '/v1/vaults'],
    ['GET', '/v1/vaults/v1'],
    ['PATCH', '/v1/vaults/v1'],
    ['DELETE', '/v1/vaults/v1?confirm=v1'],
    ['PUT', '/v1/vaults/v1/services'],
    ['DELETE', '/v1/vaults/v1/services'],
    ['POST', '/v1/sessions'],
    ['GET', '/v1/agents'],
    ['POST', '/v1/agents/invites'],
    ['POST', '/v1/proposals/1/approve'],
    ['POST', '/v1/proposals/1/reject'],
    ['DELETE', '/v1/credentials/K'],
  ]) {
    for (const token of [session, agent]) {
      t.match(
        await broker.ask(method, path, { token, vault: 'v1' }),
        { status: 403, json: { error: 'forbidden' } },
        `${method} ${path}`,
      );
    }
  }

  const admin = await broker.admin('v1');
  const asAdmin = (method: string, path: string, body?: unknown) =>
    broker.ask(method, path, { token: admin, body });
  t.same(
    (await asAdmin('GET', '/v1/vaults')).json.vaults.map(({ name }: { name: string }) => name),
    ['v1'],
  );
  t.match(await asAdmin('GET', '/v1/vaults/v1'), { status: 200 });
  const foreign = (await asAdmin('GET', '/v1/vaults/v2')).json.message;
  t.match(await asAdmin('GET', '/v1/vaults/v2'), { status: 403 });
  t.match(
    await asAdmin('GET', '/v1/vaults/v9'),
    { status: 403, json: { message: foreign } },
    'the same as for one that is there',
  );
  t.match(await asAdmin('POST', '/v1/vaults', { name: 'v3' }), { status: 403 });
  t.match(await asAdmin('POST', '/v1/sessions', { vault: 'v2' }), { status: 403 });
  t.match(await asAdmin('POST', '/v1/agents/invites', { vaults: ['v1', 'v2'] }), { status: 403 });
  const both = await broker.agent('v1', 'v2');
  const agents = (await asAdmin('GET', '/v1/agents')).json.agents;
  t.same(
    agents.map(({ vaults }: { vaults: string[] }) => vaults),
    [['v1'], ['v1']],
  );
  t.match(await asAdmin('DELETE', `/v1/agents/${agents[1].name}`), { status: 403 });
  t.match(await asAdmin('DELETE', `/v1/agents/${agents[0].name}`), { status: 204 });
  await broker.ask('POST', '/v1/proposals', { token: both, vault: 'v2', body: proposal('a.example', 'K') });
  t.match(await asAdmin('GET', '/v1/proposals/1'), { status: 404 });
  t.match(await asAdmin('POST', '/v1/proposals/1/reject'), { status: 404 });
  t.same((await asAdmin('GET', '/v1/proposals')).json, { proposals: [] });
  await broker.session('v2');
  t.same(
    (await asAdmin('GET', '/v1/sessions')).json.sessions.map(({ vault }: { vault: string }) => vault),
    ['v1'],
  );
});
t.test('proposals: what another vault holds stays unknown (EXF-014, ATH-013, API-008)', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const { operator } = broker;
  await broker.ask('POST', '/v1/vaults', { token: operator, body: { name: 'v2' } });
  await broker.ask('POST', '/v1/credentials', {
    token: operator,
    vault: 'v2',
    body: { credentials: { THERE: 'x' } },
  });
  const mine = await broker.session('default');
  const other = await broker.session('v2');
  const agent = await broker.agent('v2');
  await broker.ask('POST', '/v1/proposals', { token: mine, body: proposal('a.example', 'K') });

  const refer = async (key: string) => {
    const body = { services: [{ action: 'set', ...bearer('a.example', key) }] };
    const answer = await broker.ask('POST', '/v1/proposals', { token: mine, body });
    return [answer.status, answer.text.replaceAll(key, 'KEY').replace(answer.json.request_id, '')];
  };
  t.same(await refer('THERE'), await refer('NOWHERE'));
  t.equal((await refer('THERE'))[0], 400);

  const shape = async (path: string, asked: object) => {
    const { status, json } = await broker.ask('GET', path, asked);
    return [status, json.error, json.message];
  };
  const absent = await shape('/v1/proposals/999', { token: other });
  t.equal(absent[0], 404);
  t.same(await shape('/v1/proposals/1', { token: other }), absent);
  t.same(await shape('/v1/proposals/1?wait=1', { token: other }), absent);
  t.same(await shape('/v1/proposals/1', { token: agent, vault: 'v2' }), absent);
  t.same(await shape('/v1/proposals/1', { token: operator, vault: 'v2' }), absent);
  t.match(await broker.ask('POST', '/v1/proposals/1/reject', { token: operator, vault: 'v2' }), {
    status: 404,
  });
  for (const id of ['0', '-1', '1.5', '1e3', '9007199254740993', '1;', '%31', '01', '1/', '1%00']) {
    t.match(await broker.ask('GET', `/v1/proposals/${id}`, { token: mine }), { status: 404 }, id);
  }
});

t.test('no route gives away a value or a token, and no log holds one (LEK-001, ATH-015)', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const canary = 'canary-5f1d2c';
  const token = await broker.session();
  await broker.ask('POST', '/v1/credentials', { token, body: { credentials: { K: canary } } });
  const slot = { action: 'set', key: 'S', value: canary };
  await broker.ask('POST', '/v1/proposals', {
    token,
    body: { ...proposal('a.example', 'K'), credentials: [slot] },
  });
  await broker.ask('POST', '/v1/credentials', {
    token,
    body: { credentials: { lower: canary, K: [canary] } },
  });
  await broker.ask('POST', '/v1/credentials', { token, body: `{"credentials":{"K":"${canary}"` });
  const texts: string[] = [];
  for (const who of [token, broker.operator]) {
    for (const path of [
      '/discover',
      '/v1/credentials',
      '/v1/proposals',
      '/v1/proposals/1',
      '/v1/vaults',
      '/v1/vaults/default',
      '/v1/vaults/default/services',
      '/v1/sessions',
      '/v1/agents',
      '/approve/1',
    ]) {
      const answer = await broker.ask('GET', path, { token: who, vault: 'default' });
      texts.push(answer.text, JSON.stringify(answer.headers));
    }
  }
  const all = [...texts, ...broker.log, JSON.stringify(broker.records)].join('\n');
  t.match(all, /"keys":\["K"\]/, 'there was something to see');
  for (const secret of [canary, token, broker.operator]) t.notOk(all.includes(secret));
});

t.test('a new agent of an old name has nothing of the old one', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const { vault, ask } = broker;
  const joined = async () => {
    const invite = { vaults: ['default'], name: 'robot' };
    const { json } = await ask('POST', '/v1/agents/invites', { token: broker.operator, body: invite });
    return (await ask('POST', new URL(json.invite_url).pathname)).json.BROKER_SESSION_TOKEN;
  };
  const as = (token: string) => ({ token, vault: 'default' });
  const set = (token: string, KEY: string) =>
    ask('POST', '/v1/credentials', { ...as(token), body: { credentials: { KEY } } });
  const listed = async (token: string) =>
    (await ask('GET', '/v1/proposals', as(token))).json.proposals.map(({ id }: { id: number }) => id);
  const propose = (token: string) =>
    ask('POST', '/v1/proposals', { ...as(token), body: { credentials: [{ action: 'set', key: 'SLOT' }] } });

  const first = await joined();
  t.equal((await set(first, 'a')).status, 200);
  t.equal((await set(first, 'b')).status, 200, 'its own it may replace');
  for (let i = 0; i < 20; i++) t.equal((await propose(first)).status, 201);
  t.equal((await propose(first)).status, 429);
  await ask('DELETE', '/v1/agents/robot', { token: broker.operator });

  const second = await joined();
  t.match(await set(second, 'c'), { status: 409, json: { error: 'credential_exists' } });
  t.same(await listed(second), []);
  t.equal((await ask('DELETE', '/v1/proposals/1', as(second))).status, 403);
  t.equal((await propose(second)).status, 201, 'nor does it wait for what the old one has waiting');
  t.same(await listed(second), [21]);
  const seen: string[] = [];
  const stop = new AbortController();
  const events = fetch(`${broker.baseUrl}/v1/events`, {
    headers: { authorization: `Bearer ${second}`, 'x-vault': 'default' },
    signal: stop.signal,
  }).then(async ({ body }) => {
    for await (const text of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      seen.push(text);
      if (text.includes('"id":21')) return;
    }
  });
  while (seen.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  for (const id of [1, 21]) await vault.ask('proposal.reject', { id, reason: '', by });
  await events;
  stop.abort();
  t.notMatch(seen.join(''), '"id":1,', 'nor hears of it');
});

/** All that operators can see of a broker, but when it was last used. */
async function stateOf({ ask, operator }: TestBroker): Promise<string> {
  const texts: string[] = [];
  for (const path of [
    '/v1/vaults',
    '/v1/vaults/default/services',
    '/v1/credentials',
    '/v1/proposals',
    '/v1/sessions',
    '/v1/agents',
    '/v1/operators',
  ]) {
    texts.push((await ask('GET', path, { token: operator, vault: 'default' })).text);
  }
  return texts.join('\n');
}

t.test('by no route is a cookie enough: it changes nothing, mints nothing, and shows no token', async (t) => {
  const broker = await startBroker({ settings: { 'auth-failures': 0 } });
  t.teardown(broker.stop);
  const { operator, vault, baseUrl } = broker;
  const agentToken = await broker.agent('default');
  const session = await broker.session();
  const services = [bearer('a.example.com', 'K')];
  await broker.ask('POST', '/v1/credentials', {
    token: operator,
    vault: 'default',
    body: { credentials: { K: 'canary-value' } },
  });
  await broker.ask('PUT', '/v1/vaults/default/services', { token: operator, body: { services } });
  const proposed = await broker.ask('POST', '/v1/proposals', {
    token: session,
    body: { ...proposal('b.example.com', 'L'), credentials: [{ action: 'set', key: 'L', value: 'given' }] },
  });
  const invite = await broker.ask('POST', '/v1/agents/invites', {
    token: operator,
    body: { vaults: ['default'] },
  });
  const link = await broker.ask('POST', '/v1/login-links', { token: operator });
  const agents = (await broker.ask('GET', '/v1/agents', { token: operator })).json.agents;
  const sessions = (await broker.ask('GET', '/v1/sessions', { token: operator })).json.sessions;
  const given = { agent: agents[0].name, session: sessions[0].id, operator: 'owner' };
  const secrets = [
    agentToken,
    session,
    operator,
    'canary-value',
    new URL(proposed.json.approval_url).searchParams.get('token') ?? '',
    String(invite.json.invite_url).split('/').at(-1) ?? '',
    new URL(link.json.url).searchParams.get('token') ?? '',
  ];
  for (const secret of secrets) t.ok(secret.length > 8);

  for (const bound of [originKey().key, undefined]) {
    const made = await vault.ask('operator.signIn', { name: 'owner', kind: 'cookie', originKey: bound, by });
    const cookie = `broker_session=${made.ok ? made.value.token.reveal() : ''}`;
    const read = async (path: string) => (await broker.ask('GET', path, { headers: { cookie } })).text;
    // Whoever has the cookie reads these, too.
    const page = await read('/approve/1');
    t.match(page, 'Allow', 'it is a session');
    const hidden = [...page.matchAll(/type="hidden" name="(csrf|seen)" value="([^"]*)"/g)];
    const fields = Object.fromEntries(hidden.map(([, name, value]) => [name, value]));
    const before = await stateOf(broker);
    const forged = originKey();
    const { challenge } = (await broker.ask('GET', '/login/challenge')).json;
    let tried = 0;
    for (const route of allRoutes()) {
      const path = example(route, given);
      const headers = {
        cookie,
        origin: baseUrl,
        'x-csrf-token': fields.csrf,
        'sec-fetch-site': 'same-origin',
      };
      // What follows changes for ever doesn't end by itself.
      if (/^\/(v1\/events|live\/(requests|stats))/.test(path)) continue;
      const shown: string[] = [];
      if (route.auth !== 'none') {
        const token = cookie.slice('broker_session='.length);
        const answer = await broker.ask(route.method, path, { token, vault: 'default', body: {} });
        t.ok([401, 429].includes(answer.status), `${route.method} ${path}, as a token: ${answer.status}`);
      }
      if (route.method === 'GET')
        shown.push((await broker.ask('GET', path, { headers, vault: 'default' })).text);
      else {
        const query = route.path === '/v1/vaults/{vault}' ? `${path}?confirm=default` : path;
        const json = {
          vault: 'default',
          vaults: ['default'],
          name: 'x',
          credentials: { L: 'v' },
          services: [],
        };
        const form = {
          ...{ ...fields, decision: 'allow', name: 'x', key: 'X', 'value.new': 'v', host: 'x.example.com' },
          ...{ enabled: 'no', confirm: 'default', 'vault.default': 'yes', overlap: '0', type: 'passthrough' },
          ...{ token: 'x', force: 'yes' },
        };
        const signed = { ...form, ...forged.sign(path, challenge, form) };
        const stale = { ...form, 'proof.signature': `${bound ?? forged.key}.${challenge}.${'A'.repeat(86)}` };
        const guess = { ...form, 'proof.code': '123456', 'proof.password': 'password' };
        const bodies = [form, signed, stale, guess].map((each) => new URLSearchParams(each).toString());
        for (const body of [{}, json, JSON.stringify(json), ...bodies]) {
          const type =
            typeof body === 'string' && !body.startsWith('{')
              ? 'application/x-www-form-urlencoded'
              : 'application/json';
          const answer = await broker.ask(route.method, query, {
            headers: { ...headers, 'content-type': type },
            vault: 'default',
            body,
          });
          tried++;
          shown.push(answer.text, JSON.stringify(answer.headers));
          // Out of this browser, and into the page to sign in at; but for these it is a refusal.
          if (path === '/logout') continue;
          const isRefused = answer.status >= 400 && answer.status < 429;
          t.ok(isRefused, `${route.method} ${query}: ${answer.status}`);
        }
      }
      for (const secret of secrets) t.notOk(shown.join('').includes(secret), `${path} shows a secret`);
    }
    t.ok(tried > 200, `${tried} tries`);
    t.equal(await stateOf(broker), before, 'nothing was changed');
    t.equal(
      (await broker.ask('GET', '/v1/vaults', { headers: { cookie } })).status,
      200,
      'nor the session ended',
    );
  }
});
