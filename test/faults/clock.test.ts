/** The clock is set two days back and forth while the broker runs: certificates stay valid by it, sessions expire by it. */
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { renameSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import tls from 'node:tls';
import t from 'tap';
import { type Broker, startBroker, temporary, until } from '../support/broker.ts';
import { reaching, startUpstream } from '../support/tls-upstream.ts';
import { rootOf } from '../support/tunnel.ts';

const day = 86_400_000;

/**
 * TLS to a certificate of the broker's root that a client takes whose clock is `off`. OpenSSL looks at the machine's
 * clock, which is not set here: so the times are looked at by hand, and the signature.
 */
async function secured(socket: net.Socket, servername: string, root: X509Certificate, off: number) {
  const secure = tls.connect({ socket, servername, rejectUnauthorized: false });
  await once(secure, 'secureConnect');
  const leaf = secure.getPeerX509Certificate();
  const now = Date.now() + off;
  if (!leaf?.verify(root.publicKey) || leaf.checkHost(servername) === undefined)
    throw new Error(`not a certificate of ours for ${servername}`);
  for (const { validFrom, validTo } of [leaf, root])
    if (now < Date.parse(validFrom) || now >= Date.parse(validTo))
      throw new Error(`${servername} is valid from ${validFrom} to ${validTo}`);
  return secure;
}

async function tunnelTo(broker: Broker, authority: string, token: string): Promise<net.Socket> {
  const socket = net.connect(broker.proxyPort, '127.0.0.1');
  const basic = Buffer.from(`${token}:default`).toString('base64');
  socket.write(
    `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\nProxy-Authorization: Basic ${basic}\r\n\r\n`,
  );
  const [answer] = await once(socket, 'data');
  const status = String(answer).split(' ')[1];
  if (status !== '200') throw new Error(`CONNECT: ${status}`);
  return socket;
}

t.test('two days back, forth, and back again', async (t) => {
  const upstream = await startUpstream(t);
  const file = join(temporary(t), 'clock');
  /** Whole at any moment. */
  const set = (off: number) => {
    writeFileSync(`${file}.new`, String(off));
    renameSync(`${file}.new`, file);
  };
  set(0);
  const way = reaching(t);
  const broker = await startBroker(t, {
    args: way.args,
    preload: [...way.preload, 'clock'],
    env: { BROKER_TEST_CLOCK: file },
  });
  const root = new X509Certificate(await rootOf(broker));
  const sessionFor = async (ttl_seconds: number) => {
    const made = await broker.api<{ token: string; expires_at: string }>('POST', '/v1/sessions', {
      body: { vault: 'default', ttl_seconds },
    });
    t.equal(made.status, 201);
    return made.body;
  };
  const long = (await sessionFor(6 * 86_400)).token;
  const short = (await sessionFor(3600)).token;
  let off = 0;
  const ask = async (token: string, path: string, host = 'api.test') => {
    const authority = `${host}:${upstream.port}`;
    const secure = await secured(await tunnelTo(broker, authority, token), host, root, off);
    secure.write(`GET ${path} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
    const [answer] = await once(secure, 'data');
    secure.destroy();
    return String(answer).split(' ')[1];
  };

  for (const [round, days] of [0, -2, 0, 2, -2, 0].entries()) {
    off = days * day;
    set(off);
    const about = `round ${round}, ${days} days off`;
    await until(async () => {
      const { expires_at } = await sessionFor(60);
      return Math.abs(Date.parse(expires_at) - (Date.now() + off + 60_000)) < 30_000;
    }, `the clock of ${about}`);
    // Lanes look at the file as often as the main thread does; a second is for their sweep.
    await new Promise((resolve) => setTimeout(resolve, 1200));
    t.equal((await fetch(`${broker.address}/health`)).status, 200, about);
    for (let i = 0; i < 6; i++) {
      const proxy = net.connect(broker.proxyPort, '127.0.0.1');
      (await secured(proxy, 'localhost', root, off)).destroy();
      t.equal(await ask(long, `/${round}/${i}`), '200', about);
      t.equal(await ask(long, `/${round}/${i}`, `new${round}.test`), '200', `${about}: a new name`);
    }
    if (round < 3) t.equal(await ask(short, `/${round}/short`), '200', about);
    else if (off > 0) await t.rejects(ask(short, `/${round}/short`), /CONNECT: 407/, about);
    t.equal(await ask((await sessionFor(60)).token, `/${round}/fresh`), '200', `${about}: a new session`);
  }
  t.notMatch(broker.printed().stderr, /lane ended/);
  const { code, stdout } = await broker.command(['audit', 'verify', '--data-dir', broker.directory]);
  t.equal(code, 0, stdout);
});
