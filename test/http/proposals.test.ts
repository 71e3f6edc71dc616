/** Proposals, from the agent's request to the decision, and the page that shows one. */
import t from 'tap';
import { mintToken } from '../../src/actors/vault/token.ts';
import { startBroker } from './start-front.ts';

const bearer = (host: string, token: string) => ({ host, auth: { type: 'bearer', token } });
const proposal = (host: string, key: string) => ({
  services: [{ action: 'set', ...bearer(host, key) }],
  credentials: [{ action: 'set', key }],
});

t.test('proposals: created, decided, cancelled', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const { operator } = broker;
  const token = await broker.session();
  const create = (body: unknown) => broker.ask('POST', '/v1/proposals', { token, body });
  const decide = (id: number, what: string, body?: unknown) =>
    broker.ask('POST', `/v1/proposals/${id}/${what}`, { token: operator, body });

  const made = await create({ ...proposal('api.example.com', 'K'), message: 'why', user_message: 'please' });
  t.match(made, {
    status: 201,
    json: { id: 1, status: 'pending', vault: 'default', expires_at: /^20/, message: made.json.approval_url },
  });
  t.match(made.json.approval_url, new RegExp(`^${broker.baseUrl}/approve/1\\?token=brk_apr_[0-9a-f]{72}$`));
  t.match(
    await create(proposal('api.example.com', 'K')),
    { status: 201, json: { id: 2 } },
    'the same again is another (API-011)',
  );
  t.match(await broker.ask('GET', '/v1/proposals/1', { token }), {
    status: 200,
    json: {
      id: 1,
      status: 'pending',
      vault: 'default',
      message: 'why',
      user_message: 'please',
      review_note: null,
      reviewed_by: null,
    },
  });
  t.match(await broker.ask('POST', '/v1/proposals', { token: operator, vault: 'default', body: {} }), {
    status: 403,
  });

  t.match(await decide(1, 'approve', {}), { status: 400, json: { field: 'credentials.K' } });
  t.match(await decide(1, 'approve', { credentials: { K: 'v', X: 'v' } }), {
    status: 400,
    json: { field: 'credentials.X' },
  });
  t.match(await broker.ask('GET', '/v1/proposals/1', { token }), { json: { status: 'pending' } });
  t.match(await decide(1, 'approve', { credentials: { K: 'v' } }), {
    status: 200,
    text: '{"id":1,"status":"applied"}',
  });
  t.match(await decide(1, 'approve', {}), { status: 200, text: '{"id":1,"status":"applied"}' }, 'again');
  t.match(await decide(1, 'reject'), { status: 409, json: { error: 'already_decided', status: 'applied' } });
  t.match(await decide(2, 'reject', { reason: 'twice' }), {
    status: 200,
    text: '{"id":2,"status":"rejected"}',
  });
  t.match(await broker.ask('GET', '/v1/proposals/2', { token: operator }), {
    json: { status: 'rejected', review_note: 'twice', reviewed_by: 'operator:owner' },
  });
  t.match(await broker.ask('GET', '/discover', { token }), {
    status: 200,
    json: {
      vault: 'default',
      services: [{ host: 'api.example.com', enabled: true, auth_type: 'bearer', substitutions: [] }],
      available_credentials: ['K'],
    },
  });

  const risky = { services: [{ action: 'set', ...bearer('other.example', 'K') }] };
  t.match(await create(risky), { status: 201, json: { id: 3 } });
  const { json: asked } = await broker.ask('GET', '/v1/proposals/3', { token: operator });
  const increases = [
    {
      key: 'K',
      hosts: ['other.example'],
      surface: 'auth header Authorization',
      scheme: 'http+https',
      ticked_by: 'confirm',
    },
  ];
  t.match(asked, {
    requested_by: { kind: 'session', label: 'ci' },
    review: { risks: [{ kind: 'http-too' }] },
  });
  t.same(asked.review.increases, increases);
  const required = { status: 409, json: { error: 'confirmation_required', review: { increases } } };
  t.match(await decide(3, 'approve'), required);
  t.match(await decide(3, 'approve', { confirm_existing: ['K'] }), required, 'of no effect any more');
  t.match(await decide(3, 'approve', { confirm: 'AAAAAAAAAAAAAAAAAAAAAA' }), required);
  t.match(await broker.ask('GET', '/v1/proposals/3', { token }), { json: { status: 'pending' } });
  t.match(await decide(3, 'approve', { confirm: asked.review.fingerprint }), { status: 200 });
  t.match(await create(risky), { status: 201, json: { id: 4 } });
  t.match(
    await broker.ask('DELETE', '/v1/proposals/4', { token: await broker.session() }),
    { status: 403, json: { error: 'forbidden' } },
    "another's",
  );
  t.match(await broker.ask('DELETE', '/v1/proposals/4', { token }), {
    status: 200,
    json: { status: 'cancelled' },
  });
  t.match(await decide(4, 'approve'), {
    status: 409,
    json: { error: 'already_decided', status: 'cancelled' },
  });

  const statuses = async (query: string, asked: object) =>
    (await broker.ask('GET', `/v1/proposals${query}`, asked)).json.proposals.map(
      (each: { id: number }) => each.id,
    );
  t.same(await statuses('', { token }), [1, 2, 3, 4]);
  t.same(await statuses('?status=rejected', { token: operator }), [2]);
  t.same(await statuses('?status=', { token: operator, vault: 'default' }), [1, 2, 3, 4]);
  t.same(await statuses('', { token: await broker.session() }), [], 'an agent lists its own');
  t.match(await broker.ask('GET', '/v1/proposals?status=done', { token }), {
    status: 400,
    json: { field: 'status' },
  });
  t.match(await broker.ask('GET', '/v1/proposals?token=x', { token }), {
    status: 400,
    json: { field: 'token' },
  });

  for (const wrong of [
    {},
    [],
    1,
    { services: [] },
    { services: [{ action: 'set', host: 'a.example' }] },
    { ...risky, message: 'x'.repeat(2001) },
  ]) {
    t.match(
      await create(wrong),
      { status: 400, json: { error: 'invalid_request', field: /./ } },
      JSON.stringify(wrong).slice(0, 60),
    );
  }
  for (const type of ['token', 'username', 'password', 'key', 'header', 'prefix', 'headers']) {
    const auth = { type: 'passthrough', [type]: type === 'headers' ? {} : 'K' };
    const answer = await create({ services: [{ action: 'set', host: 'p.example', auth }] });
    t.match(answer, { status: 400, json: { field: `services[0].auth.${type}` } }, `API-006 ${type}`);
  }
  for (let i = 0; i < 20; i++) await create(risky);
  t.match(await create(risky), {
    status: 429,
    json: { error: 'too_many_pending_proposals' },
    headers: { 'retry-after': /^\d+$/ },
  });
});

t.test('the approval page', async (t) => {
  const broker = await startBroker();
  t.teardown(broker.stop);
  const token = await broker.session();
  const evil = `<script>alert(1)</script>"'\`><img src=x onerror=alert(2)> \u202e \x1b[31m`;
  const body = {
    services: [
      {
        action: 'set',
        host: 'a.example',
        description: evil,
        auth: { type: 'custom', headers: { 'X-A': `${'{{ K }}'}<b>` } },
      },
    ],
    credentials: [
      {
        action: 'set',
        key: 'K',
        description: evil,
        obtain: 'https://x.example/"onmouseover="alert(1)',
        obtain_instructions: evil,
      },
    ],
    message: evil,
    user_message: evil,
  };
  const { approval_url } = (await broker.ask('POST', '/v1/proposals', { token, body })).json;
  const link = approval_url.slice(broker.baseUrl.length);
  const shown = await broker.ask('GET', link);
  t.match(shown, {
    status: 200,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy':
        /^default-src 'none'; script-src 'self'; style-src 'self';.* frame-ancestors 'none'; base-uri 'none'/,
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
      'x-robots-tag': /noindex/,
    },
    text: /To decide, sign in/,
  });
  // Its one script is a file of the broker's own.
  const foreign = shown.text.replace(
    /<script type="module" src="\/assets\/[0-9a-f]{16}-live\.js" integrity="sha256-[\w+/=]+"><\/script>/,
    '',
  );
  t.notMatch(foreign, /<(script|img|b)\b|\u202e|\p{Cc}(?<!\n)|"onmouseover/iu);
  t.notMatch(shown.text, /<form(?! method="post" action="\/login")|<button(?! class="primary">Sign in<)/);
  for (let i = 0; i < 5; i++) await broker.ask('GET', link);
  t.match(
    await broker.ask('GET', '/v1/proposals/1', { token }),
    { json: { status: 'pending' } },
    'looking changes nothing (APR-019)',
  );

  const approval = new URL(approval_url).searchParams.get('token') ?? '';
  t.match(
    await broker.ask('POST', '/v1/proposals/1/approve', { token: approval }),
    { status: 401 },
    'the link is no token (APR-008)',
  );
  t.match(await broker.ask('POST', link, { body: {} }), { status: 403 }, 'and cannot approve (APR-009)');
  for (const wrong of ['', 'x', token, mintToken('approval').token.reveal()]) {
    t.match(await broker.ask('GET', `/approve/1?token=${wrong}`), { status: 404, text: /<!doctype html>/ });
  }
  t.match(await broker.ask('GET', link.replace('/1?', '/2?')), { status: 404 });
  t.match(await broker.ask('GET', '/approve/1'), { status: 404 });
  await broker.ask('DELETE', '/v1/proposals/1', { token });
  t.match(await broker.ask('GET', link), { status: 404, text: /no longer pending/ });
});
