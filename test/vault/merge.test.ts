import fc from 'fast-check';
import t from 'tap';
import { hostsByKey, merge, replaceAll } from '../../src/actors/vault/merge.ts';
import type { AuthConfig, Service, ServiceChange, ServiceInput } from '../../src/actors/vault/model.ts';
import type { Result } from '../../src/actors/vault/problem.ts';
import { vectors } from './vectors.ts';

const bearer = (token: string): AuthConfig => ({ type: 'bearer', token });

function byHost(...services: Service[]): Map<string, Service> {
  return new Map(services.map((service) => [service.host, service]));
}

function accepted<T>(result: Result<T>): T {
  if (!result.ok) throw new Error(result.problem.message);
  return result.value;
}

function field(result: Result<unknown>): unknown {
  return result.ok ? { accepted: result.value } : result.problem.extra?.field;
}

t.test('vectors: proposal_merge', async (t) => {
  for (const { id, input, expect } of vectors('proposal_merge')) {
    const merged = accepted(merge(byHost(...input.existing), input.proposed));
    t.strictSame([...merged.services.values()], expect.result, id);
  }
});

const full: Service = {
  host: 'a',
  description: 'old',
  auth: bearer('OLD'),
  substitutions: [{ key: 'SUB', placeholder: '__s__', in: ['path'] }],
  enabled: false,
};

t.test('merge: what a set leaves out stays as it is', async (t) => {
  const after = (change: Omit<ServiceInput, 'host'>) =>
    accepted(merge(byHost(full), [{ action: 'set', host: 'a', ...change }])).services.get('a');
  t.strictSame(
    after({ auth: bearer('NEW') }),
    { ...full, auth: bearer('NEW') },
    'SUB-021, and still disabled',
  );
  t.strictSame(after({ auth: bearer('NEW'), substitutions: [] }), { ...full, auth: bearer('NEW') });
  const { enabled: _, ...enabled } = full;
  t.strictSame(after({ enabled: true }), enabled);
  t.strictSame(after({ enabled: false }), full);
  t.strictSame(after({ auth: bearer('OLD'), description: '' }), { ...full, description: '' });
  const substitutions = [{ key: 'NEW', placeholder: '__n__' }];
  t.strictSame(after({ auth: bearer('OLD'), substitutions }), { ...full, substitutions });
});

t.test('merge: new services, order, and what is reported', async (t) => {
  t.equal(
    field(
      merge(new Map(), [
        { action: 'delete', host: 'x' },
        { action: 'set', host: 'a', enabled: true },
      ]),
    ),
    'services[1].auth',
  );
  const [a, b]: Service[] = [
    { host: 'a', auth: bearer('A') },
    { host: 'b', auth: bearer('B') },
  ];
  const merged = accepted(
    merge(byHost(a, b, full), [
      { action: 'set', host: 'c', auth: bearer('C'), enabled: true },
      { action: 'delete', host: 'b' },
      { action: 'delete', host: 'nowhere' },
      { action: 'set', host: 'd', auth: bearer('D'), enabled: false, substitutions: [] },
    ]),
  );
  t.same([...merged.services.keys()], ['a', 'c', 'd']);
  t.strictSame(merged.services.get('c'), { host: 'c', auth: bearer('C') });
  t.strictSame(merged.services.get('d'), { host: 'd', auth: bearer('D'), enabled: false });
  t.same([merged.changed, merged.removed], [['c', 'd'], ['b']]);

  const recreated = accepted(
    merge(byHost(full), [
      { action: 'delete', host: 'a' },
      { action: 'set', host: 'a', auth: bearer('N') },
    ]),
  );
  t.strictSame(
    recreated.services.get('a'),
    { host: 'a', auth: bearer('N') },
    'deleting clears substitutions',
  );
  t.same([recreated.changed, recreated.removed], [['a'], []]);
});

t.test('replaceAll: exactly these, but enabled stays', async (t) => {
  const inputs: ServiceInput[] = [
    { host: 'b', auth: bearer('B'), enabled: true, substitutions: [] },
    { host: 'a', auth: bearer('A') },
  ];
  const merged = accepted(replaceAll(byHost(full, { host: 'c', auth: bearer('C') }), inputs));
  t.strictSame(
    [...merged.services.values()],
    [
      { host: 'b', auth: bearer('B') },
      { host: 'a', auth: bearer('A'), enabled: false },
    ],
  );
  t.same([merged.changed, merged.removed], [['b', 'a'], ['c']]);
  t.equal(field(replaceAll(byHost(full), [{ host: 'a', enabled: true }])), 'services[0].auth');
  t.strictSame([...accepted(replaceAll(byHost(full), [])).services], [], 'nothing is fine');
});

t.test('hosts by key: disabled services and substitutions too', async (t) => {
  t.same(
    hostsByKey([full, { host: 'b', auth: bearer('B') }]),
    new Map([
      ['OLD', new Set(['a'])],
      ['SUB', new Set(['a'])],
      ['B', new Set(['b'])],
    ]),
  );
});

t.test('merge: properties', async (t) => {
  const host = fc.constantFrom('a', 'b', 'c', 'd');
  const auth = fc.constantFrom(bearer('A'), bearer('B'), { type: 'passthrough' } satisfies AuthConfig);
  const text = fc.constantFrom('', 'd');
  const substitutions = fc.constantFrom(
    [],
    [{ key: 'A', placeholder: '__a__' }],
    [{ key: 'B', placeholder: '__b__' }],
  );
  const optional = { description: text, substitutions, enabled: fc.boolean() };
  const set = fc.record(
    { action: fc.constant('set' as const), host, auth, ...optional },
    { requiredKeys: ['action', 'host'] },
  );
  const change: fc.Arbitrary<ServiceChange> = fc.oneof(
    set,
    fc.record({ action: fc.constant('delete' as const), host }),
  );
  // As in a proposal: no host twice.
  const changes = fc.uniqueArray(change, { selector: (c) => c.host });
  const stored = fc.record(
    { host, auth, description: text, enabled: fc.constant(false as const) },
    { requiredKeys: ['host', 'auth'] },
  );
  const existing = fc.uniqueArray(stored, { selector: (s) => s.host }).map((list) => byHost(...list));
  let applied = 0;
  fc.assert(
    fc.property(existing, changes, (before, list) => {
      const copy = structuredClone({ before, list });
      const result = merge(before, list);
      if (JSON.stringify([[...copy.before], copy.list]) !== JSON.stringify([[...before], list])) return false;
      const named = new Map(list.map((c) => [c.host, c]));
      const isNew = (c: ServiceChange) => c.action === 'set' && c.auth === undefined && !before.has(c.host);
      if (!result.ok) return list.some(isNew);
      applied += 1;
      const { services, changed, removed } = result.value;
      const untouched = [...before].every(
        ([host, service]) => named.has(host) || services.get(host) === service,
      );
      const nothingElse = [...services.keys()].every(
        (host) => before.has(host) || named.get(host)?.action === 'set',
      );
      // Only an explicit `enabled: true` enables what was disabled.
      const stillOff = [...before.values()].every((service) => {
        const by = named.get(service.host);
        const gone = by?.action === 'delete';
        const enables = by?.action === 'set' && by.enabled === true;
        return (
          service.enabled !== false ||
          gone ||
          services.get(service.host)?.enabled === (enables ? undefined : false)
        );
      });
      const reported =
        list.every((c) => (c.action === 'set') === changed.includes(c.host)) &&
        removed.every((h) => before.has(h) && !services.has(h));
      const again = accepted(merge(services, list)).services;
      const idempotent = JSON.stringify([...again]) === JSON.stringify([...services]);
      return untouched && nothingElse && stillOff && reported && idempotent;
    }),
    { numRuns: 3000 },
  );
  t.ok(applied > 300, `${applied} applied`);
});
