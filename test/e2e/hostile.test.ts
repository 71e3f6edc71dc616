/** The hostile agents in short: `npm run test:hostile` is the long run, and the one that measures. */
import t from 'tap';
import { runHostile } from '../hostile/run.ts';

const seed = Number(process.env.SEED ?? 7);

t.test(`2,000 hostile requests by three agents, beside one that behaves (SEED=${seed})`, async (t) => {
  const how = { rounds: 1, rate: 1000, tracks: 8, samples: 20, niceness: 0 };
  const { shown, answers } = await runHostile(t, { seed, requests: 2000, ...how });
  t.ok(shown > 10, `${shown} values were found where services show them`);
  for (const answer of ['200', '413', '502 substitution_error', '502 upstream_protocol'])
    t.ok((answers[answer] ?? 0) > 20, answer);
});
