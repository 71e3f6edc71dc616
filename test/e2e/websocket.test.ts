import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import {
  type Broker,
  collect,
  launcher,
  type Ran,
  run,
  start,
  startBroker,
  temporary,
  until,
} from '../support/broker.ts';
import { createAuthority } from '../support/upstream.ts';

/*
 * WebSocket with one library at both ends, Python's websockets, neither of which knows of the broker between them: the
 * upgrade needs a token that only the broker has.
 */

const host = 'ws.test';
const token = `ws-${randomBytes(12).toString('hex')}`;
const work = temporary(t);
const at = (name: string) => fileURLToPath(new URL(`clients/${name}`, import.meta.url));
const authority = createAuthority('websocket');
const certificate = authority.issue([host, '127.0.0.1']);
const file = (name: string, content: string) => {
  writeFileSync(join(work, name), content);
  return join(work, name);
};
const caFile = file('ca.pem', authority.certPem);

let broker: Broker;
let port: number;
let printed: () => Ran;

t.before(async () => {
  const files = [file('cert.pem', certificate.cert), file('key.pem', certificate.key)];
  const server = start('python3', [at('ws_server.py'), ...files]);
  t.teardown(() => server.kill('SIGKILL'));
  server.stdin?.write(`${token}\n`);
  ({ printed } = collect(server));
  broker = await startBroker(t, {
    args: ['--upstream-ca', caFile, '--allow-private-ranges'],
    preload: ['names'],
  });
  await until(() => {
    const { code, stderr, stdout } = printed();
    if (code !== null) throw new Error(`the server ended with ${code}: ${stderr}`);
    return stdout.includes('\n');
  }, 'the server to listen');
  port = Number(printed().stdout.split('\n')[0]);
  await broker.api('POST', '/v1/credentials', {
    body: { credentials: { TOKEN: token } },
    vault: 'default',
  });
  const services = [{ host, auth: { type: 'bearer', token: 'TOKEN' } }];
  const set = await broker.api('PUT', '/v1/vaults/default/services', { body: { services } });
  t.equal(set.status, 200, JSON.stringify(set.body));
});

/** What the client says of each case, run by `vault run` one after the other. */
async function cases(names: readonly string[], flags: readonly string[] = []): Promise<Ran> {
  const url = `wss://${host}:${port}`;
  return run(launcher, ['vault', 'run', ...flags, '--', 'python3', at('ws_client.py'), url, ...names], {
    seconds: 90,
    env: { BROKER_ADDR: broker.address, BROKER_DATA_DIR: broker.directory },
  });
}

const expected = {
  texts: [0, 1, 125, 126, 127, 65535, 65536, 1024 * 1024],
  binaries: '16 MiB, as they were sent',
  pipelined: true,
  fragments: { whole: true, pieces: 11, pongs: 13 },
  pings: 'pong after True',
  protocol: { protocol: 'chat', extensions: ['permessage-deflate'] },
  leave: [4001, 'going home'],
  left: [
    [1000, ''],
    [1001, 'gone'],
    [1011, 'broken'],
    [4999, 'own'],
  ],
  broken: 1006,
  slow: 'all of 64 MiB',
  invalid: 1007,
  refused: [403, 'not for you\n'],
};

t.test('messages, fragments, pings and closes, both ways', async (t) => {
  const ran = await cases(Object.keys(expected));
  t.equal(ran.code, 0, ran.stderr);
  const lines = ran.stdout.trim().split('\n');
  t.strictSame(Object.assign({}, ...lines.map((line) => JSON.parse(line))), expected);
  t.notOk((ran.stdout + ran.stderr).includes(token), 'the client never saw the token');

  const seen = () =>
    printed()
      .stdout.trim()
      .split('\n')
      .slice(1)
      .map((line) => JSON.parse(line));
  const upgraded = 14;
  await until(() => seen().length === upgraded, 'the server to see the end of each connection');
  t.same(
    seen().filter(({ proxy }) => proxy.length > 0),
    [],
    'nothing of the proxy went on',
  );
  const codes = Object.fromEntries(seen().map(({ path, code, reason }) => [path, [code, reason]]));
  t.match(codes, { '/echo/leave': [4001, 'going home'], '/leave/1011/broken': [1011, 'broken'] });

  const records = async () => (await broker.audit()).filter(({ host: to }) => to === `${host}:${port}`);
  await until(async () => (await records()).length === upgraded + 1, 'the records');
  const flood = (await records()).find(({ path }) => path === '/flood');
  t.match(flood, { status: 101, error: null, keys: ['TOKEN'] });
  t.ok(Number(flood?.bytes_out) > 64 * 1024 * 1024, 'with what went through');
});

t.test('the plain proxy, too', async (t) => {
  const ran = await cases(['pings', 'refused'], ['--proxy-scheme', 'http']);
  t.equal(ran.stdout, '{"pings": "pong after True"}\n{"refused": [403, "not for you\\n"]}\n', ran.stderr);
});

t.test('without the broker there is no upgrade', async (t) => {
  const ran = await run('python3', [at('ws_client.py'), `wss://127.0.0.1:${port}`, 'refused'], {
    seconds: 60,
    env: { SSL_CERT_FILE: caFile, no_proxy: '*' },
  });
  t.equal(ran.stdout, '{"refused": [401, "no token\\n"]}\n', ran.stderr);
});
