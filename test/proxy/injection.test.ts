import fc from 'fast-check';
import t from 'tap';
import type { AuthConfig, Service, Substitution } from '../../src/actors/vault/model.ts';
import { defaultSettings } from '../../src/actors/vault/model.ts';
import { Secret } from '../../src/actors/vault/secret.ts';
import { maxHeadBytes, parseRequestHead } from '../../src/proxy/head.ts';
import { VaultEntry } from '../../src/proxy/lane-state.ts';
import { plan } from '../../src/proxy/plan.ts';
import { Substituter } from '../../src/proxy/substitute.ts';
import { openTunnel, startLane } from '../support/lane.ts';
import { rawUpstream } from '../support/upstream.ts';
import { type Answer, type Message, nextAnswer, nextRequest, wireOf } from '../support/wire.ts';
import { vectors } from '../vault/vectors.ts';

const name = 'api.good.test';
const at = await startLane({ v1: {} });
t.teardown(() => at.stop());
const requests: Message[] = [];
let response = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n';
const up = await rawUpstream(
  t,
  async (wire) => {
    for (;;) {
      requests.push(await nextRequest(wire));
      wire.send(response);
    }
  },
  { tls: false },
);

type Pairs = readonly (readonly [name: string, value: string])[];
type Given = Partial<Service> & { credentials?: Readonly<Record<string, string | null>> };

/** What a request becomes upstream under a service, or the refusal that it gets. */
async function sent(
  { credentials = {}, ...service }: Given,
  request: { target?: string; fields?: Pairs; method?: string; body?: string },
): Promise<{ line: string; fields: Pairs; body: string; answer: Answer }> {
  at.publish(
    { type: 'service', vault: at.ids.v1, service: { host: name, auth: { type: 'passthrough' }, ...service } },
    ...Object.entries(credentials).map(
      ([key, value]) => ({ type: 'credential', vault: at.ids.v1, key, value }) as const,
    ),
  );
  const { target = '/', fields = [], method = 'GET', body = '' } = request;
  const client = wireOf(await openTunnel(at, 'v1', `${name}:${up.port}`));
  const framed = body === '' ? [] : [['Content-Length', String(body.length)]];
  const hosts = fields.some(([n]) => n.toLowerCase() === 'host') ? [] : [['Host', name]];
  const lines = [...hosts, ...fields, ...framed].map(([n, v]) => `${n}: ${v}\r\n`).join('');
  const before = requests.length;
  client.send(`${method} ${target} HTTP/1.1\r\n${lines}\r\n${body}`);
  const answer = await nextAnswer(client);
  client.close();
  for (const key of Object.keys(credentials)) at.publish({ type: 'credential-gone', vault: at.ids.v1, key });
  if (requests.length === before) return { line: '', fields: [], body: '', answer };
  const { line, fields: found, body: content } = requests.at(-1) as Message;
  return { line, fields: found, body: content, answer };
}
const valuesOf = (fields: Pairs, name: string) =>
  fields.filter(([n]) => n.toLowerCase() === name.toLowerCase()).map(([, v]) => v);
const targetOf = (line: string) => line.split(' ')[1];

t.test('vectors: substitute_path, substitute_query, substitute_header', async (t) => {
  for (const { id, input, expect } of vectors('substitute_path')) {
    const subs = input.subs ?? [{ placeholder: input.placeholder ?? '__id__', value: input.value }];
    const credentials = Object.fromEntries(subs.map((s: { value: string }, i: number) => [`K${i}`, s.value]));
    const substitutions = subs.map((s: Substitution, i: number) => ({
      key: `K${i}`,
      placeholder: s.placeholder,
      in: input.in,
    }));
    const { line, answer } = await sent({ substitutions, credentials }, { target: input.path });
    if (expect.rejected) t.equal(answer.json.error, 'substitution_error', id);
    else t.equal(targetOf(line), expect.path, id);
  }
  for (const { id, input, expect } of vectors('substitute_query')) {
    const substitutions = [{ key: 'K', placeholder: input.placeholder ?? '__id__', in: input.in }];
    const { line } = await sent(
      { substitutions, credentials: { K: input.value } },
      { target: `/?${input.query}` },
    );
    const query = targetOf(line).slice(2);
    if (expect.decoded) t.same(Object.fromEntries(new URLSearchParams(query)), expect.decoded, id);
    else t.equal(query, input.in.includes('query') ? 'a=v&b=v' : input.query, id);
  }
  for (const { id, input, expect } of vectors('substitute_header')) {
    const substitutions = [{ key: 'K', placeholder: input.placeholder, in: input.in }];
    const { fields } = await sent(
      { substitutions, credentials: { K: input.value } },
      { fields: Object.entries(input.headers) as [string, string][] },
    );
    t.same(valuesOf(fields, 'X-A'), [expect.headers['X-A']], id);
  }
});

t.test('vectors: auth_render', async (t) => {
  const dropped: Record<string, number> = {
    // A line break is not among the white space that may surround a key: such a template is refused when it is set.
    'auth_render-010': 200,
    // Values are kept exactly as given, and one that can't be a header value is not trimmed into one.
    'auth_render-017': 502,
  };
  for (const { id, input, expect } of vectors('auth_render')) {
    const { fields, answer } = await sent({ auth: input.auth, credentials: input.credentials }, {});
    if (id in dropped) t.equal(answer.status, dropped[id], id);
    else if (expect.error) t.match([answer.status, answer.json.error], [expect.status, expect.error], id);
    else for (const [n, v] of Object.entries(expect.headers)) t.same(valuesOf(fields, n), [v], id);
  }
});

t.test('vectors: request_header_forwarding and response_header_forwarding', async (t) => {
  for (const { id, input, expect } of vectors('request_header_forwarding')) {
    const injected = Object.entries(input.injected as Record<string, string>);
    const auth: AuthConfig = injected.length
      ? { type: 'custom', headers: input.injected }
      : { type: 'passthrough' };
    const length = (input.client_headers as Pairs).some(([n]) => n === 'Content-Length');
    const fields = (input.client_headers as Pairs).filter(([n]) => n !== 'Content-Length');
    const found = await sent({ auth }, { fields, body: length ? 'abc' : '', method: 'POST' });
    for (const [n, values] of Object.entries(expect.present))
      t.same(valuesOf(found.fields, n), values, `${id} ${n}`);
    for (const n of expect.absent) t.same(valuesOf(found.fields, n), [], `${id} ${n}`);
    if (length) t.equal(found.body, 'abc', `${id}: its framing is kept`);
  }
  for (const { id, input, expect } of vectors('response_header_forwarding')) {
    const lines = ((input.headers ?? []) as Pairs).filter(([n]) => n !== 'Transfer-Encoding');
    const trailers = Object.entries((input.trailers ?? {}) as Record<string, string>);
    const text = (pairs: Pairs) => pairs.map(([n, v]) => `${n}: ${v}\r\n`).join('');
    response = `HTTP/1.1 200 OK\r\n${text(lines)}Transfer-Encoding: chunked\r\n\r\n0\r\n${text(trailers)}\r\n`;
    const { answer } = await sent({}, {});
    for (const n of expect.present ?? []) t.ok(answer.field(n), `${id} ${n}`);
    for (const n of expect.absent ?? []) t.notOk(answer.field(n), `${id} ${n}`);
    if (expect.trailers_forwarded) t.strictSame(answer.trailers, text(trailers).trim().split('\r\n'), id);
  }
  response = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n';
});

t.test('the auth slot: one field, ours, however the client spells its own', async (t) => {
  const credentials = { KEY: 'real', USER: 'me' };
  const cases: [what: string, auth: AuthConfig, fields: Pairs, slot: string, value: string][] = [
    [
      'bearer',
      { type: 'bearer', token: 'KEY' },
      [
        ['AUTHORIZATION', 'mine'],
        ['authorization', 'mine'],
      ],
      'Authorization',
      'Bearer real',
    ],
    [
      'bearer, and the client sends none',
      { type: 'bearer', token: 'KEY' },
      [],
      'Authorization',
      'Bearer real',
    ],
    [
      'basic',
      { type: 'basic', username: 'USER', password: 'KEY' },
      [['Authorization', 'mine']],
      'Authorization',
      'Basic bWU6cmVhbA==',
    ],
    ['api-key', { type: 'api-key', key: 'KEY' }, [['Authorization', 'mine']], 'Authorization', 'real'],
    [
      'api-key in a header',
      { type: 'api-key', key: 'KEY', header: 'X-Api-Key' },
      [['x-api-KEY', 'mine']],
      'X-Api-Key',
      'real',
    ],
    [
      'its alias for CGI',
      { type: 'api-key', key: 'KEY', header: 'X-Api-Key' },
      [
        ['X_Api_Key', 'mine'],
        ['x-api_key', 'mine'],
      ],
      'X-Api-Key',
      'real',
    ],
    [
      'an underscore in the slot',
      { type: 'api-key', key: 'KEY', header: 'X_Api_Key' },
      [['X-Api-Key', 'mine']],
      'X_Api_Key',
      'real',
    ],
    [
      'a prefix',
      { type: 'api-key', key: 'KEY', header: 'X-K', prefix: 'Token ' },
      [['x-k', 'mine']],
      'X-K',
      'Token real',
    ],
    [
      'custom',
      { type: 'custom', headers: { 'X-A': '{{ USER }}:{{KEY}}', 'X-B': 'b' } },
      [
        ['x-a', 'mine'],
        ['x-b', 'mine'],
      ],
      'X-A',
      'me:real',
    ],
    [
      'nominated as hop-by-hop',
      { type: 'bearer', token: 'KEY' },
      [
        ['Connection', 'Authorization'],
        ['Authorization', 'mine'],
      ],
      'Authorization',
      'Bearer real',
    ],
  ];
  for (const [what, auth, fields, slot, value] of cases) {
    const found = await sent({ auth, credentials }, { fields: [...fields, ['X-Other', 'kept']] });
    t.same(valuesOf(found.fields, slot), [value], what);
    t.notOk(JSON.stringify(found.fields).includes('mine'), `${what}: nothing of the client’s`);
    t.same(valuesOf(found.fields, 'X-Other'), ['kept']);
  }
});

t.test('passthrough changes nothing; an unknown host neither', async (t) => {
  const fields: Pairs = [
    ['Authorization', 'Bearer mine'],
    ['Cookie', 'a=b; c'],
    ['X-Api-Key', 'mine'],
    ['If-Match', '"x"'],
    ['X_Under', '1'],
  ];
  const found = await sent({ credentials: { KEY: 'real' } }, { fields });
  t.same(found.fields.slice(1), fields);
  // Framing fields may not come through in disguise, whatever the service.
  const disguised = await sent(
    {},
    {
      fields: [
        ['Transfer_Encoding', 'chunked'],
        ['Content_Length', '3'],
        ['X_Vault', 'v'],
      ],
    },
  );
  t.same(disguised.fields.slice(1), []);
});

t.test('a value that can’t stand where it would go: 502, and nothing is sent', async (t) => {
  const bearer: AuthConfig = { type: 'bearer', token: 'KEY' };
  const basic: AuthConfig = { type: 'basic', username: 'KEY' };
  const inHeader = { substitutions: [{ key: 'KEY', placeholder: '__k__', in: ['header' as const] }] };
  const inPath = { substitutions: [{ key: 'KEY', placeholder: '__k__', in: ['path' as const] }] };
  const bad = [
    'a\r\nX-Evil: 1',
    'a\nb',
    'a\rb',
    'a\x00b',
    'a\x7f',
    'a\u010a',
    '\u{1f600}',
    'end ',
    'x'.repeat(65_536),
  ];
  for (const value of bad) {
    const shown = JSON.stringify(value.slice(0, 12));
    const before = requests.length;
    const { answer } = await sent({ auth: bearer, credentials: { KEY: value } }, {});
    t.match([answer.status, answer.json.error], [502, 'substitution_error'], `bearer ${shown}`);
    const header = await sent({ ...inHeader, credentials: { KEY: value } }, { fields: [['X-K', '__k__']] });
    t.match([header.answer.status, header.answer.json.error], [502, 'substitution_error'], `header ${shown}`);
    t.equal(requests.length, before, 'nothing was sent');
    t.notOk(`${answer.body}${header.answer.body}`.includes(value), 'the refusal does not hold it');
  }
  for (const value of ['a:b', ':']) {
    const { answer } = await sent({ auth: basic, credentials: { KEY: value } }, {});
    t.equal(answer.json.error, 'substitution_error', `user name ${value}`);
  }
  for (const value of ['.', '..', '../x', 'x/..', '%2e%2e', '..%2f', '%252e%252e', '..\\x', '.%2e']) {
    const { answer } = await sent({ ...inPath, credentials: { KEY: value } }, { target: '/a/__k__/b' });
    t.equal(answer.json.error, 'substitution_error', `path ${value}`);
  }
  const joined = await sent({ ...inPath, credentials: { KEY: '.' } }, { target: '/a/.__k__/b' });
  t.equal(joined.answer.json.error, 'substitution_error', 'with what stands beside it');
  // These can stand there, and do so byte for byte.
  for (const value of [' lead', 'a\tb', '\xe9\xff', '{{ OTHER }}', '"\\', 'x'.repeat(32_768)]) {
    const { fields } = await sent({ auth: bearer, credentials: { KEY: value } }, {});
    t.same(valuesOf(fields, 'Authorization'), [`Bearer ${value}`], JSON.stringify(value.slice(0, 12)));
  }
  for (const value of ['a b\r\n\x00', '\u{1f600}', '...', 'a.b']) {
    const { line } = await sent({ ...inPath, credentials: { KEY: value } }, { target: '/a/__k__/b' });
    t.equal(decodeURIComponent(targetOf(line)), `/a/${value}/b`, JSON.stringify(value));
  }
});

t.test('a credential that is missing or damaged: 502, naming the key', async (t) => {
  const substitutions = [{ key: 'OTHER', placeholder: '__o__', in: ['path' as const] }];
  for (const [what, given, target, key] of [
    ['missing', { auth: { type: 'bearer', token: 'KEY' } }, '/', 'KEY'],
    ['damaged', { auth: { type: 'bearer', token: 'KEY' }, credentials: { KEY: null } }, '/', 'KEY'],
    ['missing in a path', { substitutions }, '/__o__', 'OTHER'],
    ['damaged in a path', { substitutions, credentials: { OTHER: null } }, '/__o__', 'OTHER'],
  ] as [string, Given, string, string][]) {
    const before = requests.length;
    const { answer } = await sent(given, { target });
    t.match([answer.status, answer.json.error, answer.json.key], [502, 'credential_not_found', key], what);
    t.equal(requests.length, before);
  }
  const { answer } = await sent({ substitutions }, { target: '/without' });
  t.equal(answer.status, 200, 'one that the request does not use is not missed');
});

t.test('substitution: only the declared surfaces, in one pass, before the auth slot', async (t) => {
  const all = ['path', 'query', 'header'] as const;
  const credentials = { KEY: 'real', A: 'va', AB: 'vab', LOOP: '__a__' };
  const both = [
    { key: 'A', placeholder: '__a__', in: all },
    { key: 'AB', placeholder: '__a__b__', in: all },
  ];
  const found = await sent(
    { substitutions: both, credentials },
    {
      target: '/__a__/__a__b__?x=__a__b__&__a__=1',
      fields: [
        ['X-A', '__a__ __a__b__'],
        ['__a__', 'name'],
        ['Connection', '__a__'],
        ['X-Up', '__A__'],
      ],
      body: '__a__',
      method: 'POST',
    },
  );
  t.equal(targetOf(found.line), '/va/vab?x=vab&va=1', 'the longest first');
  t.same(valuesOf(found.fields, 'X-A'), ['va vab']);
  t.same(valuesOf(found.fields, 'X-Up'), ['__A__'], 'case matters');
  t.same(valuesOf(found.fields, 'va'), [], 'never a name; and what Connection nominates is gone');
  t.equal(found.body, '__a__', 'never in a body');

  const loop = await sent(
    { substitutions: [{ key: 'LOOP', placeholder: '__l__', in: all }, ...both], credentials },
    { target: '/__l__' },
  );
  t.equal(targetOf(loop.line), '/__a__', 'a value is not read again');

  const slot = await sent(
    { auth: { type: 'bearer', token: 'KEY' }, substitutions: both, credentials },
    {
      fields: [
        ['Authorization', '__a__'],
        ['X-A', '__a__'],
      ],
    },
  );
  t.same(valuesOf(slot.fields, 'Authorization'), ['Bearer real']);
  t.same(valuesOf(slot.fields, 'X-A'), ['va']);
  const bearer = {
    auth: { type: 'bearer' as const, token: 'KEY' },
    credentials: { ...credentials, KEY: '__a__' },
  };
  const held = await sent({ ...bearer, substitutions: both }, {});
  t.same(valuesOf(held.fields, 'Authorization'), ['Bearer __a__'], 'what is injected is not substituted in');

  const host = await sent({ substitutions: both, credentials }, { fields: [['Host', '__a__']] });
  t.match(host.answer.status, 421, 'never in Host');
  const meta = await sent(
    { substitutions: [{ key: 'A', placeholder: 'a.b-c~__', in: all }], credentials },
    { target: '/aXb-c~__/a.b-c~__' },
  );
  t.equal(targetOf(meta.line), '/aXb-c~__/va', 'literally');
  const encoded = await sent({ substitutions: both, credentials }, { target: '/%5F%5Fa%5F%5F' });
  t.equal(targetOf(encoded.line), '/%5F%5Fa%5F%5F');
  for (const [surface, target, value] of [
    ['path', '/va?x=__a__', '__a__'],
    ['query', '/__a__?x=va', '__a__'],
    ['header', '/__a__?x=__a__', 'va'],
  ] as const) {
    const one = await sent(
      { substitutions: [{ key: 'A', placeholder: '__a__', in: [surface] }], credentials },
      { target: '/__a__?x=__a__', fields: [['X-A', '__a__']] },
    );
    t.equal(targetOf(one.line), target, `only ${surface}`);
    t.same(valuesOf(one.fields, 'X-A'), [value], `only ${surface}`);
  }
});

t.test('substitution: any value decodes to itself and stays in its component', async (t) => {
  const value = fc
    .string({ unit: 'grapheme', minLength: 1, maxLength: 30 })
    .filter((text) => text.isWellFormed());
  const substituter = (text: string) =>
    new Substituter(
      [{ key: 'K', placeholder: '__k__', in: ['path', 'query'] }],
      new Map([['K', new Secret(text)]]),
    );
  fc.assert(
    fc.property(value, (text) => {
      const done = substituter(text).path('/a/__k__/b', maxHeadBytes);
      if (done === null) throw new Error('it was not found');
      if ('failed' in done) {
        // Refused for no other reason than a dot segment, however often decoded.
        let decoded = text;
        for (let i = 0; i < 4; i++)
          decoded = decoded.replace(/%([0-9a-f]{2})/gi, (_, hex) =>
            String.fromCharCode(Number.parseInt(hex, 16)),
          );
        if (!/(^|[/\\])\.\.?($|[/\\])/.test(decoded) && !/(^|[/\\])\.\.?($|[/\\])/.test(text))
          throw new Error(text);
        return;
      }
      const segments = done.text.split('/');
      if (segments.length !== 4 || decodeURIComponent(segments[2]) !== text) throw new Error(done.text);
      if (!/^[!-~]*$/.test(done.text) || /[?#]/.test(done.text)) throw new Error(done.text);
    }),
    { numRuns: 500 },
  );
  fc.assert(
    fc.property(value, (text) => {
      const done = substituter(text).query('a=1&k=__k__&b=2', maxHeadBytes);
      if (done === null || 'failed' in done) throw new Error('it was not found');
      const parsed = [...new URLSearchParams(done.text)];
      if (
        JSON.stringify(parsed) !==
        JSON.stringify([
          ['a', '1'],
          ['k', text],
          ['b', '2'],
        ])
      )
        throw new Error(done.text);
    }),
    { numRuns: 500 },
  );
  t.pass();
});

t.test('whatever the client sends: one slot, one Host, no framing, no token', async (t) => {
  const names = fc.constantFrom(
    ...[
      'Authorization',
      'authorization',
      'AUTHORIZATION',
      'X-Api-Key',
      'x_api_key',
      'X-Vault',
      'Proxy-Authorization',
    ],
    ...[
      'Connection',
      'Upgrade',
      'TE',
      'Trailer',
      'Keep-Alive',
      'Transfer_Encoding',
      'Content_Length',
      'Cookie',
      'X-Any',
    ],
  );
  const values = fc.constantFrom('mine', 'X-Api-Key, Cookie', 'close', 'upgrade', 'brk_ses_x', '__k__', '');
  const vault = new VaultEntry('v', 'v1', defaultSettings);
  vault.setCredential('KEY', 'real');
  vault.setService({
    host: name,
    auth: { type: 'custom', headers: { Authorization: 'Bearer {{ KEY }}', 'X-Api-Key': '{{ KEY }}' } },
    substitutions: [{ key: 'KEY', placeholder: '__k__', in: ['header'] }],
  });
  const authority = { host: name, port: 443, literal: 0 as const };
  fc.assert(
    fc.property(fc.array(fc.tuple(names, values), { maxLength: 10 }), (fields) => {
      const lines = fields.map(([n, v]) => `\r\n${n}: ${v}`).join('');
      const head = parseRequestHead(`GET / HTTP/1.1\r\nHost: ${name}${lines}`);
      if ('code' in head) return;
      const decided = plan(vault, { scheme: 'https', authority }, vault.match(name, 443, false), '/', head);
      if (!('head' in decided)) throw new Error('it was refused');
      const out = decided.head
        .toLowerCase()
        .split('\r\n')
        .slice(1, -1)
        .map((text) => text.split(': ')[0].replaceAll('_', '-'));
      for (const slot of ['authorization', 'x-api-key', 'host'])
        if (out.filter((n) => n === slot).length !== 1) throw new Error(`${slot}: ${decided.head}`);
      if (
        /^(x.vault|proxy-|connection|upgrade|te|trailer|keep-alive|transfer.encoding|content.length):/im.test(
          decided.head,
        )
      )
        throw new Error(decided.head);
      if (head.nominated?.includes('cookie') && out.includes('cookie')) throw new Error(decided.head);
    }),
    { numRuns: 2000 },
  );
  t.pass();
});
