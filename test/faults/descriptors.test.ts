/** Whoever opens connections and says nothing takes neither the API nor the proxy away from others. */
import { readdirSync } from 'node:fs';
import net from 'node:net';
import t from 'tap';
import { startBroker, until } from '../support/broker.ts';

const silent = (port: number, count: number): net.Socket[] =>
  Array.from({ length: count }, () => {
    const socket = net.connect({ port, host: '127.0.0.1' });
    return socket.on('error', () => {});
  });

t.test('a thousand silent connections to the API, with 400 descriptors', async (t) => {
  const broker = await startBroker(t, { openFiles: 400 });
  const port = Number(new URL(broker.address).port);
  const open = () => readdirSync(`/proc/${broker.process.pid}/fd`).length;
  const before = open();
  const sockets = silent(port, 1000);
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  await until(
    () => sockets.filter(({ destroyed, connecting }) => destroyed || !connecting).length === 1000,
    'all',
  );
  for (let i = 0; i < 20; i++) t.equal((await fetch(`${broker.address}/health`)).status, 200);
  t.ok(open() - before <= 60, `${open() - before} of them are open`);
  const session = await broker.session();
  const wire = net.connect({ port: broker.proxyPort, host: '127.0.0.1' });
  const auth = Buffer.from(`${session}:default`).toString('base64');
  wire.write(
    `CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\nProxy-Authorization: Basic ${auth}\r\n\r\n`,
  );
  const answer = await new Promise<string>((resolve) => wire.once('data', (data) => resolve(String(data))));
  t.match(answer, /^HTTP\/1\.1 200/);
  wire.destroy();
});

t.test(
  'connections that come, ask, send halves and go: none is forgotten, none is counted for ever',
  async (t) => {
    const broker = await startBroker(t, { openFiles: 400 });
    const port = Number(new URL(broker.address).port);
    const texts = [
      '',
      'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n',
      'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n',
      'POST /v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40\r\n\r\nhalf',
      'POST /v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n',
      'POST /v1/login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n',
      'POST /v1/login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
      'POST /v1/login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nno chunk',
      'HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
      'nonsense\r\n\r\n',
    ];
    for (let round = 0; round < 10; round++) {
      const sockets = silent(port, 100);
      sockets.forEach((socket, i) => {
        socket.resume().write(texts[(i + round) % texts.length]);
        setTimeout(() => (i % 3 === 0 ? socket.resetAndDestroy() : socket.destroy()), 10 * (i % 10));
      });
      await until(() => sockets.every(({ destroyed }) => destroyed), 'all are gone');
      t.equal((await fetch(`${broker.address}/health`)).status, 200, `round ${round}`);
    }
    // Had any of them been counted for ever, a thousand would have used up what one network has.
    const held = silent(port, 30);
    await until(() => held.every(({ connecting }) => !connecting), 'they are open');
    t.equal((await fetch(`${broker.address}/health`)).status, 200);
    t.notOk(
      held.some(({ destroyed }) => destroyed),
      'there is room for them',
    );
    for (const socket of held) socket.destroy();
  },
);
