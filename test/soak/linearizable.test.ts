import t from 'tap';
import { historyProblem } from './check-history.ts';
import { drive } from './drive.ts';
import { seeded } from './seeded.ts';

const operations = 10_000;
const kills = 25;

t.setTimeout(600_000);

const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);

t.test(
  `${operations} operations of 8 clients, ${kills} kills: linearizable, nothing lost (SEED=${seed})`,
  async (t) => {
    const eras = await drive(t, { operations, clients: 8, vaults: 4, kills, random: seeded(seed) });
    const events = eras.flatMap((era) => [...era.values()].flat());
    t.equal(eras.length, kills + 1);
    t.ok(events.length >= operations, `${events.length} operations`);
    const unanswered = events.filter(({ result }) => result === null).length;
    t.ok(unanswered >= kills, `${unanswered} were under way when the broker was killed`);
    t.equal(historyProblem(eras), null);
  },
);
