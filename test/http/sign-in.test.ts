/** Operators: sign-in by password, link and cookie, and what a browser's requests need beside the cookie. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { hashToken, mintToken } from '../../src/actors/vault/token.ts';
import { createBrowser, localPath } from '../../src/http/browser.ts';
import { readForm } from '../../src/http/form.ts';
import type { Incoming } from '../../src/http/incoming.ts';
import { originKey } from '../support/origin-key.ts';
import { by, startBroker, type TestBroker } from './start-front.ts';

const right = 'correct horse battery';

type Fields = Readonly<Record<string, string>>;

/** A browser: a cookie jar of one, and forms as it sends them. */
function browserOf(broker: TestBroker, origin = `http://127.0.0.1:${broker.port}`) {
  let cookie = '';
  const own = originKey();
  async function ask(method: string, path: string, headers: Fields, body?: string) {
    const all = { ...(cookie !== '' && { cookie }), ...headers };
    const answer = await broker.ask(method, path, { body, headers: all });
    const [set] = answer.headers['set-cookie'] ?? [];
    if (set !== undefined) cookie = /Max-Age=0/.test(set) ? '' : set.split(';')[0];
    return { ...answer, set };
  }
  return {
    get cookie() {
      return cookie;
    },
    set cookie(value) {
      cookie = value;
    },
    get: (path: string, headers: Fields = {}) => ask('GET', path, headers),
    post: (path: string, fields: Fields, headers: Fields = {}) => {
      const form = { origin, 'content-type': 'application/x-www-form-urlencoded', ...headers };
      return ask('POST', path, form, new URLSearchParams(fields).toString());
    },
    own,
    /** Signs a form as the script of our pages does, and sends it. */
    async signed(path: string, fields: Fields, headers: Fields = {}) {
      const { challenge } = (await ask('GET', '/login/challenge', {})).json;
      return this.post(path, { ...fields, ...own.sign(path, challenge, fields) }, headers);
    },
    api: (method: string, path: string, body: unknown, headers: Fields = {}) =>
      ask(method, path, { origin, 'content-type': 'application/json', ...headers }, JSON.stringify(body)),
    /** The CSRF token of the page that a signed-in operator sees. */
    async csrf() {
      const { text } = await ask('GET', '/login', {});
      return /name="csrf" value="([\w-]+)"/.exec(text)?.[1] ?? '';
    },
  };
}

async function newLink(broker: TestBroker, token = broker.operator): Promise<string> {
  const { status, json } = await broker.ask('POST', '/v1/login-links', { token });
  if (status !== 201) throw new Error(`no link: ${status}`);
  return json.url.slice(json.url.indexOf('/login'));
}

const tokenIn = (path: string) => path.slice(path.indexOf('=') + 1);

t.test('operators: who may see and change whom', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const { operator } = broker;
  const make = (body: object, token = operator) => broker.ask('POST', '/v1/operators', { token, body });
  const made = await make({ name: 'ann', vaults: ['default'], password: right });
  t.match([made.status, made.json], [201, { name: 'ann', role: 'admin', vaults: ['default'] }]);
  t.equal((await make({ name: 'ann' })).status, 409);
  t.match((await make({ name: 'bob', password: 'short' })).json, { field: 'password' });
  t.match((await make({ name: 'bob', role: 'owner', vaults: ['default'] })).json, { field: 'vaults' });
  t.match((await make({ name: 'bob', role: 'king' })).json, { field: 'role' });
  t.match((await make({ name: 'a b' })).json, { field: 'name' });
  t.equal((await make({ name: 'bob', vaults: ['none'] })).status, 404);
  t.equal((await make({ name: 'bob' })).status, 201, 'without a password');

  const login = await broker.ask('POST', '/v1/login', { body: { name: 'ann', password: right } });
  const ann = login.json.token;
  t.match([login.status, ann], [200, /^brk_opr_/]);
  t.ok(Math.abs(Date.parse(login.json.expires_at) - Date.now() - 12 * 3_600_000) < 60_000);
  const list = async (token: string) => (await broker.ask('GET', '/v1/operators', { token })).json;
  t.match(await list(ann), { operators: [{ name: 'ann' }], you: 'ann' }, 'an admin sees itself');
  t.equal((await list(ann)).operators.length, 1);
  t.same(
    (await list(operator)).operators.map(({ name }: { name: string }) => name),
    ['owner', 'ann', 'bob'],
  );
  for (const [method, path, body] of [
    ['POST', '/v1/operators', { name: 'eve' }],
    ['DELETE', '/v1/operators/bob', undefined],
    ['PUT', '/v1/operators/bob/password', { password: right, current_password: right }],
    ['PUT', '/v1/operators/owner/password', { password: right, current_password: right }],
  ] as const) {
    t.equal((await broker.ask(method, path, { token: ann, body })).status, 403, `${method} ${path}`);
  }
  for (const token of [await broker.session(), await broker.agent('default')]) {
    t.equal((await broker.ask('GET', '/v1/operators', { token })).status, 403);
    t.equal((await broker.ask('POST', '/v1/login-links', { token })).status, 403);
  }
  t.equal((await broker.ask('DELETE', '/v1/operators/owner', { token: operator })).status, 409);
  t.equal((await broker.ask('DELETE', '/v1/operators/ann', { token: operator })).status, 204);
  t.equal((await broker.ask('GET', '/v1/operators', { token: ann })).status, 401, 'signed out at once');
  t.notMatch([...broker.log, JSON.stringify(broker.records)].join(), right);
});

t.test('passwords: changed by the owner, or by whoever knows the present one', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const login = (name: string, password: string) =>
    broker.ask('POST', '/v1/login', { body: { name, password } });
  const put = (name: string, token: string, body: object) =>
    broker.ask('PUT', `/v1/operators/${name}/password`, { token, body });

  t.equal((await login('owner', right)).status, 401, 'no password yet');
  t.equal((await put('owner', broker.operator, { password: right })).status, 204);
  const [first, second] = [await login('owner', right), await login('owner', right)];
  t.equal(first.status, 200);
  t.equal(
    (await put('owner', first.json.token, { password: `${right} 2` })).status,
    204,
    'an owner needs no other',
  );
  t.equal(
    (await broker.ask('GET', '/v1/operators', { token: first.json.token })).status,
    200,
    'stays signed in',
  );
  t.equal(
    (await broker.ask('GET', '/v1/operators', { token: second.json.token })).status,
    401,
    'elsewhere not',
  );
  t.equal(
    (await broker.ask('GET', '/v1/operators', { token: broker.operator })).status,
    200,
    'the file does',
  );
  t.equal((await login('owner', right)).status, 401);

  const admin = await broker.admin('default');
  const name = 'admin-default';
  const own = (body: object) => put(name, admin, body);
  t.equal((await put(name, broker.operator, { password: right })).status, 204);
  t.equal((await own({ password: right })).status, 401, 'the owner’s change signed the admin out');
  const { token } = (await login(name, right)).json;
  const change = (body: object) => put(name, token, body);
  t.match(await change({ password: 'another one' }), { status: 400, json: { field: 'current_password' } });
  t.match(await change({ password: 'another one', current_password: 'wrong' }), { status: 403 });
  t.match(await change({ password: 'short', current_password: right }), {
    status: 400,
    json: { field: 'password' },
  });
  t.equal((await login(name, right)).status, 200, 'nothing of this changed it');
  t.equal((await change({ password: 'another one', current_password: right })).status, 204);
  t.equal((await login(name, 'another one')).status, 200);
});

t.test('wrong passwords are counted, past the limit none is looked at, and tokens go on', async (t) => {
  const broker = await startBroker({ settings: { 'auth-failures': 3 } });
  t.teardown(broker.stop);
  const { operator } = broker;
  await broker.ask('PUT', '/v1/operators/owner/password', { token: operator, body: { password: right } });
  const login = (name: string, password: string) =>
    broker.ask('POST', '/v1/login', { body: { name, password } });
  const refused = [
    await login('owner', 'wrong'),
    await login('nobody', right),
    await login('owner', 'wrong 2'),
  ];
  t.same(
    refused.map(({ status }) => status),
    [401, 401, 401],
  );
  t.equal(
    new Set(refused.map(({ json }) => json.message)).size,
    1,
    'alike, whether there is such a name or not',
  );
  const past = await login('owner', right);
  t.equal(past.status, 429, 'the right one isn’t told from a wrong one any more');
  t.ok(Number(past.headers['retry-after']) > 0);
  const page = await browserOf(broker).post('/login', { name: 'owner', password: right });
  t.match([page.status, page.headers['set-cookie']], [429, undefined]);
  t.ok(Number(page.headers['retry-after']) > 0);
  t.equal((await broker.ask('GET', '/v1/operators', { token: operator })).status, 200);
  const link = await browserOf(broker).post('/login', { token: tokenIn(await newLink(broker)) });
  t.equal(link.status, 303, 'and so does a link');
  t.equal(broker.records.filter(({ action }) => action === 'auth.refused').length, 5, 'each left a record');
});

t.test('a name that nobody has takes as long as a wrong password', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  await broker.ask('PUT', '/v1/operators/owner/password', {
    token: broker.operator,
    body: { password: right },
  });
  const time = async (name: string) => {
    const from = performance.now();
    await broker.ask('POST', '/v1/login', { body: { name, password: 'wrong' } });
    return performance.now() - from;
  };
  await time('owner');
  const [known, unknown] = [await time('owner'), await time('nobody')];
  t.ok(unknown > known / 3, `${Math.round(unknown)} ms for nobody, ${Math.round(known)} ms for somebody`);
});

t.test('too many passwords at once are refused, not piled up', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => broker.ask('POST', '/v1/login', { body: { name: 'x', password: 'y' } })),
  );
  const statuses = answers.map(({ status }) => status);
  t.ok(statuses.includes(503) && statuses.includes(401), statuses.join());
});

t.test('a link: shown by GET, used by POST, once', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const link = await newLink(broker);
  const browser = browserOf(broker);
  for (let i = 0; i < 3; i++) {
    const page = await browser.get(link);
    t.match([page.status, page.set], [200, undefined], 'a preview uses nothing up');
    t.match(page.text, /<form method="post" action="\/login"/);
    t.match(page.headers, { 'cache-control': 'no-store', 'content-security-policy': /form-action 'self'/ });
    t.not(page.headers['referrer-policy'], 'no-referrer', 'else browsers send Origin: null with the form');
  }
  const signedIn = await browser.post('/login', { token: tokenIn(link), next: '/approve/1?token=x' });
  t.match([signedIn.status, signedIn.headers.location], [303, '/approve/1?token=x']);
  t.match(signedIn.set, /^broker_session=brk_opr_[0-9a-f]{72}; Path=\/; HttpOnly; SameSite=Strict$/);
  t.match((await browser.get('/login')).text, /signed in as <strong>owner<\/strong> \(owner\)/i);
  const again = await browserOf(broker).post('/login', { token: tokenIn(link) });
  t.match([again.status, again.set], [410, undefined]);
  const other = await browserOf(broker).post('/login', { token: broker.operator });
  t.match([other.status, other.set], [410, undefined], 'a token that is no link');
  t.equal((await browserOf(broker).post('/login', { token: 'x' })).status, 410);
  t.notMatch([...broker.log, JSON.stringify(broker.records)].join(), /brk_opr_/);
});

t.test('by name and password, to a local page only, and out again', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  await broker.ask('PUT', '/v1/operators/owner/password', {
    token: broker.operator,
    body: { password: right },
  });
  const browser = browserOf(broker);
  t.match((await browser.get('/login?next=/x')).text, /name="name".*name="next" value="\/x"/s);
  const wrong = await browser.post('/login', { name: 'owner', password: '"><script>' });
  t.match([wrong.status, wrong.set], [401, undefined]);
  t.match(wrong.text, /name or the password is wrong/);
  t.notMatch(wrong.text, '"><script>');
  for (const next of [
    '//evil.example',
    '/\\evil.example',
    'https://evil.example',
    '/x\r\nset-cookie: a=b',
    '',
  ]) {
    const answer = await browserOf(broker).post('/login', { name: 'owner', password: right, next });
    t.match([answer.status, answer.headers.location], [303, '/'], JSON.stringify(next));
  }
  t.equal(
    (await browser.post('/login', { name: 'owner', password: right, next: '/x' })).headers.location,
    '/x',
  );

  t.equal((await browser.post('/logout', { csrf: 'wrong' })).status, 403);
  t.equal((await browser.get('/v1/vaults')).status, 200, 'still signed in');
  const { cookie } = browser;
  const here = await browser.post('/logout', { csrf: await browser.csrf() });
  t.match([here.status, here.headers.location], [303, '/login']);
  t.match(here.set, /^broker_session=; .*Max-Age=0/);
  browser.cookie = cookie;
  t.equal((await browser.get('/v1/vaults')).status, 200, 'who has but the cookie ends no session');
  const proof = { 'proof.password': right };
  t.equal((await browser.post('/logout', { csrf: await browser.csrf(), ...proof })).status, 303);
  browser.cookie = cookie;
  t.equal((await browser.get('/v1/vaults')).status, 401, 'the cookie is worth nothing any more');
  t.equal((await browser.post('/logout', {})).status, 303, 'who is out stays out');

  await browser.signed('/login', { name: 'owner', password: right });
  const signed = browser.cookie;
  t.equal((await browser.signed('/logout', { csrf: await browser.csrf() })).status, 303);
  browser.cookie = signed;
  t.equal((await browser.get('/v1/vaults')).status, 401, 'nor is one whose form was signed');
});

t.test('the API by a cookie: to read, and for nothing else', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const browser = browserOf(broker);
  await browser.signed('/login', { token: tokenIn(await newLink(broker)) });
  const good = { 'x-csrf-token': await browser.csrf() };
  t.equal((await browser.get('/v1/vaults')).status, 200);
  const make = (headers: Fields, name = 'no') => browser.api('POST', '/v1/vaults', { name }, headers);
  t.match(await make(good), { status: 403, json: { error: 'forbidden', message: /cookie/ } });
  for (const [method, path] of [
    ['DELETE', '/v1/vaults/yes?confirm=yes'],
    ['PATCH', '/v1/vaults/yes'],
    ['PUT', '/v1/operators/owner/password'],
    ['POST', '/v1/logout'],
    ['POST', '/v1/login-links'],
    ['POST', '/v1/login-codes'],
  ]) {
    t.equal((await browser.api(method, path, {}, good)).status, 403, `${method} ${path}`);
  }
  const asToken = browser.cookie.split('=')[1];
  t.equal((await broker.ask('GET', '/v1/vaults', { token: asToken })).status, 401, 'a cookie is no token');
  const bearer = await broker.ask('GET', '/v1/vaults', {
    headers: { cookie: `broker_session=${broker.operator}` },
  });
  t.equal(bearer.status, 401, 'a token is no cookie');
  const session = await broker.ask('GET', '/discover', {
    headers: { cookie: `broker_session=${await broker.session()}` },
  });
  t.equal(session.status, 401, 'nor is a session’s');
  const both = await broker.ask('GET', '/v1/vaults', {
    token: 'brk_opr_x',
    headers: { cookie: browser.cookie },
  });
  t.equal(both.status, 401, 'a header that is there counts');
  t.equal((await make({ authorization: `Bearer ${broker.operator}`, origin: '' }, 'by-token')).status, 201);
});

t.test('a form: only from a page of ours, with its token, and proved', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  await broker.ask('PUT', '/v1/operators/owner/password', {
    token: broker.operator,
    body: { password: right },
  });
  const browser = browserOf(broker);
  await browser.signed('/login', { token: tokenIn(await newLink(broker)) });
  const foreign = browserOf(broker);
  await foreign.signed('/login', { token: tokenIn(await newLink(broker)) });
  const csrf = await browser.csrf();
  let made = 0;
  const fields = () => ({ csrf, name: `v${++made}` });
  const names = async () => (await browser.get('/v1/vaults')).json.vaults.length;
  const challenge = async () => (await browser.get('/login/challenge')).json.challenge;
  const code = async () =>
    (await broker.ask('POST', '/v1/login-codes', { token: broker.operator })).json.code;

  t.equal((await browser.signed('/vaults', fields())).status, 303, 'signed');
  t.equal(
    (await browser.post('/vaults', { ...fields(), 'proof.password': right })).status,
    303,
    'by password',
  );
  const digits = await code();
  t.equal((await browser.post('/vaults', { ...fields(), 'proof.code': digits })).status, 303, 'by code');
  t.equal(await names(), 4);

  const origin = `http://127.0.0.1:${broker.port}`;
  const cases: [string, Fields][] = [
    ['another origin', { origin: 'http://evil.example' }],
    ['another port', { origin: `http://127.0.0.1:${broker.port + 1}` }],
    ['another scheme', { origin: `https://127.0.0.1:${broker.port}` }],
    ['an origin that hides', { origin: 'null' }],
    ['our name with a tail', { origin: `${origin}.evil.example` }],
    ['our name as a user', { origin: `${origin}@evil.example` }],
    ['no origin', { origin: '' }],
  ];
  for (const [about, headers] of cases)
    t.equal((await browser.signed('/vaults', fields(), headers)).status, 403, about);
  for (const wrong of ['', `${csrf.slice(0, -1)}!`, await foreign.csrf()])
    t.equal(
      (await browser.signed('/vaults', { ...fields(), csrf: wrong })).status,
      403,
      `the token ${wrong}`,
    );

  // The attacker has the cookie, and all that the page shows.
  const sent = fields();
  const good = { ...sent, ...browser.own.sign('/vaults', await challenge(), sent) };
  const other = fields();
  const stolen: [string, Fields][] = [
    ['nothing else', fields()],
    ['another’s key', { ...other, ...foreign.own.sign('/vaults', await challenge(), other) }],
    ['a signature of another form', { ...good, name: 'other' }],
    ['of fewer fields', { ...good, more: 'x' }],
    ['of another path', { ...other, ...browser.own.sign('/agents', await challenge(), other) }],
    ['of a challenge that isn’t ours', { ...other, ...browser.own.sign('/vaults', 'abc-def-0123', other) }],
    ['a code that was used', { ...fields(), 'proof.code': digits }],
    ['a wrong password', { ...fields(), 'proof.password': 'wrong' }],
    ['no signature', { ...fields(), 'proof.signature': `${browser.own.key}.x.${'A'.repeat(86)}` }],
  ];
  for (const [about, form] of stolen) {
    const answer = await browser.post('/vaults', form);
    t.match([answer.status, answer.text], [403, /Show that it is you/], about);
  }
  t.equal(await names(), 4);
  t.equal((await browser.post('/vaults', good)).status, 303, 'the signature was good');
  t.equal((await browser.post('/vaults', good)).status, 409, 'once');
  t.equal(await names(), 5);

  // Asked again: what was typed is there, a value isn't.
  const typed = { csrf, key: 'KEY_TYPED', 'value.new': 'never-shown' };
  const again = await browser.post('/vaults/default/credentials', typed);
  t.match(again.text, /name="key" value="KEY_TYPED".*name="value.new".*current-password.*one-time-code/s);
  t.notMatch(again.text, 'never-shown');

  // A code: five wrong ones void it, and the next one replaces it.
  const old = await code();
  const voided = await code();
  t.equal((await browser.post('/vaults', { ...fields(), 'proof.code': old })).status, 403, 'replaced');
  const wrong = voided === '000000' ? '000001' : '000000';
  for (let i = 0; i < 4; i++) await browser.post('/vaults', { ...fields(), 'proof.code': wrong });
  t.equal((await browser.post('/vaults', { ...fields(), 'proof.code': voided })).status, 403, 'voided');
  t.equal(await names(), 5);
  const records = JSON.stringify(broker.records) + broker.log.join();
  t.notMatch(records, new RegExp(`"(${digits}|${voided})"|${right}|never-shown`));
});

t.test('a cookie that another port has overwritten: the session is still there', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const browser = browserOf(broker);
  await browser.signed('/login', { token: tokenIn(await newLink(broker)) });
  const [csrf, stolen] = [await browser.csrf(), browser.cookie];
  const lists = async () => (await browser.get('/v1/vaults')).status;
  browser.cookie = `${stolen}; broker_session=x`;
  t.equal(await lists(), 200, 'what isn’t a session beside it doesn’t count');
  const foreign = browserOf(broker);
  await foreign.signed('/login', { token: tokenIn(await newLink(broker)) });
  browser.cookie = `${stolen}; ${foreign.cookie}`;
  t.equal(await lists(), 401, 'of two sessions none does');
  browser.cookie = 'broker_session=x';
  t.equal(await lists(), 401);
  t.equal(
    (await browser.signed('/vaults', { csrf, name: 'signed' })).status,
    303,
    'a signed form needs none',
  );
  t.equal((await browser.post('/login/resume', {})).status, 401);
  t.equal((await browser.signed('/login/resume', {}, { origin: 'http://127.0.0.1:1' })).status, 403);
  t.equal((await browserOf(broker).signed('/login/resume', {})).status, 401, 'another browser');
  t.equal((await browser.signed('/login/resume', {})).status, 204);
  t.equal(await lists(), 200);
  t.not(browser.cookie, stolen);
  t.equal(
    (await browser.signed('/vaults', { csrf, name: 'still' })).status,
    303,
    'pages that are open go on',
  );
  browser.cookie = stolen;
  t.equal(await lists(), 401, 'who has the old one has nothing');

  // Signed in anew with the same key, and out: nothing older comes back.
  await browser.signed('/login', { token: tokenIn(await newLink(broker)) });
  await browser.signed('/logout', { csrf: await browser.csrf() });
  t.equal((await browser.signed('/login/resume', {})).status, 401);
});

t.test('an old cookie is refused, and not counted', async (t) => {
  const broker = await startBroker({ settings: { 'auth-failures': 2 } });
  t.teardown(broker.stop);
  const browser = browserOf(broker);
  await browser.post('/login', { token: tokenIn(await newLink(broker)) });
  const hash = hashToken(browser.cookie.split('=')[1]);
  await broker.vault.ask('operator.signOut', { hash, by });
  for (let i = 0; i < 5; i++) t.equal((await browser.get('/v1/vaults')).status, 401);
});

t.test('a sign-in that another site asks for is refused', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const link = await newLink(broker);
  for (const origin of ['http://evil.example', 'null', '']) {
    const answer = await browserOf(broker).post('/login', { token: tokenIn(link) }, { origin });
    t.match([answer.status, answer.set], [403, undefined], origin);
  }
  const json = await broker.ask('POST', '/login', {
    headers: { origin: `http://127.0.0.1:${broker.port}` },
    body: { token: tokenIn(link) },
  });
  t.equal(json.status, 415);
  const twice = await broker.ask('POST', '/login', {
    headers: {
      origin: `http://127.0.0.1:${broker.port}`,
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: 'name=a&name=b',
  });
  t.equal(twice.status, 400);
  t.equal(
    (await browserOf(broker).post('/login', { token: tokenIn(link) })).status,
    303,
    'the link is still good',
  );
});

t.test('behind something that does TLS: Secure by the public name, and its Origin is ours', async (t) => {
  const broker = await startBroker({ settings: { 'public-url': 'https://broker.example/' } });
  t.teardown(broker.stop);
  const link = await newLink(broker);
  const downgraded = browserOf(broker, 'http://broker.example');
  t.equal(
    (await downgraded.post('/login', { token: tokenIn(link) }, { host: 'broker.example' })).status,
    403,
  );
  const browser = browserOf(broker, 'https://broker.example');
  const answer = await browser.post('/login', { token: tokenIn(link) }, { host: 'broker.example' });
  t.match([answer.status, answer.set], [303, /^__Host-broker_session=brk_\w+; Path=\/; .*; Secure$/]);
  const local = browserOf(broker);
  const plain = await local.post('/login', { token: tokenIn(await newLink(broker)) });
  t.equal(plain.status, 303);
  t.notMatch(plain.set, /Secure/, 'a browser would not send it back without TLS');
});

t.test('signing out by token', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const made = await broker.vault.ask('operator.signIn', { name: 'owner', kind: 'token', by });
  const token = made.ok ? made.value.token.reveal() : '';
  t.equal((await broker.ask('POST', '/v1/logout', { token })).status, 204);
  t.equal((await broker.ask('POST', '/v1/logout', { token })).status, 401);
  t.equal((await broker.ask('POST', '/v1/logout', { token: broker.operator })).status, 409, 'the file stays');
});

t.test('properties: paths, cookies and forms', async (t) => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('/', '\\', 'a', '.', ' ', '\r', '\n', '@', ':', '%', 'é') }),
      (text) => {
        const path = localPath(text);
        if (path === null) return;
        const url = new URL(path, 'http://own.example');
        assert.equal(url.origin, 'http://own.example', JSON.stringify(text));
        assert.match(path, /^\/[!-~]*$/);
      },
    ),
    { numRuns: 5000 },
  );
  t.equal(localPath('/approve/1?token=x&a=%2F'), '/approve/1?token=x&a=%2F');
  t.equal(localPath(`/${'a'.repeat(3000)}`), null);

  const incoming = (headers: Record<string, string[]>, body = '') =>
    ({
      values: (name: string) => headers[name] ?? [],
      body: async () => Buffer.from(body),
    }) as unknown as Incoming;
  const plain = createBrowser('http://a.example', false);
  const tls = createBrowser('https://a.example', true);
  const tokens: Readonly<Record<string, string>> = {
    a: mintToken('operator').token.reveal(),
    b: mintToken('operator').token.reveal(),
  };
  for (const [names, wanted] of [
    [['broker_session=a'], ['a']],
    [['broker_session=junk; broker_session=a'], ['a']],
    [['x=1; broker_session=a;y=2'], ['a']],
    [['x=1', 'broker_session=a'], ['a']],
    [['broker_session=a; broker_session=b'], ['a', 'b']],
    [
      ['broker_session=a', 'broker_session=a'],
      ['a', 'a'],
    ],
    [['broker_session='], []],
    [['xbroker_session=a'], []],
    [['Broker_Session=a'], []],
    [[], []],
    [[Array(99).fill('broker_session=a').join('; ')], Array(16).fill('a')],
  ] as const) {
    const cookie = names.map((each) =>
      each.replace(/(session=)([ab])\b/gi, (_, name, value) => name + tokens[value]),
    );
    const expected = wanted.map((name) => tokens[name]);
    t.same(plain.sessionCookies(incoming({ cookie: [...cookie] })), expected, names.join(' | ').slice(0, 60));
    t.same(tls.sessionCookies(incoming({ cookie: [...cookie] })), [], 'under TLS the name is another');
    const hosts = cookie.map((each) => each.replaceAll('broker_session', '__Host-broker_session'));
    t.same(tls.sessionCookies(incoming({ cookie: hosts })).length, expected.length);
  }

  await fc.assert(
    fc.asyncProperty(fc.dictionary(fc.string(), fc.string({ unit: 'binary' })), async (fields) => {
      const type = { 'content-type': ['application/x-www-form-urlencoded; charset=UTF-8'] };
      const form = await readForm(incoming(type, new URLSearchParams(fields).toString()));
      assert.ok(form.ok);
      const wellFormed = Object.entries(fields).map(([key, value]) => [
        key.toWellFormed(),
        value.toWellFormed(),
      ]);
      assert.deepEqual([...form.value], wellFormed);
    }),
    { numRuns: 200 },
  );

  const one = createBrowser('http://a.example', false);
  const other = createBrowser('http://a.example', false);
  t.equal(one.csrfProblem('h', one.csrfToken('h')), null);
  t.match(one.csrfProblem('h', one.csrfToken('i')), { code: 'forbidden' });
  t.match(one.csrfProblem('h', other.csrfToken('h')), { code: 'forbidden' }, 'of another process');
  t.match(one.csrfProblem('h', undefined), { code: 'forbidden' });
});
