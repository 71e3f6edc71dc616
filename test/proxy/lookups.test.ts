import fc from 'fast-check';
import t from 'tap';
import { type Found, type Lookup, Lookups } from '../../src/proxy/lookups.ts';
import { Shares, shareMemory } from '../../src/proxy/shares.ts';
import { openTunnel, startLane } from '../support/lane.ts';
import { rawUpstream } from '../support/upstream.ts';
import { eventually, nextAnswer, nextRequest, type Wire, wireOf } from '../support/wire.ts';

/** A resolver whose look-ups end when the test says so. */
function resolver() {
  const underWay: { host: string; land(): void }[] = [];
  let most = 0;
  const lookup: Lookup = (host, _, done) => {
    const one = {
      host,
      land() {
        underWay.splice(underWay.indexOf(one), 1);
        done(null, [{ address: '192.0.2.1', family: 4 }]);
      },
    };
    most = Math.max(most, underWay.push(one));
  };
  return {
    lookup,
    underWay,
    get most() {
      return most;
    },
  };
}

function lanes(lookup: Lookup, count: number, limitMs = 60_000): Lookups[] {
  const shared = shareMemory(count);
  const failed = (error: unknown): void => {
    throw error;
  };
  return Array.from(
    { length: count },
    (_, i) => new Lookups(lookup, new Shares(shared, count, i), limitMs, failed),
  );
}

t.test('a session has four look-ups under way, over all lanes; all have 32', async (t) => {
  const names = resolver();
  const both = lanes(names.lookup, 2);
  const cancels: (() => void)[] = [];
  for (let session = 0; session < 40; session++) {
    for (let i = 0; i < 10; i++)
      cancels.push(both[i % 2].addresses(session, `n${i}.s${session}.example`, () => {}));
    const own = names.underWay.filter(({ host }) => host.endsWith(`.s${session}.example`)).length;
    t.ok(own <= 4 && (session > 3 || own === 4), `${own} of session ${session}`);
  }
  t.ok(names.underWay.length <= 32);
  t.ok(new Set(names.underWay.map(({ host }) => host.split('.')[1])).size >= 10, 'many have one');
  for (const cancel of cancels) cancel();
});

t.test('a session that has none yet is next, on whichever lane it waits', async (t) => {
  const names = resolver();
  const [one, other] = lanes(names.lookup, 2);
  const cancels: (() => void)[] = [];
  for (let session = 0; session < 20; session++)
    for (let i = 0; i < 20; i++) cancels.push(one.addresses(session, `n${i}.s${session}.example`, () => {}));
  let found: Found | null = null;
  cancels.push(other.addresses(99, 'good.example', (result) => (found = result)));
  t.notOk(
    names.underWay.some(({ host }) => host === 'good.example'),
    'no thread is left',
  );
  const isUp = () => names.underWay.some(({ host }) => host === 'good.example');
  // Sessions of the other lane have none yet, too: it takes turns with these.
  for (let turn = 0; turn < 32 && !isUp(); turn++) {
    names.underWay[0].land();
    await eventually(() => names.underWay.length === 32, 'the thread is used');
  }
  names.underWay.find(({ host }) => host === 'good.example')?.land();
  t.strictSame(found, ['192.0.2.1']);
  for (const cancel of cancels) cancel();
});

t.test('what nobody waits for any longer is not looked up', (t) => {
  const names = resolver();
  const [lane] = lanes(names.lookup, 1);
  const cancels = Array.from({ length: 100 }, (_, i) =>
    lane.addresses(1, `gone${i}.example`, () => t.fail('cancelled')),
  );
  for (const cancel of cancels) cancel();
  lane.addresses(1, 'wanted.example', () => {});
  t.equal(names.underWay.length, 4, 'these can not be called back');
  names.underWay[0].land();
  t.equal(names.underWay.at(-1)?.host, 'wanted.example', 'none of the 96 is before it');
  for (const one of [...names.underWay]) one.land();
  t.strictSame(names.underWay, []);
  t.end();
});

t.test('requests of a session for one name share a look-up, those of another session do not', (t) => {
  const names = resolver();
  const [lane] = lanes(names.lookup, 1);
  const found: Found[] = [];
  for (const slot of [1, 1, 1, 2]) lane.addresses(slot, 'same.example', (result) => found.push(result));
  t.equal(names.underWay.length, 2);
  names.underWay[0].land();
  t.equal(found.length, 3);
  names.underWay[0].land();
  t.equal(found.length, 4);
  t.end();
});

t.test('what waits has a bound and an end', async (t) => {
  const names = resolver();
  const [lane] = lanes(names.lookup, 1, 50);
  const counts: Record<string, number> = {};
  const count = (found: Found) => {
    const kind = typeof found === 'string' ? found : 'found';
    counts[kind] = (counts[kind] ?? 0) + 1;
  };
  for (let i = 0; i < 300; i++) lane.addresses(0, `n${i}.example`, count);
  t.strictSame(counts, { busy: 44 }, 'of one session 256');
  for (let slot = 1; slot < 50; slot++)
    for (let i = 0; i < 100; i++) lane.addresses(slot, `n${i}.example`, count);
  t.strictSame(counts, { busy: 44, full: 256 + 4900 - 4096 }, 'of all 4096');
  await eventually(() => counts.late === 4096, 'all were told');
  for (const one of [...names.underWay]) one.land();
  lane.addresses(60, 'after.example', () => {});
  t.ok(
    names.underWay.some(({ host }) => host === 'after.example'),
    'nothing is left in the queue',
  );
});

t.test('whatever comes and goes, the counts end at nothing', async () => {
  const step = fc.record({
    lane: fc.nat(2),
    slot: fc.nat(6),
    host: fc.nat(9),
    what: fc.constantFrom('ask', 'ask', 'ask', 'cancel', 'land'),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const names = resolver();
      const all = lanes(names.lookup, 3);
      const cancels: (() => void)[] = [];
      for (const { lane, slot, host, what } of steps) {
        if (what === 'ask') cancels.push(all[lane].addresses(slot, `n${host}.example`, () => {}));
        else if (what === 'cancel') cancels.splice(host, 1)[0]?.();
        else names.underWay[host]?.land();
      }
      for (const cancel of cancels) cancel();
      while (names.underWay.length > 0) names.underWay[0].land();
      // All that a session and everyone may have is free again.
      for (let slot = 0; slot < 7; slot++)
        for (let i = 0; i < 4; i++) all[i % 3].addresses(slot, `last${i}.example`, () => {});
      const whole = names.underWay.length >= 25 && names.most <= 32;
      while (names.underWay.length > 0) names.underWay[0].land();
      return whole && names.underWay.length === 0;
    }),
    { numRuns: 40 },
  );
});

t.test('sessions whose names never resolve do not keep others from theirs', async (t) => {
  let asked = 0;
  const never: Lookup = () => void asked++;
  const hosts = Array.from({ length: 20 }, (_, i) => `never${i}.test`);
  const at = await startLane(
    { a: {}, b: {}, c: {}, d: {}, good: {} },
    { names: Object.fromEntries(hosts.map((host) => [host, never])), timeouts: { connect: 700 } },
  );
  t.teardown(() => at.stop());
  const upstream = await rawUpstream(
    t,
    async (wire) => {
      await nextRequest(wire);
      wire.send('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
    },
    { tls: false },
  );
  const ask = async (vault: string, host: string): Promise<Wire> => {
    const wire = wireOf(await openTunnel(at, vault, host));
    wire.send(`GET /${vault} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    return wire;
  };
  const stuck: Wire[] = [];
  for (const vault of ['a', 'b', 'c', 'd'])
    for (const host of hosts) stuck.push(await ask(vault, `${host}:80`));
  const answer = await nextAnswer(await ask('good', `good.test:${upstream.port}`));
  t.equal(answer.status, 200, 'another session is served');
  t.ok(asked <= 16);

  const late = await nextAnswer(stuck[0]);
  t.equal(late.status, 504, 'the wait has an end');
  t.equal(late.json.error, 'upstream_timeout');
  t.equal((await nextAnswer(stuck[19])).status, 504, 'for what was never begun, too');
});
