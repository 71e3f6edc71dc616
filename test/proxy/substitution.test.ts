/** Where placeholders are replaced, and what a request that is full of them may cost. */
import fc from 'fast-check';
import t from 'tap';
import {
  defaultSettings,
  type Places,
  type Service,
  type Substitution,
} from '../../src/actors/vault/model.ts';
import { Secret } from '../../src/actors/vault/secret.ts';
import { isDotSegment } from '../../src/proxy/dot-segment.ts';
import { maxHeadBytes, parseRequestHead } from '../../src/proxy/head.ts';
import { render } from '../../src/proxy/inject.ts';
import { VaultEntry } from '../../src/proxy/lane-state.ts';
import { encodePath, encodeQuery } from '../../src/proxy/percent.ts';
import { plan } from '../../src/proxy/plan.ts';
import { Substituter } from '../../src/proxy/substitute.ts';
import { openTunnel, startLane } from '../support/lane.ts';
import { rawUpstream } from '../support/upstream.ts';
import { nextAnswer, nextRequest, wireOf } from '../support/wire.ts';

const passthrough = { type: 'passthrough' } as const;
const authority = { host: 'a.test', port: 80, literal: 0 } as const;

/** What goes upstream of a request under a service: the lines of its head, or the code of its refusal. */
function planned(
  service: Partial<Service>,
  credentials: Readonly<Record<string, string>>,
  target: string,
  fields = '',
): string[] {
  const vault = new VaultEntry('v', 'v', defaultSettings);
  for (const [key, value] of Object.entries(credentials)) vault.setCredential(key, value);
  vault.setService({ host: 'a.test', auth: passthrough, ...service });
  const head = parseRequestHead(`GET ${target} HTTP/1.1\r\nHost: a.test\r\n${fields}`);
  if (!('method' in head)) throw new Error(head.message);
  const found = plan(vault, { scheme: 'http', authority }, vault.match('a.test', 80, false), target, head);
  return 'refusal' in found ? [found.refusal.code] : found.head.split('\r\n').slice(0, -1);
}
const targetOf = ([line]: string[]) => line.split(' ')[1] ?? line;

t.test('a placeholder is replaced in its places, and goes as it is elsewhere', async (t) => {
  const t_ = (at: Places, ...more: Substitution[]): Substitution[] => [
    { key: 'T', placeholder: '__t__', at },
    ...more,
  ];
  const values = { T: 'T+1', U: 'uu' };
  const cases: [at: Places, target: string, becomes: string][] = [
    [{ path: '/bot__t__/*' }, '/bot__t__/sendMessage?text=__t__', '/botT+1/sendMessage?text=__t__'],
    [{ path: '/bot__t__/*' }, '/bot__t__/', '/botT+1/'],
    [{ path: '/bot__t__/*' }, '/bot__t__/__t__/bot__t__', '/botT+1/__t__/bot__t__'],
    [{ path: '/bot__t__/*' }, '/bot__t__', '/bot__t__'],
    [{ path: '/bot__t__/*' }, '/x/bot__t__/y', '/x/bot__t__/y'],
    [{ path: '/bot__t__/*' }, '/Bot__t__/y', '/Bot__t__/y'],
    [{ path: '/bot__t__/*' }, '/%62ot__t__/y', '/%62ot__t__/y'],
    [{ path: '/bot__t__/*' }, '//bot__t__/y', '//bot__t__/y'],
    [{ path: '/bot__t__' }, '/bot__t__', '/botT+1'],
    [{ path: '/bot__t__' }, '/bot__t__/', '/bot__t__/'],
    [{ path: '/bot__t__*' }, '/bot__t____t__', '/botT+1__t__'],
    [{ path: '/__t__/a/__t__/*' }, '/__t__/a/__t__/__t__', '/T+1/a/T+1/__t__'],
    [{ query: ['key'] }, '/__t__?key=__t__&text=__t__', '/__t__?key=T%2B1&text=__t__'],
    [{ query: ['key'] }, '/?text=__t__&key=a__t__b__t__', '/?text=__t__&key=aT%2B1bT%2B1'],
    [{ query: ['key'] }, '/?Key=__t__', '/?Key=__t__'],
    [{ query: ['key'] }, '/?k%65y=__t__', '/?k%65y=__t__'],
    [{ query: ['k%65y'] }, '/?k%65y=__t__', '/?k%65y=T%2B1'],
    [{ query: ['key'] }, '/?key=x;text=__t__', '/?key=x;text=__t__'],
    [{ query: ['key'] }, '/?text=x;key=__t__', '/?text=x;key=__t__'],
    [{ query: ['key'] }, '/?__t__', '/?__t__'],
    [{ query: ['key'] }, '/?__t__=key', '/?__t__=key'],
    [{ query: ['key'] }, '/?key=?key=__t__', '/?key=?key=T%2B1'],
    [{ query: ['a', 'b'] }, '/?&&a=__t__&b=__t__&=__t__', '/?&&a=T%2B1&b=T%2B1&=__t__'],
    [{ path: '/__t__', query: ['k'] }, '/__t__?k=__t__', '/T+1?k=T%2B1'],
  ];
  for (const [at, target, becomes] of cases)
    t.equal(targetOf(planned({ substitutions: t_(at) }, values, target)), becomes, target);

  const twice = t_({ path: '/a/__t__/__u__/*' }, { key: 'U', placeholder: '__u__', in: ['path'] });
  t.equal(targetOf(planned({ substitutions: twice }, values, '/a/__t__/__u__/__u__')), '/a/T+1/uu/uu');
  const longer = t_({ query: ['k'] }, { key: 'U', placeholder: '__t__u', at: { query: ['other'] } });
  t.equal(
    targetOf(planned({ substitutions: longer }, values, '/?k=__t__u')),
    '/?k=__t__u',
    'the longest counts, and out of its place it goes as it is',
  );

  const fields = 'X-Key: __t__\r\nx-kEY: a __t__\r\nX-Other: __t__\r\nCookie: __t__\r\n';
  const lines = planned({ substitutions: t_({ header: ['X-Key', 'cookie'] }) }, values, '/__t__', fields);
  t.same(lines.slice(2), ['X-Key: T+1', 'x-kEY: a T+1', 'X-Other: __t__', 'Cookie: T+1'], 'named headers');
  t.equal(targetOf(lines), '/__t__');
});

t.test('what is over a head’s 64 KiB is refused before any of it is built, wherever it stands', async (t) => {
  const long = 'v'.repeat(65_536);
  const all = ['path', 'query', 'header'] as const;
  const substitutions = [{ key: 'K', placeholder: '__k', in: all }].map((s) => ({
    ...s,
    placeholder: '__k_',
  }));
  const filled = (length: number) => '__k_'.repeat(length / 4);
  const many = Array.from({ length: 200 }, (_, i) => `X-${i}: ${filled(200)}\r\n`).join('');
  const cases: [what: string, value: string, target: string, fields: string][] = [
    ['a header, a long value', long, '/', `X: ${filled(60_000)}\r\n`],
    ['many headers', 'w'.repeat(60_000), '/', many],
    ['a path', 'p'.repeat(2048), `/${filled(32_000)}`, ''],
    ['a path, a short value', '%'.repeat(40), `/${filled(32_000)}`, ''],
    ['a query', 'q'.repeat(40), `/?${filled(32_000)}`, ''],
    ['each of them a bit', '%'.repeat(3), `/${filled(12_000)}?${filled(12_000)}`, `X: ${filled(24_000)}\r\n`],
  ];
  for (const [what, value, target, fields] of cases)
    t.same(planned({ substitutions }, { K: value }, target, fields), ['substitution_error'], what);
  // As much as there is room for goes through.
  const [line] = planned({ substitutions }, { K: '%%%' }, `/${filled(28_000)}`);
  t.equal(line.length, 'GET  HTTP/1.1'.length + 1 + (28_000 / 4) * 9);

  const secret = new Map([['K', new Secret(long)]]);
  const headers = Object.fromEntries(Array.from({ length: 32 }, (_, i) => [`X-${i}`, '{{K}}'.repeat(1_600)]));
  const rendered = render({ host: 'a.test', auth: { type: 'custom', headers } }, secret);
  t.equal(
    rendered.problem?.code,
    'substitution_error',
    'a template that was stored before repeats were counted',
  );
  t.equal(rendered.lines, '');
});

t.test('each value is encoded once for a surface, however often it stands there', async (t) => {
  let revealed = 0;
  class Counted extends Secret {
    override reveal(): string {
      revealed++;
      return super.reveal();
    }
  }
  const stored = new Map([['K', new Counted('a/b')]]);
  const substituter = new Substituter(
    [{ key: 'K', placeholder: '__k__', in: ['path', 'query', 'header'] }],
    stored,
  );
  for (let i = 0; i < 100; i++) {
    t.match(substituter.path('/__k__/__k__', 100), { text: '/a%2Fb/a%2Fb', keys: ['K'] });
    t.match(substituter.query('k=__k__&l=__k__', 100), { text: 'k=a%2Fb&l=a%2Fb' });
    t.match(substituter.header('x', '__k__ __k__', 100), { text: 'a/b a/b' });
  }
  t.equal(revealed, 3);
});

t.test('properties: encoders against their tables, dot segments against their definition', async (t) => {
  const text = fc.string({
    unit: fc.oneof(fc.constantFrom(...'%./\\;ab2eEfF5:@!*()'), fc.string({ unit: 'binary', maxLength: 1 })),
    maxLength: 40,
  });
  const byTable = (value: string, keep: RegExp) =>
    [...value.toWellFormed()]
      .map((char) =>
        keep.test(char)
          ? char
          : [...Buffer.from(char)].map((b) => `%${b.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
      )
      .join('');
  const climbs = (segment: string): boolean => {
    let seen = segment;
    for (let i = 0; i < 4; i++) {
      if (seen.split(/[/\\]/).some((part) => /^\.\.?(?:[;\0]|$)/.test(part))) return true;
      seen = seen.replace(/%([0-9a-f]{2})/gi, (_, h) => String.fromCharCode(Number.parseInt(h, 16)));
    }
    return false;
  };
  fc.assert(
    fc.property(text, (value) => {
      if (encodePath(value) !== byTable(value, /^[A-Za-z0-9\-._~$&+=:@]$/)) throw new Error('path');
      if (encodeQuery(value) !== byTable(value, /^[A-Za-z0-9\-._~]$/)) throw new Error('query');
      const ascii = value.replace(/[^!-~]/g, '');
      if (isDotSegment(ascii) !== climbs(ascii)) throw new Error(ascii);
    }),
    { numRuns: 3000 },
  );
  t.pass();
});

t.test('properties: the same as one regular expression, and never longer than it may be', async (t) => {
  const placeholders = ['__a__', '__a__b', '-ab-', '__aa__'];
  const raw = fc.array(fc.constantFrom(...placeholders, '_', '__', 'a', '-', '/', '&', '='), {
    maxLength: 30,
  });
  fc.assert(
    fc.property(
      raw,
      fc.array(fc.string({ minLength: 1, maxLength: 8 }), { minLength: 4, maxLength: 4 }),
      (parts, values) => {
        const text = parts.join('');
        const stored = new Map(values.map((value, i) => [`K${i}`, new Secret(value)]));
        const given = placeholders.map((placeholder, i) => ({
          key: `K${i}`,
          placeholder,
          in: ['query'] as const,
        }));
        const pattern = new RegExp([...placeholders].sort((a, b) => b.length - a.length).join('|'), 'g');
        const expected = text.replace(pattern, (found) => encodeQuery(values[placeholders.indexOf(found)]));
        const substituter = new Substituter(given, stored);
        const done = substituter.query(text, expected.length);
        const found = done === null ? text : 'failed' in done ? done.failed : done.text;
        if (found !== expected) throw new Error(`${found} for ${expected}`);
        const tight = substituter.query(text, expected.length - 1);
        if (done !== null && tight !== null && !('failed' in tight)) throw new Error('no room for it');
      },
    ),
    { numRuns: 2000 },
  );
  t.pass();
});

t.test('requests full of placeholders are refused, while another vault goes on', async (t) => {
  const all = ['path', 'query', 'header'] as const;
  const host = 'api.good.test';
  const own = { host, auth: passthrough, substitutions: [{ key: 'K', placeholder: '__k_', in: all }] };
  const lane = await startLane({
    attacker: { services: [own], credentials: { K: '%'.repeat(65_536) } },
    other: { services: [{ host, auth: { type: 'bearer', token: 'K' } }], credentials: { K: 'fine' } },
  });
  t.teardown(() => lane.stop());
  const answer = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n';
  const up = await rawUpstream(
    t,
    async (wire) => {
      for (;;) {
        await nextRequest(wire);
        wire.send(answer);
      }
    },
    { tls: false },
  );
  const open = async (vault: string) => wireOf(await openTunnel(lane, vault, `${host}:${up.port}`));
  const filled = (length: number) => '__k_'.repeat(length / 4);
  const hostile = [
    `GET / HTTP/1.1\r\nHost: ${host}\r\nX: ${filled(60_000)}\r\n\r\n`,
    `GET /${filled(32_000)} HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
    `GET /?${filled(32_000)} HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
    `GET /${filled(30_000)}/${'%2e'.repeat(600)} HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
  ];
  let over = false;
  let served = 0;
  const others = (async () => {
    const wire = await open('other');
    while (!over) {
      wire.send(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
      if ((await nextAnswer(wire)).status !== 200) throw new Error('another vault was refused');
      served++;
    }
  })();
  const attacker = await open('attacker');
  for (let round = 0; round < 20; round++) {
    for (const request of hostile) {
      const before = served;
      attacker.send(request);
      const refused = await nextAnswer(attacker);
      t.match([refused.status, refused.json.error], [502, 'substitution_error']);
      // The lane got round to the other in between.
      while (served === before) await new Promise((resolve) => setImmediate(resolve));
    }
  }
  over = true;
  await others;
  t.equal(maxHeadBytes, 65_536);
});

t.test('what answers are looked through for is kept where another key of the vault changes', async (t) => {
  const vault = new VaultEntry('v', 'v', defaultSettings);
  vault.setCredential('B', 'basic-1');
  vault.setCredential('T', 'token-1');
  const auth = { type: 'bearer', token: 'B' } as const;
  vault.setService({ host: 'a.test', auth, substitutions: [{ key: 'T', placeholder: '__t__' }] });
  const next = () => {
    const head = parseRequestHead('GET /__t__ HTTP/1.1\r\nHost: a.test\r\n');
    if (!('method' in head)) throw new Error(head.message);
    return plan(vault, { scheme: 'http', authority }, vault.match('a.test', 80, false), '/__t__', head);
  };
  const ask = () => {
    const found = next();
    if ('refusal' in found) throw new Error(found.refusal.code);
    return found;
  };
  const first = ask().watch;
  t.ok(first);
  vault.setCredential('OWN', 'another');
  t.equal(ask().watch, first, 'a key was added');
  vault.setCredential('OWN', 'and another');
  t.equal(ask().watch, first, 'and replaced');
  vault.removeCredential('OWN');
  t.equal(ask().watch, first, 'and removed');
  for (const key of ['B', 'T']) {
    const before = ask().watch;
    vault.setCredential(key, `${key}-value-2`);
    const { watch, head } = ask();
    t.not(watch, before, `${key} of the service was replaced`);
    t.ok(head.includes(`${key}-value-2`));
    vault.removeCredential(key);
    const refused = next();
    t.equal('refusal' in refused && refused.refusal.code, 'credential_not_found', `${key} was removed`);
    vault.setCredential(key, `${key}-value-3`);
    t.ok(ask().head.includes(`${key}-value-3`), `${key} is there again`);
  }
});
