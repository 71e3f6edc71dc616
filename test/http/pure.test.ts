/** Decisions of the front that need no socket. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import { ActorError, type ActorErrorCode } from '../../src/actors/core/errors.ts';
import type { Result } from '../../src/actors/vault/problem.ts';
import type { Identity } from '../../src/actors/vault/protocol.ts';
import { Secret } from '../../src/actors/vault/secret.ts';
import { selectVault } from '../../src/http/caller.ts';
import { createChannel } from '../../src/http/channel.ts';
import { failureFields, failureProblem } from '../../src/http/failure.ts';
import { html, page } from '../../src/http/html.ts';
import { createHostCheck, type Incoming } from '../../src/http/incoming.ts';
import { parseJson } from '../../src/http/json.ts';
import { json } from '../../src/http/reply.ts';
import { route } from '../../src/http/route.ts';
import { createRouter } from '../../src/http/router.ts';
import * as schemas from '../../src/http/schemas.ts';
import { createSignatures, signatureOf } from '../../src/http/signature.ts';
import { type Check, parseQuery } from '../../src/http/validate.ts';
import { manualClock } from '../support/manual-clock.ts';
import { originKey } from '../support/origin-key.ts';

const bytes = (text: string) => Buffer.from(text);
const reason = (result: Result<unknown>) => (result.ok ? 'accepted' : result.problem.message);

t.test('JSON: what two parsers could read differently is refused (API-001)', async (t) => {
  const MiB = 1 << 20;
  const cases: [about: string, text: string | Uint8Array, expected: RegExp][] = [
    ['a name twice', '{"a":1,"b":{},"a":2}', /same name twice/],
    ['a name twice, once escaped', '{"a":1,"\\u0061":2}', /same name twice/],
    ['a name twice, deeper down', '[{"x":{"a":[],"a":1}}]', /same name twice/],
    ['a name with a quote twice', '{"\\"":1,"\\"" :2}', /same name twice/],
    ['__proto__', '{"__proto__":{"x":1}}', /'__proto__' is not allowed/],
    ['__proto__, escaped', '{"_\\u005fproto__":{"x":1}}', /'__proto__' is not allowed/],
    ['constructor', '{"a":{"constructor":{}}}', /'constructor' is not allowed/],
    ['prototype', '{"prototype":1}', /'prototype' is not allowed/],
    ['half a surrogate pair', '{"a":"\\ud800"}', /surrogate/],
    ['the other half, in a name', '{"\\uDC00":1}', /surrogate/],
    ['65 levels', '['.repeat(65) + ']'.repeat(65), /deeper than 64/],
    ['100000 levels', '{"a":'.repeat(100_000), /deeper than 64/],
    ['a MiB of brackets', '['.repeat(MiB / 2) + ']'.repeat(MiB / 2), /deeper than 64/],
    ['more values than there are bodies', `[${'1,'.repeat(20_001)}1]`, /more than 20000 values/],
    ['a byte order mark', '\ufeff{}', /byte order mark/],
    ['a byte that is no UTF-8', Buffer.from([0x22, 0xff, 0x22]), /UTF-8/],
    ['a surrogate in UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), /UTF-8/],
    ['an overlong form', Buffer.from([0x22, 0xc0, 0xaf, 0x22]), /UTF-8/],
    ['NaN', '[NaN]', /syntax/],
    ['trailing garbage', '{} {}', /syntax is wrong at line 1, column 4/],
    ['a trailing comma', '{"a":1,}', /syntax/],
    ['a comment', '{/**/}', /syntax/],
    ['nothing', '', /syntax/],
    ['a string without end', `"${'\\\\'.repeat(MiB / 2)}`, /syntax/],
  ];
  for (const [about, text, expected] of cases) {
    t.match(reason(parseJson(typeof text === 'string' ? bytes(text) : text)), expected, about);
  }
  t.equal(({} as { x?: number }).x, undefined);
  const good = [
    '['.repeat(64) + ']'.repeat(64),
    '{"a":{"a":1},"b":[{"a":1},{"a":2}]}',
    '"\\ud83d\\ude00 \\\\"',
    ' 1 ',
  ];
  for (const text of good)
    t.same(parseJson(bytes(text)), { ok: true, value: JSON.parse(text) }, text.slice(0, 40));
});

t.test('JSON: refusals quote nothing of a body, which may be a secret', async (t) => {
  for (const text of [
    '{"value": hunter2}',
    'hunter2',
    '"hunter2',
    '{"hunter2":1,"hunter2":2}',
    '["hunter2\\ud800"]',
  ]) {
    t.notMatch(reason(parseJson(bytes(text))), /hunter2|accepted/);
  }
});

t.test('JSON: else it reads as JSON.parse does', async () => {
  const isOdd = (text: string) => /"(__proto__|constructor|prototype)"/.test(text);
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
      const text = JSON.stringify(value);
      fc.pre(!isOdd(text));
      assert.deepEqual(parseJson(bytes(text)), { ok: true, value: JSON.parse(text) });
    }),
    { numRuns: 300 },
  );
  // Text close to JSON: whatever is accepted is what JSON.parse makes of it, and nothing throws.
  const near = fc.array(
    fc.constantFrom('{', '}', '[', ']', '"', ':', ',', '\\', 'a', '1', ' ', 'u', '\\u0061'),
  );
  fc.assert(
    fc.property(near, (parts) => {
      const text = parts.join('');
      const read = parseJson(bytes(text));
      if (read.ok) assert.deepEqual(read.value, JSON.parse(text));
      else assert.equal(read.problem.code, 'invalid_json');
    }),
    { numRuns: 2000 },
  );
});

t.test('HTML: no text becomes markup, and nothing in it is invisible', async (t) => {
  const shown = (text: string) => page(html`<p title="${text}">${text}</p>`);
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
      const inside = shown(text).replace('<!doctype html>\n<p title="', '').replace('</p>', '');
      assert.equal(inside.split('">').length, 2, 'one end of the attribute');
      assert.doesNotMatch(inside.replace('">', ''), /[<>"'`]|\p{Cf}|[^\P{Cc}\t\n]/u);
    }),
    { numRuns: 500 },
  );
  t.match(shown('<script>alert(1)</script>'), /&lt;script&gt;alert\(1\)&lt;\/script&gt;/);
  t.match(shown('\u202egpj.exe\u200b\x1b[31m'), /\[U\+202E\]gpj\.exe\[U\+200B\]\[U\+001B\]\[31m/);
  t.match(
    page(html`<ul>${[html`<li>${'a&b'}</li>`, html`<li>${2}</li>`]}${null}</ul>`),
    '<ul><li>a&amp;b</li><li>2</li></ul>',
  );
});

t.test('the vault of a request (ATH-009..011, vectors control_plane_vault)', async (t) => {
  const session: Identity = { kind: 'session', id: '1', vault: 'dev', label: null, expires_at_ms: 0 };
  const agent: Identity = {
    kind: 'agent',
    name: 'a',
    agent: { id: 'id', since: '' },
    vaults: ['dev'],
  };
  const operator = (role: 'owner' | 'admin', vaults: string[]): Identity => {
    return { kind: 'operator', name: 'o', role, vaults, via: 'token', session: '' };
  };
  const outcome = (identity: Identity, named: string[], isRequired = true) => {
    const chosen = selectVault(identity, named, isRequired);
    return chosen.ok ? chosen.value : chosen.problem.code;
  };
  const cases: [Identity, string[], boolean, string | null][] = [
    [session, [], true, 'dev'],
    [session, ['dev'], true, 'dev'],
    [session, ['prod'], true, 'forbidden'],
    [session, ['../dev'], true, 'forbidden'],
    [session, ['DEV'], true, 'forbidden'],
    [session, ['dev', 'dev'], true, 'invalid_request'],
    [agent, [], true, 'invalid_request'],
    [agent, [''], true, 'invalid_request'],
    [agent, ['dev,prod'], true, 'forbidden'],
    [agent, ['prod'], true, 'forbidden'],
    [agent, [], false, null],
    [operator('owner', []), ['any'], true, 'any'],
    [operator('owner', []), [], true, 'invalid_request'],
    [operator('owner', []), [], false, null],
    [operator('admin', ['dev']), ['dev'], true, 'dev'],
    [operator('admin', ['dev']), ['prod'], true, 'forbidden'],
  ];
  for (const [identity, named, isRequired, expected] of cases) {
    t.equal(outcome(identity, named, isRequired), expected, `${identity.kind} ${named} ${isRequired}`);
  }
  t.same(
    selectVault(agent, ['prod'], true),
    selectVault(agent, ['nowhere'], true),
    'nothing is learnt of either',
  );

  const dropped: Record<string, string> = {
    'control_plane_vault-002': 'a session that names another vault gets 403, so that a mistake is noticed',
    'control_plane_vault-005': 'an unknown vault is answered as one that was not granted: 403',
    'control_plane_vault-009': 'a wrong token has no identity; see the test of the API',
  };
  const file = new URL('../vectors/protocol.json', import.meta.url);
  const { cases: vectors } = JSON.parse(readFileSync(file, 'utf8')).groups.control_plane_vault;
  const people: Record<string, Identity> = {
    'scoped(dev)': session,
    'agent(grants=[dev])': agent,
    user: operator('admin', []),
  };
  for (const { id, input, expect } of vectors) {
    if (dropped[id]) continue;
    const expected = expect.status === 403 ? 'forbidden' : expect.vault;
    t.equal(outcome(people[input.token], input.x_vault === null ? [] : [input.x_vault]), expected, id);
  }
});

t.test('paths: one way to write each', async (t) => {
  const any = { auth: 'none', vault: 'none' } as const;
  const make = (method: 'GET' | 'POST' | 'DELETE', path: string) =>
    route(method, path, any, () => json(path));
  const match = createRouter([
    make('GET', '/v1/proposals'),
    make('GET', '/v1/proposals/{id}'),
    make('POST', '/v1/agents/invites'),
    make('DELETE', '/v1/agents/{agent}'),
    make('DELETE', '/v1/vaults/{vault}/services/{host}'),
    make('GET', '/v1/ca.pem'),
  ]);
  const outcome = (method: string, path: string) => {
    const found = match(method, path);
    return 'code' in found ? found.code : JSON.stringify(found.params);
  };
  const cases: [string, string, string][] = [
    ['GET', '/v1/proposals', '{}'],
    ['HEAD', '/v1/proposals', '{}'],
    ['GET', '/v1/proposals/12', '{"id":"12"}'],
    [
      'DELETE',
      '/v1/vaults/a-b/services/%2A.example.com%3A8443',
      '{"vault":"a-b","host":"*.example.com:8443"}',
    ],
    ['DELETE', '/v1/vaults/a-b/services/%5B::1%5D', '{"vault":"a-b","host":"[::1]"}'],
    ['DELETE', '/v1/agents/invites', '{"agent":"invites"}'],
    ['GET', '/v1/agents/invites', 'method_not_allowed'],
    ['POST', '/v1/proposals', 'method_not_allowed'],
    ['get', '/v1/proposals', 'method_not_allowed'],
    ...['0', '-1', '1.5', '1e3', '9007199254740993', '1;', '%31', '01', '+1', '１', ''].map(
      (id): [string, string, string] => ['GET', `/v1/proposals/${id}`, 'not_found'],
    ),
    ...[
      '/v1/proposals/',
      '//v1/proposals',
      '/v1//proposals',
      '/V1/proposals',
      '/v1/%70roposals',
      '/v1/ca-pem',
    ].map((path): [string, string, string] => ['GET', path, 'not_found']),
    ['DELETE', '/v1/vaults/A/services/x', 'not_found'],
    ['DELETE', '/v1/vaults/a/services/%zz', 'not_found'],
    ['DELETE', '/v1/vaults/a/services/a/b', 'not_found'],
    ['GET', '/v1/vaults/{vault}/services/{host}', 'not_found'],
  ];
  for (const [method, path, expected] of cases) t.equal(outcome(method, path), expected, `${method} ${path}`);
  t.match(match('PUT', '/v1/proposals/1'), { extra: { allow: ['GET', 'HEAD'] } });
});

t.test('schemas: any JSON is accepted or refused with a field, never a throw (API-004)', async (t) => {
  const checks = Object.entries(schemas as Record<string, Check<unknown>>).filter(([name]) =>
    name.endsWith('Body'),
  );
  t.ok(checks.length >= 10);
  const values = fc.oneof(
    fc.jsonValue(),
    fc.dictionary(
      fc.constantFrom('vault', 'vaults', 'name', 'credentials', 'ttl_seconds', 'services', 'odd one', ''),
      fc.jsonValue(),
    ),
  );
  fc.assert(
    fc.property(values, (value) => {
      for (const [name, { check }] of checks) {
        const checked = check(structuredClone(value));
        if (checked.ok) assert.equal(typeof value, 'object', name);
        else
          assert.match(`${checked.problem.code} ${checked.problem.extra?.field}`, /^invalid_request ./, name);
      }
    }),
    { numRuns: 1000 },
  );
});

t.test('schemas: the field at fault, as a path', async (t) => {
  const problemOf = (check: Check<unknown>, value: unknown) => {
    const checked = check.check(value);
    return checked.ok ? 'accepted' : checked.problem.message;
  };
  const cases: [Check<unknown>, unknown, RegExp][] = [
    [schemas.sessionBody, { ttl_seconds: 1 }, /^vault: is missing/],
    [schemas.sessionBody, { vault: 1 }, /^vault: must be of type string/],
    [schemas.sessionBody, { vault: 'a', ttl_seconds: 1.5 }, /^ttl_seconds: must be of type integer/],
    [schemas.sessionBody, { vault: 'a', extra: 1 }, /^extra: this field is not known/],
    [schemas.sessionBody, [], /^body: must be of type object/],
    [schemas.inviteBody, { vaults: ['a', null] }, /^vaults\[1\]: must be of type string/],
    [schemas.inviteBody, { vaults: ['a'], token_ttl_seconds: null }, /^accepted$/],
    [schemas.approveBody, { credentials: { A: '1', 'x/y~z': 2 } }, /^credentials\["x\/y~z"\]: must be/],
    [schemas.servicePatchBody, { enabled: 'no' }, /^enabled: must be of type boolean/],
    [schemas.statusQuery, { status: 'done' }, /^status: must be one of pending, applied/],
    [schemas.waitQuery, { wait: '61' }, /^wait: must be <= 60/],
    [schemas.waitQuery, { wait: '1.5' }, /^wait: must be of type integer/],
    [schemas.waitQuery, { wait: '60' }, /^accepted$/],
    [schemas.forceQuery, { force: 'yes' }, /^force: must be of type boolean/],
  ];
  for (const [check, value, expected] of cases) t.match(problemOf(check, value), expected);

  t.match(schemas.credentialsBody.check({ credentials: { A: 'x' } }), {
    value: { values: new Map([['A', Secret]]) },
  });
  t.match(parseQuery('wait=1&wait=2'), { ok: false, problem: { extra: { field: 'wait' } } });
  t.same(Object.entries((parseQuery('a=&b=%20') as { value: object }).value), [['b', ' ']]);
});

t.test('Host: only names that are ours', async (t) => {
  const isOurs = createHostCheck(['localhost', '127.0.0.1', '[::1]', 'Broker.Example']);
  const from = (...hosts: string[]) => isOurs({ values: () => hosts } as unknown as Incoming);
  for (const host of [
    'localhost',
    'localhost:14321',
    'LOCALHOST:80',
    '127.0.0.1:1',
    '[::1]:14321',
    'broker.example.',
  ]) {
    t.ok(from(host), host);
  }
  const foreign = [
    'evil.example',
    'localhost.evil.example',
    '127.0.0.2',
    '127.1',
    'localhost:',
    'localhost:0',
    'a@localhost',
    '',
    '::1',
    'localhost, evil.example',
  ];
  for (const host of foreign) t.notOk(from(host), host);
  t.notOk(from(), 'missing');
  t.notOk(from('localhost', 'localhost'), 'two');
});

t.test('a reader that falls behind is cut off', async (t) => {
  const channel = createChannel(10);
  channel.push('12345');
  channel.push('12345');
  const reader = channel[Symbol.asyncIterator]();
  t.same(await reader.next(), { value: '1234512345', done: false }, 'together, and room again');
  channel.push('123456');
  channel.push('123456');
  channel.push('x');
  t.same(await reader.next(), { value: '123456', done: false });
  t.equal((await reader.next()).done, true);
  const ended = createChannel(10);
  const next = ended[Symbol.asyncIterator]().next();
  ended.end();
  t.equal((await next).done, true, 'a waiting reader is woken');
});

t.test('what went wrong behind the front', async (t) => {
  const cases: [ActorErrorCode, string][] = [
    ['mailbox_full', 'overloaded'],
    ['ask_timeout', 'overloaded'],
    ['actor_dead', 'overloaded'],
    ['actor_failed', 'internal'],
  ];
  for (const [code, expected] of cases)
    t.equal(failureProblem(new ActorError(code, '/vault')).code, expected, code);
  t.ok((failureProblem(new ActorError('mailbox_full', '/vault')).retryAfterSeconds ?? 0) > 0);
  const failure = new TypeError('cannot read hunter2');
  t.equal(failureProblem(failure).code, 'internal');
  t.notMatch(JSON.stringify([failureProblem(failure), failureFields(failure)]), 'hunter2');
  t.match(failureFields(failure), { kind: 'TypeError', at: [/pure\.test\.ts/] });
});

t.test('signatures of forms: for one form, of one key, once, for two minutes', async (t) => {
  const clock = manualClock();
  const signatures = createSignatures(clock);
  const [own, other] = [originKey(), originKey()];
  const incoming = { method: 'POST', path: '/a', query: '' } as Incoming;
  const text = fc.string({ unit: fc.constantFrom('a', 'B', '0', '.', '\n', 'é', '😀', '"', '\\') });
  const names = fc.stringMatching(/^[a-z.]{1,8}$/);
  fc.assert(
    fc.property(fc.dictionary(names, text), names, text, (fields, name, value) => {
      const challenge = signatures.challenge();
      const form = new Map(Object.entries({ ...fields, ...own.sign('/a', challenge, fields) }));
      const found = signatureOf(form);
      assert.ok(found && found.key === own.key);
      assert.ok(signatures.isGood(found, incoming, form));
      // As a browser sends it: in another order, its lines ended by CR LF.
      const sent = [...form].reverse().map(([key, each]) => [key, each.replaceAll('\n', '\r\n')] as const);
      assert.ok(signatures.isGood(found, incoming, new Map(sent)));
      if (fields[name] !== value)
        assert.ok(!signatures.isGood(found, incoming, new Map([...form, [name, value]])));
      for (const each of Object.keys(fields)) {
        const less = new Map([...form].filter(([key]) => key !== each));
        assert.ok(!signatures.isGood(found, incoming, less));
      }
      assert.ok(!signatures.isGood(found, { ...incoming, path: '/b' }, form));
      assert.ok(!signatures.isGood(found, { ...incoming, query: 'x=1' }, form));
      assert.ok(!signatures.isGood({ ...found, key: other.key }, incoming, form));
      assert.ok(!signatures.isGood({ ...found, challenge: signatures.challenge() }, incoming, form));
      assert.ok(!createSignatures(clock).isGood(found, incoming, form), 'of another process');
    }),
    { numRuns: 100 },
  );
  const sign = () => signatureOf(new Map(Object.entries(own.sign('/a', signatures.challenge(), {}))));
  const empty = new Map();
  const late = sign();
  const used = sign();
  t.ok(late && used && signatures.use(used));
  if (!late || !used) return;
  t.notOk(signatures.use(used), 'once');
  t.ok(signatures.use({ ...used, key: other.key }), 'another key has its own');
  await clock.advance(119_000);
  t.ok(signatures.isGood(late, incoming, empty));
  await clock.advance(1000);
  t.notOk(signatures.isGood(late, incoming, empty), 'two minutes');
  let taken = 0;
  for (let i = 0; i < 300; i++) {
    const each = sign();
    if (each && signatures.use(each)) taken++;
  }
  t.equal(taken, 256, 'what is remembered of a key has a bound');
  await clock.advance(120_000);
  const again = sign();
  t.ok(again && signatures.use(again), 'and is forgotten');
  for (const wrong of [
    '',
    'a.b.c',
    `${'A'.repeat(87)}.x.${'A'.repeat(86)}`,
    `${own.key}.x.${'A'.repeat(86)}`,
  ]) {
    const found = signatureOf(new Map([['proof.signature', wrong]]));
    t.notOk(found && signatures.isGood(found, incoming, empty), wrong.slice(0, 20));
  }
  const point = `${Buffer.concat([Buffer.of(4), Buffer.alloc(64, 1)]).toString('base64url')}`;
  t.notOk(signatures.isGood({ ...used, challenge: signatures.challenge(), key: point }, incoming, empty));
});
