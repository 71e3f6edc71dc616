import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import t from 'tap';
import { allowed, type Broker, startBroker, temporary } from '../support/broker.ts';
import { reaching, startUpstream } from '../support/tls-upstream.ts';
import { openTunnel, rootOf } from '../support/tunnel.ts';

const rounds = 50;
/** Proposals under way at a time: fewer than may be pending. */
const agents = 4;

interface Proposal {
  readonly id: number;
  readonly status: string;
}

/** What one proposal brings: a service and the credential that it uses, both named after `name`. */
function bodyOf(name: string) {
  return {
    services: [{ action: 'set', host: `${name.toLowerCase()}.test`, auth: { type: 'bearer', token: name } }],
    credentials: [{ action: 'set', key: name }],
    message: name,
  };
}

/** Proposes and approves until the broker is gone; `acknowledged` gets the names of those that it said were applied. */
async function approveOn(
  broker: Broker,
  vault: string,
  agent: number,
  acknowledged: Map<string, string>,
): Promise<void> {
  try {
    for (let i = 0; ; i++) {
      const name = `K${agent}_${i}`;
      const value = randomBytes(8).toString('hex');
      const { body } = await broker.api<Proposal>('POST', '/v1/proposals', {
        vault,
        body: bodyOf(name),
        token: tokens.get(broker),
      });
      const approve = { credentials: { [name]: value } };
      const { status } = await broker.api('POST', `/v1/proposals/${body.id}/approve`, { body: approve });
      if (status === 200) acknowledged.set(name, value);
    }
  } catch {
    // It was killed.
  }
}

const tokens = new WeakMap<Broker, string>();

t.test(`${rounds} kills in the middle of approvals lose nothing and leave nothing half done`, async (t) => {
  const directory = join(temporary(t), 'data');
  const upstream = await startUpstream(t);
  const options = { ...reaching(t), directory };
  let broker = await startBroker(t, options);
  let applied = 0;
  let inFlight = 0;

  for (let round = 0; round < rounds; round++) {
    const vault = `round-${round}`;
    await broker.api('POST', '/v1/vaults', { body: { name: vault } });
    const session = await broker.session(vault);
    tokens.set(broker, session);
    const acknowledged = new Map<string, string>();
    const working = Array.from({ length: agents }, (_, agent) =>
      approveOn(broker, vault, agent, acknowledged),
    );
    await new Promise((resolve) => setTimeout(resolve, 20 + Math.random() * 100));
    broker.process.kill('SIGKILL');
    await Promise.all(working);
    await broker.ended;

    const from = performance.now();
    broker = await startBroker(t, options);
    const took = Math.round(performance.now() - from);
    if (took >= allowed(2000)) t.fail(`ready only after ${took} ms`);

    const [proposals, services, keys] = await Promise.all([
      broker.api<{ proposals: (Proposal & { message: string })[] }>('GET', '/v1/proposals', { vault }),
      broker.api<{ services: { host: string }[] }>('GET', `/v1/vaults/${vault}/services`),
      broker.api<{ keys: string[] }>('GET', '/v1/credentials', { vault }),
    ]);
    const statusOf = new Map(proposals.body.proposals.map(({ message, status }) => [message, status]));
    const hosts = new Set(services.body.services.map(({ host }) => host));
    for (const name of acknowledged.keys()) {
      if (statusOf.get(name) !== 'applied') t.fail(`round ${round}: ${name} was acknowledged and is lost`);
    }
    for (const [name, status] of statusOf) {
      const isApplied = status === 'applied';
      const halves = [hosts.has(`${name.toLowerCase()}.test`), keys.body.keys.includes(name)];
      if (halves.some((half) => half !== isApplied))
        t.fail(`round ${round}: ${name} is ${status}, with ${halves}`);
      if (isApplied) applied++;
      if (isApplied !== acknowledged.has(name)) inFlight++;
    }
    t.equal(hosts.size, keys.body.keys.length, `round ${round}: ${hosts.size} applied, in ${took} ms`);

    const [last] = [...acknowledged].slice(-1);
    if (last === undefined) continue;
    const host = `${last[0].toLowerCase()}.test`;
    const target = { token: session, vault, host, port: upstream.port };
    const tunnel = await openTunnel(broker, await rootOf(broker), target);
    await tunnel.request('/');
    tunnel.close();
    t.equal(
      upstream.seen.at(-1)?.headers.authorization,
      `Bearer ${last[1]}`,
      'with the value that was given',
    );
  }
  t.ok(applied > rounds, `${applied} were applied`);
  t.comment(`${inFlight} were applied and not acknowledged, or not`);
});
