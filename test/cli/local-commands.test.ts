/** How commands reach the broker: nobody but the broker gets a token, whoever holds its port. */
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { ownsOf } from '../../bin/server/addresses.ts';
import { hashToken, mintToken } from '../../src/actors/vault/token.ts';
import { proofOf, proves } from '../../src/actors/vault/token-proof.ts';
import { collect, launcher, run, start, startBroker, temporary, until } from '../support/broker.ts';
import { usualSettings } from '../support/compose.ts';

/** Listens where a broker should, keeps what it is sent, and does with it what `answer` says. */
async function impostor(
  t: Parameters<typeof temporary>[0],
  port: number,
  answer: (socket: net.Socket) => void,
) {
  let heard = '';
  const server = net.createServer((socket) => {
    socket.on('data', (chunk) => {
      heard += chunk.toString('latin1');
    });
    socket.on('error', () => {});
    answer(socket);
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  return { port: (server.address() as net.AddressInfo).port, heard: () => heard };
}

/** Says yes to everything. */
function agree(socket: net.Socket): void {
  const body = JSON.stringify({ status: 'ok', proof: 'a'.repeat(64), url: 'http://evil.test/' });
  const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
  socket.on('data', () => socket.write(head + body));
}

t.test('the socket: private, there while the broker runs, also below a long path', async (t) => {
  const directory = join(temporary(t), 'x'.repeat(90), 'y'.repeat(90));
  mkdirSync(join(directory, '..'), { recursive: true });
  const broker = await startBroker(t, { directory });
  const socket = join(directory, 'broker.sock');
  t.equal(statSync(socket).mode & 0o077, 0, 'nobody else may open it');
  t.equal(statSync(directory).mode & 0o777, 0o700);

  // Whatever goes over TCP would be seen: only the socket's own answers need no port.
  const listed = await broker.command(['vault', 'list', '--json']);
  t.match(listed, { code: 0, stdout: /"default"/ });
  broker.process.kill('SIGTERM');
  await broker.ended;
  t.notOk(existsSync(socket), 'it is gone with the broker');
});

t.test('who holds the port of a broker that died gets no token and no value', async (t) => {
  const broker = await startBroker(t);
  const owner = readFileSync(join(broker.directory, 'owner.token'), 'utf8').trim();
  const port = Number(new URL(broker.address).port);
  broker.process.kill('SIGKILL');
  await broker.ended;
  const other = await impostor(t, port, agree);
  for (const args of [
    ['vault', 'list'],
    ['login'],
    ['vault', 'credential', 'set', 'A_KEY', '--stdin'],
    ['backup', join(temporary(t), 'b')],
  ]) {
    const ran = await broker.command(args, { stdin: 'the-secret-value' });
    t.match(ran, { code: 1, stderr: /prove/ }, args.join(' '));
  }
  t.match(other.heard(), /POST \/v1\/prove/, 'it was asked');
  t.notMatch(other.heard(), owner, 'the token was not sent');
  t.notMatch(other.heard(), /the-secret-value/, 'nor was the value');
});

t.test('who passes the question on to the real broker gets nothing either', async (t) => {
  const broker = await startBroker(t);
  const real = Number(new URL(broker.address).port);
  const owner = readFileSync(join(broker.directory, 'owner.token'), 'utf8').trim();
  const relay = await impostor(t, 0, (socket) => {
    const upstream = net.connect(real, '127.0.0.1');
    upstream.on('error', () => socket.destroy());
    socket.pipe(upstream).pipe(socket);
  });
  const env = { BROKER_OPERATOR_TOKEN: owner, BROKER_DATA_DIR: temporary(t) };
  const relayed = await run(launcher, ['vault', 'list', '--address', `http://127.0.0.1:${relay.port}`], {
    env,
  });
  t.match(relayed, { code: 1, stderr: /no token was sent/ });
  t.match(relay.heard(), /POST \/v1\/prove/);
  t.notMatch(relay.heard(), owner);

  for (const host of ['127.0.0.1', 'localhost']) {
    const direct = await run(launcher, ['vault', 'list', '--address', `http://${host}:${real}`], { env });
    t.match(direct, { code: 0, stdout: /default/ }, `the broker itself, over TCP at ${host}`);
  }
  const foreign = { ...env, BROKER_OPERATOR_TOKEN: mintToken('operator').token.reveal() };
  t.match(await run(launcher, ['vault', 'list', '--address', broker.address], { env: foreign }), {
    code: 1,
    stderr: /doesn't know the token/,
  });
});

t.test('a proof is of its token, nonce, host, port and address', async (t) => {
  const hash = hashToken('brk_opr_x');
  const question = {
    token: hash.slice(0, 16),
    nonce: 'ab'.repeat(32),
    host: 'h',
    port: 1,
    address: '127.0.0.1',
  };
  const proof = proofOf(hash, question);
  t.ok(proves(hash, question, proof));
  for (const other of [{ nonce: 'ac'.repeat(32) }, { host: 'i' }, { port: 2 }, { address: '127.0.0.2' }]) {
    t.notOk(proves(hash, { ...question, ...other }, proof), JSON.stringify(other));
  }
  t.notOk(proves(hashToken('brk_opr_y'), question, proof));
  for (const answer of [undefined, null, '', 'a', proof.toUpperCase(), `${proof}0`]) {
    t.notOk(proves(hash, question, answer), String(answer));
  }
});

t.test('which connections end at this server', async (t) => {
  type Case = [
    host: string,
    publicUrl: string | null,
    way: [host: string, port: number, address: string],
    owned: boolean,
  ];
  const cases: Case[] = [
    ['127.0.0.1', null, ['127.0.0.1', 9, '127.0.0.1'], true],
    ['127.0.0.1', null, ['localhost', 9, '127.0.0.1'], true],
    ['127.0.0.1', null, ['localhost', 9, '::1'], false],
    ['127.0.0.1', null, ['127.0.0.1', 8, '127.0.0.1'], false],
    ['::1', null, ['127.0.0.1', 9, '127.0.0.1'], false],
    ['0.0.0.0', null, ['localhost', 9, '127.0.0.1'], true],
    ['0.0.0.0', null, ['localhost', 9, '::1'], false],
    ['127.0.0.1', 'http://localhost:9', ['localhost', 9, '::1'], false],
    ['0.0.0.0', 'http://localhost:9', ['localhost', 9, '::1'], false],
    ['127.0.0.1', 'http://127.0.0.1:8', ['127.0.0.1', 8, '127.0.0.1'], false],
    ['0.0.0.0', 'http://broker.example:8', ['broker.example', 8, '192.0.2.1'], true],
    ['0.0.0.0', 'http://broker.example:8', ['other.example', 8, '192.0.2.1'], false],
  ];
  for (const [host, publicUrl, [name, port, address], owned] of cases) {
    const owns = ownsOf({ ...usualSettings(), host, 'public-url': publicUrl }, host, 9);
    t.equal(owns({ host: name, port, address }), owned, `${host} ${publicUrl} ${name}:${port} ${address}`);
  }
});

t.test('the launcher: no variable loads code into the server, and no core file is written', async (t) => {
  const folder = temporary(t);
  const hook = join(folder, 'hook.mjs');
  const mark = join(folder, 'loaded');
  writeFileSync(hook, `import { writeFileSync } from 'node:fs'; writeFileSync(${JSON.stringify(mark)}, '');`);
  const keys = join(folder, 'keys.log');
  const child = start(
    launcher,
    ['server', '--data-dir', join(folder, 'data'), '--port', '0', '--proxy-port', '0'],
    {
      env: {
        NODE_OPTIONS: `--import=${hook}`,
        SSLKEYLOGFILE: keys,
        NODE_EXTRA_CA_CERTS: hook,
        NODE_DEBUG: 'net',
      },
    },
  );
  t.teardown(() => child.kill('SIGKILL'));
  const { printed, ended } = collect(child);
  await until(() => /broker is ready/.test(printed().stdout), 'the broker is ready');
  t.notOk(existsSync(mark), 'NODE_OPTIONS is not followed');
  t.notMatch(printed().stderr, /^NET |Warning/m, 'nor NODE_DEBUG, nor NODE_EXTRA_CA_CERTS');
  t.match(readFileSync(`/proc/${child.pid}/limits`, 'utf8'), /^Max core file size +0 /m);
  const environment = readFileSync(`/proc/${child.pid}/environ`, 'latin1');
  t.notMatch(environment, /NODE_OPTIONS|SSLKEYLOGFILE/);
  child.kill('SIGTERM');
  t.match(await ended, { code: 0 });
});
