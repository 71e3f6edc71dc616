import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { type Broker, startBroker } from '../support/broker.ts';
import { reaching, startUpstream, type Upstream } from '../support/tls-upstream.ts';
import { openOnBothLanes, openTunnel, rootOf, type Tunnel } from '../support/tunnel.ts';

interface Vault {
  readonly broker: Broker;
  readonly upstream: Upstream;
  readonly name: string;
  readonly host: string;
  readonly token: string;
  /** On both lanes, taken in turn. */
  readonly tunnels: readonly Tunnel[];
}

/** A broker, an upstream, and some vaults that refuse unknown hosts, each with tunnels on both lanes. */
async function setUp(
  t: Test,
  options: { vaults: number; tunnels: number; ungated?: boolean },
): Promise<Vault[]> {
  const upstream = await startUpstream(t);
  const { args, preload } = reaching(t);
  const broker = await startBroker(t, {
    args: [...args, '--rate-limit', '0'],
    preload: options.ungated ? [...preload, 'ungated'] : preload,
  });
  return Promise.all(
    Array.from({ length: options.vaults }, async (_, i) => {
      const name = `vault-${i}`;
      const host = `api-${i}.test`;
      await broker.api('POST', '/v1/vaults', { body: { name } });
      await broker.api('PATCH', `/v1/vaults/${name}`, { body: { unmatched_host_policy: 'deny' } });
      const token = await broker.session(name);
      // Without the gate a lane may not have heard of the session yet.
      if (options.ungated) await new Promise((resolve) => setTimeout(resolve, 500));
      const target = { token, vault: name, host, port: upstream.port };
      const tunnels = await openOnBothLanes(broker, target, options.tunnels);
      t.teardown(() => {
        for (const tunnel of tunnels) tunnel.close();
      });
      return { broker, upstream, name, host, token, tunnels };
    }),
  );
}

/** What the next request on a tunnel shows of the vault: the token that the upstream got, or the refusal's code. */
async function outcome(vault: Vault, tunnel: Tunnel): Promise<string> {
  const { status, body } = await tunnel.request('/');
  const parsed = JSON.parse(body);
  return status === 200 ? String(vault.upstream.seen[parsed.seen].headers.authorization) : parsed.error;
}

/** Throws unless it is the status: a change that was refused would make what follows it meaningless. */
async function change(
  vault: Vault,
  status: number,
  method: string,
  path: string,
  body?: unknown,
  token?: string,
) {
  const answer = await vault.broker.api<Record<string, never>>(method, path, {
    body,
    token,
    vault: vault.name,
  });
  if (answer.status !== status) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
  return answer.body;
}

/**
 * One round each: a change through the API, and what any request from then on has to show. The state goes around:
 * denied, applied, another value, disabled, enabled, removed.
 */
/** The soak tests ask for more. */
const count = Number(process.env.ROUNDS ?? 1500);

const rounds: readonly ((vault: Vault, value: string) => Promise<string>)[] = [
  async (vault, value) => {
    const { id } = await change(vault, 201, 'POST', '/v1/proposals', proposal(vault.host), vault.token);
    await change(vault, 200, 'POST', `/v1/proposals/${id}/approve`, { credentials: { TOKEN: value } });
    return `Bearer ${value}`;
  },
  async (vault, value) => {
    await change(vault, 200, 'POST', '/v1/credentials', { credentials: { TOKEN: value } });
    return `Bearer ${value}`;
  },
  async (vault) => {
    await change(vault, 200, 'PATCH', `/v1/vaults/${vault.name}/services/${vault.host}`, { enabled: false });
    return 'service_disabled';
  },
  async (vault, value) => {
    const service = {
      host: vault.host,
      auth: { type: 'custom', headers: { Authorization: `{{ TOKEN }} ${value}` } },
    };
    await change(vault, 200, 'POST', `/v1/vaults/${vault.name}/services`, {
      services: [{ ...service, enabled: true }],
    });
    await change(vault, 200, 'POST', '/v1/credentials', { credentials: { TOKEN: 'Other' } });
    return `Other ${value}`;
  },
  async (vault) => {
    await change(vault, 204, 'DELETE', `/v1/vaults/${vault.name}/services/${vault.host}`);
    return 'forbidden';
  },
];

function proposal(host: string) {
  return {
    services: [{ action: 'set', host, auth: { type: 'bearer', token: 'TOKEN' } }],
    credentials: [{ action: 'set', key: 'TOKEN', description: 'A token' }],
    message: 'to read',
  };
}

/** Changes and asks, `count` times over all vaults at once; gives what requests showed that wasn't due. */
async function play(vaults: readonly Vault[], count: number): Promise<string[]> {
  const stale: string[] = [];
  let left = count;
  await Promise.all(
    vaults.map(async (vault) => {
      for (let round = 0; left-- > 0; round++) {
        const due = await rounds[round % rounds.length](vault, `value-${round}`);
        // The next request comes from another lane each time.
        const { tunnels } = vault;
        const next = tunnels[((round % 2) * tunnels.length) / 2 + (round % (tunnels.length / 2))];
        const shown = await outcome(vault, next);
        if (shown !== due) stale.push(`${due}: ${shown}`);
      }
    }),
  );
  return stale;
}

t.test('an agent asks for a host, a human allows it, and the tunnel that is open goes through', async (t) => {
  const upstream = await startUpstream(t);
  const broker = await startBroker(t, reaching(t));
  const root = await rootOf(broker);
  const deny = await broker.command(['vault', 'set', 'default', 'unmatched_host_policy=deny']);
  t.equal(deny.code, 0, deny.stderr);
  const token = await broker.session();
  const asAgent = { token };
  const host = 'api.test';
  const tunnel = await openTunnel(broker, root, { token, host, port: upstream.port });
  t.teardown(() => tunnel.close());

  const refused = await tunnel.request('/v1/items');
  const hint = JSON.parse(refused.body).proposal_hint;
  t.match(refused, { status: 403, headers: { 'x-broker-error': 'forbidden' } });
  t.match(hint, { host, port: upstream.port, endpoint: `POST ${broker.address}/v1/proposals` });
  t.ok(hint.supported_auth_types.includes('bearer'));
  t.match(JSON.parse(refused.body).help, `${broker.address}/v1/skill.md`);

  t.match(await broker.api('GET', '/discover', asAgent), {
    status: 200,
    body: { vault: 'default', services: [], available_credentials: [] },
  });
  const created = await broker.api<{ id: number }>('POST', '/v1/proposals', {
    ...asAgent,
    body: proposal(host),
  });
  t.match(created, {
    status: 201,
    body: { status: 'pending', vault: 'default', approval_url: /\/approve\/\d+\?token=brk_apr_/ },
  });
  const { id } = created.body;
  const forbidden = await broker.api('POST', `/v1/proposals/${id}/approve`, {
    ...asAgent,
    body: { credentials: {} },
  });
  t.equal(forbidden.status, 403, 'the agent cannot approve what it proposed');
  t.equal((await tunnel.request('/v1/items')).status, 403, 'and is refused until someone does');

  const value = randomBytes(12).toString('hex');
  const missing = await broker.command(['vault', 'proposal', 'approve', String(id), '--stdin'], {
    stdin: '',
  });
  t.match(missing, { code: 1, stderr: /No value for TOKEN; nothing was approved/ });
  const approved = await broker.command(['vault', 'proposal', 'approve', String(id), '--stdin'], {
    stdin: `${value}\n`,
  });
  t.match(approved, { code: 0, stderr: new RegExp(`Proposal ${id} is applied`) });

  t.equal((await tunnel.request('/v1/items')).status, 200, 'the same tunnel goes through');
  t.equal(upstream.seen[0].headers.authorization, `Bearer ${value}`);
  t.equal(upstream.seen.length, 1, 'nothing went on before');
  t.match(await broker.api('GET', `/v1/proposals/${id}`, asAgent), { body: { status: 'applied' } });
  const found = await broker.api('GET', '/discover', asAgent);
  t.match(found.body, { services: [{ host, auth_type: 'bearer' }], available_credentials: ['TOKEN'] });
  t.notMatch(JSON.stringify(found.body), value);
});

t.test('a change that was answered shows in the very next request', { timeout: 240_000 }, async (t) => {
  const vaults = await setUp(t, { vaults: 4, tunnels: 4 });
  t.same(await play(vaults, count), [], `none of ${count} is stale`);
});

t.test('without the gate the same rounds are stale', async (t) => {
  const vaults = await setUp(t, { vaults: 4, tunnels: 4, ungated: true });
  t.ok((await play(vaults, 200)).length > 0);
});

t.test('a session that was revoked is refused in the very next request, on every lane', async (t) => {
  const [vault] = await setUp(t, { vaults: 1, tunnels: 1 });
  const { broker, upstream, name, host } = vault;
  for (let round = 0; round < 20; round++) {
    const { id, token } = await change(vault, 201, 'POST', '/v1/sessions', { vault: name });
    const tunnels = await openOnBothLanes(broker, { token, vault: name, host, port: upstream.port }, 1);
    await change(vault, 204, 'DELETE', `/v1/sessions/${id}`);
    const answers = await Promise.all(tunnels.map((tunnel) => tunnel.request('/')));
    t.same(
      answers.map(({ status }) => status),
      [401, 401],
    );
  }
});
