import t from 'tap';
import { isOwn } from '../../src/actors/vault/ownership.ts';

t.test('what is one’s own', async (t) => {
  const at = '2031-05-06T07:08:09.000Z';
  const [before, since] = ['2031-05-06T07:08:08.999Z', at];
  const cases: [made: Parameters<typeof isOwn>[0], by: Parameters<typeof isOwn>[1], own: boolean][] = [
    [{ actor: 'session:1', at }, { actor: 'session:1' }, true],
    [{ actor: 'session:1', at }, { actor: 'session:2' }, false],
    [{ actor: 'agent:a', agent_id: 'x', at }, { actor: 'agent:a', agent: { id: 'x', since } }, true],
    [{ actor: 'agent:a', agent_id: 'x', at }, { actor: 'agent:a', agent: { id: 'y', since } }, false],
    [{ actor: 'agent:b', agent_id: 'x', at }, { actor: 'agent:a', agent: { id: 'x', since } }, false],
    // Rows and agents of before there were ids.
    [{ actor: 'agent:a', at }, { actor: 'agent:a', agent: { id: 'x', since } }, false],
    [{ actor: 'agent:a', at }, { actor: 'agent:a', agent: { id: undefined, since } }, true],
    [{ actor: 'agent:a', at: before }, { actor: 'agent:a', agent: { id: undefined, since } }, false],
    [{ actor: 'agent:a', agent_id: 'x', at }, { actor: 'agent:a', agent: { id: undefined, since } }, false],
  ];
  for (const [made, by, own] of cases) t.equal(isOwn(made, by), own, JSON.stringify([made, by]));
});
