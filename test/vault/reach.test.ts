/** What a proposal's approval lets which key reach: over all services of a vault, before and after. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { covers, surfaceWords, usesOf } from '../../src/actors/vault/key-uses.ts';
import type { AuthConfig, Service } from '../../src/actors/vault/model.ts';
import { type Growth, reachOf, type Targets } from '../../src/actors/vault/reach.ts';
import { VaultEntry } from '../../src/proxy/lane-state.ts';

const bearer = (token: string): AuthConfig => ({ type: 'bearer', token });
const service = (host: string, key: string, more: Partial<Service> = {}): Service => ({
  host,
  auth: bearer(key),
  ...more,
});
const byHost = (...services: readonly Service[]) =>
  new Map(services.map((service) => [service.host, service]));

/** `KEY surface: hosts ! except` of each growth. */
function grown(
  before: readonly Service[],
  changed: readonly (Service | string)[],
  renewed: readonly string[] = [],
): string[] {
  const changes = new Map(
    changed.map((change) => (typeof change === 'string' ? [change, null] : [change.host, change])),
  );
  return reachOf(byHost(...before))
    .growth(changes, new Set(renewed))
    .map(({ use, targets: { hosts, except } }) =>
      [use.key, `${surfaceWords(use)}:`, ...hosts, ...(except.length > 0 ? ['!', ...except] : [])].join(' '),
    );
}

t.test('what grows, case by case', async (t) => {
  const auth = 'auth header Authorization:';
  const passthrough: Service = { host: 'a.example', auth: { type: 'passthrough' } };
  const replaced = (more: object = {}) => ({ substitutions: [{ key: 'S', placeholder: '__s__', ...more }] });
  const cases: [string, string[], string[]][] = [
    ['a new service', grown([], [service('a.example', 'K')]), [`K ${auth} a.example`]],
    ['the same again', grown([service('a.example', 'K')], [service('a.example', 'K')]), []],
    ['a service for its port alone', grown([service('a.example', 'K')], [service('a.example:80', 'K')]), []],
    ['a removal', grown([service('a.example', 'K')], ['a.example']), []],
    [
      'a removal, beneath a wildcard',
      grown([service('*.example', 'W'), service('a.example', 'K')], ['a.example']),
      [`W ${auth} a.example`],
    ],
    [
      'the removal of one that is disabled, beneath a wildcard',
      grown([service('*.example', 'W'), service('a.example', 'K', { enabled: false })], ['a.example']),
      [`W ${auth} a.example`],
    ],
    [
      'a removal of a port, beneath a wildcard with a port',
      grown(
        [service('*.example:80', 'W'), service('*.example', 'V'), service('a.example:80', 'K')],
        ['a.example:80'],
      ),
      [`W ${auth} a.example:80`],
    ],
    [
      'a removal of what had every port but one',
      grown([service('*.example', 'W'), passthrough, service('a.example:80', 'K')], ['a.example']),
      [`W ${auth} a.example ! a.example:80`],
    ],
    [
      'disabling keeps the wildcard away',
      grown([service('*.example', 'W'), passthrough], [{ ...passthrough, enabled: false }]),
      [],
    ],
    [
      'enabling',
      grown([service('a.example', 'K', { enabled: false })], [service('a.example', 'K')]),
      [`K ${auth} a.example`],
    ],
    [
      'passthrough that gets a credential',
      grown([passthrough], [service('a.example', 'K')]),
      [`K ${auth} a.example`],
    ],
    [
      'a wildcard, beside what is more specific',
      grown([service('a.example', 'K'), service('b.example:80', 'K')], [service('*.example', 'W')]),
      [`W ${auth} *.example ! a.example b.example:80`],
    ],
    [
      'an exact host that a wildcard had served so at one port',
      grown([service('*.example:80', 'K')], [service('a.example', 'K')]),
      [`K ${auth} a.example ! a.example:80`],
    ],
    [
      'another header',
      grown(
        [service('a.example', 'K')],
        [{ host: 'a.example', auth: { type: 'api-key', key: 'K', header: 'X-Key' } }],
      ),
      ['K auth header X-Key: a.example'],
    ],
    [
      'a substitution beside the auth slot, in two surfaces',
      grown(
        [service('a.example', 'K')],
        [service('a.example', 'K', { substitutions: [{ key: 'K', placeholder: '__k__' }] })],
      ),
      ['K path: a.example', 'K query: a.example'],
    ],
    [
      'from a place to anywhere',
      grown(
        [{ ...passthrough, ...replaced({ at: { path: '/bot__s__/*', query: ['key'] } }) }],
        [{ ...passthrough, ...replaced({ in: ['path'] }) }],
      ),
      ['S path: a.example'],
    ],
    [
      'from anywhere to a place',
      grown(
        [{ ...passthrough, ...replaced() }],
        [{ ...passthrough, ...replaced({ at: { path: '/bot__s__/*', query: ['key'] } }) }],
      ),
      [],
    ],
    [
      'to another place',
      grown(
        [{ ...passthrough, ...replaced({ at: { path: '/bot__s__/*', header: ['X-A'] } }) }],
        [{ ...passthrough, ...replaced({ at: { path: '/bot__s__/get', header: ['x-a', 'X-B'] } }) }],
      ),
      ['S header X-B: a.example'],
    ],
    [
      'another placeholder at the same place',
      grown(
        [{ ...passthrough, ...replaced({ at: { path: '/__s__/*' } }) }],
        [{ ...passthrough, substitutions: [{ key: 'S', placeholder: '__t__', at: { path: '/__t__/*' } }] }],
      ),
      [],
    ],
    [
      'a new value counts wherever it goes',
      grown(
        [service('metrics.evil.example', 'K'), service('*.example.org', 'K'), service('b.example.org', 'L')],
        [],
        ['K'],
      ),
      [`K ${auth} *.example.org ! b.example.org`, `K ${auth} metrics.evil.example`],
    ],
    ['but not to what is disabled', grown([service('a.example', 'K', { enabled: false })], [], ['K']), []],
    [
      'both of Basic, and each of custom headers',
      grown(
        [],
        [
          { host: 'a.example', auth: { type: 'basic', username: 'U', password: 'P' } },
          {
            host: 'b.example',
            auth: { type: 'custom', headers: { 'X-A': '{{ K }}', 'X-B': '{{ K }}{{ L }}' } },
          },
        ],
      ),
      [
        `P ${auth} a.example`,
        `U ${auth} a.example`,
        'K auth header X-A: b.example',
        'K auth header X-B: b.example',
        'L auth header X-B: b.example',
      ],
    ],
  ];
  for (const [name, found, expected] of cases) t.same(found, expected, name);
});

const hosts = ['a.x.example', 'b.x.example', 'never.x.example', 'x.example', 'one', '192.0.2.1'];
const ports = [80, 8443, 9];
const patterns = [
  'a.x.example',
  'b.x.example',
  '*.x.example',
  'x.example',
  '*.example',
  'one',
  '192.0.2.1',
].flatMap((name) => [name, `${name}:80`, `${name}:8443`]);

const key = fc.constantFrom('A', 'B');
const auth: fc.Arbitrary<AuthConfig> = fc.oneof(
  fc.record({ type: fc.constant('bearer' as const), token: key }),
  fc.record({ type: fc.constant('api-key' as const), key, header: fc.constantFrom('X-A', 'x-a', 'X-B') }),
  fc.constant({ type: 'passthrough' as const }),
);
const substitution = fc.record(
  {
    key,
    placeholder: fc.constantFrom('__p__', '__q__'),
    at: fc.constantFrom({ path: '/__p__/*' }, { path: '/__p__/x' }, { query: ['k'] }, { header: ['X-A'] }),
  },
  { requiredKeys: ['key', 'placeholder'] },
);
const aService: fc.Arbitrary<Service> = fc.record(
  {
    host: fc.constantFrom(...patterns),
    auth,
    substitutions: fc.array(substitution, { maxLength: 2 }),
    enabled: fc.constant(false as const),
  },
  { requiredKeys: ['host', 'auth'] },
);
const services = fc.uniqueArray(aService, { selector: ({ host }) => host, maxLength: 9 });

/** As a lane matches: written apart from what is tested. */
function laneOf(all: Iterable<Service>): VaultEntry {
  const entry = new VaultEntry('v', 'v', {
    ...{ unmatched_host_policy: 'passthrough', unmatched_tls: 'intercept' },
    ...{ require_tls: false, rate_limit: null },
  });
  for (const each of all) entry.setService(each);
  return entry;
}

const isAddress = (host: string) => host === '192.0.2.1';

function isIn({ hosts, except }: Targets, host: string, port: number): boolean {
  const listed = laneOf([...hosts, ...except].map((pattern) => service(pattern, 'K')));
  const best = listed.match(host, port, isAddress(host))?.service.host;
  return best !== undefined && hosts.includes(best);
}

t.test('what grows is what some request would carry that none carried so before', async () => {
  fc.assert(
    fc.property(
      services,
      services,
      fc.uniqueArray(fc.constantFrom(...patterns), { maxLength: 4 }),
      fc.subarray(['A', 'B']),
      (before, set, gone, renewed) => {
        const changed = new Map<string, Service | null>(gone.map((host) => [host, null]));
        for (const each of set.slice(0, 4)) changed.set(each.host, each);
        const after = new Map(before.map((each) => [each.host, each]));
        for (const [host, each] of changed) {
          if (each === null) after.delete(host);
          else after.set(host, each);
        }
        const reach = reachOf(byHost(...before));
        const found = reach.growth(changed, new Set(renewed));
        const [old, now] = [laneOf(before), laneOf(after.values())];
        const words = ({ service, use }: Pick<Growth, 'service' | 'use'>) =>
          `${service} ${use.key} ${surfaceWords(use)}`;
        for (const host of hosts) {
          for (const port of ports) {
            const match = (lane: VaultEntry) => {
              const { service } = lane.match(host, port, isAddress(host)) ?? {};
              return service === undefined || service.enabled === false ? null : service;
            };
            const [was, is] = [match(old), match(now)];
            const expected = (is === null ? [] : usesOf(is))
              .filter(
                (use) =>
                  renewed.includes(use.key) ||
                  !(was === null ? [] : usesOf(was)).some((known) => covers(known, use)),
              )
              .map((use) => words({ service: is?.host ?? '', use }));
            const symbolic = found.filter(({ targets }) => isIn(targets, host, port)).map(words);
            assert.deepEqual(symbolic.sort(), [...new Set(expected)].sort(), `${host}:${port}`);
          }
        }
        assert.deepEqual(reach.growth(changed, new Set(renewed)), found, 'the same again');
      },
    ),
    { numRuns: 1000 },
  );
});
