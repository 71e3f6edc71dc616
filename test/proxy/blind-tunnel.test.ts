/** Tunnels that go through undecrypted: what lets them, what ends them, and what they leave. */
import type dns from 'node:dns';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { VaultSettings } from '../../src/actors/vault/model.ts';
import { defaultSettings } from '../../src/actors/vault/model.ts';
import type { Lookup } from '../../src/proxy/lookups.ts';
import { openTunnel, startLane, type TestLane, type TestLaneOptions } from '../support/lane.ts';
import { rawUpstream, upstreamCa } from '../support/upstream.ts';
import { eventually, type Wire, wireOf } from '../support/wire.ts';

/** The smallest ClientHello there is (RFC 8446 4.1.2): one suite, no extensions, so no server name. */
const hello = Buffer.from(`160301002f0100002b0303${'00'.repeat(32)}000002130101000000`, 'hex');

type Answer = (error: NodeJS.ErrnoException | null, found: dns.LookupAddress[]) => void;

/** A lane whose look-ups of `slow.test` wait to be answered. */
async function lane(t: Test, options: TestLaneOptions = {}) {
  const waiting: Answer[] = [];
  const slow: Lookup = (_, __, done) => void waiting.push(done);
  const at = await startLane(
    { v1: { settings: { unmatched_tls: 'tunnel' } } },
    { upstreamCa: [upstreamCa.certPem], names: { 'slow.test': slow }, ...options },
  );
  let stopped = false;
  const stop = () => {
    stopped = true;
    return at.stop();
  };
  t.teardown(() => (stopped ? undefined : at.stop()));
  const answer = () => {
    for (const done of waiting.splice(0)) done(null, [{ address: '127.0.0.1', family: 4 }]);
  };
  return { at, waiting, answer, stop };
}

/** Sends back what comes, with a half-close for a half-close. */
const echo = (t: Test) =>
  rawUpstream(
    t,
    (wire) => {
      wire.socket.on('data', (chunk) => wire.socket.write(chunk));
      wire.socket.on('end', () => wire.socket.end());
    },
    { tls: false },
  );

const through = async (
  at: TestLane,
  target: string,
  sent: Buffer | string,
  token?: string,
): Promise<Wire> => {
  const client = wireOf(await openTunnel(at, 'v1', target, { token }));
  client.send(sent);
  return client;
};

const recordOf = async (at: TestLane) => {
  await eventually(() => at.records.length > 0, 'a record');
  await sleep(60);
  return at.records.splice(0);
};

const settings = (changed: Partial<VaultSettings>, at: TestLane) =>
  ({
    type: 'vault',
    id: at.ids.v1,
    name: 'v1',
    cleared: false,
    settings: { ...defaultSettings, unmatched_tls: 'tunnel', ...changed },
  }) as const;
const service = (host: string, at: TestLane) =>
  ({ type: 'service', vault: at.ids.v1, service: { host, auth: { type: 'passthrough' } } }) as const;

for (const [kind, first] of [
  ['TLS', hello],
  ['anything else', 'SSH-2.0-test\r\n'],
] as const) {
  t.test(`${kind}: through, both ways, and one record`, async (t) => {
    const { at } = await lane(t);
    const up = await echo(t);
    const client = await through(at, `evil.test:${up.port}`, first);
    t.equal((await client.take(first.length)).length, first.length);
    client.socket.end('bye');
    t.equal(await client.rest(), 'bye');
    const bytes = first.length + 3;
    t.match(await recordOf(at), [
      { method: 'CONNECT', scheme: 'tcp', status: 200, error: null, bytes_in: bytes, bytes_out: bytes },
    ]);
  });

  t.test(`${kind}: a change that was published a moment before holds`, async (t) => {
    const { at } = await lane(t);
    const up = await echo(t);
    const client = wireOf(await openTunnel(at, 'v1', `evil.test:${up.port}`));
    at.publish(service('evil.test', at), settings({ unmatched_host_policy: 'deny' }, at));
    client.send(first);
    await sleep(60);
    t.equal(up.connections, 0);
    client.close();
  });

  for (const [what, change, error] of [
    ['a service for it', (at: TestLane) => at.publish(service('slow.test', at)), 'invalid_request'],
    [
      'a policy that denies it',
      (at: TestLane) => at.publish(settings({ unmatched_host_policy: 'deny' }, at)),
      'forbidden',
    ],
    ['the end of its session', (at: TestLane, token: string) => at.revoke(token), 'unauthorized'],
    ['an audit that can’t be written', (at: TestLane) => at.setAuditHealthy(false), 'audit_unavailable'],
  ] as const) {
    t.test(`${kind}: ${what} comes while its name is looked up`, async (t) => {
      const { at, waiting, answer } = await lane(t);
      const up = await echo(t);
      const token = at.addSession({ vaults: ['v1'] });
      const client = await through(at, `slow.test:${up.port}`, first, token);
      await eventually(() => waiting.length > 0, 'the look-up');
      change(at, token);
      answer();
      t.equal(await client.rest(), '');
      t.match(await recordOf(at), [{ error, bytes_in: 0, bytes_out: 0 }]);
      t.equal(up.connections, 0, 'nobody was called');
    });
  }

  t.test(`${kind}: a client that is gone while its name is looked up`, async (t) => {
    const { at, waiting, answer } = await lane(t, { limit: { rps: 0, burst: 0, inflight: 1 } });
    const up = await echo(t);
    const client = await through(at, `slow.test:${up.port}`, first);
    await eventually(() => waiting.length > 0, 'the look-up');
    client.socket.resetAndDestroy();
    t.match(await recordOf(at), [{ status: 0, error: 'client_closed' }], 'its record does not wait');
    const next = await through(at, `evil.test:${up.port}`, first);
    await next.take(first.length);
    next.close();
    t.match(await recordOf(at), [{ status: 200 }], 'its place is free');
    answer();
    await sleep(60);
    t.equal(up.connections, 1, 'nobody else was called');
    t.equal(at.records.length, 0);
  });
}

t.test('a look-up that takes too long ends it', async (t) => {
  const { at } = await lane(t, { timeouts: { connect: 300 } });
  const client = await through(at, 'slow.test:1', hello);
  t.equal(await client.rest(), '');
  t.match(await recordOf(at), [{ status: 504, error: 'upstream_timeout' }]);
});

t.test('it ends with its session, on both sides', async (t) => {
  const { at } = await lane(t);
  const up = await echo(t);
  const token = at.addSession({ vaults: ['v1'] });
  const client = await through(at, `evil.test:${up.port}`, 'SSH-2.0-test\r\n', token);
  await client.take(14);
  at.revoke(token);
  await client.rest();
  await eventually(() => up.wires[0].ended, 'the end of the upstream connection', 4000);
  t.match(await recordOf(at), [{ status: 200, error: 'unauthorized', bytes_in: 14, bytes_out: 14 }]);
});

t.test('a lane that stops tells both sides of a quiet one, and does not wait for its time', async (t) => {
  const { at, stop } = await lane(t, { drainMs: 60_000 });
  const up = await echo(t);
  const client = await through(at, `evil.test:${up.port}`, 'SSH-2.0-test\r\n');
  await client.take(14);
  at.clients.clear();
  const ends: string[] = [];
  client.socket.on('end', () => ends.push('client'));
  client.socket.on('error', () => ends.push('error'));
  up.wires[0].socket.on('end', () => ends.push('upstream'));
  up.wires[0].socket.on('error', () => ends.push('error'));
  const stopped = stop();
  await eventually(() => ends.length === 2, 'both ends');
  t.strictSame(ends.sort(), ['client', 'upstream']);
  client.socket.end();
  await stopped;
  t.match(at.records, [{ status: 200, error: 'stopped', bytes_in: 14, bytes_out: 14 }]);
});

t.test('a lane that stops lets a busy one go on as long as it may', async (t) => {
  const { at, stop } = await lane(t, { drainMs: 2000 });
  const up = await echo(t);
  const client = await through(at, `evil.test:${up.port}`, 'SSH-2.0-test\r\n');
  await client.take(14);
  at.clients.clear();
  const busy = setInterval(() => client.send('x'), 20);
  t.teardown(() => clearInterval(busy));
  const stopped = stop();
  await sleep(1200);
  t.notOk(client.ended);
  const came = client.all.length;
  await eventually(() => client.all.length > came, 'more of it');
  await stopped;
  await client.rest();
  t.match(at.records, [{ status: 200, error: 'stopped' }]);
});
