import fc from 'fast-check';
import t from 'tap';
import { isCredentialKey } from '../../src/actors/vault/credential-rules.ts';
import {
  type AuthConfig,
  reflectionOf,
  reflections,
  type ServiceInput,
  surfacesOf,
} from '../../src/actors/vault/model.ts';
import type { Result } from '../../src/actors/vault/problem.ts';
import {
  checkService,
  checkServices,
  referencedKeys,
  unresolved,
} from '../../src/actors/vault/service-rules.ts';
import { type Case, vectors } from './vectors.ts';

// Cases that go against the protocol as it is here: each is shown to come out the other way.
const dropped: Record<string, string> = {
  'substitution_object-006': 'there are no surfaces but path, query and header',
  'substitution_object-015': 'placeholders may contain each other, the longest matches first',
  'service_host_validate-012': 'addresses may be services; the network guard decides what is dialled',
  'service_host_validate-013': 'as 012',
  'service_host_validate-015': 'as 012',
  'service_host_validate-017': 'single labels may be services',
  'service_host_validate-018': 'names inside a cluster may be services',
  'service_host_validate-021': 'single labels may be services',
};

/** Runs a group of yes/no cases, the dropped ones turned round. */
function yesOrNo(group: string, serviceOf: (input: Case['input']) => unknown): void {
  t.test(`vectors: ${group}`, async (t) => {
    for (const { id, input, expect } of vectors(group)) {
      const wanted = expect.valid === (dropped[id] === undefined);
      t.equal(accepts(serviceOf(input)), wanted, `${id} ${JSON.stringify(input)} ${dropped[id] ?? ''}`);
    }
  });
}

const bearer: AuthConfig = { type: 'bearer', token: 'KEY' };

function service(fields: Record<string, unknown>): Record<string, unknown> {
  return { host: 'a.example.com', auth: bearer, ...fields };
}

function substitution(fields: Record<string, unknown>): Record<string, unknown> {
  return service({ substitutions: [{ key: 'KEY', placeholder: '__id__', ...fields }] });
}

/** The field that a refusal names; what was accepted where it was not. */
function refusedField(result: Result<unknown>): unknown {
  if (result.ok) return { accepted: result.value };
  if (result.problem.code !== 'invalid_request') return result.problem.code;
  return result.problem.extra?.field;
}

function accepts(input: unknown): boolean {
  return checkService(input, 'services[0]').ok;
}

yesOrNo('placeholder', ({ placeholder }) => substitution({ placeholder }));
yesOrNo('substitution_object', ({ substitutions }) => service({ substitutions }));
yesOrNo('credential_key', ({ key }) => service({ auth: { type: 'bearer', token: key } }));
yesOrNo('service_host_validate', ({ host }) => service({ host }));
yesOrNo('auth_config_validate', ({ auth }) => service({ auth }));

t.test('header slots (INJ-023)', async (t) => {
  const reserved = [
    'Host',
    'Content-Length',
    'Transfer-Encoding',
    'Connection',
    'Keep-Alive',
    'TE',
    'Trailer',
    'Upgrade',
  ];
  const broker = [
    'Proxy-Authorization',
    'Proxy-Connection',
    'Proxy-Anything',
    'Content_Length',
    'HTTP2-Settings',
    'X-Vault',
    'x-vAULT',
    'Expect',
  ];
  for (const name of [...reserved, ...broker, '', 'A B', 'A:B', 'A\r\nB', ':path', 'Ä', 'X'.repeat(257), 7]) {
    const apiKey = service({ auth: { type: 'api-key', key: 'KEY', header: name } });
    t.equal(refusedField(checkService(apiKey, 's')), 's.auth.header', JSON.stringify(name));
    const custom = service({ auth: { type: 'custom', headers: { [String(name)]: 'x', 'X-B': 'y' } } });
    if (typeof name === 'string')
      t.match(refusedField(checkService(custom, 's')), /^s\.auth\.headers[.[]/, name);
  }
});

t.test('passthrough with a credential field (API-006)', async (t) => {
  for (const name of ['token', 'username', 'password', 'key', 'header', 'prefix', 'headers']) {
    for (const value of ['KEY', null, {}]) {
      const auth = { type: 'passthrough', [name]: value };
      const checked = checkService(service({ auth }), 'services[0]');
      t.equal(refusedField(checked), `services[0].auth.${name}`);
      t.match(checked, { problem: { message: /passthrough injects nothing/ } });
    }
  }
  t.ok(accepts(service({ auth: { type: 'passthrough' } })));
});

t.test('substitutions', async (t) => {
  for (const placeholders of [
    ['__a__', '__a__b__'],
    ['__A__', '__a__'],
  ]) {
    const substitutions = placeholders.map((placeholder) => ({ key: 'KEY', placeholder }));
    t.ok(accepts(service({ substitutions })), 'SUB-013');
  }
  const words = [
    'abc',
    'account_sid',
    '____',
    '~~~~',
    '__a b__',
    '__é__',
    'a__',
    '__acct__\n',
    '%5F__a',
    '__a/b__',
  ];
  for (const placeholder of [...words, 'a-'.repeat(2048), 'a-'.repeat(65), undefined, 4]) {
    const field = refusedField(checkService(substitution({ placeholder }), 's'));
    t.equal(field, 's.substitutions[0].placeholder', `SUB-018 ${String(placeholder).slice(0, 20)}`);
  }
  t.ok(accepts(substitution({ placeholder: 'a-'.repeat(64) })), '128 characters');
  for (const surfaces of [
    ['body'],
    ['path', 'body'],
    [],
    ['Path'],
    ['path', 'path'],
    'path',
    null,
    [['path']],
  ]) {
    const checked = checkService(substitution({ in: surfaces }), 's');
    t.equal(refusedField(checked), 's.substitutions[0].in', `SUB-020 ${JSON.stringify(surfaces)}`);
  }
  t.match(checkService(substitution({ in: ['body'] }), 's'), { problem: { message: /reserved/ } });
});

t.test('places of a substitution: what is refused, and by which field', async (t) => {
  const good: Record<string, unknown>[] = [
    { at: { path: '/bot__id__/*' } },
    { at: { path: '/bot__id__/*' }, in: ['path'] },
    { at: { path: '/__id__' } },
    { at: { path: '/a/__id__/b/__id__*', query: ['key', 'a%5B%5D'], header: ['X-Key'] } },
    { at: { query: ['key'], header: ['X-Key'] }, in: ['header', 'query'] },
  ];
  for (const fields of good) {
    const checked = checkService(substitution(fields), 's');
    t.ok(checked.ok, JSON.stringify(fields));
    const [kept] = (checked.ok && checked.value.substitutions) || [];
    t.same(kept, { key: 'KEY', placeholder: '__id__', ...fields }, 'kept as it was given');
  }
  const many = (count: number) => Array.from({ length: count }, (_, i) => `n${i}`);
  const bad: [Record<string, unknown>, string][] = [
    [{ at: null }, 'at'],
    [{ at: [] }, 'at'],
    [{ at: 'path' }, 'at'],
    [{ at: {} }, 'at'],
    [{ at: { body: ['x'] } }, 'at.body'],
    [{ at: { query: ['key'] }, in: ['path', 'query'] }, 'at.path'],
    [{ at: { path: '/__id__', query: ['key'] }, in: ['path'] }, 'at.query'],
    [{ at: { path: '' } }, 'at.path'],
    [{ at: { path: '/bot/*' } }, 'at.path'],
    [{ at: { path: 'bot__id__' } }, 'at.path'],
    [{ at: { path: '/*/__id__' } }, 'at.path'],
    [{ at: { path: '/__id__?x' } }, 'at.path'],
    [{ at: { path: '/__id__ x' } }, 'at.path'],
    [{ at: { path: `/__id__${'x'.repeat(2048)}` } }, 'at.path'],
    [{ at: { path: ['/__id__'] } }, 'at.path'],
    [{ at: { query: [] } }, 'at.query'],
    [{ at: { query: 'key' } }, 'at.query'],
    [{ at: { query: [''] } }, 'at.query'],
    [{ at: { query: ['a=b'] } }, 'at.query'],
    [{ at: { query: ['a&b'] } }, 'at.query'],
    [{ at: { query: ['a', 'a'] } }, 'at.query'],
    [{ at: { query: [7] } }, 'at.query'],
    [{ at: { query: many(17) } }, 'at.query'],
    [{ at: { query: ['x'.repeat(257)] } }, 'at.query'],
    [{ at: { header: [] } }, 'at.header'],
    [{ at: { header: ['X Key'] } }, 'at.header'],
    [{ at: { header: ['X-Key', 'x-key'] } }, 'at.header'],
    [{ at: { header: ['Content-Length'] } }, 'at.header'],
    [{ at: { header: ['X_Vault'] } }, 'at.header'],
    [{ at: { header: ['Proxy-Authorization'] } }, 'at.header'],
  ];
  for (const [fields, field] of bad) {
    const checked = checkService(substitution(fields), 's');
    t.equal(refusedField(checked), `s.substitutions[0].${field}`, JSON.stringify(fields).slice(0, 80));
  }
});

t.test('reflection: one of three; by itself it redacts where a placeholder has no place', async (t) => {
  for (const reflection of reflections) t.ok(accepts(service({ reflection })), reflection);
  for (const reflection of ['', 'PASS', 7, null, ['pass']]) {
    t.equal(refusedField(checkService(service({ reflection }), 's')), 's.reflection');
  }
  const [placed, anywhere] = [{ at: { query: ['key'] } }, {}].map((fields) => ({
    ...{ key: 'KEY', placeholder: '__id__' },
    ...fields,
  }));
  t.equal(reflectionOf({}), 'audit');
  t.equal(reflectionOf({ substitutions: [placed] }), 'audit');
  t.equal(reflectionOf({ substitutions: [placed, anywhere] }), 'redact');
  t.equal(reflectionOf({ substitutions: [anywhere], reflection: 'pass' }), 'pass', 'what it says counts');
  t.same(surfacesOf(placed), ['query'], 'places tell the surfaces');
  t.same(surfacesOf(anywhere), ['path', 'query']);
});

t.test('every refusal names its field', async (t) => {
  const twice = [
    { key: 'KEY', placeholder: '__id__' },
    { key: 'OTHER', placeholder: '__id__' },
  ];
  const many = (count: number) =>
    Array.from({ length: count }, (_, i) => ({ key: 'KEY', placeholder: `__${i}__` }));
  const headers = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`X-${i}`, 'v']));
  const custom = (map: unknown) => service({ auth: { type: 'custom', headers: map } });
  const odd = JSON.parse('{"host":"a.example.com","auth":{"type":"bearer","token":"KEY"},"__proto__":1}');
  const table: [unknown, string][] = [
    [null, ''],
    [[], ''],
    [{}, '.host'],
    [service({ host: 7 }), '.host'],
    [service({ host: '*.github.io' }), '.host'],
    [service({ hots: 1 }), '.hots'],
    [odd, '.__proto__'],
    [service({ 'a b': 1 }), '["a b"]'],
    [service({ description: 'x'.repeat(501) }), '.description'],
    [service({ description: '😀'.repeat(501) }), '.description'],
    [service({ description: '\ud800' }), '.description'],
    [service({ description: null }), '.description'],
    [service({ enabled: 'yes' }), '.enabled'],
    [{ host: 'a' }, '.auth'],
    [{ host: 'a', enabled: true, description: 'd' }, '.auth'],
    [{ host: 'a', enabled: true, substitutions: many(1) }, '.auth'],
    [service({ auth: 'bearer' }), '.auth'],
    [service({ auth: {} }), '.auth.type'],
    [service({ auth: { type: 'constructor' } }), '.auth.type'],
    [service({ auth: { type: 'bearer' } }), '.auth.token'],
    [service({ auth: { type: 'bearer', token: 'A'.repeat(129) } }), '.auth.token'],
    [service({ auth: { type: 'bearer', token: 'KEY\n' } }), '.auth.token'],
    [service({ auth: { type: 'basic', username: 'KEY', password: '' } }), '.auth.password'],
    [service({ auth: { type: 'bearer', token: 'KEY', prefix: 'x' } }), '.auth.prefix'],
    [service({ auth: { type: 'api-key', key: 'KEY', prefix: 'Bot\r\nX: y' } }), '.auth.prefix'],
    [service({ auth: { type: 'api-key', key: 'KEY', prefix: 'x'.repeat(8193) } }), '.auth.prefix'],
    [custom(undefined), '.auth.headers'],
    [custom({}), '.auth.headers'],
    [custom(headers(33)), '.auth.headers'],
    [custom({ 'X-A': 'v', 'x-a': 'w' }), '.auth.headers.x-a'],
    [custom({ 'X-A': 7 }), '.auth.headers.X-A'],
    [custom({ 'X-A': 'a\nb' }), '.auth.headers.X-A'],
    [custom({ 'X-A': '{{ key }}' }), '.auth.headers.X-A'],
    [custom({ 'X\nA': 'v' }), '.auth.headers["X\\nA"]'],
    [service({ substitutions: {} }), '.substitutions'],
    [service({ substitutions: many(17) }), '.substitutions'],
    [service({ substitutions: [7] }), '.substitutions[0]'],
    [service({ substitutions: twice }), '.substitutions[1].placeholder'],
    [substitution({ key: 'lower' }), '.substitutions[0].key'],
    [substitution({ where: 'path' }), '.substitutions[0].where'],
  ];
  for (const [input, field] of table) {
    t.equal(refusedField(checkService(input, 'services[2]')), `services[2]${field}`, field);
  }
  t.ok(accepts(custom(headers(32))) && accepts(service({ substitutions: many(16) })), 'at the limits');
  t.ok(accepts(service({ description: '😀'.repeat(500) })), 'lengths are code points');
  t.ok(accepts({ host: 'a', enabled: false }), 'enabled alone needs no auth');
  t.equal(refusedField(checkService({ host: 'a', enabled: false }, 's', { requireAuth: true })), 's.auth');
});

t.test('a secret pasted in place of a key is not repeated', async (t) => {
  const secret = 'sk_live_hunter2';
  const auths = [
    { type: 'bearer', token: secret },
    { type: secret },
    { type: 'api-key', key: 'KEY', header: `${secret} ` },
    { type: 'api-key', key: 'KEY', prefix: `${secret}\n` },
    { type: 'custom', headers: { 'X-A': `{{ ${secret} }}` } },
  ];
  const inputs = [
    ...auths.map((auth) => service({ auth })),
    substitution({ key: secret }),
    service({ host: `${secret}/` }),
  ];
  for (const input of inputs) {
    const checked = checkService(input, 's');
    t.notOk(checked.ok);
    t.notMatch(JSON.stringify(checked), /hunter2/);
  }
});

t.test('lists of services', async (t) => {
  const list = [
    service({ host: 'A.example.com.' }),
    service({ host: 'b' }),
    service({ host: 'a.EXAMPLE.com' }),
  ];
  t.equal(refusedField(checkServices(list, 'services', { requireAuth: true })), 'services[2].host');
  t.equal(refusedField(checkServices('x', 'services', { requireAuth: true })), 'services');
  const enable = [{ host: 'b', enabled: true }];
  t.equal(refusedField(checkServices(enable, 'services', { requireAuth: true })), 'services[0].auth');
  t.same(checkServices(enable, 'services', { requireAuth: false }), { ok: true, value: enable });
  t.match(checkServices(list.slice(0, 2), 'services', { requireAuth: true }), {
    value: [{ host: 'a.example.com' }, { host: 'b' }],
  });
});

t.test('keys that a service refers to', async (t) => {
  const fieldsOf = (auth: AuthConfig) =>
    referencedKeys(auth, undefined).map(({ key, field }) => `${field}=${key}`);
  t.same(fieldsOf(bearer), ['auth.token=KEY']);
  const inPath = [{ key: 'S', placeholder: '__s__' }];
  t.same(referencedKeys(undefined, inPath), [{ key: 'S', field: 'substitutions[0].key' }]);
  t.same(fieldsOf({ type: 'basic', username: 'U' }), ['auth.username=U']);
  t.same(fieldsOf({ type: 'basic', username: 'U', password: 'P' }), ['auth.username=U', 'auth.password=P']);
  t.same(fieldsOf({ type: 'api-key', key: 'K', header: 'X' }), ['auth.key=K']);
  t.same(fieldsOf({ type: 'passthrough' }), []);
  const headers = { 'X-A': '{{ A }} {{ B }} {{ A }}', 'X-B': 'static' };
  t.same(fieldsOf({ type: 'custom', headers }), ['auth.headers.X-A=A', 'auth.headers.X-A=B']);

  const substitutions = [{ key: 'SUB', placeholder: '__s__' }];
  const services: ServiceInput[] = [
    { host: 'b', enabled: true },
    { host: 'a', auth: bearer, substitutions },
  ];
  t.equal(unresolved(services, new Set(['KEY', 'SUB']), new Set()), null);
  t.equal(unresolved(services, new Set(['KEY']), new Set(['SUB'])), null, 'a slot is enough');
  t.equal(unresolved([{ action: 'delete', host: 'a' }], new Set(), new Set()), null);
  t.match(unresolved(services, new Set(['KEY']), new Set()), {
    code: 'unresolved_credential',
    extra: { key: 'SUB', field: 'services[1].substitutions[0].key' },
  });
  t.match(unresolved(services, new Set(), new Set()), {
    extra: { key: 'KEY', field: 'services[1].auth.token' },
  });
});

t.test('arbitrary JSON: refused by field or accepted unchanged, never a throw', async (t) => {
  // Mostly right, so that every rule is reached: each field is a good value, a bad one or anything.
  const value = (...good: unknown[]) =>
    fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...good) }, fc.jsonValue());
  const part = (model: Record<string, fc.Arbitrary<unknown>>, ...required: string[]) =>
    fc.oneof({ weight: 8, arbitrary: fc.record(model, { requiredKeys: required }) }, fc.jsonValue());
  const key = value('KEY', 'key');
  const header = fc.dictionary(
    fc.oneof(fc.constantFrom('X-A', 'x-a', 'Host', '__proto__'), fc.string()),
    key,
  );
  const auth = fc.oneof(
    part({ type: fc.constant('bearer'), token: key }, 'type', 'token'),
    part({ type: fc.constant('basic'), username: key, password: key }, 'type', 'username'),
    part({ type: fc.constant('api-key'), key, header: value('X-A'), prefix: value('Bot ') }, 'type', 'key'),
    part({ type: fc.constant('custom'), headers: header }, 'type', 'headers'),
    part({ type: fc.constant('passthrough') }, 'type'),
  );
  const surface = value(['path'], ['path', 'header'], ['body']);
  const item = part({ key, placeholder: value('__a__', 'a.bc', 'abc'), in: surface }, 'key', 'placeholder');
  const input = part(
    {
      host: value('API.example.com', '*.example:443', '[::1]', '*.com'),
      auth,
      substitutions: fc.array(item, { maxLength: 3 }),
      description: value('d'),
      enabled: value(true, false),
    },
    'host',
  );
  let accepted = 0;
  fc.assert(
    fc.property(input, (service) => {
      const before = JSON.stringify(service);
      const checked = checkService(service, 'services[0]');
      if (JSON.stringify(service) !== before) throw new Error('the input was changed');
      if (!checked.ok) return String(checked.problem.extra?.field).startsWith('services[0]');
      accepted += 1;
      const again = checkService(checked.value, 'services[0]');
      return again.ok && JSON.stringify(again.value) === JSON.stringify(checked.value);
    }),
    { numRuns: 3000 },
  );
  t.ok(accepted > 50, `${accepted} accepted: both sides were tried`);
});

t.test('credential keys', async (t) => {
  t.ok(isCredentialKey('A'.repeat(128)));
  for (const key of ['', 'A'.repeat(129), 'A\n', 'É', 'a']) t.notOk(isCredentialKey(key), key);
});
