/** The bound on connections to the API holds, and nothing that clients do with their requests breaks it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { readBody } from '../../src/http/incoming.ts';
import { listen } from '../../src/http/server.ts';
import { eventually } from '../support/wire.ts';

const most = 40;

t.test('a body with the next request behind it, broken connections, silent ones: all serve on', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'broker-connections-'));
  const server = listen({
    host: '127.0.0.1',
    port: 0,
    tls: null,
    socketPath: join(directory, 'api.sock'),
    maxConnections: most,
    async answer(incoming) {
      if (incoming.path === '/read') await readBody(incoming, 100);
      return { status: 200, headers: {}, body: 'answered' };
    },
    onError: (error) => t.fail(`${error}`),
  });
  t.teardown(() => {
    server.stopListening();
    server.close();
    rmSync(directory, { recursive: true });
  });
  const get = 'GET /health HTTP/1.1\r\nHost: a\r\n\r\n';
  const open = async () => {
    const socket: Socket = connect(server.port, '127.0.0.1');
    socket.on('error', () => {}).on('data', () => {});
    await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
    return socket;
  };
  const answered = async () => {
    const socket = await open();
    const text = await new Promise<string>((resolve) => {
      socket.once('data', (data) => resolve(`${data}`)).once('close', () => resolve(''));
      socket.write(get);
    });
    socket.destroy();
    return text.endsWith('answered');
  };
  const heads = ['Content-Length: 2\r\n\r\n', 'Transfer-Encoding: chunked\r\n\r\n'];
  const bodies = ['{}', '2\r\n{}\r\n0\r\n\r\n'];
  for (let round = 0; round < 12; round++) {
    const kind = round % 3 === 2 ? 1 : 0;
    const path = round % 2 ? '/read' : '/refuse';
    await Promise.all(
      Array.from({ length: 15 }, async (_, i) => {
        const socket = await open();
        socket.write(`POST ${path} HTTP/1.1\r\nHost: a\r\n${heads[kind]}`);
        await sleep(i % 3);
        socket.write(bodies[kind] + get);
        await sleep(i % 2 ? 20 : 0);
        socket.resetAndDestroy();
      }),
    );
    const silent = await Promise.all(Array.from({ length: most }, open));
    for (const socket of silent) socket.destroy();
  }
  await eventually(answered, 'served on when all are gone');
  const kept = await Promise.all(Array.from({ length: most / 2 - 1 }, open));
  t.ok(await answered(), 'beside as many as there may be');
  t.equal(
    kept.filter((socket) => socket.closed).length,
    0,
    'none of which had to give way: none is counted twice',
  );
  for (const socket of kept) socket.destroy();
});
