/** What clients see of a vault is what one thread would have done: the small version of `test/soak/linearizable.test.ts`. */
import t from 'tap';
import { historyProblem, withoutEvent } from '../soak/check-history.ts';
import { drive, type Era } from '../soak/drive.ts';
import { type Event, linearize, type Model } from '../soak/linearize.ts';
import { seeded } from '../soak/seeded.ts';

type Register = { readonly write: string } | { readonly read: true };
const register: Model<string, Register> = {
  apply: (state, op) => ('write' in op ? { state: op.write, result: 'ok' } : { state, result: state }),
};
const write = (value: string, from: number, to: number, result: string | null = 'ok'): Event<Register> => ({
  op: { write: value },
  from,
  to,
  result,
});
const read = (result: string, from: number, to: number): Event<Register> => ({
  op: { read: true },
  from,
  to,
  result,
});

t.test('the checker tells histories apart', async (t) => {
  const cases: [name: string, ok: boolean, history: Event<Register>[]][] = [
    ['one after the other', true, [write('a', 0, 1), read('a', 2, 3)]],
    ['a stale read', false, [write('a', 0, 1), read('-', 2, 3)]],
    ['a read while it is written: old', true, [write('a', 0, 5), read('-', 1, 2)]],
    ['or new', true, [write('a', 0, 5), read('a', 1, 2)]],
    ['but not new and then old', false, [write('a', 0, 5), read('a', 1, 2), read('-', 3, 4)]],
    ['old and then new', true, [write('a', 0, 5), read('-', 1, 2), read('a', 3, 4)]],
    ['two writes at once, in either order', true, [write('a', 0, 5), write('b', 0, 5), read('a', 6, 7)]],
    [
      'but in one order for all',
      false,
      [write('a', 0, 5), write('b', 0, 5), read('a', 6, 7), read('b', 8, 9)],
    ],
    ['a value that nobody wrote', false, [write('a', 0, 1), read('b', 2, 3)]],
    ['no answer: it may have been done', true, [write('a', 0, 9, null), read('a', 2, 3)]],
    ['or not', true, [write('a', 0, 9, null), read('-', 2, 3), read('-', 10, 11)]],
    ['or later', true, [write('a', 0, 9, null), read('-', 2, 3), read('a', 4, 5)]],
    ['but not undone', false, [write('a', 0, 9, null), read('a', 2, 3), read('-', 4, 5)]],
    ['nor after its end', false, [write('a', 0, 5, null), read('-', 6, 7), read('a', 8, 9)]],
    ['a lost update', false, [write('a', 0, 1), write('b', 2, 3), read('a', 4, 5)]],
  ];
  for (const [name, ok, history] of cases) t.equal(linearize(register, history, ['-']).ok, ok, name);
  const either = linearize(register, [write('a', 0, 1, null)], ['-']);
  t.same(either.ok && [...either.states].sort(), ['-', 'a'], 'what may have been is told on');
});

const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);

t.test(
  `500 operations of 8 clients, 3 kills: linearizable, no acknowledged change lost (SEED=${seed})`,
  async (t) => {
    const eras = await drive(t, { operations: 500, clients: 8, vaults: 2, kills: 3, random: seeded(seed) });
    const events = eras.flatMap((era) => [...era.values()].flat());
    t.ok(events.length >= 500, `${events.length} operations`);
    t.equal(historyProblem(eras), null);
    const count = (name: string) =>
      events.filter(({ op, result }) => op.do === name && result?.startsWith('20')).length;
    for (const name of [
      'set-credential',
      'set-service',
      'approve',
      'open-session',
      'revoke-session',
      'set-policy',
    ])
      t.ok(count(name) > 0, `${count(name)} ${name}`);
    t.ok(
      new Set(events.filter(({ op }) => op.do === 'request').map(({ result }) => result)).size > 10,
      'requests showed many things',
    );

    const shown = new Set(
      events.flatMap(({ op, result }) => (op.do === 'request' && result !== null ? result : [])),
    );
    let noticed = 0;
    for (const [number, era] of eras.entries()) {
      for (const [vault, list] of era) {
        for (const [index, { op, result }] of list.entries()) {
          const isSeen =
            (op.do === 'set-credential' || op.do === 'approve') && result !== null && shown.has(op.value);
          if (!isSeen) continue;
          t.not(
            historyProblem(withoutEvent(eras, vault, number, index)),
            null,
            `without ${JSON.stringify(op)} it is not`,
          );
          if (++noticed === 10) return;
        }
      }
    }
    t.fail(`only ${noticed} changes were seen by anyone`);
  },
);

t.test(
  `without the gate between the vault and the lanes it is not linearizable (SEED=${seed})`,
  async (t) => {
    const eras: readonly Era[] = await drive(t, {
      operations: 600,
      clients: 4,
      vaults: 1,
      kills: 0,
      preload: ['ungated'],
      random: seeded(seed),
    });
    t.match(historyProblem(eras), /was answered/);
  },
);
