import fc from 'fast-check';
import t, { type Test } from 'tap';
import { hashToken } from '../../src/actors/vault/token.ts';
import {
  agent,
  bearer,
  operator,
  passthrough,
  type Running,
  secrets,
  startVault,
  value,
} from './vault-harness.ts';
import { attachLane, comparable, snapshot } from './vault-lane.ts';

/** One random thing that someone does; what it names may or may not be there. */
const deeds = (running: Running): fc.Arbitrary<() => Promise<unknown>>[] => {
  const { vault: ref } = running;
  const name = fc.constantFrom('default', 'v1', 'v2');
  const host = fc.constantFrom('a.example', 'b.example', '*.c.example', 'd.example:8443');
  const key = fc.constantFrom('A', 'B', 'C');
  const auth = fc.oneof(fc.constant(passthrough), key.map(bearer));
  const services = fc.uniqueArray(fc.record({ host, auth }), { selector: (s) => s.host, maxLength: 4 });
  const id = fc.integer({ min: 1, max: 6 });
  const by = operator;
  return [
    name.map((v) => () => ref.ask('vault.create', { name: v, by })),
    name.map((v) => () => ref.ask('vault.delete', { vault: v, by })),
    fc.tuple(name, fc.boolean()).map(
      ([v, require_tls]) =>
        () =>
          ref.ask('vault.update', { vault: v, patch: { require_tls }, by }),
    ),
    fc.tuple(name, fc.constantFrom('replace', 'upsert'), services).map(
      ([v, mode, list]) =>
        () =>
          ref.ask('service.set', { vault: v, mode, services: list, by }),
    ),
    fc.tuple(name, host, fc.boolean()).map(
      ([v, h, enabled]) =>
        () =>
          ref.ask('service.enable', { vault: v, host: h, enabled, by }),
    ),
    fc.tuple(name, host).map(
      ([v, h]) =>
        () =>
          ref.ask('service.remove', { vault: v, host: h, by }),
    ),
    name.map((v) => () => ref.ask('service.clear', { vault: v, by })),
    fc.tuple(name, key, fc.string({ minLength: 1 })).map(
      ([v, k, text]) =>
        () =>
          ref.ask('credential.set', { vault: v, values: secrets({ [k]: text }), byAgent: false, by }),
    ),
    fc.tuple(name, key).map(
      ([v, k]) =>
        () =>
          ref.ask('credential.delete', { vault: v, key: k, force: true, by }),
    ),
    fc.tuple(name, services, key).map(
      ([v, list, k]) =>
        () =>
          ref.ask('proposal.create', {
            vault: v,
            body: {
              services: list.map((service) => ({ action: 'set', ...service })),
              credentials: [{ action: 'set', key: k }],
            },
            by: agent,
          }),
    ),
    fc.tuple(id, key).map(([n, k]) => async () => {
      const found = await ref.ask('proposal.get', { id: n, reviewed: true });
      const confirm = found.ok ? (found.value.review?.fingerprint ?? null) : null;
      return ref.ask('proposal.approve', { id: n, credentials: secrets({ [k]: 'v' }), confirm, by });
    }),
    id.map((n) => () => ref.ask('proposal.reject', { id: n, reason: '', by })),
    name.map((v) => () => ref.ask('session.create', { vault: v, ttlSeconds: 60, label: null, by })),
    fc.tuple(name, id).map(([v, n]) => async () => {
      const made = await ref.ask('invite.create', {
        name: `a${n}`,
        vaults: ['default', v],
        ttlSeconds: 60,
        tokenTtlSeconds: 90,
        by,
      });
      return (
        made.ok && ref.ask('invite.redeem', { hash: hashToken(made.value.token.reveal()), name: null, by })
      );
    }),
    id.map((n) => () => ref.ask('agent.rotate', { name: `a${n}`, overlapSeconds: 30, by })),
    id.map((n) => () => ref.ask('agent.remove', { name: `a${n}`, by })),
    fc.integer({ min: 1, max: 40_000 }).map((ms) => () => running.clock.advance(ms)),
    fc.boolean().map((failing) => async () => {
      running.failing = failing;
    }),
  ];
};

async function everything(running: Running) {
  const { vault: ref } = running;
  const vaults = await ref.ask('vault.list', {});
  return {
    vaults,
    services: await Promise.all(vaults.map((v) => value(ref.ask('service.list', { vault: v.name })))),
    proposals: await ref.ask('proposal.list', {}),
    sessions: await ref.ask('session.list', {}),
    agents: await ref.ask('agent.list', {}),
    operators: await ref.ask('operator.list', {}),
    lanes: await snapshot(ref),
  };
}

const sorted = (all: Awaited<ReturnType<typeof everything>>) => ({
  ...all,
  sessions: [...all.sessions].sort((a, b) => (a.id < b.id ? -1 : 1)),
  agents: [...all.agents].sort((a, b) => (a.name < b.name ? -1 : 1)),
});

const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);

t.test(
  `whatever is done: deltas add up to the full state, and a restart finds the same (SEED=${seed})`,
  async (t) => {
    const runs = 12;
    for (let run = 0; run < runs; run++) {
      await t.test(`run ${run}`, async (t: Test) => {
        const running = await startVault(t);
        const lane = await attachLane(running.vault);
        const script = fc.sample(fc.oneof(...deeds(running)), { numRuns: 60, seed: seed + run });
        for (const [step, deed] of script.entries()) {
          await deed();
          lane.drain();
          const [told, full] = [comparable(lane.known), await snapshot(running.vault)];
          if (JSON.stringify(told) !== JSON.stringify(full)) t.same(told, full, `step ${step}`);
        }
        running.failing = false;
        await running.clock.advance(2000);
        const before = sorted(await everything(running));
        await running.stop();
        const again = await startVault(t, running.path, running.clock);
        t.same(sorted(await everything(again)), before, `seed ${seed}`);
        t.same(again.damaged, []);
        await again.stop();
      });
    }
  },
);
