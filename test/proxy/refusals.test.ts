import { createHash } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { RefusalSums } from '../../src/proxy/refusal-sums.ts';
import { openProxy, proxyAuth, startLane, type TestLane } from '../support/lane.ts';
import { rawUpstream } from '../support/upstream.ts';
import { nextAnswer, nextRequest, wireOf } from '../support/wire.ts';

const vault = { settings: { unmatched_host_policy: 'passthrough' as const } };
const up = await rawUpstream(
  t,
  async (wire) => {
    for (;;) {
      await nextRequest(wire);
      wire.send('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    }
  },
  { tls: false },
);

/** Sends requests over one connection, each after the answer to the one before; their statuses. */
async function send(lane: TestLane, count: number, auth: string, path: string, method = 'GET') {
  const statuses: number[] = [];
  let client = wireOf(await openProxy(lane));
  for (let i = 0; i < count; i++) {
    client.send(`${method} http://up.test:${up.port}${path} HTTP/1.1\r\nHost: x\r\n${auth}\r\n`);
    const answer = await nextAnswer(client);
    statuses.push(answer.status);
    if (answer.field('connection') === 'close') client = wireOf(await openProxy(lane));
  }
  client.close();
  return statuses;
}

/** How many requests the records are for. */
const requests = (records: readonly Record<string, unknown>[]) =>
  records.reduce((sum, { count = 1 }) => sum + (count as number), 0);
const bytes = (records: readonly Record<string, unknown>[]) =>
  records.reduce((sum, record) => sum + JSON.stringify(record).length, 0);

t.test('a long path is cut, and has its length and its hash', async (t) => {
  const lane = await startLane({ v1: vault });
  t.teardown(() => lane.stop());
  const path = `/${'x'.repeat(1023)}`;
  const longer = `${path}y`;
  t.strictSame(await send(lane, 1, proxyAuth(lane.tokens.v1), `${path}?query`), [200]);
  t.strictSame(await send(lane, 1, proxyAuth(lane.tokens.v1), `${longer}?query`, 'M'.repeat(32)), [200]);
  const [whole, cut] = await lane.recordsOf(path, 2);
  t.notOk('path_length' in whole || 'path_sha256' in whole);
  t.match(cut, { path, path_length: 1025, path_sha256: createHash('sha256').update(longer).digest('hex') });
  t.strictSame(await send(lane, 1, proxyAuth(lane.tokens.v1), path, 'M'.repeat(33)), [400]);
  t.equal(cut.method, 'M'.repeat(32), 'which is bounded by itself');
});

t.test('what is refused over and over is summed up, for a session and without one', async (t) => {
  // Two a second, ten at once: nothing of this test depends on how long it takes, but for the sums' number.
  const lane = await startLane(
    { v1: { settings: {} }, other: vault },
    { auditRefusalRate: 2, limit: { rps: 1, burst: 3, inflight: 0 } },
  );
  const path = `/${'p'.repeat(30_000)}`;
  const statuses = await send(lane, 400, proxyAuth(lane.tokens.v1), path);
  const through = statuses.filter((status) => status !== 429).length;
  t.ok(through >= 3, 'some were let through');
  t.strictSame(await send(lane, 2, proxyAuth(lane.tokens.other), '/other'), [200, 200]);
  for (const token of ['brk_ses_a', 'brk_ses_b', 'brk_ses_c'])
    await send(lane, 100, proxyAuth(token, 'v1'), path);
  await lane.stop();

  const session = lane.records.filter(({ vault }) => vault === 'v1');
  const sent = session.filter(({ status }) => status !== 429);
  const refused = session.filter(({ error }) => error === 'rate_limited');
  t.equal(sent.length, through, 'what was let through has a record each');
  t.ok(sent.every((record) => !('count' in record)));
  t.equal(requests(refused), 400 - through, 'none of the refused is missing');
  const sums = refused.filter(({ count }) => count !== undefined);
  t.ok(
    sums.length >= 1 && sums.every(({ first, last, time }) => String(first) <= String(last) && last === time),
  );
  t.ok(bytes(refused) < 400 * 250, `${bytes(refused) / requests(refused)} octets a refusal`);

  const unknown = lane.records.filter(({ vault, status }) => vault === null && status !== 200);
  t.equal(requests(unknown), 300);
  t.ok(bytes(unknown) < 300 * 250, `${bytes(unknown) / 300} octets a refusal`);
  t.ok(unknown.every(({ actor, peer }) => actor === null && typeof peer === 'string'));
});

t.test('what left the broker has a record of its own, though its upstream was not reached', async (t) => {
  const lane = await startLane({ v1: vault }, { auditRefusalRate: 1, names: { 'none.test': [] } });
  const count = 30;
  const path = (i: number) => `/left/${i}`;
  for (let i = 0; i < count; i++) {
    const client = wireOf(await openProxy(lane));
    // Whoever serves the names of that domain has read this one.
    client.send(`GET http://none.test${path(i)} HTTP/1.1\r\nHost: x\r\n${proxyAuth(lane.tokens.v1)}\r\n`);
    await nextAnswer(client);
    client.close();
  }
  await lane.stop();
  const records = lane.records.filter((record) => String(record.path).startsWith('/left/'));
  t.strictSame(
    records.map((record) => record.path).sort(),
    Array.from({ length: count }, (_, i) => path(i)).sort(),
  );
});

t.test('every refusal is in one record or one sum, however many callers and kinds there are', async () => {
  const refusal = fc.record({
    caller: fc.nat({ max: 1800 }),
    kind: fc.nat({ max: 3 }),
    ms: fc.nat({ max: 400 }),
  });
  fc.assert(
    fc.property(
      fc.array(refusal, { minLength: 1, maxLength: 2500, size: 'max' }),
      fc.nat({ max: 20 }),
      fc.boolean(),
      (refusals, rate, known) => {
        let [time, own, summed, lines] = [1_000_000, 0, 0, 0];
        const sums = new RefusalSums((line) => {
          const { count, first, last, kind } = JSON.parse(line);
          lines++;
          summed += count;
          if (first > last || typeof kind !== 'number') throw new Error(line);
        }, rate);
        for (const { caller, kind, ms } of refusals) {
          const given = { time, caller: `address ${caller}`, known, kind: String(kind) };
          if (sums.isOwn(given, (named) => `"kind":${kind},"caller":${named ? caller : null}`)) own++;
          time += ms - 1;
        }
        sums.flush();
        const seconds = Math.max(0, time - 1_000_000) / 1000 + 1;
        const mostOfStrangers = rate * (5 + 2 * seconds);
        return (
          own + summed === refusals.length &&
          lines <= 1024 + 4 &&
          (rate === 0 ? own === refusals.length : known || own <= mostOfStrangers)
        );
      },
    ),
    { numRuns: 10 },
  );
});
