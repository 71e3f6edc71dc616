/** Vaults against each other: what one holds, nobody of another reads, changes or hears of, by whatever name or number. */
import { request } from 'node:http';
import t from 'tap';
import { type Contract, startContract } from './contract.ts';

// biome-ignore lint/suspicious/noExplicitAny: answers of many shapes
type Json = any;

let api: Contract;
/** Those of the vault `mine`; all that they ask for here is of the vault `theirs`. */
let session: string;
let agent: string;
let admin: string;
/** In `theirs`. */
let proposal: number;
let sessionId: string;
let theirs: string;

const password = 'a long enough password';

t.before(async () => {
  api = await startContract(t);
  for (const name of ['mine', 'theirs']) await api.own('POST', '/v1/vaults', { name });
  session = await api.broker.session('mine');
  const invited = await api.own('POST', '/v1/agents/invites', { name: 'bee', vaults: ['mine'] });
  agent = (await api.ask('POST', new URL(invited.json.invite_url).pathname)).json.BROKER_SESSION_TOKEN;
  await api.own('POST', '/v1/operators', { name: 'ann', vaults: ['mine'], password });
  admin = (await api.ask('POST', '/v1/login', { body: { name: 'ann', password } })).json.token;

  const made = (await api.own('POST', '/v1/sessions', { vault: 'theirs' })).json;
  [theirs, sessionId] = [made.token, made.id];
  await api
    .own('POST', '/v1/agents/invites', { name: 'wasp', vaults: ['theirs'] })
    .then(({ json }) => api.ask('POST', new URL(json.invite_url).pathname));
  await api.own('POST', '/v1/credentials', { credentials: { THEIRS: 'their value' } }, 'theirs');
  const service = { host: 'theirs.test', auth: { type: 'bearer', token: 'THEIRS' } };
  await api.own('PUT', '/v1/vaults/theirs/services', { services: [service] });
  proposal = (
    await api.ask('POST', '/v1/proposals', {
      token: theirs,
      body: { credentials: [{ action: 'set', key: 'ASKED' }], message: 'their wish' },
    })
  ).json.id;
});

/** All that `theirs` is, as its owner sees it. */
async function wholeOf(vault: string): Promise<Json> {
  const paths = [
    `/v1/vaults/${vault}`,
    `/v1/vaults/${vault}/services`,
    '/v1/agents',
    `/v1/proposals/${proposal}`,
  ];
  const answers = await Promise.all(paths.map((path) => api.own('GET', path)));
  const keys = await api.own('GET', '/v1/credentials', undefined, vault);
  const sessions = (await api.own('GET', '/v1/sessions')).json.sessions;
  const others = sessions.filter((each: Json) => each.vault === vault);
  return [...answers, keys].map(({ json }) => json).concat([others]);
}

t.test('agents: another vault by its name is forbidden, by a number not there', async (t) => {
  const before = await wholeOf('theirs');
  const wish = { credentials: [{ action: 'set', key: 'X' }] };
  for (const [who, token] of Object.entries({ session, agent })) {
    for (const [method, path, body] of [
      ['GET', '/discover'],
      ['GET', '/v1/credentials'],
      ['POST', '/v1/credentials', { credentials: { THEIRS: 'x' } }],
      ['POST', '/v1/proposals', wish],
      ['GET', '/v1/proposals'],
      ['GET', `/v1/proposals/${proposal}`],
      ['DELETE', `/v1/proposals/${proposal}`],
      ['POST', '/v1/explain', { url: 'https://theirs.test/' }],
      ['GET', '/v1/events'],
    ] as [string, string, object?][]) {
      const named = await api.ask(method, path, { token, vault: 'theirs', body });
      t.match(named, { status: 403, json: { error: 'forbidden' } }, `${who}: ${method} ${path}`);
      const nowhere = await api.ask(method, path, { token, vault: 'nowhere', body });
      t.equal(nowhere.json.message, named.json.message, 'the same as for a vault that is not there');
    }
    for (const method of ['GET', 'DELETE']) {
      const own = { token, vault: 'mine' };
      const found = await api.ask(method, `/v1/proposals/${proposal}`, own);
      const never = await api.ask(method, '/v1/proposals/4711', own);
      t.match(found, { status: 404, json: { error: 'not_found' } }, `${who}: ${method} by its number`);
      t.equal(found.json.message, never.json.message);
    }
    const asked = await api.ask('POST', '/v1/proposals', {
      token,
      vault: 'mine',
      body: { services: [{ action: 'set', host: 'a.test', auth: { type: 'bearer', token: 'THEIRS' } }] },
    });
    t.match(
      asked,
      { status: 400, json: { error: 'unresolved_credential', key: 'THEIRS' } },
      'its keys resolve to nothing',
    );
  }
  t.same(await wholeOf('theirs'), before, 'nothing has changed there');
});

t.test('operators of one vault: another is not theirs, nor what is in it', async (t) => {
  const before = await wholeOf('theirs');
  const as = (method: string, path: string, body?: object, vault?: string) =>
    api.ask(method, path, { token: admin, body, vault });
  for (const [method, path, body] of [
    ['GET', '/v1/vaults/theirs'],
    ['PATCH', '/v1/vaults/theirs', { unmatched_host_policy: 'deny' }],
    ['DELETE', '/v1/vaults/theirs?confirm=theirs'],
    ['GET', '/v1/vaults/theirs/services'],
    ['PUT', '/v1/vaults/theirs/services', { services: [] }],
    ['POST', '/v1/vaults/theirs/services', { services: [] }],
    ['DELETE', '/v1/vaults/theirs/services'],
    ['PATCH', '/v1/vaults/theirs/services/theirs.test', { enabled: false }],
    ['DELETE', '/v1/vaults/theirs/services/theirs.test'],
    ['POST', '/v1/sessions', { vault: 'theirs' }],
    ['POST', '/v1/agents/invites', { vaults: ['mine', 'theirs'] }],
    ['GET', '/v1/audit?vault=theirs'],
  ] as [string, string, object?][]) {
    const named = await as(method, path, body);
    t.match(named, { status: 403, json: { error: 'forbidden' } }, `${method} ${path}`);
  }
  for (const [method, path, body] of [
    ['GET', '/discover'],
    ['GET', '/v1/credentials'],
    ['POST', '/v1/credentials', { credentials: { THEIRS: 'x' } }],
    ['DELETE', '/v1/credentials/THEIRS?force=true'],
    ['GET', '/v1/proposals'],
  ] as [string, string, object?][])
    t.match(await as(method, path, body, 'theirs'), { status: 403 }, `${method} ${path} with X-Vault`);
  for (const [method, path, body] of [
    ['GET', `/v1/proposals/${proposal}`],
    ['POST', `/v1/proposals/${proposal}/approve`, { credentials: { ASKED: 'x' } }],
    ['POST', `/v1/proposals/${proposal}/reject`, {}],
    ['DELETE', `/v1/sessions/${sessionId}`],
    ['DELETE', '/v1/agents/wasp'],
    ['POST', '/v1/agents/wasp/rotate', {}],
  ] as [string, string, object?][])
    t.match(await as(method, path, body), { status: 404 }, `${method} ${path}`);
  for (const [path, list] of [
    ['/v1/vaults', 'vaults'],
    ['/v1/proposals', 'proposals'],
    ['/v1/sessions', 'sessions'],
    ['/v1/agents', 'agents'],
  ]) {
    const { status, json, text } = await as('GET', path);
    t.match([status, Array.isArray(json[list])], [200, true], path);
    t.notMatch(text, /theirs|wasp|their wish/, `${path} shows none of it`);
  }
  t.same(await wholeOf('theirs'), before, 'nothing has changed there');
  t.match(await api.ask('GET', '/discover', { token: theirs }), { status: 200 }, 'and its session goes on');
});

t.test('events: nobody hears of another vault', async (t) => {
  const port = Number(api.broker.address.split(':')[2]);
  const heard = await Promise.all(
    [api.owner, admin, session, agent].map(async (token) => {
      const stream = { text: '' };
      const asking = request({ port, path: '/v1/events', headers: { authorization: `Bearer ${token}` } });
      t.teardown(() => asking.destroy());
      asking.on('error', () => {});
      await new Promise<void>((resolve) => {
        asking.on('response', (answer) => {
          answer.setEncoding('utf8').on('data', (text: string) => {
            stream.text += text;
            resolve();
          });
          answer.on('error', () => {});
        });
        asking.end();
      });
      return stream;
    }),
  );
  const propose = (token: string, vault: string, message: string) => {
    const body = { credentials: [{ action: 'set', key: 'HEARD' }], message };
    return api.ask('POST', '/v1/proposals', { token, vault, body });
  };
  await propose(theirs, 'theirs', 'first');
  for (const token of [session, agent]) await propose(token, 'mine', 'last');
  const [owner, ...others] = heard;
  const has = (text: string) =>
    /"vault":"mine","actor":"agent:bee"/.test(text) || /"actor":"session:/.test(text);
  while (!owner.text.includes('agent:bee') || !others.every(({ text }) => has(text)))
    await new Promise((resolve) => setTimeout(resolve, 20));
  t.match(owner.text, /"vault":"theirs"/, 'the owner hears all');
  for (const { text } of others) t.notMatch(text, /"vault":"theirs"/);
});
