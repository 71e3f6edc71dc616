import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { openTunnel, startLane, tunnelWire } from '../support/lane.ts';
import { rawUpstream, upstreamCa } from '../support/upstream.ts';
import {
  eventually,
  nextAnswer,
  nextRequest,
  type Wire,
  webSocketAccept,
  webSocketKey,
  wireOf,
} from '../support/wire.ts';

/*
 * All upstreams of a lane are read into one buffer: what one of them sends must never show up in another's answer,
 * however their pieces come between each other, and however long a client takes to fetch its own.
 */

const name = 'api.good.test';
const at = await startLane(
  {
    v1: {
      services: [{ host: name, auth: { type: 'bearer', token: 'KEY' } }],
      credentials: { KEY: 'sk_test_interleaved' },
    },
  },
  { upstreamCa: [upstreamCa.certPem] },
);
t.teardown(() => at.stop());

const letters = ['a', 'b', 'c'];
const get = (letter: string, fields = '') => `GET /${letter} HTTP/1.1\r\nHost: ${name}\r\n${fields}\r\n`;
const size = 2_000_000;

/** Which letter the next request asks for. */
const asksFor = async (wire: Wire): Promise<string> => (await nextRequest(wire)).line.split(/[ /]+/)[1];

for (const tls of [true, false]) {
  const over = tls ? 'TLS' : 'cleartext';
  const open = async (port: number): Promise<Wire> =>
    tls ? tunnelWire(at, 'v1', `${name}:${port}`) : wireOf(await openTunnel(at, 'v1', `${name}:${port}`));
  const upstreamOptions = tls ? {} : ({ tls: false } as const);

  t.test(`heads that come in pieces, in turn, over ${over}`, async (t) => {
    const asked = new Map<string, Wire>();
    const up = await rawUpstream(
      t,
      async (wire) => void asked.set(await asksFor(wire), wire),
      upstreamOptions,
    );
    const clients = await Promise.all(letters.map(() => open(up.port)));
    for (const [i, letter] of letters.entries()) clients[i].send(get(letter));
    await eventually(() => asked.size === letters.length, 'all requests');
    const answer = (letter: string) =>
      `HTTP/1.1 200 OK\r\nX-Letter: ${letter.repeat(50)}\r\nContent-Length: 20\r\n\r\n${letter.repeat(20)}`;
    const { length } = answer('a');
    for (let from = 0; from < length; from += 16) {
      for (const letter of letters) asked.get(letter)?.send(answer(letter).slice(from, from + 16));
      await sleep(5);
    }
    for (const [i, letter] of letters.entries()) {
      const { body, field } = await nextAnswer(clients[i]);
      t.strictSame([field('x-letter'), body], [letter.repeat(50), letter.repeat(20)]);
    }
  });

  for (const [framing, head, wrap] of [
    ['by length', `Content-Length: ${size}`, (body: string) => body],
    [
      'in chunks',
      'Transfer-Encoding: chunked',
      (body: string) => `${size.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
    ],
    ['to the end', 'X-No: framing', (body: string) => body],
  ] as const) {
    t.test(`bodies ${framing} that wait for their clients, over ${over}`, async (t) => {
      const up = await rawUpstream(
        t,
        async (wire) => {
          const letter = await asksFor(wire);
          wire.send(`HTTP/1.1 200 OK\r\n${head}\r\n\r\n${wrap(letter.repeat(size))}`);
          if (framing === 'to the end') wire.socket.end();
        },
        upstreamOptions,
      );
      const clients = await Promise.all(letters.map(() => open(up.port)));
      for (const [i, letter] of letters.entries()) {
        clients[i].send(get(letter));
        clients[i].socket.pause();
      }
      await sleep(200);
      for (const [i, letter] of letters.entries()) {
        clients[i].socket.resume();
        const { body } = await nextAnswer(clients[i]);
        t.equal(body.length, size);
        t.ok(body === letter.repeat(size), `only its own: ${letter}`);
      }
    });
  }

  t.test(`upgraded connections that wait for their clients, over ${over}`, async (t) => {
    const up = await rawUpstream(
      t,
      async (wire) => {
        const letter = await asksFor(wire);
        const switching = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${webSocketAccept}\r\n\r\n`;
        wire.send(switching + letter.repeat(1000));
        for (let sent = 1000; sent < size; sent += 1000) wire.send(letter.repeat(1000));
      },
      upstreamOptions,
    );
    const clients = await Promise.all(letters.map(() => open(up.port)));
    for (const [i, letter] of letters.entries()) {
      clients[i].send(
        get(letter, `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: ${webSocketKey}\r\n`),
      );
      clients[i].socket.pause();
    }
    await sleep(200);
    for (const [i, letter] of letters.entries()) {
      clients[i].socket.resume();
      await clients[i].take('\r\n\r\n');
      t.ok((await clients[i].take(size)) === letter.repeat(size), `only its own: ${letter}`);
    }
  });
}
