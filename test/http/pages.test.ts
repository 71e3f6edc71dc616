/** The pages without a browser: what they decide, what they send, and who may ask for what. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { reflections, type Service } from '../../src/actors/vault/model.ts';
import { checkProposal } from '../../src/actors/vault/proposal-rules.ts';
import type { ProposalReview } from '../../src/actors/vault/protocol.ts';
import { Secret } from '../../src/actors/vault/secret.ts';
import { checkServices } from '../../src/actors/vault/service-rules.ts';
import { mintToken } from '../../src/actors/vault/token.ts';
import type { Stats } from '../../src/http/front-options.ts';
import { page } from '../../src/http/html.ts';
import { notLinked } from '../../src/http/pages/agent-link.ts';
import { barHeights } from '../../src/http/pages/chart.ts';
import { createHistory, minutesKept, quantile } from '../../src/http/pages/history.ts';
import { lookAlike, namesAnother, unicodeForm } from '../../src/http/pages/look-alike.ts';
import { isWanted, requestOf } from '../../src/http/pages/request-record.ts';
import { risksOf, type Surroundings } from '../../src/http/pages/risks.ts';
import { draftFrom, draftOf, inputOf } from '../../src/http/pages/service-input.ts';
import { noServiceWords, serviceWords } from '../../src/http/pages/service-words.ts';
import { isGivenAway, sharedSuffixOf } from '../../src/http/pages/shared-suffix.ts';
import { slice, withQuery } from '../../src/http/pages/table.ts';
import { serviceTemplates, templateDomains } from '../../src/http/pages/templates.ts';
import { manualClock } from '../support/manual-clock.ts';
import { originKey } from '../support/origin-key.ts';
import { allRoutes, example } from './all-routes.ts';
import { by, startBroker, type TestBroker } from './start-front.ts';

/** Markup as somebody reads it. */
const read = (part: Parameters<typeof page>[0]) =>
  page(part)
    .replace(/<[^>]*>/g, '')
    .replaceAll('&#39;', "'")
    .replaceAll('&quot;', '"')
    .trim();

t.test('forty templates, each a service and slots that the rules take', async (t) => {
  t.equal(serviceTemplates.length, 40);
  t.equal(new Set(serviceTemplates.map(({ id }) => id)).size, 40);
  t.equal(new Set(serviceTemplates.map(({ host }) => host)).size, 40);
  for (const { id, name, credentials, ...service } of serviceTemplates) {
    const slots = credentials.map((slot) => ({ action: 'set', ...slot }));
    const checked = checkProposal({ services: [{ action: 'set', ...service }], credentials: slots });
    t.ok(checked.ok, `${name}${checked.ok ? '' : `: ${checked.problem.message}`}`);
    t.ok(
      service.substitutions?.every(({ at }) => at !== undefined) ?? true,
      `${name}: placeholders have places`,
    );
    t.match(checkServices([service], 'services', { requireAuth: true }), { ok: true });
    const text = JSON.stringify(service);
    for (const { key, obtain } of credentials) {
      t.ok(text.includes(key), `${id}: ${key} is used`);
      t.ok(obtain.startsWith('https://'), `${id}: ${obtain}`);
    }
  }
});

t.test('hosts that could be taken for others', async (t) => {
  const known = new Set([...templateDomains, 'example.com']);
  const cases: Record<string, string | null> = {
    'api.stripe.com': null,
    'stripe.com': null,
    'api.str1pe.com': 'stripe.com',
    'stirpe.com': 'stripe.com',
    'api.stripee.com': 'stripe.com',
    'strpe.com': 'stripe.com',
    'stripe.com.evil.example': 'stripe.com',
    'stripe-api.net': 'stripe.com',
    'stripe.net': 'stripe.com',
    'g\u0456thub.com': 'github.com',
    'xn--gthub-n4a.com': 'github.com',
    'api.openai.com.': null,
    'internal.company.net': null,
    // A known name within another registered domain.
    'stripe.com-auth.net': 'stripe.com',
    'stripe-com.evil.example': 'stripe.com',
    'githubapi.com': 'github.com',
    'g1thubapi.com': 'github.com',
    'api-github.com': 'github.com',
    'mygithubtoken.net': 'github.com',
    'logingithub.example': 'github.com',
    'openai-proxy.herokuapp.com': 'openai.com',
    'githubusercontent.example.com': null,
    'pinboard.in': null,
    'weather.gov': null,
    '10.0.0.1': null,
    db: null,
  };
  for (const [host, expected] of Object.entries(cases)) t.equal(lookAlike(host, known), expected, host);
  t.equal(unicodeForm('xn--80ak6aa92e.com'), 'аррӏе.com');
  t.equal(unicodeForm('example.com'), null);
  fc.assert(
    fc.property(fc.constantFrom(...known), fc.string(), (own, other) => {
      assert.equal(lookAlike(`api.${own}`, [...known, other]), null, 'a known domain is itself');
    }),
  );
});

t.test('names of others in labels below; suffixes under which strangers get names', async (t) => {
  const known = ['github.com', 'gitlab.com', 'stripe.com', 'example.com'];
  const named: Record<string, string | null> = {
    'gitlab.company.net': 'gitlab.com',
    'api-stripe.company.net': 'stripe.com',
    'gitlab.com': null,
    'pages.gitlab.com': null,
    'api.company.net': null,
    localhost: null,
  };
  for (const [host, expected] of Object.entries(named)) t.equal(namesAnother(host, known), expected, host);

  const suffixes: Record<string, [suffix: string | null, givenAway: boolean]> = {
    'nip.io': ['nip.io', true],
    '10.0.0.1.nip.io': ['nip.io', false],
    'sslip.io': ['sslip.io', true],
    'auth0.com': ['auth0.com', true],
    'us.auth0.com': ['auth0.com', true],
    'tenant.us.auth0.com': ['auth0.com', false],
    'zendesk.com': ['zendesk.com', true],
    'company.zendesk.com': ['zendesk.com', false],
    'atlassian.net': ['atlassian.net', true],
    'amazonaws.com': ['amazonaws.com', true],
    'eu-west-1.amazonaws.com': ['amazonaws.com', true],
    'herokuapp.com': ['herokuapp.com', true],
    'x.vercel.app': ['vercel.app', false],
    'x.workers.dev': ['workers.dev', false],
    'x.ngrok-free.app': ['ngrok-free.app', false],
    'me.github.io': ['github.io', false],
    'api.example.com': [null, false],
  };
  for (const [name, expected] of Object.entries(suffixes))
    t.same([sharedSuffixOf(name), isGivenAway(name)], expected, name);
});

t.test('links of agents: not to this machine, its networks, the broker, in any form', async (t) => {
  const own = ['127.0.0.1', 'localhost', 'Broker.Example', '[2600::1]'];
  const refused = [
    'http://127.0.0.1:5173/x',
    'http://127.1/',
    'http://2130706433/',
    'http://0x7f.0.0.1/',
    'http://0177.0.0.1/',
    'http://127.200.0.9/',
    'http://0/',
    'http://[::1]:3000/',
    'http://[::ffff:127.0.0.1]/',
    'http://[::ffff:7f00:1]/',
    'http://[64:ff9b::7f00:1]/',
    'http://[fe80::1]/',
    'http://[fd00::1]/',
    'http://[2002:7f00:1::]/',
    'http://10.1.2.3/',
    'http://172.31.0.1/',
    'http://192.168.1.1/',
    'http://169.254.169.254/latest',
    'http://100.64.0.1/',
    'http://localhost:8080/',
    'http://LOCALHOST./',
    'http://a.localhost/',
    'http://printer/',
    'http://nas.local/',
    'http://metadata.google.internal/',
    'http://127.0.0.1.nip.io/',
    'http://app.lvh.me:3000/',
    'https://broker.example:9999/',
    'https://BROKER.example./',
    'https://[2600:0::1]/',
    'https://\uff11\uff12\uff17.0.0.1/',
    'nonsense',
  ];
  for (const url of refused) t.match(notLinked(url, own), /./, url);
  for (const url of [
    'https://dashboard.stripe.com/apikeys',
    'http://93.184.216.34/',
    'https://[2606:4700::1]/',
    'https://local.example.com/',
    'https://broker.example.com/',
    'https://172.32.0.1/',
  ]) {
    t.equal(notLinked(url, own), null, url);
  }
});

const around: Surroundings = {
  vault: { cleared: false, require_tls: true, unmatched_host_policy: 'passthrough' },
  sentTo: new Map([
    ['STORED', ['a.example.com']],
    ['IDLE', []],
  ]),
  domains: templateDomains,
};
const nothing: ProposalReview = {
  ...{
    id: 1,
    status: 'pending',
    vault: 'default',
    services: [],
    credentials: [],
    message: '',
    user_message: '',
  },
  ...{ review_note: null, reviewed_by: null, created_at: '', reviewed_at: null, expires_at: '' },
  ...{ requested_by: { kind: 'agent', id: 'a', label: 'a' }, before: [], needs_value: [] },
};

t.test('what to look at twice', async (t) => {
  const bearer = { type: 'bearer', token: 'K' } as const;
  const setting = (
    host: string,
    more: object = {},
    before: Service | null = null,
  ): Partial<ProposalReview> => ({
    services: [{ action: 'set', host, auth: bearer, ...more }],
    before: [before],
  });
  const disabled: Service = { host: 'a.example.com', auth: bearer, enabled: false };
  const cases: [string, Partial<ProposalReview>, string[]][] = [
    ['an ordinary host', setting('api.example.com'), []],
    ['a removal', { services: [{ action: 'delete', host: 'x.com:80' }], before: [null] }, []],
    ['a wildcard', setting('*.example.com'), ['wildcard']],
    ['passthrough', setting('a.example.com', { auth: { type: 'passthrough' } }), ['passthrough']],
    ["a neighbour's suffix", setting('me.github.io'), ['shared-suffix']],
    ['a wildcard for strangers', setting('*.zendesk.com'), ['shared-wildcard', 'wildcard']],
    ['wildcard beneath one', setting('*.me.github.io'), ['wildcard', 'shared-suffix']],
    ['an address', setting('192.0.2.1'), ['address']],
    ['a single label', setting('db'), ['address']],
    ['a look-alike', setting('api.str1pe.com'), ['look-alike']],
    ['punycode', setting('xn--bcher-kva.example'), ['punycode']],
    [
      'a look-alike that is there already',
      setting('api.str1pe.com', {}, { host: 'api.str1pe.com', auth: bearer }),
      [],
    ],
    ['stays disabled', setting('a.example.com', {}, disabled), []],
    ['enabled again', setting('a.example.com', { enabled: true }, disabled), ['enables']],
    ['a new value for a stored key', { credentials: [{ action: 'set', key: 'STORED' }] }, ['replaces']],
    [
      'a value by the agent',
      { credentials: [{ action: 'set', key: 'NEW', has_value: true }] },
      ['value-by-agent'],
    ],
    [
      'both',
      { credentials: [{ action: 'set', key: 'IDLE', has_value: true }] },
      ['replaces', 'value-by-agent'],
    ],
  ];
  for (const [name, proposal, kinds] of cases) {
    t.same(
      risksOf({ ...nothing, ...proposal }, around).map(({ kind }) => kind),
      kinds,
      name,
    );
  }
  const lax = { ...around, vault: { ...around.vault, require_tls: false } };
  const kinds = (proposal: object, held = lax) =>
    risksOf({ ...nothing, ...proposal }, held).map(({ kind }) => kind);
  t.same(kinds(setting('api.example.com')), ['http-too']);
  t.same(kinds(setting('api.example.com:80')), ['plain-http']);
  t.same(kinds(setting('api.example.com:80'), around), [], 'where the vault refuses it anyway');
  t.same(kinds(setting('a.example.com', { auth: { type: 'passthrough' } })), ['passthrough']);
  const many = risksOf({ ...nothing, ...setting('*.str1pe.com') }, lax);
  t.same(
    many.map(({ grave }) => grave),
    [true, false, false],
    'the grave ones come first',
  );
});

t.test('services in plain words', async (t) => {
  const say = (auth: Service['auth'], more: object = {}, when?: 'then') =>
    serviceWords({ host: 'api.stripe.com', auth, ...more }, when).map(read);
  t.same(say({ type: 'bearer', token: 'STRIPE_KEY' }, {}, 'then'), [
    'Requests to api.stripe.com will carry STRIPE_KEY as a bearer token.',
  ]);
  t.same(say({ type: 'basic', username: 'U', password: 'P' }), [
    'Requests to api.stripe.com carry U as user name and P as password (Basic).',
  ]);
  t.match(say({ type: 'basic', username: 'U' }), [/U as user name and an empty password/]);
  t.match(say({ type: 'api-key', key: 'K', prefix: 'Token ' }), [
    /carry K in the header Authorization, after “Token ”\.$/,
  ]);
  t.match(say({ type: 'custom', headers: { 'X-A': '{{ A }}', 'X-B': 'b', 'X-C': 'c' } }), [
    /carry \{\{ A \}\} in the header X-A, b in the header X-B and c in the header X-C\.$/,
  ]);
  t.match(say({ type: 'passthrough' }, { host: '*.example.com' }), [
    /^Requests to every name right under example\.com go through/,
  ]);
  const substitutions = [{ key: 'SID', placeholder: '__sid__' }];
  t.match(say({ type: 'passthrough' }, { substitutions, enabled: false }), [
    /^Disabled: requests to api\.stripe\.com are refused/,
    /go through/,
    /Where the agent writes __sid__ anywhere in the path and query, SID is put in its place\./,
    /the agent gets asterisks/,
  ]);
  const none = (cleared: boolean, policy: 'deny' | 'passthrough') =>
    read(noServiceWords('a.example.com', { cleared, unmatched_host_policy: policy }));
  t.match(none(false, 'passthrough'), /go through without a credential/);
  t.match(none(false, 'deny'), /are refused/);
  t.match(none(true, 'passthrough'), /are refused/);
});

t.test('a form of a service gives back what it was made from', async (t) => {
  const key = fc.stringMatching(/^[A-Z][A-Z0-9_]{0,8}$/);
  const name = fc.stringMatching(/^X-[A-Z][a-z]{0,6}$/);
  const auth = fc.oneof(
    fc.record({ type: fc.constant('bearer' as const), token: key }),
    fc.record({ type: fc.constant('basic' as const), username: key, password: key }),
    fc.record({ type: fc.constant('basic' as const), username: key }),
    fc.record({
      type: fc.constant('api-key' as const),
      key,
      header: name,
      prefix: fc.constantFrom('Token ', 'k='),
    }),
    fc.record({
      type: fc.constant('custom' as const),
      headers: fc.dictionary(name, fc.constantFrom('{{ K }}', 'a: {{ K }}'), { minKeys: 1, maxKeys: 3 }),
    }),
    fc.record({ type: fc.constant('passthrough' as const) }),
  );
  const surfaces = fc.subarray(['path', 'query', 'header'] as const, { minLength: 1 });
  const placeholder = fc.stringMatching(/^__[a-z]{1,6}__$/);
  const names = fc.uniqueArray(fc.stringMatching(/^[a-z]{1,4}$/), { minLength: 1, maxLength: 3 });
  const at = fc
    .record(
      { path: fc.constantFrom('/__a__', '/x/__b__/*'), query: names, header: names },
      { requiredKeys: [] },
    )
    .filter((places) => Object.keys(places).length > 0);
  const substitution = fc.oneof(
    fc.record({ key, placeholder, in: surfaces }),
    fc.record({ key, placeholder, at }),
  );
  fc.assert(
    fc.property(
      auth,
      fc.array(substitution, { maxLength: 3 }),
      fc.constantFrom('', 'Words'),
      fc.option(fc.constantFrom(...reflections), { nil: undefined }),
      (auth, substitutions, description, reflection) => {
        const service = {
          host: 'api.example.com',
          description,
          auth,
          ...(substitutions.length > 0 && { substitutions }),
          ...(reflection && { reflection }),
        };
        const draft = draftOf(service);
        const form = new Map([
          ['host', draft.host],
          ['description', draft.description],
          ['type', draft.type],
          ['reflection', draft.reflection],
        ]);
        for (const field of ['token', 'username', 'password', 'key', 'header', 'prefix', 'headers'] as const)
          form.set(`auth.${field}`, draft[field]);
        for (const [i, row] of draft.substitutions.entries()) {
          form.set(`substitutions.${i}.key`, row.key).set(`substitutions.${i}.placeholder`, row.placeholder);
          for (const surface of row.in) form.set(`substitutions.${i}.${surface}`, 'yes');
          for (const place of ['path', 'query', 'header'] as const)
            form.set(`substitutions.${i}.at.${place}`, row[place]);
        }
        assert.deepEqual(inputOf(draftFrom(form)), { ok: true, value: structuredClone(service) });
      },
    ),
  );
  t.match(
    inputOf(
      draftFrom(
        new Map([
          ['type', 'custom'],
          ['auth.headers', 'X-A: a\nno colon'],
        ]),
      ),
    ),
    {
      problem: { extra: { field: 'auth.headers' }, message: /line 2/ },
    },
  );
});

t.test('figures: an hour of minutes, and what is within them', async (t) => {
  const clock = manualClock();
  let requests = 100;
  const stats = (): Stats => ({
    ...{ requests, failures: 0, refusals: [{ code: 'forbidden', count: requests / 10 }], openConnections: 0 },
    ...{
      durations: { bounds: [10, 20], counts: [requests, 0, 0] },
      lanes: { up: 1, all: 1 },
      auditHealthy: true,
    },
  });
  const history = createHistory(stats, clock);
  t.equal(history.minutes().length, minutesKept);
  t.match(history.minutes().at(-1), { requests: 0, p95: null }, 'what was before it began is of no minute');
  requests += 10;
  t.match(history.minutes().at(-1), { requests: 10, refusals: 1, p50: 10, p95: 10 }, 'the minute that runs');
  await clock.advance(60_000);
  requests += 20;
  t.same(
    history
      .minutes()
      .slice(-2)
      .map((minute) => minute.requests),
    [10, 20],
  );
  for (let i = 0; i < 70; i++) await clock.advance(60_000);
  t.equal(history.minutes().length, minutesKept);
  t.equal(
    history.minutes().reduce((sum, minute) => sum + minute.requests, 0),
    0,
    'an hour ago is gone',
  );
  history.stop();

  t.equal(quantile([1, 2, 5], [5, 4, 1, 0], 0.5), 1);
  t.equal(quantile([1, 2, 5], [5, 4, 1, 0], 0.95), 5);
  t.equal(quantile([1, 2, 5], [0, 0, 0, 3], 0.5), 10, 'above all bounds');
  t.equal(quantile([1, 2, 5], [0, 0, 0, 0], 0.5), null);
  t.same(barHeights([0, 1, 1000, 500]), [0, 2, 56, 28]);
});

t.test('pages of a list, filters of requests', async (t) => {
  fc.assert(
    fc.property(fc.nat(500), fc.oneof(fc.string(), fc.nat(50).map(String)), (length, number) => {
      const all = Array.from({ length }, (_, i) => i);
      const shown = slice(all, number);
      assert.ok(shown.number >= 1 && shown.number <= shown.pages);
      assert.ok(length === 0 || shown.items.length > 0);
      const whole = Array.from({ length: shown.pages }, (_, i) => slice(all, String(i + 1)).items).flat();
      assert.deepEqual(whole, all);
    }),
  );
  t.equal(withQuery('/a', { b: '', c: undefined, d: 'x&y' }), '/a?d=x%26y');

  const line = {
    kind: 'request',
    vault: 'v1',
    host: 'api.example.com',
    status: 403,
    error: 'forbidden',
    keys: [],
  };
  const record = requestOf(JSON.stringify(line));
  t.ok(record);
  if (!record) return;
  const owner = {
    kind: 'operator',
    name: 'o',
    role: 'owner',
    vaults: [],
    via: 'cookie',
    session: '',
  } as const;
  const admin = { ...owner, role: 'admin', vaults: ['v2'] } as const;
  t.ok(isWanted(record, {}, owner));
  t.notOk(isWanted(record, {}, admin), "another's vault");
  t.notOk(isWanted({ ...record, vault: null }, {}, admin));
  t.ok(isWanted({ ...record, vault: null }, {}, owner));
  for (const [filter, wanted] of [
    [{ vault: 'v2' }, false],
    [{ host: ' API.' }, true],
    [{ host: 'other' }, false],
    [{ outcome: 'refused' }, true],
    [{ outcome: 'bare' }, false],
    [{ outcome: '4xx' }, true],
    [{ outcome: '403' }, true],
    [{ outcome: 'forbidden' }, true],
    [{ outcome: 'rate_limited' }, false],
  ] as const) {
    t.equal(isWanted(record, filter, owner), wanted, JSON.stringify(filter));
  }
  for (const other of ['{"kind":"control"}', '{"kind":"request"', '']) t.equal(requestOf(other), null);
});

const formType = 'application/x-www-form-urlencoded';

/** The key of the browser that is signed in by `cookieOf`. */
const own = originKey();

async function cookieOf(broker: TestBroker, name = 'owner'): Promise<string> {
  const made = await broker.vault.ask('operator.signIn', { name, kind: 'cookie', originKey: own.key, by });
  return `broker_session=${made.ok ? made.value.token.reveal() : ''}`;
}

t.test('every form asks for an operator, our own page, and its token', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const cookie = await cookieOf(broker);
  const pages = allRoutes().filter(
    ({ method, path }) => method === 'POST' && !/^\/(v1|login|invite)/.test(path),
  );
  t.ok(pages.length >= 15, `${pages.length} forms`);
  for (const each of pages) {
    const send = (headers: Record<string, string>, body = 'decision=allow') =>
      broker.ask('POST', example(each), { body, headers: { 'content-type': formType, ...headers } });
    const own = { origin: broker.baseUrl };
    const foreign = await send({ cookie, origin: 'https://evil.example' });
    t.equal(foreign.status, 403, `${each.path}: another site's`);
    t.equal((await send({ cookie })).status, 403, 'without an origin');
    t.equal((await send({ cookie, origin: 'null' })).status, 403, 'of nowhere');
    t.ok([401, 303].includes((await send(own)).status), 'nobody');
    if (each.path !== '/logout') {
      t.equal((await send({ ...own, cookie })).status, 403, 'without its token');
      t.equal((await send({ ...own, cookie }, 'csrf=x')).status, 403, 'with another');
    }
  }
  for (const each of allRoutes().filter(
    ({ method, path }) =>
      method === 'GET' && !/^\/(v1|login|assets|live|approve|discover|health|ready|metrics)/.test(path),
  )) {
    const answer = await broker.ask('GET', `${example(each)}?a=1`);
    const here = encodeURIComponent(`${example(each)}?a=1`);
    if (answer.status !== 404)
      t.match(answer, { status: 303, headers: { location: `/login?next=${here}` } }, each.path);
  }
  t.match(await broker.ask('GET', '/live/proposals'), { status: 401 });
});

t.test('by no request can the link decide', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const session = await broker.session();
  const body = { credentials: [{ action: 'delete', key: 'K' }] };
  const { approval_url } = (await broker.ask('POST', '/v1/proposals', { token: session, body })).json;
  const link = new URL(approval_url).searchParams.get('token') ?? '';
  let tried = 0;
  for (const each of allRoutes()) {
    const path = example(each);
    const bodies: [string, string][] = [
      ['application/json', '{"credentials":{},"decision":"allow"}'],
      [formType, `decision=allow&token=${link}&csrf=${link}`],
    ];
    for (const [type, text] of each.method === 'GET' ? [['', ''] as const] : bodies) {
      for (const headers of [
        { authorization: `Bearer ${link}` },
        { cookie: `broker_session=${link}`, origin: broker.baseUrl, 'x-csrf-token': link },
        { cookie: `broker_approval=${link}`, origin: broker.baseUrl },
        { cookie: `broker_session=${mintToken('operator').token.reveal()}`, origin: broker.baseUrl },
      ] as Record<string, string>[]) {
        // What follows changes for ever doesn't end by itself.
        if (/^\/(v1\/events|live\/(requests|stats))/.test(path)) continue;
        const answer = await broker.ask(each.method, `${path}?token=${link}`, {
          ...(text !== '' && { body: text }),
          headers: { ...headers, ...(type !== '' && { 'content-type': type }) },
        });
        tried++;
        if (each.method !== 'GET')
          assert.ok(answer.status >= 300, `${each.method} ${path}: ${answer.status}`);
      }
    }
  }
  t.ok(tried > 300, `${tried} requests`);
  t.match(await broker.ask('GET', '/v1/proposals/1', { token: session }), { json: { status: 'pending' } });
});

/** A browser that is signed in: what it sees, and the forms that it sends. */
function visitor(broker: TestBroker, cookie: string) {
  const see = (path: string) => broker.ask('GET', path, { headers: { cookie } });
  /** The hidden fields of a page's forms. */
  async function hidden(path: string): Promise<Record<string, string>> {
    const { text } = await see(path);
    const found = text.matchAll(/type="hidden" name="(csrf|seen)" value="([^"]*)"/g);
    return Object.fromEntries([...found].map(([, name, value]) => [name, value]));
  }
  /** The fields as the script of our pages signs them. */
  async function signed(path: string, fields: Readonly<Record<string, string>>) {
    const { challenge } = (await see('/login/challenge')).json;
    return { ...fields, ...own.sign(path, challenge, fields) };
  }
  async function post(path: string, fields: Readonly<Record<string, string>>) {
    const body = new URLSearchParams(await signed(path, fields)).toString();
    return broker.ask('POST', path, {
      body,
      headers: { cookie, origin: broker.baseUrl, 'content-type': formType },
    });
  }
  return {
    see,
    hidden,
    signed,
    /** Sends the fields with the hidden ones of a page. */
    send: async (path: string, fields: Readonly<Record<string, string>>, from = path) =>
      post(path, { ...(await hidden(from)), ...fields }),
  };
}

t.test('two answers at the same moment: one counts, and the other is told (APR-012, APR-014)', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const token = await broker.session();
  const cookie = await cookieOf(broker);
  const { see, hidden, signed } = visitor(broker, cookie);
  for (let id = 1; id <= 20; id++) {
    const key = `KEY_${id}`;
    const made = await broker.ask('POST', '/v1/proposals', {
      token,
      body: { credentials: [{ action: 'set', key }] },
    });
    t.equal(made.json.id, id);
    const path = `/approve/${id}`;
    const other: Record<string, string> =
      id % 2 === 0 ? { decision: 'deny', reason: 'no' } : { decision: 'allow', [`value.${key}`]: 'b' };
    const fields = await hidden(path);
    // On connections that are open already, so that both come in the same moment.
    const send = async (more: Record<string, string>) => {
      const headers = { cookie, origin: broker.baseUrl };
      const body = new URLSearchParams(await signed(path, { ...fields, ...more }));
      const init = { method: 'POST', headers, body, redirect: 'manual' } as const;
      return (await fetch(broker.baseUrl + path, init)).headers.get('location');
    };
    await Promise.all([0, 1].map(async () => (await fetch(`${broker.baseUrl}/health`)).text()));
    const answers = await Promise.all([send({ decision: 'allow', [`value.${key}`]: 'a' }), send(other)]);
    assert.deepEqual(answers.sort(), [path, `${path}?late=yes`]);
    assert.match((await see(`${path}?late=yes`)).text, /Nothing that you entered was used/);
  }
});

t.test("a value for a key of an agent's that is sent somewhere needs a tick", async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const token = await broker.session();
  await broker.ask('POST', '/v1/credentials', { token, body: { credentials: { MINE: 'v' } } });
  const auth = { type: 'bearer', token: 'MINE' } as const;
  const services = [{ host: 'collect.example', auth }];
  await broker.vault.ask('service.set', { vault: 'default', mode: 'upsert', services, by });
  const owner = visitor(broker, await cookieOf(broker));
  const list = '/vaults/default/credentials';
  for (const [path, fields] of [
    [list, { key: 'MINE', 'value.new': 'real' }],
    [`${list}/MINE`, { 'value.MINE': 'real' }],
  ] as const) {
    for (const meant of ['', 'OTHER']) {
      const asked = await owner.send(path, { ...fields, meant }, list);
      t.match(asked.status, 409, path);
      t.match(asked.text, /MINE is there already, given by session:.*send it to collect\.example/);
      t.match(asked.text, /name="meant" value="MINE"/);
    }
  }
  t.equal((await owner.send(list, { key: 'MINE', 'value.new': 'real', meant: 'MINE' }, list)).status, 303);
  t.equal((await owner.send(`${list}/MINE`, { 'value.MINE': 'real' }, list)).status, 303, 'ours by now');
});

t.test('an admin decides in their own vaults alone', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  await broker.vault.ask('vault.create', { name: 'other', by });
  await broker.admin('other');
  const eve = visitor(broker, await cookieOf(broker, 'admin-other'));
  const token = await broker.session();
  await broker.ask('POST', '/v1/proposals', {
    token,
    body: { credentials: [{ action: 'delete', key: 'K' }] },
  });
  for (const decision of ['allow', 'deny']) {
    t.equal((await eve.send('/approve/1', { decision }, '/login')).status, 404, decision);
  }
  t.match(await broker.ask('GET', '/v1/proposals/1', { token }), { json: { status: 'pending' } });
  t.equal((await eve.send('/vaults/default/services/a.example.com/removal', {}, '/login')).status, 403);
  t.equal((await eve.send('/vaults/default/new-service', { host: 'a.example.com' }, '/login')).status, 403);
  t.equal(
    (await eve.send('/vaults/default/credentials', { key: 'K', 'value.new': 'v' }, '/login')).status,
    403,
  );
  t.equal((await eve.send('/vaults', { name: 'mine' }, '/login')).status, 403, 'and makes no vaults');
});

t.test('headers, caching, and the cookie of a link', async (t) => {
  const broker = await startBroker({ settings: { 'public-url': 'https://broker.example' } });
  t.teardown(broker.stop);
  const cookie = await cookieOf(broker);
  const session = await broker.session();
  const body = { credentials: [{ action: 'delete', key: 'K' }] };
  const made = (await broker.ask('POST', '/v1/proposals', { token: session, body })).json;
  const link = made.approval_url.slice('https://broker.example'.length);
  const strict = {
    'cache-control': 'no-store',
    'content-security-policy':
      /^default-src 'none'; script-src 'self'; style-src 'self'; .*frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'$/,
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'referrer-policy': /same-origin$/,
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
  };
  for (const path of [
    '/',
    '/vaults',
    '/vaults/default',
    '/vaults/nowhere',
    '/proposals',
    '/agents',
    '/login',
    link,
    '/approve/9',
    '/approve/9?token=x',
  ]) {
    const { headers, text } = await broker.ask('GET', path, { headers: { cookie } });
    t.match(headers, strict, path.slice(0, 20));
    t.notMatch(
      text,
      /<script>|<style|\son\w+=|\sstyle=|javascript:|http:\/\/|src="\/\//i,
      'nothing inline, nothing from elsewhere',
    );
  }
  const visited = (await broker.ask('GET', link)).headers['set-cookie'];
  t.match(visited, [/^broker_approval=[\w-]{43}; Path=\/approve\/1; HttpOnly; SameSite=Strict$/]);
  const tls = await broker.ask('GET', link, { headers: { host: 'broker.example' } });
  t.match(tls.headers['set-cookie'], [/; Secure$/], 'under TLS');
  t.match(
    (await broker.ask('GET', link)).text,
    /<noscript><meta http-equiv="refresh" content="0; url=\/approve\/1">/,
  );
  const assets = [
    ...(await broker.ask('GET', '/login')).text.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g),
  ].map(([, path]) => path);
  t.equal(assets.length, 3);
  for (const path of assets) {
    const answer = await broker.ask('GET', path);
    t.match(
      answer,
      { status: 200, headers: { 'cache-control': 'public, max-age=31536000, immutable' } },
      path,
    );
  }
  t.equal((await broker.ask('GET', '/assets/0-style.css')).status, 404);
  t.match((await broker.ask('GET', '/approve/1')).text, /only a part of a link/);
});

t.test('ten thousand services: a small page', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const values = new Map(Array.from({ length: 300 }, (_, i) => [`KEY_${i}`, new Secret('v')]));
  const { vault } = broker;
  await vault.ask('credential.set', { vault: 'default', values, byAgent: false, by });
  const services = Array.from({ length: 10_000 }, (_, i) => ({
    host: `h${i}.example.com`,
    description: `Service number ${i}`,
    auth: { type: 'bearer', token: `KEY_${i % 300}` } as const,
  }));
  const set = await vault.ask('service.set', { vault: 'default', mode: 'replace', services, by });
  t.ok(set.ok);
  const session = await broker.session();
  const body = {
    services: [{ action: 'set', host: 'new.example.com', auth: { type: 'bearer', token: 'KEY_1' } }],
  };
  const { approval_url } = (await broker.ask('POST', '/v1/proposals', { token: session, body })).json;
  const cookie = await cookieOf(broker);
  for (const path of [
    '/',
    '/vaults/default',
    '/vaults/default?q=999&page=2',
    '/vaults/default/services/h5.example.com',
    '/vaults/default/credentials',
    approval_url.slice(broker.baseUrl.length),
  ]) {
    const ask = (each: string) => broker.ask('GET', each, { headers: { cookie } });
    const { text, status } = await ask(path);
    t.equal(status, 200, path.slice(0, 40));
    const assets = [...text.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g)].map(([, asset]) => asset);
    // As they are sent: assets are compressed, pages are not.
    const sizes = await Promise.all(
      assets.map(async (path) => {
        const { headers } = await broker.ask('GET', path, { headers: { 'accept-encoding': 'gzip' } });
        return Number(headers['content-length']);
      }),
    );
    const whole = sizes.reduce((sum, size) => sum + size, Buffer.byteLength(text));
    t.ok(whole < 50 * 1024, `${Math.round(whole / 1024)} KiB in all`);
    const from = performance.now();
    await ask(path);
    t.comment(`${path.slice(0, 40)}: ${(performance.now() - from).toFixed(1)} ms`);
  }
});
