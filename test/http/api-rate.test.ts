/** How often a caller may ask the API: each by itself, over all its tokens; probes and operators go on. */
import t from 'tap';
import type { Identity } from '../../src/actors/vault/protocol.ts';
import { createApiRate } from '../../src/http/api-rate.ts';
import { manualClock } from '../support/manual-clock.ts';
import { startBroker } from './start-front.ts';

const agent = (name: string): Identity => ({
  kind: 'agent',
  name,
  agent: { id: 'id', since: '' },
  vaults: [],
});

t.test('a burst, then the rate; Retry-After is when the next one is taken', async (t) => {
  const clock = manualClock(0);
  const rate = createApiRate({ rate: 50, burst: 200 }, clock);
  const taken = (most: number) => {
    let count = 0;
    while (count < most && rate.ofCaller(agent('a')) === null) count++;
    return count;
  };
  t.equal(taken(1000), 200);
  t.match(rate.ofCaller(agent('a')), { code: 'rate_limited', retryAfterSeconds: 1 });
  t.equal(rate.ofCaller(agent('b')), null, 'another has its own');
  await clock.advance(1000);
  t.equal(taken(1000), 50);
  await clock.advance(10_000);
  t.equal(taken(1000), 200, 'never more than the burst');
  const operator: Identity = {
    kind: 'operator',
    name: 'o',
    role: 'owner',
    vaults: [],
    via: 'token',
    session: '',
  };
  let operators = 0;
  while (rate.ofCaller(operator) === null) operators++;
  t.equal(operators, 2000);
  const off = createApiRate({ rate: 0, burst: 1 }, clock);
  for (let i = 0; i < 5; i++) t.equal(off.ofCaller(agent('a')), null, '0 switches it off');
});

t.test('however many callers there are, the table is bounded', async (t) => {
  const clock = manualClock(0);
  const rate = createApiRate({ rate: 1, burst: 1 }, clock);
  const again = (peer: string) => {
    let count = 0;
    while (rate.ofAddress(peer) === null) count++;
    return count;
  };
  t.equal(again('10.0.0.0'), 10);
  for (let i = 1; i < 40_000; i++) rate.ofAddress(`10.0.${i >> 8}.${i & 255}`);
  t.equal(again('10.0.156.63'), 9, 'the newest are remembered');
  t.equal(again('10.0.0.0'), 10, 'the oldest are not');
});

t.test('over a socket: the agent is told to wait, others and probes are served', async (t) => {
  const broker = await startBroker({ settings: { 'api-rate': 1, 'api-burst': 3 } });
  t.teardown(broker.stop);
  const token = await broker.session();
  const look = (asked: object) => broker.ask('GET', '/v1/credentials', asked);
  const statuses = await Promise.all(Array.from({ length: 6 }, () => look({ token })));
  t.same(statuses.map(({ status }) => status).sort(), [200, 200, 200, 429, 429, 429]);
  const refused = await look({ token });
  t.match(refused, {
    status: 429,
    json: { error: 'rate_limited' },
    headers: { 'retry-after': /^[1-9]\d*$/ },
  });
  t.equal((await look({ token: broker.operator, vault: 'default' })).status, 200);
  t.equal((await look({ token: await broker.session() })).status, 200);
  const asked = await Promise.all(Array.from({ length: 100 }, () => broker.ask('GET', '/v1/skill.md')));
  t.ok(
    asked.some(({ status }) => status === 429),
    'an address without a token',
  );
  for (let i = 0; i < 40; i++) t.equal((await broker.ask('GET', '/health')).status, 200);
});
