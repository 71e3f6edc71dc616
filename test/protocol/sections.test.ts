/** The protocol section by section, through the outside of one broker: its API, its proxy, its guide. */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { type Broker, startBroker } from '../support/broker.ts';
import type { Answer } from '../support/wire.ts';
import {
  absolute,
  certificateFor,
  connect,
  type Got,
  secured,
  startUpstream,
  type Through,
  tunnelled,
  type Upstream,
} from './through.ts';

let broker: Broker;
let plain: Upstream;
let secure: Upstream;
let session: string;
let agent: string;

t.before(async () => {
  const certificate = certificateFor(t, 'api.secure.test', '*.secure.test');
  plain = await startUpstream(t);
  secure = await startUpstream(t, { tls: certificate.tls });
  broker = await startBroker(t, {
    args: ['--network-allow', '127.0.0.1/32', '--upstream-ca', certificate.caFile, '--rate-limit', '0'],
    preload: ['names'],
  });
  session = await broker.session();
  for (const name of ['strict', 'other']) await must('POST', '/v1/vaults', { name });
  const { invite_url } = await must('POST', '/v1/agents/invites', {
    vaults: ['default', 'strict'],
    name: 'helper',
  });
  const joined = await fetch(String(invite_url), { method: 'POST' });
  agent = ((await joined.json()) as { BROKER_SESSION_TOKEN: string }).BROKER_SESSION_TOKEN;
});

// biome-ignore lint/suspicious/noExplicitAny: answers of many shapes
type Json = any;

/** A call of the owner's that has to work. */
async function must(method: string, path: string, body?: unknown, vault?: string): Promise<Json> {
  const answer = await broker.api<Json>(method, path, { body, vault });
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
  return answer.body;
}

const credentials = (values: Record<string, string>, vault = 'default') =>
  must('POST', '/v1/credentials', { credentials: values }, vault);

async function services(list: readonly object[], vault = 'default'): Promise<void> {
  await must('PUT', `/v1/vaults/${vault}/services`, { services: [] });
  await must('PUT', `/v1/vaults/${vault}/services`, { services: list });
}

const bearer = (token: string) => ({ type: 'bearer', token });
const asSession = (method: string, path: string, body?: unknown) =>
  broker.api<Json>(method, path, { token: session, body });

/** The audit, once there is a record for which `isThere` holds: records are written a moment later. */
async function auditWith(isThere: (record: Json) => boolean): Promise<Json[]> {
  for (let tries = 0; ; tries++) {
    const records: Json[] = await broker.audit();
    if (records.some(isThere)) return records;
    if (tries > 300) throw new Error(`not in the audit: ${JSON.stringify(records.slice(-3))}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** A request for a host of the plain upstream: what it got, and what came back. */
async function get(
  path: string,
  through: Through = {},
  host = 'api.test',
): Promise<{ answer: Answer; got: Got | undefined }> {
  const before = plain.got.length;
  const answer = await absolute(broker, `http://${host}:${plain.port}${path}`, {
    token: session,
    ...through,
  });
  return { answer, got: plain.got[before] };
}

t.test('What the service does', async (t) => {
  const value = randomBytes(12).toString('hex');
  await must('PATCH', '/v1/vaults/strict', { unmatched_host_policy: 'deny' });
  await credentials({ HELD: value }, 'strict');
  await services([{ host: 'api.secure.test', auth: bearer('HELD') }], 'strict');
  const as = { token: agent, vault: 'strict' };
  const seen = await secured(broker, `api.secure.test:${secure.port}`, '/v1/items?x=1', as);
  t.equal(seen.status, 200, '3. the real URL, through the proxy');
  t.match(secure.got[0], { target: '/v1/items?x=1' });
  t.same(secure.got[0].values('authorization'), [`Bearer ${value}`], '2., 3. with the stored credential');
  t.notMatch(JSON.stringify([seen.fields, seen.body]), value, 'which the agent never sees');

  const refused = await tunnelled(broker, `new.test:${plain.port}`, '/', as);
  t.match(
    refused,
    { status: 403, json: { error: 'forbidden', proposal_hint: { host: 'new.test' } } },
    '7. deny',
  );
  const body = {
    services: [{ action: 'set', host: 'new.test', auth: bearer('NEW') }],
    credentials: [{ action: 'set', key: 'NEW' }],
  };
  const { body: made } = await broker.api<Json>('POST', '/v1/proposals', { ...as, body });
  t.match(made.approval_url, /\/approve\/\d+\?token=/, '4. a link for the human');
  await must('POST', `/v1/proposals/${made.id}/approve`, { credentials: { NEW: value } });
  t.equal(
    (await tunnelled(broker, `new.test:${plain.port}`, '/', as)).status,
    200,
    '4. approval merges the changes',
  );
  t.same(plain.got.at(-1)?.values('authorization'), [`Bearer ${value}`]);

  const { answer, got } = await get('/', { token: session }, 'anything.test');
  t.match(
    { status: answer.status, got: got?.values('authorization') },
    { status: 200, got: [] },
    '7. forwarded as plain proxy traffic by default',
  );
  t.match(
    (await absolute(broker, 'http://10.0.0.1/', { token: session })).json,
    { error: 'network_blocked' },
    '6. netguard',
  );
  const records = await auditWith(({ service, status }) => service === 'api.secure.test' && status === 200);
  t.match(
    records.find(({ service }) => service === 'api.secure.test'),
    { host: /^api\.secure\.test/, keys: ['HELD'] },
    '6. audited',
  );
  t.notMatch(JSON.stringify(records), value, 'by key name only');
});

t.test('Vault', async (t) => {
  t.match(await must('GET', '/v1/vaults/default'), { unmatched_host_policy: 'passthrough' });
  t.match(
    await broker.command(['vault', 'service', 'list']),
    { code: 0, stdout: '' },
    '`default` is the default',
  );
  t.match(
    await asSession('PATCH', '/v1/vaults/default', { unmatched_host_policy: 'deny' }),
    { status: 403 },
    'set by admins alone',
  );
  t.match(await broker.api('GET', '/discover', { token: agent, vault: 'strict' }), {
    body: { vault: 'strict', available_credentials: ['HELD', 'NEW'] },
  });
  t.match(await broker.api('DELETE', '/v1/vaults/default?confirm=default'), { status: 409 });
});

t.test('Service', async (t) => {
  await credentials({ K: 'one', L: 'two' });
  await services([{ host: 'api.test', description: 'First', auth: bearer('K') }]);
  await must('POST', '/v1/vaults/default/services', {
    services: [{ host: 'API.test.', description: 'Second', auth: bearer('L') }],
  });
  t.match(
    (await asSession('GET', '/discover')).body.services,
    [{ host: 'api.test', description: 'Second' }],
    'one for a host',
  );
  t.same((await get('/')).got?.values('authorization'), ['Bearer two']);
  await must('PATCH', '/v1/vaults/default/services/api.test', { enabled: false });
  const { answer, got } = await get('/');
  t.match({ answer, got }, { answer: { status: 403, json: { error: 'service_disabled' } }, got: undefined });
  t.equal(answer.field('x-broker-error'), 'service_disabled');
  t.match((await asSession('GET', '/discover')).body.services, [{ enabled: false }]);
  const again = { services: [{ action: 'set', host: 'api.test', auth: bearer('L') }] };
  const { body } = await asSession('POST', '/v1/proposals', again);
  await must('POST', `/v1/proposals/${body.id}/approve`, { confirm_existing: ['L'] });
  t.match((await get('/')).answer.json, { error: 'service_disabled' }, 'no proposal enables it by the way');
  await must('DELETE', '/v1/vaults/default/services/api.test');
  t.equal((await get('/')).answer.status, 200, 'removed by its host');
});

t.test('Auth config', async (t) => {
  await credentials({ TOKEN: 'tok', USER: 'ann', PASS: 'p:w', K: 'key' });
  const cases: [auth: object, name: string, value: string | undefined][] = [
    [{ type: 'bearer', token: 'TOKEN' }, 'authorization', 'Bearer tok'],
    [{ type: 'basic', username: 'USER', password: 'PASS' }, 'authorization', `Basic ${btoa('ann:p:w')}`],
    [{ type: 'basic', username: 'USER' }, 'authorization', `Basic ${btoa('ann:')}`],
    [{ type: 'api-key', key: 'K' }, 'authorization', 'key'],
    [{ type: 'api-key', key: 'K', header: 'X-Api-Key', prefix: 'v1 ' }, 'x-api-key', 'v1 key'],
    [
      { type: 'custom', headers: { 'X-One': '{{ K }}', 'X-Two': 'a-{{TOKEN}}-{{ K }}' } },
      'x-two',
      'a-tok-key',
    ],
    [{ type: 'passthrough' }, 'authorization', 'mine'],
    [{ type: 'passthrough' }, 'cookie', 'c=1'],
  ];
  const fields = [
    ['Authorization', 'mine'],
    ['Cookie', 'c=1'],
    ['X-Api-Key', 'mine'],
    ['X-Two', 'mine'],
  ] as const;
  for (const [auth, name, value] of cases) {
    await services([{ host: 'api.test', auth }]);
    t.same((await get('/', { fields })).got?.values(name), [value], JSON.stringify(auth));
  }
  const refuse = (auth: object) =>
    broker.api<Json>('PUT', '/v1/vaults/default/services', {
      body: { services: [{ host: 'x.test', auth }] },
    });
  for (const field of ['token', 'username', 'password', 'key', 'header', 'prefix', 'headers']) {
    const answer = await refuse({ type: 'passthrough', [field]: 'TOKEN' });
    t.match(
      answer,
      { status: 400, body: { error: 'invalid_request', field: `services[0].auth.${field}` } },
      'rule 1',
    );
  }
  for (const auth of [bearer('GONE'), { type: 'custom', headers: { 'X-A': '{{ K }}{{ GONE }}' } }])
    t.match(
      await refuse(auth),
      { status: 400, body: { error: 'unresolved_credential', key: 'GONE' } },
      'rule 2',
    );
  t.match(await refuse({ type: 'passthrough' }), { status: 200 }, 'rule 2 does not apply to passthrough');
  for (const [auth, field] of [
    [{ type: 'bearer' }, 'token'],
    [{ type: 'basic', password: 'PASS' }, 'username'],
    [{ type: 'api-key' }, 'key'],
    [{ type: 'custom' }, 'headers'],
    [{ type: 'oauth' }, 'type'],
  ] as const)
    t.match(
      await refuse(auth),
      { status: 400, body: { field: `services[0].auth.${field}` } },
      JSON.stringify(auth),
    );
});

t.test('Substitution', async (t) => {
  await credentials({ SID: 'AC 1/2&é', HDR: 'h-value', K: 'key' });
  const sid = { key: 'SID', placeholder: '__sid__' };
  await services([
    {
      host: 'api.test',
      auth: bearer('K'),
      substitutions: [sid, { key: 'HDR', placeholder: '~hdr~', in: ['header'] }],
    },
  ]);
  const fields = [
    ['X-One', 'a~hdr~b'],
    ['X-Two', '~hdr~'],
    ['X-Sid', '__sid__'],
    ['Authorization', '~hdr~'],
  ] as const;
  const { got } = await get('/a/__sid__/b?q=__sid__&r=__SID__', {
    method: 'POST',
    body: '__sid__ ~hdr~',
    fields,
  });
  const [path, query] = String(got?.target).split('?');
  t.same(
    path.split('/').map(decodeURIComponent),
    ['', 'a', 'AC 1/2&é', 'b'],
    '2. encoded, within its component',
  );
  t.same(
    [...new URLSearchParams(query)],
    [
      ['q', 'AC 1/2&é'],
      ['r', '__SID__'],
    ],
    'case counts',
  );
  t.equal(got?.body, '__sid__ ~hdr~', '1. the body is never touched');
  t.same(
    [got?.values('x-one'), got?.values('x-two')],
    [['ah-valueb'], ['h-value']],
    '3. every header is scanned',
  );
  t.same(got?.values('x-sid'), ['__sid__'], '1. not where it was not declared');
  t.same(got?.values('authorization'), ['Bearer key'], '4. composes with auth');

  await must('POST', '/v1/vaults/default/services', { services: [{ host: 'api.test', enabled: true }] });
  await must('POST', '/v1/vaults/default/services', {
    services: [{ host: 'api.test', auth: { type: 'passthrough' } }],
  });
  t.match(
    (await get('/__sid__')).got?.target,
    /AC/,
    '5. an auth-only or enable-only set keeps them; 4. any auth type',
  );
  const without = {
    services: [{ action: 'set', host: 'api.test', substitutions: [{ key: 'K', placeholder: '__new__' }] }],
  };
  t.match(
    await asSession('POST', '/v1/proposals', without),
    { status: 400, body: { field: 'services[0].auth' } },
    '5. a change of them needs auth',
  );
  await must('DELETE', '/v1/vaults/default/services/api.test');
  await must('POST', '/v1/vaults/default/services', { services: [{ host: 'api.test', auth: bearer('K') }] });
  t.equal((await get('/__sid__')).got?.target, '/__sid__', '5. cleared by deleting and creating anew');

  const refuse = async (substitution: object) => {
    const service = { host: 'x.test', auth: bearer('K'), substitutions: [substitution] };
    const { status, body } = await broker.api<Json>('PUT', '/v1/vaults/default/services', {
      body: { services: [service] },
    });
    return [status, body.field];
  };
  for (const placeholder of ['abc', 'account_sid', '____', '~~~~', '__a b__', '__é__', '__a/b__'])
    t.same(
      await refuse({ key: 'K', placeholder }),
      [400, 'services[0].substitutions[0].placeholder'],
      placeholder,
    );
  for (const placeholder of ['__account_sid__', 'sid.value', 'sid-val', '~sid~'])
    t.equal((await refuse({ key: 'K', placeholder }))[0], 200, placeholder);
  for (const surfaces of [['body'], [], ['path', 'body'], ['cookie']])
    t.same(
      await refuse({ key: 'K', placeholder: '__k__', in: surfaces }),
      [400, 'services[0].substitutions[0].in'],
      `${surfaces}`,
    );
  t.same(await refuse({ key: 'lower', placeholder: '__k__' }), [400, 'services[0].substitutions[0].key']);
  t.same(await refuse({ key: 'GONE', placeholder: '__k__' }), [400, 'services[0].substitutions[0].key']);
});

t.test('Host matching', async (t) => {
  await credentials({ EXACT: 'exact', PORT: 'port', WILD: 'wild', WILD_PORT: 'wild-port' });
  await services([
    { host: '*.match.test', auth: bearer('WILD') },
    { host: `*.match.test:${plain.port}`, auth: bearer('WILD_PORT') },
    { host: 'a.match.test', auth: bearer('EXACT') },
    { host: `b.match.test:${plain.port}`, auth: bearer('PORT') },
    { host: 'b.match.test', auth: bearer('EXACT') },
    { host: 'c.match.test:1', auth: bearer('PORT') },
  ]);
  for (const [host, value] of [
    ['a.match.test', 'exact'],
    ['A.Match.Test.', 'exact'],
    ['b.match.test', 'port'],
    ['c.match.test', 'wild-port'],
    ['match.test', undefined],
    ['x.a.match.test', undefined],
    ['evilmatch.test', undefined],
  ] as const)
    t.same(
      (await get('/', {}, host)).got?.values('authorization'),
      value === undefined ? [] : [`Bearer ${value}`],
      host,
    );
  for (const host of [
    '*',
    '*.com',
    '*.co.uk',
    '*.github.io',
    '*.*.test',
    'a.*.test',
    'https://a.test',
    'a.test/x',
    '127.1',
    'a b',
  ]) {
    const answer = await broker.api<Json>('PUT', '/v1/vaults/default/services', {
      body: { services: [{ host, auth: bearer('WILD') }] },
    });
    t.match(answer, { status: 400, body: { field: 'services[0].host' } }, host);
  }
  const twice = [
    { host: 'a.test', auth: bearer('WILD') },
    { host: 'A.TEST', auth: bearer('WILD') },
  ];
  t.match(await broker.api('PUT', '/v1/vaults/default/services', { body: { services: twice } }), {
    status: 400,
    body: { field: 'services[1].host' },
  });
});

t.test('Session', async (t) => {
  t.match((await asSession('GET', '/discover')).body, { vault: 'default' }, 'the vault is in the token');
  t.match(await broker.api('GET', '/discover', { token: session, vault: 'other' }), { status: 403 });
  t.match(await broker.api('GET', '/discover', { token: agent }), {
    status: 400,
    body: { field: 'X-Vault' },
  });
  t.match(await broker.api('GET', '/discover', { token: agent, vault: 'strict' }), {
    body: { vault: 'strict' },
  });
  for (const vault of ['other', 'nowhere'])
    t.match(
      await broker.api('GET', '/discover', { token: agent, vault }),
      { status: 403, body: { error: 'forbidden' } },
      vault,
    );
  const inside = await broker.command([
    'vault',
    'run',
    '--vault',
    'strict',
    '--',
    'sh',
    '-c',
    `curl -s --noproxy '*' -H "Authorization: Bearer $BROKER_SESSION_TOKEN" $BROKER_ADDR/discover`,
  ]);
  t.match(JSON.parse(inside.stdout), { vault: 'strict' }, 'created by vault run');
});

t.test('Discovery response', async (t) => {
  await credentials({ LISTED: 'never shown' });
  await services([{ host: 'api.test', auth: bearer('LISTED') }]);
  const { body } = await asSession('GET', '/discover');
  t.same(Object.keys(body), ['vault', 'services', 'available_credentials']);
  t.match(body.services, [{ host: 'api.test', description: '' }]);
  t.ok(body.available_credentials.includes('LISTED'));
  t.notMatch(JSON.stringify(body), 'never shown');
});

t.test('Proposal', async (t) => {
  const full = {
    services: [
      {
        action: 'set',
        host: 'p.test',
        description: 'd',
        auth: bearer('P'),
        substitutions: [{ key: 'P', placeholder: '__p__' }],
      },
      { action: 'delete', host: 'nowhere.test' },
    ],
    credentials: [
      {
        action: 'set',
        key: 'P',
        description: 'd',
        obtain: 'https://p.test/keys',
        obtain_instructions: 'Click.',
      },
      { action: 'delete', key: 'NOWHERE' },
    ],
    message: 'to read',
    user_message: 'Please.',
  };
  const made = await asSession('POST', '/v1/proposals', full);
  const { id } = made.body;
  t.match(made, { status: 201, body: { status: 'pending', vault: 'default' } });
  t.match(made.body.approval_url, new RegExp(`^${broker.address}/approve/${id}\\?token=\\S+$`));
  t.ok(made.body.message.includes(made.body.approval_url));
  t.match((await asSession('GET', `/v1/proposals/${id}`)).body, { ...full, id });
  await must('POST', `/v1/proposals/${id}/reject`);

  const entry = { action: 'set', host: 'p.test', auth: bearer('LISTED') };
  const refused: [body: object, field: string][] = [
    [{}, 'services'],
    [{ services: [], credentials: [] }, 'services'],
    [{ services: [{ action: 'set', host: 'p.test' }] }, 'services[0].auth'],
    [{ services: [{ action: 'set', auth: bearer('LISTED') }] }, 'services[0].host'],
    [{ services: [{ action: 'drop', host: 'p.test' }] }, 'services[0].action'],
    [{ services: [{ action: 'delete', host: 'p.test', auth: bearer('LISTED') }] }, 'services[0].auth'],
    [{ services: [entry, { ...entry, host: 'P.test' }] }, 'services[1].host'],
    [{ services: Array.from({ length: 11 }, (_, i) => ({ ...entry, host: `p${i}.test` })) }, 'services'],
    [{ credentials: Array.from({ length: 11 }, (_, i) => ({ action: 'set', key: `K${i}` })) }, 'credentials'],
    [{ services: [entry], message: 'x'.repeat(2001) }, 'message'],
    [{ services: [entry], user_message: 'x'.repeat(5001) }, 'user_message'],
    [{ services: [{ ...entry, description: 'x'.repeat(501) }] }, 'services[0].description'],
    [
      { credentials: [{ action: 'set', key: 'K', description: 'x'.repeat(501) }] },
      'credentials[0].description',
    ],
    [
      { credentials: [{ action: 'set', key: 'K', obtain: `https://p.test/${'x'.repeat(486)}` }] },
      'credentials[0].obtain',
    ],
    [{ credentials: [{ action: 'set', key: 'K', obtain: 'javascript:alert(1)' }] }, 'credentials[0].obtain'],
    [
      { credentials: [{ action: 'set', key: 'K', obtain_instructions: 'x'.repeat(1001) }] },
      'credentials[0].obtain_instructions',
    ],
    [{ credentials: [{ action: 'set', key: 'k' }] }, 'credentials[0].key'],
    [{ services: [entry], extra: 1 }, 'extra'],
  ];
  for (const [body, field] of refused)
    t.match(
      await asSession('POST', '/v1/proposals', body),
      { status: 400, body: { error: 'invalid_request', field } },
      `${field} ${JSON.stringify(body).slice(0, 80)}`,
    );

  const secret = randomBytes(12).toString('hex');
  const own = await asSession('POST', '/v1/proposals', {
    credentials: [{ action: 'set', key: 'OWN', value: secret }],
  });
  const shown = await asSession('GET', `/v1/proposals/${own.body.id}`);
  t.match(
    shown.body.credentials,
    [{ action: 'set', key: 'OWN', has_value: true }],
    'a value of its own is not asked for',
  );
  t.notMatch(JSON.stringify([own, shown]), secret, 'and never shown');
  await must('POST', `/v1/proposals/${own.body.id}/approve`);
  await services([{ host: 'api.test', auth: bearer('OWN') }]);
  t.same((await get('/')).got?.values('authorization'), [`Bearer ${secret}`]);

  for (let i = 0; i < 20; i++)
    await asSession('POST', '/v1/proposals', { credentials: [{ action: 'set', key: 'MANY' }] });
  const many = await fetch(`${broker.address}/v1/proposals`, {
    method: 'POST',
    headers: { authorization: `Bearer ${session}`, 'content-type': 'application/json' },
    body: JSON.stringify({ services: [entry] }),
  });
  t.equal(many.status, 429);
  t.match(many.headers.get('retry-after'), /^[1-9]\d*$/);
  for (const { id: one } of (await must('GET', '/v1/proposals?status=pending')).proposals)
    await must('POST', `/v1/proposals/${one}/reject`);
});

t.test('States and transitions', async (t) => {
  await credentials({ OLD: 'old' });
  await services([
    { host: 'old.test', auth: bearer('OLD') },
    { host: 'kept.test', auth: bearer('OLD') },
  ]);
  const body = {
    services: [
      { action: 'set', host: 'new.test', auth: bearer('FRESH') },
      { action: 'delete', host: 'old.test' },
    ],
    credentials: [{ action: 'set', key: 'FRESH' }],
  };
  const propose = async () => (await asSession('POST', '/v1/proposals', body)).body.id;
  const statusOf = async (id: number) => (await asSession('GET', `/v1/proposals/${id}`)).body.status;
  const hosts = async () =>
    (await must('GET', '/v1/vaults/default/services')).services.map(({ host }: { host: string }) => host);
  const id = await propose();
  t.same(
    [await statusOf(id), await hosts()],
    ['pending', ['old.test', 'kept.test']],
    'nothing has changed yet',
  );
  t.match(await broker.api('POST', `/v1/proposals/${id}/approve`, { body: {} }), { status: 400 });
  t.match(
    await asSession('POST', `/v1/proposals/${id}/approve`, { credentials: { FRESH: 'f' } }),
    { status: 403 },
    'nobody approves what is their own',
  );
  t.same([await statusOf(id), await hosts()], ['pending', ['old.test', 'kept.test']]);
  await must('POST', `/v1/proposals/${id}/approve`, { credentials: { FRESH: 'fresh' } });
  t.same([await statusOf(id), await hosts()], ['applied', ['kept.test', 'new.test']], 'all of it');
  t.same(
    (await get('/', {}, 'new.test')).got?.values('authorization'),
    ['Bearer fresh'],
    'and the very next request has it',
  );

  const [rejected, cancelled] = [await propose(), await propose()];
  await must('POST', `/v1/proposals/${rejected}/reject`, { reason: 'No.' });
  await asSession('DELETE', `/v1/proposals/${cancelled}`);
  t.same([await statusOf(rejected), await statusOf(cancelled)], ['rejected', 'cancelled']);
  for (const one of [rejected, cancelled])
    t.match(
      await broker.api('POST', `/v1/proposals/${one}/approve`, { body: { credentials: { FRESH: 'x' } } }),
      { status: 409, body: { error: 'already_decided' } },
    );
  const guide = await (await fetch(`${broker.address}/v1/skill.md`)).text();
  t.match(guide, /every 3 seconds for the first 30 seconds, every 10 seconds after that/, 'how to poll');
});

t.test('Proxy listener', async (t) => {
  await credentials({ K: 'key' });
  await services([
    { host: 'api.test', auth: bearer('K') },
    { host: 'api.secure.test', auth: bearer('K') },
  ]);
  const authority = `api.secure.test:${secure.port}`;
  const as = { token: session };
  t.equal((await secured(broker, authority, '/1', as)).status, 200, '1. CONNECT, TLS-wrapped');
  t.equal((await get('/2')).answer.status, 200, '1. absolute form, on the same port');
  t.equal((await absolute(broker, `https://${authority}/3`, as)).status, 200, 'https:// in absolute form');
  t.equal(
    (await tunnelled(broker, `api.test:${plain.port}`, '/4', as)).status,
    200,
    'cleartext inside a CONNECT',
  );
  const values = [...secure.got.slice(-2), ...plain.got.slice(-2)].map((got) => [
    got.target,
    ...got.values('authorization'),
  ]);
  t.same(
    values.sort(),
    [
      ['/1', 'Bearer key'],
      ['/2', 'Bearer key'],
      ['/3', 'Bearer key'],
      ['/4', 'Bearer key'],
    ],
    '3. all treated alike',
  );
  await Promise.all(
    ['/1', '/2', '/3', '/4'].map((path) =>
      auditWith((record) => record.path === path && record.keys[0] === 'K'),
    ),
  );
  const url = (await must('POST', '/v1/sessions', { vault: 'default' })).proxy_url;
  t.match(
    url,
    new RegExp(`^https://brk_ses_\\w+:default@127\\.0\\.0\\.1:${broker.proxyPort}$`),
    '4. the proxy URL',
  );

  const hop = [
    'Connection',
    'Keep-Alive',
    'Proxy-Authenticate',
    'Proxy-Authorization',
    'Proxy-Connection',
    'Te',
    'Trailer',
    'Upgrade',
  ];
  const fields: [string, string][] = [
    ...hop.map((name): [string, string] => [name, name === 'Connection' ? 'X-Named' : 'x']),
    ['X-Named', '1'],
    ['X-Vault', 'default'],
    ['Authorization', 'client'],
    ['anthropic-version', '2023-06-01'],
    ['If-Match', '"e"'],
    ['traceparent', '00-1-2-01'],
    ['User-Agent', 'client/1'],
    ['X-Api-Key', 'client'],
    ['Cookie', 'c=1'],
  ];
  const kept = {
    'anthropic-version': '2023-06-01',
    'If-Match': '"e"',
    traceparent: '00-1-2-01',
    'User-Agent': 'client/1',
    Cookie: 'c=1',
  };
  const slots: [auth: object, expected: Record<string, string>][] = [
    [bearer('K'), { Authorization: 'Bearer key', 'X-Api-Key': 'client' }],
    [
      { type: 'basic', username: 'K' },
      { Authorization: `Basic ${btoa('key:')}`, 'X-Api-Key': 'client' },
    ],
    [
      { type: 'api-key', key: 'K', header: 'x-api-key' },
      { Authorization: 'client', 'X-Api-Key': 'key' },
    ],
    [
      { type: 'custom', headers: { Authorization: 'C {{ K }}', 'X-Api-Key': '{{K}}' } },
      { Authorization: 'C key', 'X-Api-Key': 'key' },
    ],
    [{ type: 'passthrough' }, { Authorization: 'client', 'X-Api-Key': 'client' }],
  ];
  for (const [auth, expected] of slots) {
    await services([{ host: 'api.test', auth }]);
    const answer = await tunnelled(broker, `api.test:${plain.port}`, '/', { ...as, fields });
    const got = plain.got.at(-1) as Got;
    const name = `5. ${JSON.stringify(auth)}`;
    t.equal(answer.status, 200, name);
    for (const [field, value] of Object.entries({ ...expected, ...kept }))
      t.same(got.values(field), [value], `${name}: ${field}`);
    for (const gone of [...hop.slice(1), 'X-Named', 'X-Vault'])
      t.same(got.values(gone), [], `${name}: ${gone} stops here`);
    t.notMatch(got.values('Connection').join(), /X-Named/);
  }
});

t.test('Authentication', async (t) => {
  for (const [method, path] of [
    ['GET', '/discover'],
    ['GET', '/v1/proposals'],
    ['POST', '/v1/proposals'],
    ['GET', '/v1/credentials'],
    ['GET', '/v1/vaults'],
  ] as const) {
    const none = await fetch(`${broker.address}${path}`, { method });
    t.equal(none.status, 401, '1. every request needs a token');
    t.match(
      await broker.api(method, path, { token: `brk_ses_${'0'.repeat(72)}` }),
      { status: 401, body: { error: 'unauthorized' } },
      '5.',
    );
  }
  for (const path of ['/discover', '/v1/proposals', '/v1/credentials'])
    t.match(
      await broker.api('GET', path, { token: agent }),
      { status: 400, body: { field: 'X-Vault' } },
      `3. ${path}`,
    );

  const authority = `api.test:${plain.port}`;
  const missing = await connect(broker, authority, {});
  t.match(missing, { status: 407, json: { error: 'proxy_auth_required' } }, '4.');
  t.match(missing.field('proxy-authenticate'), /^Basic /);
  const inside = [
    ['Proxy-Authorization', 'Basic eA=='],
    ['X-Vault', 'x'],
  ] as const;
  await tunnelled(broker, authority, '/', { token: session, fields: inside });
  t.same(
    [plain.got.at(-1)?.values('proxy-authorization'), plain.got.at(-1)?.values('x-vault')],
    [[], []],
    '4. not forwarded',
  );
  t.match(
    await connect(broker, authority, { token: session, vault: 'other' }),
    { status: 403 },
    "another vault's name",
  );
  t.match(await connect(broker, authority, { token: agent, vault: 'strict' }), { status: 200 });
  t.match(await connect(broker, authority, { authorization: `Bearer ${session}` }), { status: 200 });
  t.match(
    await connect(broker, authority, { authorization: `Bearer ${agent}` }),
    { status: 407 },
    'an agent names its vault',
  );
  t.match(
    (
      await absolute(broker, `http://${authority}/`, {
        authorization: `Bearer ${agent}`,
        fields: [['X-Vault', 'default']],
      })
    ).status,
    200,
    'in the header, too',
  );

  const { id, token } = await must('POST', '/v1/sessions', { vault: 'default' });
  t.match(await connect(broker, authority, { token }), { status: 200 });
  await must('DELETE', `/v1/sessions/${id}`);
  t.match(await connect(broker, authority, { token }), { status: 407 }, 'revoked');
  t.match(await broker.api('GET', '/discover', { token }), { status: 401 });
});

t.test('Limits and versioning', async (t) => {
  await must('PATCH', '/v1/vaults/other', { rate_limit: { rps: 1, burst: 2 } });
  const token = await broker.session('other');
  const answers = [];
  for (let i = 0; i < 4; i++)
    answers.push(await absolute(broker, `http://api.test:${plain.port}/`, { token, vault: 'other' }));
  const last = answers.at(-1) as Answer;
  t.match(last, { status: 429, json: { error: 'rate_limited' } });
  t.match(last.field('retry-after'), /^[1-9]\d*$/);
  t.ok(answers.some(({ status }) => status === 200));
  for (const path of ['/v1/discover', '/credentials', '/v1/approve/1', '/v2/proposals'])
    t.equal((await fetch(broker.address + path)).status, 404, `${path}: there is one path for each`);
});

t.test('Cleared', async (t) => {
  t.equal((await get('/', {}, 'unknown.test')).answer.status, 200);
  t.match(await broker.command(['vault', 'service', 'clear', '--yes']), { code: 0 });
  const { answer, got } = await get('/', {}, 'unknown.test');
  t.match(
    { answer, got },
    {
      answer: { status: 403, json: { error: 'forbidden', proposal_hint: { host: 'unknown.test' } } },
      got: undefined,
    },
    'whatever the policy',
  );
  t.match((await get('/')).answer.json, { error: 'forbidden' });
  await services([{ host: 'api.test', auth: { type: 'passthrough' } }]);
  t.equal((await get('/', {}, 'unknown.test')).answer.status, 200, 'until a service is set');
});

t.test('Order of refusals', async (t) => {
  await must('POST', '/v1/vaults', { name: 'order' });
  await credentials({ LONG: 'x'.repeat(60_000), GONE: 'x' }, 'order');
  const setting = (host: string, more: object = {}) => ({ host, auth: bearer('GONE'), ...more });
  const long = { host: 'long.test', auth: { type: 'custom', headers: { 'X-Long': '{{ LONG }}' } } };
  await services([setting('169.254.169.254', { enabled: false }), setting('api.test'), long], 'order');
  await must('DELETE', '/v1/credentials/GONE?force=true', undefined, 'order');
  await must('PATCH', '/v1/vaults/order', { rate_limit: { rps: 1, burst: 1 } });
  const token = await broker.session('order');
  const right = { token, vault: 'order' };
  const wrong = { token: 'brk_ses_nobody', vault: 'other' };
  const blocked = 'http://169.254.169.254/';
  const code = async (url: string, through: Through) => (await absolute(broker, url, through)).json.error;

  // Each breaks all that the next ones break, too.
  t.equal(await code('http://127.1/', wrong), 'invalid_request', 'the authority first');
  t.equal(await code(blocked, wrong), 'proxy_auth_required', 'then the credentials');
  t.equal(await code(blocked, { token, vault: 'other' }), 'forbidden', 'then the vault');
  let refused = await code(blocked, right);
  for (let i = 0; i < 5 && refused !== 'rate_limited'; i++) refused = await code(blocked, right);
  t.equal(refused, 'rate_limited', 'then the rate');
  await must('PATCH', '/v1/vaults/order', { rate_limit: null });
  t.equal(await code(blocked, right), 'service_disabled', 'then a service that is disabled');
  const unmatched = 'http://10.0.0.1/';
  await must('PATCH', '/v1/vaults/order', { unmatched_host_policy: 'deny' });
  t.equal(await code(blocked, right), 'service_disabled', 'before the policy');
  t.equal(await code(unmatched, right), 'forbidden', 'then the policy');
  await must('PATCH', '/v1/vaults/order', { unmatched_host_policy: 'passthrough' });
  t.equal(await code(unmatched, right), 'network_blocked', 'which alone kept the network guard from it');
  await must('PATCH', '/v1/vaults/order/services/169.254.169.254', { enabled: true });
  t.equal(
    await code(blocked, right),
    'network_blocked',
    'then the network guard, before anything is injected',
  );
  t.equal(await code(`http://api.test:${plain.port}/`, right), 'credential_not_found', 'then the credential');
  const fields = [['X-More', 'y'.repeat(10_000)]] as const;
  const sent = plain.got.length;
  t.equal(
    await code(`http://long.test:${plain.port}/`, { ...right, fields }),
    'substitution_error',
    'and the head last',
  );
  t.equal(plain.got.length, sent);
});

t.test('Events', async (t) => {
  await must('POST', '/v1/vaults', { name: 'heard' });
  await must('PATCH', '/v1/vaults/heard', { unmatched_host_policy: 'deny' });
  await credentials({ LOST: 'x' }, 'heard');
  await services([{ host: 'api.test', auth: bearer('LOST') }], 'heard');
  await must('DELETE', '/v1/credentials/LOST?force=true', undefined, 'heard');
  const through = { token: await broker.session('heard'), vault: 'heard' };
  const over = new AbortController();
  t.teardown(() => over.abort());
  const owner = readFileSync(join(broker.directory, 'owner.token'), 'utf8').trim();
  const listening = await fetch(`${broker.address}/v1/events`, {
    headers: { authorization: `Bearer ${owner}`, 'x-vault': 'heard' },
    signal: over.signal,
  });
  t.equal(listening.headers.get('content-type'), 'text/event-stream');
  await absolute(broker, `http://new.test:${plain.port}/`, through);
  await absolute(broker, `http://api.test:${plain.port}/`, through);
  const { body } = await broker.api<Json>('POST', '/v1/proposals', {
    ...through,
    body: { credentials: [{ action: 'set', key: 'LOST' }] },
  });
  const { review } = await must('GET', `/v1/proposals/${body.id}`, undefined, 'heard');
  const confirm = review.fingerprint;
  await must('POST', `/v1/proposals/${body.id}/approve`, { credentials: { LOST: 'y' }, confirm });
  let text = '';
  for await (const chunk of listening.body ?? []) {
    text += Buffer.from(chunk).toString();
    if (text.includes('proposal.applied')) break;
  }
  const types = [...text.matchAll(/^event: (.*)$/gm)].map(([, type]) => type);
  t.same(types.sort(), ['credential.missing', 'host.denied', 'proposal.applied', 'proposal.created']);
  t.match(text, /"host":"new\.test"/);
  t.match(text, /"key":"LOST"/);
});
