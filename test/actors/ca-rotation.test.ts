/** The root's rotation: what is trusted and what signs at each moment, and that nothing is lost on the way. */
import assert from 'node:assert/strict';
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { type CaProtocol, caActor, type RootStore } from '../../src/actors/ca.ts';
import { type CaRoots, newRoot, parseRoots, rotated, standing } from '../../src/actors/ca-roots.ts';
import type { Ref } from '../../src/actors/core/protocol.ts';
import { createSystem } from '../../src/actors/core/system.ts';
import { type Problem, problem } from '../../src/actors/vault/problem.ts';
import { manualClock } from '../support/manual-clock.ts';

const start = Date.parse('2031-05-06T07:08:09.000Z');
const day = 24 * 3_600_000;
const by = { actor: 'operator:owner', label: null, request_id: 'r' };
const leafKey = {
  privatePem: generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
    type: 'pkcs8',
    format: 'pem',
  }) as string,
};

/** Stands for the vault's store: what is saved outlasts the actors here. */
function memory(first = newRoot(start)) {
  const kept = {
    roots: { current: first, next: null } as CaRoots,
    deeds: [] as string[],
    answer: null as Problem | null | Error,
    store: null as unknown as RootStore,
  };
  kept.store = {
    load: async () => parseRoots(JSON.stringify(kept.roots)),
    async save(roots, { action }) {
      if (kept.answer instanceof Error) throw kept.answer;
      if (kept.answer) return kept.answer;
      kept.roots = roots;
      kept.deeds.push(action);
      return null;
    },
  };
  return kept;
}

function running(t: Test, kept: ReturnType<typeof memory>, clock = manualClock(start)) {
  const system = createSystem({ clock, onEscalate: () => t.fail('the ca failed for good') });
  t.teardown(() => system.stop());
  const ca = system.spawn(caActor({ root: kept.store, leafKey }));
  return { ca, clock, system };
}

const subjects = (pem: string) =>
  (pem.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? []).map(
    (one) => new X509Certificate(one).subject,
  );
const subjectOf = (root: { certPem: string }) => new X509Certificate(root.certPem).subject;

async function state(ca: Ref<CaProtocol>) {
  const { certPem, switchesAt } = await ca.ask('root', {});
  const leaf = await ca.ask('leaf', { host: 'a.example' });
  const listener = await ca.ask('listener', { names: ['localhost'] });
  const { issuer } = new X509Certificate(leaf.certPem);
  assert.equal(new X509Certificate(listener.certPem).issuer, issuer);
  return { trusted: subjects(certPem), signer: issuer, switchesAt, leaf };
}

t.test('both are trusted first, then the next one signs, then the old key is gone', async (t) => {
  const kept = memory();
  const { ca, clock } = running(t, kept);
  const old = subjectOf(kept.roots.current);
  const before = await state(ca);
  t.match(before, { trusted: [old], signer: old, switchesAt: undefined });

  const made = await ca.ask('rotate', { overlapMs: 7 * day, by });
  assert.ok(made.ok);
  t.equal(made.value.switches_at, new Date(start + 7 * day).toISOString());
  const next = subjectOf(kept.roots.next?.root ?? kept.roots.current);
  t.not(next, old);
  t.match(await state(ca), { trusted: [old, next], signer: old, switchesAt: made.value.switches_at });
  t.match(await ca.ask('rotate', { overlapMs: day, by }), { ok: false, problem: { code: 'conflict' } });

  await clock.advance(7 * day - 1);
  const last = await state(ca);
  t.match(last, { trusted: [old, next], signer: old });
  t.equal(new Int32Array(last.leaf.retired)[0], 0);
  await clock.advance(1);
  t.equal(new Int32Array(last.leaf.retired)[0], 1, 'lanes are told without being asked');
  const after = await state(ca);
  t.match(after, { trusted: [next, old], signer: next, switchesAt: undefined });
  t.equal(new Int32Array(after.leaf.retired)[0], 0);
  t.same(kept.deeds, ['ca.rotate']);
  await clock.advance(60_000);
  t.match(await state(ca), { trusted: [next], signer: next });
  t.same(kept.deeds, ['ca.rotate', 'ca.retire']);
  t.same([subjectOf(kept.roots.current), kept.roots.next], [next, null]);

  const again = await ca.ask('rotate', { overlapMs: 0, by });
  t.ok(again.ok);
  const now = await state(ca);
  t.equal(now.trusted.length, 2);
  t.equal(now.signer, now.trusted[0], 'at once');
  t.equal(now.trusted[1], next);
  t.equal(new Int32Array(after.leaf.retired)[0], 1);
});

t.test('--now completes a rotation that waits, with the root that clients have', async (t) => {
  const kept = memory();
  const { ca } = running(t, kept);
  const first = await ca.ask('rotate', { overlapMs: day, by });
  const second = await ca.ask('rotate', { overlapMs: 0, by });
  assert.ok(first.ok && second.ok);
  t.equal(second.value.sha256, first.value.sha256);
  const { signer, trusted } = await state(ca);
  t.equal(signer, trusted[0]);
});

t.test('a restart in any phase goes on where it was', async (t) => {
  const kept = memory();
  const clock = manualClock(start);
  const one = running(t, kept, clock);
  await one.ca.ask('rotate', { overlapMs: day, by });
  const waiting = await state(one.ca);
  await one.system.stop();
  const two = running(t, kept, clock);
  t.match(await state(two.ca), { trusted: waiting.trusted, signer: waiting.signer });
  await two.system.stop();
  // The switch comes while nothing runs.
  await clock.advance(2 * day);
  const three = running(t, kept, clock);
  t.match(await state(three.ca), { trusted: [waiting.trusted[1]], signer: waiting.trusted[1] });
  t.same(kept.deeds, ['ca.rotate', 'ca.retire']);
});

t.test('what can’t be stored isn’t done, and what nobody can say is asked of the store', async (t) => {
  const kept = memory();
  const { ca, clock } = running(t, kept);
  const before = await state(ca);
  kept.answer = problem('internal', 'the disk');
  t.match(await ca.ask('rotate', { overlapMs: 0, by }), { ok: false, problem: { code: 'internal' } });
  t.match(await state(ca), { trusted: before.trusted, signer: before.signer });

  kept.answer = new Error('no answer came');
  const failed = ca.ask('rotate', { overlapMs: 0, by });
  await t.rejects(failed, { code: 'actor_failed' });
  // It was stored after all.
  const stored = rotated(kept.roots, clock.now(), 0);
  assert.ok(stored.ok);
  kept.roots = stored.value;
  await clock.advance(1000);
  t.equal((await state(ca)).signer, subjectOf(stored.value.next?.root ?? stored.value.current));
  t.equal(new Int32Array(before.leaf.retired)[0], 1, 'also what was minted before the restart is over');

  // The old key can't be taken out of the store: nothing else suffers, and it is tried again.
  await clock.advance(60_000);
  t.match(await state(ca), { trusted: [subjectOf(stored.value.next?.root ?? stored.value.current)] });
  t.same(kept.deeds, []);
  kept.answer = null;
  await clock.advance(60_000);
  t.same(kept.deeds, ['ca.retire']);
});

t.test('a single root, without a store, isn’t rotated; as it was kept before, it is read', async (t) => {
  const system = createSystem();
  t.teardown(() => system.stop());
  const root = newRoot(Date.now());
  const ca = system.spawn(caActor({ root, leafKey }));
  t.match(await ca.ask('rotate', { overlapMs: 0, by }), { ok: false, problem: { code: 'conflict' } });
  t.same(parseRoots(JSON.stringify(root)), { current: root, next: null });
});

t.test('property: at every moment the signer is trusted, and was handed out for as long as was asked', () => {
  const pem = (name: string) => ({ certPem: name, keyPem: '' });
  fc.assert(
    fc.property(fc.nat(10 * day), fc.array(fc.nat(30 * day), { minLength: 1 }), (overlap, moments) => {
      const roots: CaRoots = { current: pem('old'), next: { root: pem('new'), at: overlap } };
      for (const now of moments) {
        const { signer, trusted, until, settled } = standing(roots, now);
        assert.equal(trusted[0], signer.certPem);
        assert.equal(signer.certPem, now < overlap ? 'old' : 'new');
        assert.ok(now >= overlap || trusted.includes('new'));
        if (until !== null) assert.ok(until > now);
        assert.equal(settled.next === null, !trusted.includes('old'));
        const later = standing(settled, now);
        assert.deepEqual([later.signer, later.trusted], [signer, trusted]);
      }
    }),
  );
  return Promise.resolve();
});
