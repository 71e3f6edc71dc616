/** Every error that there is, provoked from outside, in the one shape that all have. */
import { renameSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type ProblemCode, problems } from '../../src/actors/vault/problem.ts';
import { type Broker, startBroker } from '../support/broker.ts';
import { type Answer, nextAnswer, wireOf } from '../support/wire.ts';
import { type Answered, send } from './send.ts';
import { absolute, certificateFor, connect, startUpstream, tunnelled, type Upstream } from './through.ts';

let broker: Broker;
let upstream: Upstream;
let session: string;
const seen = new Set<string>();

/** What no request from outside brings about on a sound machine, and where it is shown. */
const elsewhere: Readonly<Record<string, string>> = {
  internal: 'what nobody foresaw',
  store_unavailable: 'a store that fails: test/vault/vault-durability.test.ts',
};

t.before(async () => {
  upstream = await startUpstream(t, {
    answer: ({ target }) => {
      if (target === '/broken') return 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx';
      return target === '/never' ? '' : 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
    },
  });
  const args = [
    '--allow-private-ranges',
    '--rate-limit',
    '0',
    '--quota-agent-keys',
    '1',
    '--head-timeout',
    '1',
    '--response-timeout',
    '1',
  ];
  broker = await startBroker(t, { args, preload: ['names'] });
  const put = (path: string, body: unknown) => broker.api('PUT', path, { body });
  for (const name of ['strict', 'slow']) await broker.api('POST', '/v1/vaults', { body: { name } });
  await broker.api('PATCH', '/v1/vaults/strict', {
    body: { unmatched_host_policy: 'deny', require_tls: true },
  });
  await broker.api('PATCH', '/v1/vaults/slow', { body: { rate_limit: { rps: 1, burst: 1 } } });
  for (const vault of ['default', 'strict'])
    await broker.api('POST', '/v1/credentials', {
      vault,
      body: { credentials: { K: 'v', NL: 'a\nb', GONE: 'x' } },
    });
  const auth = (token: string) => ({ type: 'bearer', token });
  await put('/v1/vaults/default/services', {
    services: [
      { host: 'api.test', auth: auth('K') },
      { host: 'off.test', auth: auth('K'), enabled: false },
      { host: 'nl.test', auth: auth('NL') },
      { host: 'gone.test', auth: auth('GONE') },
    ],
  });
  await put('/v1/vaults/strict/services', { services: [{ host: 'api.test', auth: auth('K') }] });
  await broker.api('DELETE', '/v1/credentials/GONE?force=true', { vault: 'default' });
  session = await broker.session();
});

/** The one shape: code, what to do, request id; the status of the table; on the proxy the header, too. */
function shows(t: Test, code: ProblemCode, { status, json, headers }: Shown, extra: object = {}): void {
  seen.add(code);
  t.equal(status, problems[code].status, `${code}: ${status}`);
  t.match(json, { error: code, message: /^.{10,}[.…]$/s, request_id: /^\S+$/, ...extra }, code);
  const tells = problems[code].status === 429 || code === 'overloaded';
  if (tells) t.match(headers('retry-after'), /^[1-9]\d*$/, `${code}: Retry-After`);
  t.equal(headers('content-type'), 'application/json');
}

interface Shown {
  readonly status: number;
  readonly json: object;
  headers(name: string): string | undefined;
}

const ofApi = ({ status, json, headers }: Answered): Shown => ({
  status,
  json,
  headers: (name) => String(headers[name]),
});

function ofProxy(t: Test, answer: Answer): Shown {
  t.equal(answer.field('x-broker-error'), answer.json.error, 'X-Broker-Error tells whose answer it is');
  return { status: answer.status, json: answer.json, headers: answer.field };
}

t.test('on the API', async (t) => {
  const port = Number(broker.address.split(':')[2]);
  const own = (method: string, path: string, body?: unknown, vault?: string) =>
    broker.api(method, path, { body, vault }).then(() => {});
  const ask = async (
    code: ProblemCode,
    method: string,
    path: string,
    asked: Parameters<typeof send>[3],
    extra?: object,
  ) => shows(t, code, ofApi(await send(port, method, path, asked)), extra);
  const token = (await ownerToken()).trim();
  const slot = { credentials: [{ action: 'set', key: 'S' }] };

  await ask('invalid_request', 'POST', '/v1/vaults', { token, body: { name: 7 } }, { field: 'name' });
  await ask('invalid_json', 'POST', '/v1/vaults', { token, body: '{' });
  const unresolved = { services: [{ host: 'x.test', auth: { type: 'bearer', token: 'NOWHERE' } }] };
  await ask(
    'unresolved_credential',
    'PUT',
    '/v1/vaults/default/services',
    { token, body: unresolved },
    { key: 'NOWHERE' },
  );
  await ask('unauthorized', 'GET', '/discover', {});
  await ask('forbidden', 'GET', '/v1/vaults', { token: session });
  await ask('not_found', 'GET', '/v1/vaults/nowhere', { token });
  await ask('method_not_allowed', 'PUT', '/discover', {}, { allow: ['GET', 'HEAD'] });
  await ask('conflict', 'POST', '/v1/vaults', { token, body: { name: 'strict' } });
  await ask(
    'credential_exists',
    'POST',
    '/v1/credentials',
    { token: session, body: { credentials: { K: 'w' } } },
    { key: 'K' },
  );
  await ask(
    'quota_exceeded',
    'POST',
    '/v1/credentials',
    { token: session, body: { credentials: { MINE: 'a', MINE_TOO: 'b' } } },
    { quota: 'agent_keys', limit: 1 },
  );
  await ask(
    'credential_in_use',
    'DELETE',
    '/v1/credentials/K',
    { token, vault: 'default' },
    { key: 'K', services: ['api.test', 'off.test'] },
  );
  const made = await broker.api<{ id: number; approval_url: string }>('POST', '/v1/proposals', {
    token: session,
    body: slot,
  });
  await own('POST', `/v1/proposals/${made.body.id}/reject`);
  const wider = await broker.api<{ id: number }>('POST', '/v1/proposals', {
    token: session,
    body: { services: [{ action: 'set', host: 'wider.test', auth: { type: 'bearer', token: 'K' } }] },
  });
  await ask(
    'confirmation_required',
    'POST',
    `/v1/proposals/${wider.body.id}/approve`,
    { token, body: {} },
    { review: { increases: [{ key: 'K', hosts: ['wider.test'] }] } },
  );
  await own('POST', `/v1/proposals/${wider.body.id}/reject`);
  await ask(
    'already_decided',
    'POST',
    `/v1/proposals/${made.body.id}/approve`,
    { token, body: {} },
    { status: 'rejected' },
  );
  const invite = await broker.api<{ invite_url: string }>('POST', '/v1/agents/invites', {
    body: { vaults: ['default'] },
  });
  const { pathname } = new URL(invite.body.invite_url);
  await send(port, 'POST', pathname);
  await ask('gone', 'POST', pathname, {});
  await ask('payload_too_large', 'POST', '/v1/vaults', { token, body: 'x'.repeat(1024 * 1024 + 1) });
  await ask('unsupported_media_type', 'POST', '/v1/vaults', {
    token,
    body: 'x',
    headers: { 'content-type': 'text/plain' },
  });
  await ask('misdirected_request', 'GET', '/health', { headers: { host: 'evil.example' } });
  for (let i = 0; i < 20; i++) await broker.api('POST', '/v1/proposals', { token: session, body: slot });
  await ask('too_many_pending_proposals', 'POST', '/v1/proposals', { token: session, body: slot });
  for (let i = 0; i < 50; i++) await send(port, 'GET', '/discover', { token: `wrong${i}` });
  await ask('rate_limited', 'GET', '/discover', { token: 'wrong' });
  t.equal(
    (await send(port, 'GET', '/discover', { token: session })).status,
    200,
    'what carries a valid token is not refused for it',
  );
});

async function ownerToken(): Promise<string> {
  const { readFileSync } = await import('node:fs');
  return readFileSync(join(broker.directory, 'owner.token'), 'utf8');
}

t.test('on the proxy', async (t) => {
  const at = (host: string, path = '/') => `http://${host}:${upstream.port}${path}`;
  const as = { token: session };
  const show = (code: ProblemCode, answer: Answer, extra?: object) =>
    shows(t, code, ofProxy(t, answer), extra);
  const sent = upstream.got.length;

  show('invalid_request', await connect(broker, 'a b:443', as));
  show('proxy_auth_required', await connect(broker, 'api.test:443', {}));
  show('forbidden', await connect(broker, 'api.test:443', { ...as, vault: 'strict' }));
  const strict = await broker.session('strict');
  const denied = await tunnelled(broker, 'new.test:443', '/', { token: strict, vault: 'strict' });
  show('forbidden', denied, {
    proposal_hint: {
      host: 'new.test',
      port: 443,
      endpoint: `POST ${broker.address}/v1/proposals`,
      supported_auth_types: ['bearer', 'basic', 'api-key', 'custom', 'passthrough'],
    },
    help: new RegExp(`${broker.address}/v1/skill\\.md`),
  });
  show('tls_required', await absolute(broker, at('api.test'), { token: strict, vault: 'strict' }));
  show('service_disabled', await absolute(broker, at('off.test'), as));
  show('network_blocked', await absolute(broker, 'http://169.254.169.254/', as));
  show('method_not_allowed', await absolute(broker, at('api.test'), { ...as, method: 'TRACE' }));
  show(
    'expectation_failed',
    await absolute(broker, at('api.test'), { ...as, fields: [['Expect', 'miracles']] }),
  );
  show(
    'misdirected_request',
    await inTunnel(`api.test:${upstream.port}`, 'GET / HTTP/1.1\r\nHost: other.test\r\n\r\n'),
  );
  show(
    'headers_too_large',
    await absolute(broker, at('api.test'), { ...as, fields: [['X-Long', 'x'.repeat(70_000)]] }),
  );
  show(
    'http_version',
    await inTunnel(`api.test:${upstream.port}`, 'GET / HTTP/2.0\r\nHost: api.test\r\n\r\n'),
  );
  show('credential_not_found', await absolute(broker, at('gone.test'), as), { key: 'GONE' });
  show('substitution_error', await absolute(broker, at('nl.test'), as));
  const slow = await broker.session('slow');
  let limited = await absolute(broker, at('x.test'), { token: slow, vault: 'slow' });
  for (let i = 0; i < 5 && limited.status !== 429; i++)
    limited = await absolute(broker, at('x.test'), { token: slow, vault: 'slow' });
  show('rate_limited', limited);
  show('request_timeout', await half(`GET ${at('api.test')} HTTP/1.1\r\nHost: x\r\n`));
  t.equal(upstream.got.filter(({ target }) => target !== '/').length, 0);
  t.ok(upstream.got.length - sent <= 2, 'nothing was sent for what was refused');

  show('upstream_protocol', await absolute(broker, at('api.test', '/broken'), as));
  show('upstream_timeout', await absolute(broker, at('api.test', '/never'), as));
  show('upstream_unreachable', await absolute(broker, `http://api.test:${await closedPort()}/`, as));
  const foreign = await startUpstream(t, { tls: certificateFor(t, 'api.test').tls });
  show('upstream_tls', await absolute(broker, `https://api.test:${foreign.port}/`, as));

  // A file in the place of the folder: nothing can be written below it.
  const audit = join(broker.directory, 'audit');
  renameSync(audit, `${audit}.away`);
  writeFileSync(audit, '');
  let answer = await absolute(broker, at('api.test'), as);
  for (let tries = 0; tries < 300 && answer.status === 200; tries++)
    answer = await absolute(broker, at('api.test'), as);
  show('audit_unavailable', answer);
});

/** What bytes inside a tunnel are answered. */
async function inTunnel(authority: string, bytes: string): Promise<Answer> {
  const wire = wireOf(net.connect(broker.proxyPort, '127.0.0.1'));
  const basic = btoa(`${session}:default`);
  wire.send(
    `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\nProxy-Authorization: Basic ${basic}\r\n\r\n`,
  );
  await wire.take('\r\n\r\n');
  wire.send(bytes);
  const answer = await nextAnswer(wire);
  wire.close();
  return answer;
}

/** What half of a head is answered in the end. */
async function half(bytes: string): Promise<Answer> {
  const wire = wireOf(net.connect(broker.proxyPort, '127.0.0.1'));
  wire.send(bytes);
  const answer = await nextAnswer(wire);
  wire.close();
  return answer;
}

/** A port that nothing listens on. */
async function closedPort(): Promise<number> {
  const server = net.createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as net.AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

t.test('while it stops', async (t) => {
  const one = await startBroker(t, { args: ['--allow-private-ranges'], preload: ['names'] });
  const never = await startUpstream(t, { answer: () => '' });
  const token = await one.session();
  const waiting = absolute(one, `http://api.test:${never.port}/`, { token }).catch(() => {});
  while (never.got.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  one.process.kill('SIGTERM');
  const port = Number(one.address.split(':')[2]);
  let answer = await send(port, 'GET', '/ready');
  for (let tries = 0; tries < 100 && answer.status === 200; tries++)
    answer = await send(port, 'GET', '/ready');
  shows(t, 'overloaded', ofApi(answer));
  one.process.kill('SIGTERM');
  await waiting;
});

t.test('these are all', async (t) => {
  t.same(
    Object.keys(problems).filter((code) => !seen.has(code) && !(code in elsewhere)),
    [],
  );
  t.same(
    Object.keys(elsewhere).filter((code) => seen.has(code)),
    [],
  );
});
