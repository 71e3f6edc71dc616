/**
 * Every case of `test/vectors/protocol.json`, driven through the outside of a running broker: its API, its proxy, its
 * command line. Cases that go against the protocol as it is here are run too, and come out the other way.
 */
import { readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { type Broker, startBroker } from '../support/broker.ts';
import { absolute, certificateFor, connect, startUpstream, tunnelled, type Upstream } from './through.ts';

interface Case {
  readonly id: string;
  // biome-ignore lint/suspicious/noExplicitAny: each group of cases has a shape of its own
  readonly input: any;
  // biome-ignore lint/suspicious/noExplicitAny: as above
  readonly expect: any;
}

/** Why a case doesn't hold here. */
const dropped: Readonly<Record<string, string>> = {
  'substitution_object-006': 'there are no surfaces but path, query and header',
  'substitution_object-015': 'placeholders may contain each other: the longest matches first',
  'service_host_validate-012': 'addresses may be services: the network guard decides what is dialled',
  'service_host_validate-013': 'as 012',
  'service_host_validate-015': 'as 012',
  'service_host_validate-017': 'single labels may be services',
  'service_host_validate-018': 'names inside a cluster may be services',
  'service_host_validate-021': 'single labels may be services',
  'auth_render-010': 'only spaces and tabs may surround a key in {{ }}',
  'auth_render-017': 'values are stored as they are: one that ends in a line feed can be in no header',
  'control_plane_vault-002': "another vault's name is refused, not ignored",
  'control_plane_vault-005': 'whether a vault exists is told to nobody who was not given it: 403, as for 006',
  'control_plane_vault-007': 'an operator may look, by naming the vault',
  'connect_host_validity-013': 'one trailing dot is dropped',
  'proposal_validate-015': 'deleting a host that is not there does nothing',
  'proposal_validate-016': 'a slot that no service uses is accepted',
  'proposal_validate-035': 'single labels may be services',
  'proxy_env-002': 'the proxy is spoken to over TLS unless --proxy-scheme http asks otherwise',
};

const groups: Record<string, { cases: Case[] }> = JSON.parse(
  readFileSync(new URL('../vectors/protocol.json', import.meta.url), 'utf8'),
).groups;
const ran: string[] = [];

/** Runs a group's cases; `holds` tells whether a case comes out as it expects. */
function group(name: string, holds: (each: Case, t: Test) => Promise<boolean>): void {
  t.test(name, async (t) => {
    for (const each of groups[name].cases) {
      const reason = dropped[each.id];
      t.equal(
        await holds(each, t),
        reason === undefined,
        `${each.id}${reason ? `, the other way: ${reason}` : ''}`,
      );
      ran.push(each.id);
    }
  });
}

let api: Broker;
let session: string;
let agent: string;
let upstream: Upstream;

const wide = ['--allow-private-ranges', '--rate-limit', '0', '--auth-failures', '0'];

t.before(async () => {
  api = await startBroker(t, { args: wide, preload: ['names'] });
  upstream = await startUpstream(t);
  for (const name of ['dev', 'prod', 'closed']) await api.api('POST', '/v1/vaults', { body: { name } });
  await api.api('PATCH', '/v1/vaults/closed', { body: { unmatched_host_policy: 'deny' } });
  const keys = [
    'A',
    'A1_',
    'GITHUB_PAT2',
    'GH',
    'GH2',
    'GH_TOKEN',
    'K',
    'K_ONE',
    'K_TWO',
    'K_X',
    'P',
    'S',
    'SK',
    'SL',
    'STRIPE_KEY',
    'T',
    'U',
  ];
  for (const vault of ['default', 'dev'])
    await credentials(vault, Object.fromEntries(keys.map((key) => [key, `value of ${key}`])));
  session = await api.session();
  const invite = await api.api<{ invite_url: string }>('POST', '/v1/agents/invites', {
    body: { vaults: ['default', 'dev'] },
  });
  const joined = await fetch(invite.body.invite_url, { method: 'POST' });
  agent = ((await joined.json()) as { BROKER_SESSION_TOKEN: string }).BROKER_SESSION_TOKEN;
});

async function credentials(vault: string, values: Record<string, string>): Promise<void> {
  const { status, body } = await api.api('POST', '/v1/credentials', { vault, body: { credentials: values } });
  if (status !== 200) throw new Error(JSON.stringify(body));
}

/** Replaces the services of a vault; its answer. */
function setServices(services: readonly unknown[], vault = 'default') {
  return api.api<Record<string, unknown>>('PUT', `/v1/vaults/${vault}/services`, { body: { services } });
}

async function mustSet(services: readonly unknown[], vault = 'default'): Promise<void> {
  const { status, body } = await setServices(services, vault);
  if (status !== 200) throw new Error(JSON.stringify(body));
}

/** What a proposal is answered; none stays pending. */
async function propose(body: unknown, vault = 'default') {
  const token = vault === 'default' ? session : agent;
  const made = await api.api<Record<string, unknown>>('POST', '/v1/proposals', { token, vault, body });
  if (made.status === 201) await api.api('POST', `/v1/proposals/${made.body.id}/reject`);
  return made;
}

/** A service is taken, or refused with its field, by each of the ways in which one enters. */
async function isTaken(t: Test, service: object): Promise<boolean> {
  const ways = [await setServices([service]), await propose({ services: [{ action: 'set', ...service }] })];
  const [first] = ways.map(({ status }) => status < 400);
  for (const { status, body } of ways) {
    if (first !== status < 400) t.fail(`a file and a proposal differ: ${JSON.stringify(ways)}`);
    if (status >= 400 && !/^services\[0\]/.test(String(body.field)))
      t.fail(`no field: ${JSON.stringify(body)}`);
  }
  return first;
}

const bearer = { type: 'bearer', token: 'K' };
const fieldCases: Record<string, (input: Case['input']) => object> = {
  placeholder: ({ placeholder }) => ({
    host: 'a.test',
    auth: bearer,
    substitutions: [{ key: 'K', placeholder }],
  }),
  substitution_object: ({ substitutions }) => ({ host: 'a.test', auth: bearer, substitutions }),
  credential_key: ({ key }) => ({ host: 'a.test', auth: { type: 'bearer', token: key } }),
  service_host_validate: ({ host }) => ({ host, auth: bearer }),
  auth_config_validate: ({ auth }) => ({ host: 'a.test', auth }),
};
for (const [name, serviceOf] of Object.entries(fieldCases))
  group(name, async ({ input, expect }, t) => (await isTaken(t, serviceOf(input))) === expect.valid);

/** The substitutions of a case, with their values stored. */
async function substitutionsOf({ subs, placeholder, value, in: surfaces }: Case['input']): Promise<object[]> {
  const given: { placeholder: string; value: string }[] = subs ?? [
    { placeholder: placeholder ?? '__id__', value },
  ];
  await credentials('default', Object.fromEntries(given.map((each, i) => [`VALUE_${i}`, each.value])));
  return given.map((each, i) => ({ key: `VALUE_${i}`, placeholder: each.placeholder, in: surfaces }));
}

/** Sends a request to a service that has these substitutions, and no auth of its own; what came upstream. */
async function substituted(input: Case['input'], path: string, fields: [string, string][] = []) {
  const substitutions = await substitutionsOf(input);
  await mustSet([{ host: 'sub.test', auth: { type: 'passthrough' }, substitutions }]);
  const before = upstream.got.length;
  const answer = await absolute(api, `http://sub.test:${upstream.port}${path}`, { token: session, fields });
  return { answer, got: upstream.got.length > before ? upstream.got[before] : null };
}

group('substitute_path', async ({ input, expect }) => {
  const { answer, got } = await substituted(input, input.path);
  if (expect.rejected)
    return got === null && answer.status === 502 && answer.json.error === 'substitution_error';
  if (got === null) return false;
  if (expect.decoded_segment === undefined) return got.target === expect.path;
  const segments = got.target.split('/').slice(1);
  return (
    segments.length === expect.segments && segments.map(decodeURIComponent).includes(expect.decoded_segment)
  );
});

group('substitute_query', async ({ input, expect }) => {
  const { got } = await substituted(input, `/x?${input.query}`);
  if (got === null) return false;
  const query = got.target.slice(got.target.indexOf('?') + 1);
  if (expect.decoded) {
    // Both ways to read a query give the value back.
    const plain = query.split('&').map((pair) => pair.split('=').map(decodeURIComponent));
    const wanted = JSON.stringify(Object.entries(expect.decoded));
    return JSON.stringify([...new URLSearchParams(query)]) === wanted && JSON.stringify(plain) === wanted;
  }
  return query === (input.in.includes('query') ? input.query.replaceAll('__id__', input.value) : input.query);
});

group('substitute_header', async ({ input, expect }) => {
  const { got } = await substituted(input, '/', Object.entries<string>(input.headers));
  return (
    got !== null && Object.entries(expect.headers).every(([name, value]) => got.values(name).join() === value)
  );
});

/** Which service takes a request, and null for none: both are disabled, or denied, so that nothing leaves. */
async function matched(hosts: readonly string[], host: string, port: number): Promise<string | null> {
  await mustSet(
    hosts.map((each) => ({ host: each, auth: { type: 'passthrough' }, enabled: false })),
    'closed',
  );
  const token = await api.session('closed');
  const url = `http://${host}:${port}/`;
  const answer = await absolute(api, url, { token, vault: 'closed' });
  const explained = await api.api<{ service?: string }>('POST', '/v1/explain', { token, body: { url } });
  const found = answer.json.error === 'service_disabled' ? String(answer.json.message).split(' ')[0] : null;
  if (found !== (explained.body.service ?? null))
    throw new Error(`${url}: ${found}, explained as ${explained.body.service}`);
  return found;
}

group('host_pattern', async ({ input, expect }) => {
  return ((await matched([input.pattern], input.host, 443)) !== null) === expect.match;
});

group('service_selection', async ({ input, expect }) => {
  const named = new Map<string, string>();
  for (const { name, host, port } of input.services)
    named.set(port === undefined ? host : `${host}:${port}`, name);
  const found = await matched([...named.keys()], input.host, input.port);
  return (found === null ? null : named.get(found)) === expect.name;
});

group('auth_render', async ({ input, expect }) => {
  const missing = expect.error === 'credential_not_found' ? { MISSING: 'x' } : {};
  await credentials('default', { ...input.credentials, ...missing });
  const set = await setServices([{ host: 'auth.test', auth: input.auth }]);
  if (set.status !== 200) return false;
  if (expect.error) await api.api('DELETE', '/v1/credentials/MISSING?force=true', { vault: 'default' });
  const before = upstream.got.length;
  const answer = await absolute(api, `http://auth.test:${upstream.port}/`, { token: session });
  const got = upstream.got[before];
  if (expect.error) {
    const { error, key } = answer.json;
    return (
      got === undefined && answer.status === expect.status && error === expect.error && key === 'MISSING'
    );
  }
  return (
    got !== undefined &&
    Object.entries(expect.headers).every(([name, value]) => got.values(name).join() === value)
  );
});

group('request_header_forwarding', async ({ input, expect }) => {
  const injected: Record<string, string> = input.injected;
  const auth =
    Object.keys(injected).length > 0 ? { type: 'custom', headers: injected } : { type: 'passthrough' };
  await mustSet([{ host: 'forward.test', auth }]);
  const fields: [string, string][] = input.client_headers;
  const body = fields.some(([name]) => name === 'Content-Length') ? 'abc' : undefined;
  const before = upstream.got.length;
  // Inside a tunnel, where the proxy's own fields are not used up by the proxy.
  const answer = await tunnelled(api, `forward.test:${upstream.port}`, '/', { token: session, fields, body });
  const got = upstream.got[before];
  return (
    answer.status === 200 &&
    (body === undefined || got.body === body) &&
    Object.entries<string[]>(expect.present).every(
      ([name, values]) => got.values(name).join() === values.join(),
    ) &&
    expect.absent.every((name: string) => !got.values(name).join().match(/./) || name === 'Connection') &&
    !got
      .values('Connection')
      .join()
      .match(/close|X-Custom-Hop|Authorization|Content-Length/i)
  );
});

group('response_header_forwarding', async ({ input, expect }, t) => {
  const fields = (input.headers as [string, string][])
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('');
  const trailers = Object.entries(input.trailers ?? {})
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('');
  const framing = /transfer-encoding/i.test(fields) ? '' : 'Transfer-Encoding: chunked\r\n';
  const answering = await startUpstream(t, {
    answer: () => `HTTP/1.1 200 OK\r\n${fields}${framing}\r\n2\r\nok\r\n0\r\n${trailers}\r\n`,
  });
  const answer = await absolute(api, `http://answer.test:${answering.port}/`, { token: session });
  if (answer.status !== 200 || answer.body !== 'ok') return false;
  if (expect.trailers_forwarded) return answer.trailers.join() === 'grpc-status: 0';
  return (
    expect.present.every((name: string) => answer.field(name)) &&
    expect.absent.every((name: string) => !answer.field(name))
  );
});

group('wire_host_header', async ({ input, expect }, t) => {
  const { tls, caFile } = certificateFor(
    t,
    'api.example.com',
    'internal.example',
    'example.com',
    'host',
    'k8s-svc',
    '::1',
  );
  const isTls = input.scheme.toLowerCase() === 'https';
  const target = await startUpstream(t, isTls ? { tls } : {});
  const named = Number(/:(\d+)$/.exec(input.target)?.[1]);
  const preload = new URL('./preload/default-ports.ts', import.meta.url).href;
  const one = await startBroker(t, {
    args: [...wide, '--upstream-ca', caFile],
    nodeOptions: [`--import=${preload}`],
    env: { BROKER_TEST_PORTS: `${named}=${target.port}` },
  });
  const answer = await absolute(one, `${input.scheme}://${input.target}/`, { token: await one.session() });
  one.process.kill('SIGKILL');
  return answer.status === 200 && target.got[0].values('Host').join() === expect.host;
});

group('proxy_authorization', async ({ input, expect }) => {
  // In the place of the made-up tokens stand real ones; what is around them stays, byte for byte.
  const tokens: Record<string, string> = {
    av_sess_abc: session,
    brk_ses_abc: session,
    av_agt_xyz: agent,
    tok: session,
  };
  const real = (text: string) => text.replace(/^[a-z_]+/, (token) => tokens[token] ?? token);
  const [, scheme, rest] = /^(\w+) ?(.*)$/.exec(input.header) ?? [];
  const isBasic = /^[A-Za-z0-9+/]+=*$/.test(rest) && /^basic$/i.test(scheme) && expect.status === undefined;
  const authorization = expect.status
    ? input.header
    : `${scheme} ${isBasic ? btoa(real(atob(rest))) : real(rest)}`;
  const { status } = await connect(api, `forward.test:${upstream.port}`, { authorization });
  // A vault that doesn't exist is one that the token was not made for.
  return status === (expect.status ?? (expect.vault === 'vault:extra' ? 403 : 200));
});

group('control_plane_vault', async ({ input, expect }) => {
  const tokens: Record<string, string | undefined> = {
    'scoped(dev)': await api.session('dev'),
    'agent(grants=[dev])': agent,
    user: undefined,
    bad: 'brk_ses_bad',
  };
  const { status, body } = await api.api<Record<string, unknown>>('GET', '/discover', {
    ...(tokens[input.token] !== undefined && { token: tokens[input.token] }),
    ...(input.x_vault !== null && { vault: input.x_vault }),
  });
  return expect.vault ? body.vault === expect.vault : status === expect.status;
});

group('connect_host_validity', async ({ input, expect }) => {
  const { status, json } = await connect(api, `${input.host}:443`, { token: session });
  if (!expect.valid && status >= 400) return status === 400 && json.error === 'invalid_request';
  return expect.valid === (status === 200);
});

t.test('netguard_ip', async (t) => {
  const servers = new Map<string, { broker: Broker; token: string }>();
  for (const { id, input, expect } of groups.netguard_ip.cases) {
    const args = ['--rate-limit', '0', ...(input.allow_private ? ['--allow-private-ranges'] : [])];
    if (input.allowlist.length > 0) args.push('--network-allow', input.allowlist.join(','));
    const name = args.join(' ');
    if (!servers.has(name)) {
      const one = await startBroker(t, { args });
      servers.set(name, { broker: one, token: await one.session() });
    }
    const { broker: one, token } = servers.get(name) as { broker: Broker; token: string };
    const url = `http://${input.ip.includes(':') ? `[${input.ip}]` : input.ip}:8099/`;
    const { body } = await one.api<Record<string, unknown>>('POST', '/v1/explain', { token, body: { url } });
    t.equal(body.error === 'network_blocked', expect.blocked, `${id}: as it is explained`);
    // What isn't blocked is not asked for: it would be a real one's.
    if (expect.blocked) {
      const { status, json } = await absolute(one, url, { token });
      t.match(
        { status, error: json.error },
        { status: 403, error: 'network_blocked' },
        `${id}: by the proxy`,
      );
    }
    ran.push(id);
  }
  t.equal(servers.size, 4);
});

group('proposal_validate', async ({ input, expect }) => {
  if (input.pending_proposals === undefined)
    return (await propose(input.body, 'dev')).status === expect.status;
  const body = { credentials: [{ action: 'set', key: 'MANY' }] };
  const make = () =>
    api.api<Record<string, unknown>>('POST', '/v1/proposals', { token: agent, vault: 'dev', body });
  for (let i = 0; i < input.pending_proposals; i++) if ((await make()).status !== 201) return false;
  const { status, body: refused } = await make();
  return status === expect.status && refused.error === 'too_many_pending_proposals';
});

group('proposal_merge', async ({ input, expect }) => {
  // Else a service that the last case disabled would stay so.
  await mustSet([]);
  await mustSet(input.existing);
  const body = { services: input.proposed };
  const { body: made } = await api.api<{ id: number }>('POST', '/v1/proposals', { token: session, body });
  const shown = await api.api<{ review: { fingerprint: string } }>('GET', `/v1/proposals/${made.id}`);
  const { status } = await api.api('POST', `/v1/proposals/${made.id}/approve`, {
    body: { confirm: shown.body.review.fingerprint },
  });
  const { body: after } = await api.api<{ services: unknown }>('GET', '/v1/vaults/default/services');
  const sorted = (value: unknown) =>
    JSON.stringify(value, (_, each) =>
      each?.constructor === Object ? Object.fromEntries(Object.entries(each).sort()) : each,
    );
  return status === 200 && sorted(after.services) === sorted(expect.result);
});

group('proxy_env', async ({ input, expect }) => {
  await api.api('POST', '/v1/vaults', { body: { name: 'v' } });
  const print = 'process.stdout.write(JSON.stringify(process.env))';
  const { stdout } = await api.command(
    ['vault', 'run', '--vault', 'v', '--', process.execPath, '-e', print],
    {
      env: { ...input.parent_env, NODE_EXTRA_CA_CERTS: '' },
    },
  );
  const env: Record<string, string> = JSON.parse(stdout);
  const url = (shape: string) =>
    shape.replace('t:', `${env.BROKER_SESSION_TOKEN}:`).replace(':14322', `:${api.proxyPort}`);
  if (expect.child_has_exactly_one) {
    const name = expect.child_has_exactly_one;
    return env[name].startsWith('https://brk_ses_') && !Object.values(env).includes(input.parent_env[name]);
  }
  const { ca_vars = [], HTTPS_PROXY, HTTP_PROXY: _, ...plain } = expect;
  return (
    env.HTTPS_PROXY === url(HTTPS_PROXY) &&
    env.HTTP_PROXY === env.HTTPS_PROXY &&
    Object.entries(plain).every(([name, value]) => env[name] === value) &&
    ca_vars.every((name: string) => env[name] !== '' && env[name] === env[ca_vars[0]])
  );
});

t.test('all of them', async (t) => {
  const ids = Object.values(groups).flatMap(({ cases }) => cases.map(({ id }) => id));
  t.same([...ran].sort(), [...ids].sort(), 'each was run once');
  t.same(
    Object.keys(dropped).filter((id) => !ids.includes(id)),
    [],
    'only what there is was dropped',
  );
  t.equal(ids.length, 231);
  t.comment(`${ids.length} cases, ${Object.keys(dropped).length} of them the other way`);
});
