/** What the protocol says of single values, as tables: each row is a value and whether, or how, it is taken. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { authProblem } from '../../src/actors/vault/auth-rules.ts';
import { hostHeader, parseAuthority } from '../../src/actors/vault/authority.ts';
import { isCredentialKey } from '../../src/actors/vault/credential-rules.ts';
import { parseHostPattern } from '../../src/actors/vault/host-pattern.ts';
import { merge } from '../../src/actors/vault/merge.ts';
import type { AuthConfig, Service, ServiceChange } from '../../src/actors/vault/model.ts';
import { checkProposal } from '../../src/actors/vault/proposal-rules.ts';
import { Secret } from '../../src/actors/vault/secret.ts';
import { substitutionsProblem } from '../../src/actors/vault/substitution-rules.ts';
import { parseProxyAuthorization } from '../../src/proxy/authenticate.ts';
import { render } from '../../src/proxy/inject.ts';
import { createNetguard } from '../../src/proxy/netguard.ts';
import { Substituter } from '../../src/proxy/substitute.ts';
import { chosen } from '../support/chosen.ts';

const values: Readonly<Record<string, { yes: unknown[]; no: unknown[] }>> = JSON.parse(
  readFileSync(new URL('../vectors/values.json', import.meta.url), 'utf8'),
);

const checked: string[] = [];

/** Runs a check over the values of its title: all that it has to take, and all that it has to refuse. */
// biome-ignore lint/suspicious/noExplicitAny: each check takes what its own values are
function yesOrNo(title: string, takes: (value: any) => boolean): void {
  checked.push(title);
  t.test(title, async (t) => {
    for (const value of values[title].yes) t.equal(takes(value), true, `taken: ${JSON.stringify(value)}`);
    for (const value of values[title].no) t.equal(takes(value), false, `refused: ${JSON.stringify(value)}`);
  });
}

/** Whether the network guard lets an address be dialled. */
function open(ip: string, allowPrivateRanges = false, allow: string[] = []): boolean {
  const guard = createNetguard({ allowPrivateRanges, allow, ownPorts: [], ownAddresses: () => [] });
  return guard.vet(ip, 443) === null;
}

const substitutes = (list: unknown) => substitutionsProblem(list, 'substitutions') === null;

yesOrNo('placeholders', (placeholder) => substitutes([{ key: 'K', placeholder }]));
yesOrNo('lists of substitutions', substitutes);
yesOrNo('credential keys', isCredentialKey);
yesOrNo('auth configs', (auth) => authProblem(auth, 'auth') === null);
yesOrNo('hosts of services', (host) => 'pattern' in parseHostPattern(host));
yesOrNo('targets of CONNECT', (target) => parseAuthority(target, null) !== null);
yesOrNo('proposals', (body) => checkProposal(body).ok);
yesOrNo('addresses', (ip) => open(ip));
yesOrNo('addresses, with private ranges open', (ip) => open(ip, true));

t.test('each list of values has its check', async (t) => {
  t.same(checked.sort(), Object.keys(values).sort());
});

t.test('the longest that a proposal takes', async (t) => {
  const slot = (more: object) => ({ credentials: [{ action: 'set', key: 'K', ...more }] });
  const service = (i: number) => ({ action: 'delete', host: `h${i}.test` });
  const slots = (i: number) => ({ action: 'set', key: `K${i}` });
  const limits: [max: number, body: (length: number) => object][] = [
    [2000, (n) => ({ ...slot({}), message: '😀'.repeat(n) })],
    [5000, (n) => ({ ...slot({}), user_message: 'x'.repeat(n) })],
    [500, (n) => slot({ description: 'é'.repeat(n) })],
    [500, (n) => slot({ obtain: `https://a.test/${'x'.repeat(n - 15)}` })],
    [1000, (n) => slot({ obtain_instructions: 'x'.repeat(n) })],
    [65_536, (n) => slot({ value: 'x'.repeat(n) })],
    [10, (n) => ({ services: Array.from({ length: n }, (_, i) => service(i)) })],
    [10, (n) => ({ credentials: Array.from({ length: n }, (_, i) => slots(i)) })],
  ];
  for (const [max, body] of limits) {
    t.equal(checkProposal(body(max)).ok, true, `${max}: ${body}`);
    t.equal(checkProposal(body(max + 1)).ok, false, `${max + 1}: ${body}`);
  }
});

t.test('which service takes a target', async (t) => {
  const all = ['*.a.test', '*.a.test:8443', 'x.a.test', 'x.a.test:8443'];
  const cases: [patterns: string[], host: string, port: number, found: string | undefined][] = [
    [all, 'x.a.test', 8443, 'x.a.test:8443'],
    [all, 'x.a.test', 443, 'x.a.test'],
    [all, 'y.a.test', 8443, '*.a.test:8443'],
    [all, 'y.a.test', 443, '*.a.test'],
    [all, 'a.test', 443, undefined],
    [all, 'z.y.a.test', 443, undefined],
    [all, 'x.a.test.', 443, 'x.a.test'],
    [all, 'X.A.Test', 443, 'x.a.test'],
    [['*.a.test:8443', 'x.a.test'], 'x.a.test', 8443, 'x.a.test'],
    [['x.a.test:8443'], 'x.a.test', 443, undefined],
    [['a.test:443'], 'a.test', 443, 'a.test:443'],
    [['a.test:443'], 'a.test', 80, undefined],
    [['*.b.a.test', '*.a.test'], 'x.b.a.test', 443, '*.b.a.test'],
    [['*.a.test'], '*.a.test', 443, undefined],
    [['bücher.test'], 'xn--bcher-kva.test', 443, 'bücher.test'],
    [['[2001:db8:0::1]'], '[2001:DB8::1]', 443, '[2001:db8:0::1]'],
    [['[::1]:80'], '[::1]', 443, undefined],
    [['127.0.0.1'], '127.0.0.1', 1, '127.0.0.1'],
    [['localhost'], 'LOCALHOST', 3000, 'localhost'],
    [[], 'a.test', 443, undefined],
  ];
  for (const [patterns, host, port, found] of cases) {
    t.equal(chosen(patterns, host, port), found, `${host}:${port} of ${patterns.join(' ')}`);
  }
});

const secrets = (values: Readonly<Record<string, string>>) =>
  new Map(Object.entries(values).map(([key, value]) => [key, new Secret(value)]));

t.test('what auth puts in', async (t) => {
  const values = {
    K: 'v',
    U: 'alice',
    P: 'p:w',
    E: 'é',
    BASE: '+/=',
    SP: 'a b',
    NUL: 'a\0b',
    CR: 'a\rb',
    HIGH: '€',
    TAB: 'a\tb',
    OUT: ' a',
  };
  const cases: [auth: AuthConfig, found: Record<string, string> | string][] = [
    [{ type: 'bearer', token: 'K' }, { Authorization: 'Bearer v' }],
    [{ type: 'bearer', token: 'BASE' }, { Authorization: 'Bearer +/=' }],
    [{ type: 'bearer', token: 'TAB' }, { Authorization: 'Bearer a\tb' }],
    [{ type: 'basic', username: 'U', password: 'P' }, { Authorization: `Basic ${btoa('alice:p:w')}` }],
    [{ type: 'basic', username: 'U' }, { Authorization: `Basic ${btoa('alice:')}` }],
    [
      { type: 'basic', username: 'E', password: 'HIGH' },
      { Authorization: `Basic ${Buffer.from('é:€').toString('base64')}` },
    ],
    [{ type: 'basic', username: 'P' }, 'substitution_error'],
    [{ type: 'api-key', key: 'K' }, { Authorization: 'v' }],
    [{ type: 'api-key', key: 'K', prefix: 'Token ' }, { Authorization: 'Token v' }],
    [{ type: 'api-key', key: 'K', header: 'X-Api-Key' }, { 'X-Api-Key': 'v' }],
    [{ type: 'api-key', key: 'K', header: 'Cookie', prefix: 'sid=' }, { Cookie: 'sid=v' }],
    [
      { type: 'custom', headers: { 'X-A': '{{ K }}{{K}}', 'X-B': 'a {{ U }} b' } },
      { 'X-A': 'vv', 'X-B': 'a alice b' },
    ],
    [
      { type: 'custom', headers: { 'X-A': '{{\tK \t}}', 'X-B': '{ K }' } },
      { 'X-A': 'v', 'X-B': '{ K }' },
    ],
    [{ type: 'passthrough' }, {}],
    [{ type: 'bearer', token: 'NUL' }, 'substitution_error'],
    [{ type: 'bearer', token: 'CR' }, 'substitution_error'],
    [{ type: 'bearer', token: 'HIGH' }, 'substitution_error'],
    [{ type: 'api-key', key: 'OUT' }, 'substitution_error'],
    [{ type: 'custom', headers: { 'X-A': '{{ CR }}' } }, 'substitution_error'],
    [{ type: 'bearer', token: 'NONE' }, 'credential_not_found'],
    [{ type: 'basic', username: 'U', password: 'NONE' }, 'credential_not_found'],
    [{ type: 'api-key', key: 'NONE' }, 'credential_not_found'],
    [{ type: 'custom', headers: { 'X-A': 'static', 'X-B': '{{ NONE }}' } }, 'credential_not_found'],
  ];
  for (const [auth, found] of cases) {
    const { problem, lines } = render({ host: 'a.test', auth }, secrets(values));
    const fields = Object.entries(found).map(([name, value]) => `${name}: ${value}\r\n`);
    if (typeof found === 'string') t.match([problem?.code, lines], [found, ''], JSON.stringify(auth));
    else t.same([problem, lines], [null, fields.join('')], JSON.stringify(auth));
  }
});

/** A surface after substitution of these values, or why it is refused. */
function substituted(
  surface: 'path' | 'query' | 'header',
  raw: string,
  values: Record<string, string>,
): string {
  const given = Object.entries(values).map(([placeholder], i) => ({
    key: `K${i}`,
    placeholder,
    in: [surface],
  }));
  const stored = secrets(Object.fromEntries(Object.values(values).map((value, i) => [`K${i}`, value])));
  const substituter = new Substituter(given, stored);
  const room = 64 * 1024;
  const done =
    surface === 'header' ? substituter.header('x-any', raw, room) : substituter[surface](raw, room);
  return done === null ? raw : 'failed' in done ? done.failed : done.text;
}

t.test('what a path becomes', async (t) => {
  const id = (value: string) => ({ __id__: value });
  const cases: [path: string, values: Record<string, string>, found: string][] = [
    ['/items/__id__/get', id('AC12345'), '/items/AC12345/get'],
    ['/items/__id__/get', id('a/b'), '/items/a%2Fb/get'],
    ['/items/__id__/get', id('a?b#c'), '/items/a%3Fb%23c/get'],
    ['/items/__id__/get', id('a;b,c'), '/items/a%3Bb%2Cc/get'],
    ['/items/__id__/get', id('é€😀'), '/items/%C3%A9%E2%82%AC%F0%9F%98%80/get'],
    ['/items/__id__/get', id('100%'), '/items/100%25/get'],
    ['/items/__id__/get', id('a\r\nb\0c'), '/items/a%0D%0Ab%00c/get'],
    ['/items/__id__/get', id('-._~'), '/items/-._~/get'],
    ['/items/pre-__id__-post', id('x'), '/items/pre-x-post'],
    ['/items/__id____id__', id('x'), '/items/xx'],
    ['/items/__Id__', id('x'), '/items/__Id__'],
    ['/items/__id_', id('x'), '/items/__id_'],
    ['/items/__id__', id('__id__'), '/items/__id__'],
    ['/x/__id__', id('.'), 'illegal'],
    ['/x/.__id__', id('.'), 'illegal'],
    ['/x/__id__/y', id('%2e%2e'), 'illegal'],
    ['/x/__id__/y', id('../etc'), 'illegal'],
    ['/x/__id__/y', id('..\\etc'), 'illegal'],
    ['/x/__id__/y', id('...'), '/x/.../y'],
    ['/x/__id__.json', id('..'), '/x/...json'],
    ['/__aa__/__aa__b', { __aa__: '1', __aa__b: '2' }, '/1/2'],
    ['/__aa____bb__', { __aa__: '__bb__', __bb__: 'x' }, '/__bb__x'],
  ];
  for (const [path, values, found] of cases)
    t.equal(substituted('path', path, values), found, `${path} ${JSON.stringify(values)}`);
});

t.test('what a query and a header become', async (t) => {
  for (const value of [
    'a/b',
    '100%',
    '€',
    "it's",
    'a;b',
    '[x]',
    'a\nb',
    '+',
    ' ',
    '~-._',
    '"<>',
    '=',
    '&x=1',
  ]) {
    const query = substituted('query', 'k=__id__&f=json', { __id__: value });
    t.same(
      [...new URLSearchParams(query)],
      [
        ['k', value],
        ['f', 'json'],
      ],
      `in a query: ${JSON.stringify(value)}`,
    );
  }
  t.equal(substituted('query', '__id__=x&y=__id__', { __id__: 'v' }), 'v=x&y=v', 'a name of a parameter too');
  t.equal(substituted('query', 'k=%5F%5Fid__', { __id__: 'v' }), 'k=%5F%5Fid__', 'no other spelling');
  for (const [text, found] of [
    ['Token __t1__', 'Token v/&=é'],
    ['__t1__,__t1__', 'v/&=é,v/&=é'],
    ['__T1__', '__T1__'],
    ['', ''],
  ]) {
    t.equal(substituted('header', text, { __t1__: 'v/&=é' }), found, `in a header: ${text}`);
  }
});

t.test('Proxy-Authorization', async (t) => {
  const basic = (text: string) => `Basic ${btoa(text)}`;
  const cases: [header: string, found: [token: string, vault: string] | null][] = [
    ['Bearer brk_ses_a', ['brk_ses_a', '']],
    ['BEARER brk_ses_a', ['brk_ses_a', '']],
    [basic('brk_agt_x:my-vault'), ['brk_agt_x', 'my-vault']],
    [basic('brk_agt_x:a:b'), ['brk_agt_x', 'a:b']],
    [basic(':default'), null],
    [basic(''), null],
    ['Bearer', null],
    ['Bearer ', null],
    ['Bearer a b', null],
    ['Basic', null],
    ['Negotiate abc', null],
    ['brk_ses_a', null],
    [`${basic('a:b')}, ${basic('c:d')}`, null],
    ['', null],
  ];
  for (const [header, found] of cases) {
    const given = parseProxyAuthorization(header);
    t.same(given && [given.token, given.vault], found, header);
  }
});

t.test('the Host that goes upstream', async (t) => {
  for (const [scheme, target, found] of [
    ['http', 'api.example.com:80', 'api.example.com'],
    ['http', 'api.example.com:443', 'api.example.com:443'],
    ['https', 'API.Example.com.:443', 'api.example.com'],
    ['https', '[2001:DB8::1]:8443', '[2001:db8::1]:8443'],
    ['http', '127.0.0.1:8080', '127.0.0.1:8080'],
  ] as const) {
    const authority = parseAuthority(target, null);
    t.equal(authority && hostHeader(scheme, authority), found, `${scheme} ${target}`);
  }
});

t.test('what the allow-list opens', async (t) => {
  t.equal(open('169.254.1.1', false, ['169.254.0.0/16']), true, 'link-local');
  t.equal(open('169.254.169.254', true, ['0.0.0.0/0']), false, 'never metadata');
  t.equal(open('fd12::1', false, ['fd12::/16']), true);
  t.equal(open('fd13::1', false, ['fd12::/16']), false);
  t.equal(open('10.1.2.3', false, ['10.1.2.3']), true, 'a bare address is a range of one');
  t.equal(open('10.1.2.4', false, ['10.1.2.3']), false);
});

t.test('what a merge leaves', async (t) => {
  const bearer = (token: string): AuthConfig => ({ type: 'bearer', token });
  const one = { key: 'K_X', placeholder: '__sid__' };
  const full: Service = {
    host: 'a.test',
    description: 'A',
    auth: bearer('K'),
    substitutions: [one],
    enabled: false,
  };
  const other: Service = { host: 'b.test', auth: { type: 'passthrough' } };
  const cases: [what: string, changes: ServiceChange[], found: Service[]][] = [
    [
      'one that is new comes last',
      [{ action: 'set', host: 'c.test', auth: bearer('L') }],
      [full, other, { host: 'c.test', auth: bearer('L') }],
    ],
    ['the same again changes nothing', [{ action: 'set', ...other }], [full, other]],
    [
      'auth alone keeps substitutions and the disabled state',
      [{ action: 'set', host: 'a.test', auth: bearer('L') }],
      [{ ...full, auth: bearer('L') }, other],
    ],
    [
      'substitutions with auth replace them all',
      [
        {
          action: 'set',
          host: 'a.test',
          auth: bearer('K'),
          substitutions: [{ key: 'L', placeholder: '__l__' }],
        },
      ],
      [{ ...full, substitutions: [{ key: 'L', placeholder: '__l__' }] }, other],
    ],
    [
      'an empty list clears nothing',
      [{ action: 'set', host: 'a.test', auth: bearer('K'), substitutions: [] }],
      [full, other],
    ],
    ['a wildcard is a service of its own', [{ action: 'delete', host: '*.test' }], [full, other]],
    ['a port makes another service', [{ action: 'delete', host: 'a.test:443' }], [full, other]],
    [
      'all may go',
      [
        { action: 'delete', host: 'a.test' },
        { action: 'delete', host: 'b.test' },
      ],
      [],
    ],
  ];
  const plain = (services: Iterable<Service>) => JSON.parse(JSON.stringify([...services]));
  for (const [what, changes, found] of cases) {
    const merged = merge(new Map([full, other].map((service) => [service.host, service])), changes);
    t.same(merged.ok && plain(merged.value.services.values()), plain(found), what);
  }
  const enabled = merge(new Map([[full.host, full]]), [{ action: 'set', host: 'a.test', enabled: true }]);
  t.not(enabled.ok && enabled.value.services.get('a.test')?.enabled, false, 'enabled where it is said');
  t.equal(
    merge(new Map(), [{ action: 'set', host: 'x.test', enabled: true }]).ok,
    false,
    'a new one needs auth',
  );
});
