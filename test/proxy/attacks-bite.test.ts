/** That the attacks have teeth: a broken proxy is found out. All mutants: `npm run test:attacks -- --bite`. */
import t from 'tap';
import { mutated } from '../fuzz/mutants.ts';
import { bite } from './attack-bite.ts';
import { attackMutants } from './attack-mutants.ts';

t.test('each mutant of the long run still fits the source', async (t) => {
  for (const mutant of attackMutants) t.ok(mutated(mutant), mutant.name);
});

t.test('a proxy that takes a length and a coding is found out', async (t) => {
  const mutant = attackMutants.find(({ name }) => name === 'takes a length and a coding');
  const { found, by } = mutant === undefined ? { found: false, by: 'no such mutant' } : await bite(mutant);
  t.ok(found, by);
});
