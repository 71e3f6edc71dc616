/** Which upstream connections are used again, by whom and after what; and what is sent again where one has ended. */
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { definesBody, isIdempotent, showsRequest } from '../../src/proxy/methods.ts';
import { openTunnel, startLane, tunnelWire } from '../support/lane.ts';
import { rawUpstream, type TestUpstream, upstreamCa } from '../support/upstream.ts';
import { eventually, nextAnswer, nextRequest, type Wire, wireOf } from '../support/wire.ts';

const name = 'api.good.test';
const key = 'sk_test_reuse';
const vault = {
  services: [{ host: name, auth: { type: 'bearer' as const, token: 'KEY' } }],
  credentials: { KEY: key },
};
const at = await startLane({ v1: vault, v2: {} }, { upstreamCa: [upstreamCa.certPem] });
t.teardown(() => at.stop());

const ok = (body: string, fields = '') =>
  `HTTP/1.1 200 OK\r\n${fields}Content-Length: ${body.length}\r\n\r\n${body}`;
const request = (method: string, path: string, body?: string, fields = '') =>
  `${method} ${path} HTTP/1.1\r\nHost: ${name}\r\n${fields}` +
  `${body === undefined ? '' : `Content-Length: ${body.length}\r\n`}\r\n${body ?? ''}`;
const inChunks = (method: string, path: string, body: string) =>
  `${method} ${path} HTTP/1.1\r\nHost: ${name}\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;

const tunnel = (up: TestUpstream, token = at.tokens.v1) =>
  tunnelWire(at, 'v1', `${name}:${up.port}`, { token });
async function ask(client: Wire, text: string): Promise<[status: number, body: string]> {
  client.send(text);
  const { status, body } = await nextAnswer(client, text.startsWith('HEAD'));
  return [status, body];
}

/** Answers each whole request by what `of` says, until that is nothing. */
const upstreamOf = (t: Test, of: (line: string, n: number, wire: Wire) => string | undefined) =>
  rawUpstream(t, async (wire, n) => {
    for (;;) {
      const { line } = await nextRequest(wire);
      const answer = of(line, n, wire);
      if (answer === undefined) return;
      wire.send(answer);
    }
  });

t.test('what methods mean: for every spelling', (t) => {
  const verdict = (method: string) => [definesBody(method), isIdempotent(method), showsRequest(method)];
  t.strictSame(
    Object.fromEntries(
      [
        'GET',
        'HEAD',
        'OPTIONS',
        'DELETE',
        'TRACE',
        'TRACK',
        'PUT',
        'POST',
        'PATCH',
        'PROPFIND',
        'get',
        'tRaCk',
      ].map((method) => [method, verdict(method)]),
    ),
    {
      GET: [false, true, false],
      HEAD: [false, true, false],
      OPTIONS: [false, true, false],
      DELETE: [false, true, false],
      TRACE: [false, true, true],
      TRACK: [false, false, true],
      PUT: [true, true, false],
      POST: [true, false, false],
      PATCH: [true, false, false],
      PROPFIND: [true, false, false],
      get: [false, false, false],
      tRaCk: [false, false, true],
    },
  );
  fc.assert(
    fc.property(fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/), (method) => {
      const known = /^(get|head|options|delete|trace|track)$/i.test(method);
      return definesBody(method) === !known && (!isIdempotent(method) || method === method.toUpperCase());
    }),
  );
  t.end();
});

t.test('a connection is used again by its own session only, in all of its tunnels', async (t) => {
  const up = await upstreamOf(t, (_, n) => ok(String(n)));
  const other = at.addSession({ vaults: ['v1'] });
  const [a, b, c] = [await tunnel(up), await tunnel(up), await tunnel(up, other)];
  for (const [client, served] of [
    [a, '0'],
    [b, '0'],
    [c, '1'],
    [a, '0'],
    [c, '1'],
    [b, '0'],
  ] as const)
    t.strictSame(await ask(client, request('GET', '/')), [200, served]);
  t.equal(up.connections, 2);
});

t.test('nor for another vault of the same agent', async (t) => {
  const up = await upstreamOf(t, (_, n) => ok(String(n)));
  const token = at.addSession({ vaults: ['v1', 'v2'], kind: 'agent' });
  for (const [i, name] of ['v1', 'v2', 'v1', 'v2'].entries()) {
    const client = await tunnelWire(at, name, `api.good.test:${up.port}`, { token });
    t.strictSame(await ask(client, request('GET', '/')), [200, String(i % 2)], name);
  }
});

t.test('the idle connections of a session end with it', async (t) => {
  const up = await upstreamOf(t, (_, n) => ok(String(n)));
  const token = at.addSession({ vaults: ['v1'] });
  await ask(await tunnel(up, token), request('GET', '/'));
  await ask(await tunnel(up), request('GET', '/'));
  at.revoke(token);
  await eventually(() => up.wires[0].ended, 'the end of the idle connection', 5000);
  t.notOk(up.wires[1].ended, 'and of no other');
});

t.test('a session keeps so many connections, and its oldest make room', async (t) => {
  const most = 256;
  const up = await rawUpstream(
    t,
    async (wire) => {
      for (;;) {
        await nextRequest(wire);
        wire.send(ok('', 'Keep-Alive: timeout=100\r\n'));
      }
    },
    { tls: false },
  );
  const get = async (host: string) => {
    const client = wireOf(await openTunnel(at, 'v2', `${host}:${up.port}`));
    client.send(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    await nextAnswer(client);
    client.close();
  };
  await get('first.test');
  await get('second.test');
  for (let i = 2; i < most; i++) await get(`n${i}.test`);
  await sleep(30);
  t.equal(up.open.size, most);
  await get('first.test');
  t.equal(up.connections, most, 'none was closed so far');
  await get('one-more.test');
  await get('another.test');
  await eventually(() => up.open.size === most, 'the oldest to end');
  await get('first.test');
  t.equal(up.connections, most + 2, 'what was used lately is still there');
  await get('second.test');
  t.equal(up.connections, most + 3, 'what was not is gone');
});

/** What an agent would have the upstream take for a request: all that follows becomes its body, which can be read. */
const smuggled = `POST /note HTTP/1.1\r\nHost: ${name}\r\nContent-Length: 400\r\n\r\n`;

/** A server that doesn't read bodies where its mind is made up without them: what follows a head is the next one. */
const deaf = (t: Test, deafTo: (line: string) => string | null) =>
  rawUpstream(t, async (wire) => {
    for (;;) {
      const head = await wire.take('\r\n\r\n');
      const status = deafTo(head.slice(0, head.indexOf('\r\n')));
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
      if (status === null) {
        if (length > 0) await wire.take(length);
        wire.send(ok(head.startsWith('POST /note') ? 'note kept' : 'own'));
      } else wire.send(`HTTP/1.1 ${status}\r\nContent-Length: 0\r\n\r\n`);
    }
  });

t.test('a body that the upstream may not have read is followed by no other request', async (t) => {
  const rows: [title: string, sent: string, status: string][] = [];
  for (const method of ['GET', 'HEAD', 'DELETE', 'OPTIONS', 'get', 'delete']) {
    rows.push([`${method}, by length`, request(method, '/attack', smuggled), '200 OK']);
    rows.push([`${method}, in chunks`, inChunks(method, '/attack', smuggled), '200 OK']);
  }
  for (const status of [
    '302 Found',
    '307 Elsewhere',
    '400 No',
    '401 No',
    '404 No',
    '405 No',
    '413 No',
    '500 No',
  ])
    rows.push([`POST, answered ${status}`, request('POST', '/attack', smuggled), status]);
  for (const [title, sent, status] of rows) {
    const up = await deaf(t, (line) => (line.includes(' /attack') ? status : null));
    const [attacker, victim] = [await tunnel(up), await tunnel(up)];
    t.equal((await ask(attacker, sent))[0], Number(status.slice(0, 3)), title);
    t.strictSame(await ask(victim, request('GET', '/victim')), [200, 'own'], `${title}: the next one`);
    t.equal(up.connections, 2, `${title}: on a connection of its own`);
    await eventually(() => up.wires[0].ended, 'the end of the first connection');
  }
});

t.test('an answer that comes before the body is there: the connection serves nothing after it', async (t) => {
  const up = await rawUpstream(t, async (wire, n) => {
    if (n > 0) for (;;) wire.send(ok((await nextRequest(wire)).line));
    await wire.take('\r\n\r\n');
    wire.send(ok('early'));
  });
  const [attacker, victim] = [await tunnel(up), await tunnel(up)];
  attacker.send(request('POST', '/attack', smuggled).slice(0, -smuggled.length));
  t.equal((await nextAnswer(attacker)).body, 'early');
  attacker.send(smuggled);
  await eventually(() => up.wires[0].ended, 'the end of the first connection');
  t.strictSame(await ask(victim, request('GET', '/')), [200, 'GET / HTTP/1.1']);
  t.strictSame(await ask(attacker, request('GET', '/own')), [200, 'GET /own HTTP/1.1']);
});

t.test('what was read is followed by more: bodies of methods that define one, and empty ones', async (t) => {
  const up = await upstreamOf(t, (_, n) => ok(String(n)));
  const client = await tunnel(up);
  for (const sent of [
    request('POST', '/', 'body'),
    inChunks('POST', '/', 'body'),
    request('POST', '/', 'x'.repeat(3_000_000)),
    request('PUT', '/', 'body'),
    request('PATCH', '/', 'body'),
    request('PROPFIND', '/', 'body'),
    request('GET', '/', ''),
    request('DELETE', '/'),
    request('GET', '/'),
  ])
    t.strictSame(await ask(client, sent), [200, '0'], sent.slice(0, 20));
  t.equal(up.connections, 1);
});

/** Serves the first request of a connection, and ends it as the second comes. */
const closing = (t: Test, second: (wire: Wire, line: string) => unknown = () => {}) =>
  rawUpstream(t, async (wire) => {
    const first = await nextRequest(wire);
    wire.send(ok(first.line));
    const { line } = await nextRequest(wire);
    await second(wire, line);
    wire.socket.destroy();
  });

t.test(
  'a kept connection that ends as the next request comes: sent once more where that is safe',
  async (t) => {
    for (const method of ['GET', 'HEAD', 'OPTIONS', 'DELETE', 'PUT']) {
      const up = await closing(t);
      const client = await tunnel(up);
      await ask(client, request('GET', '/first'));
      const path = `/again/${method}`;
      t.equal((await ask(client, request(method, path)))[0], 200, method);
      t.equal(up.connections, 2);
      t.match(await at.recordsOf(path), [{ status: 200, error: null, attempts: 2 }]);
    }
    t.notOk('attempts' in (await at.recordsOf('/first', 5))[0], 'what was sent once says nothing of it');
  },
);

t.test('and not where it is not: 502, which says that the outcome is not known', async (t) => {
  const rows: [title: string, sent: (path: string) => string, answers?: string][] = [
    ['POST', (path) => request('POST', path, 'body')],
    ['POST without a body', (path) => request('POST', path, '')],
    ['PATCH', (path) => request('PATCH', path)],
    ['PUT with a body', (path) => request('PUT', path, 'body')],
    ['GET with a body', (path) => request('GET', path, 'body')],
    ['an extension method', (path) => request('FETCH', path)],
    ['a method of another case', (path) => request('get', path)],
    ['after an interim answer', (path) => request('GET', path), 'HTTP/1.1 103 Early Hints\r\n\r\n'],
    ['after a part of the answer', (path) => request('GET', path), 'HTTP/1.1 200'],
  ];
  for (const [i, [title, sent, answer = '']] of rows.entries()) {
    const seen: string[] = [];
    const up = await closing(t, (wire, line) => {
      seen.push(line);
      return new Promise<void>((resolve) => wire.socket.write(answer, () => resolve()));
    });
    const client = await tunnel(up);
    await ask(client, request('GET', '/warm'));
    client.send(sent(`/once/${i}`));
    const refused = await nextAnswer(client);
    t.match(
      [refused.status, refused.json.message],
      [502, /Whether it acted on the request is not known/],
      title,
    );
    t.strictSame([seen.length, up.connections], [1, 1], `${title}: it arrived once`);
  }
});

t.test('a second end is the last, and a first request is sent once', async (t) => {
  let arrived = 0;
  const up = await rawUpstream(t, async (wire, n) => {
    if (n === 0) {
      await nextRequest(wire);
      wire.send(ok('warm'));
    }
    await nextRequest(wire);
    arrived++;
    wire.socket.destroy();
  });
  const client = await tunnel(up);
  await ask(client, request('GET', '/warm'));
  t.equal((await ask(client, request('GET', '/twice')))[0], 502);
  t.strictSame([arrived, up.connections], [2, 2]);
  t.match(await at.recordsOf('/twice'), [{ status: 502, error: 'upstream_unreachable', attempts: 2 }]);
  t.equal((await ask(client, request('GET', '/fresh')))[0], 502);
  t.strictSame([arrived, up.connections], [3, 3]);
});

t.test('what is sent again is decided again: another value, a revoked session', async (t) => {
  const token = at.addSession({ vaults: ['v1'] });
  const set = (value: string) => at.publish({ type: 'credential', vault: at.ids.v1, key: 'KEY', value });
  const changing = await closing(t, () => set('sk_test_changed'));
  const client = await tunnel(changing, token);
  await ask(client, request('GET', '/warm'));
  t.equal((await ask(client, request('GET', '/changed')))[0], 200);
  t.match([changing.wires[0].all, changing.wires[1].all], [key, 'Bearer sk_test_changed']);
  set(key);
  const revoking = await closing(t, () => at.revoke(token));
  const second = await tunnel(revoking, token);
  await ask(second, request('GET', '/warm'));
  t.equal((await ask(second, request('GET', '/revoked')))[0], 401);
  t.notMatch(revoking.wires[1]?.all ?? '', key, 'the key did not go out again');
});

t.test('300 GETs to an upstream that ends its connections at any moment: all are answered', async (t) => {
  let seed = 10;
  const random = (below: number) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return Math.floor((seed / 2147483648) * below);
  };
  /** Turns of the event loop: the finest clock that the two ends share. */
  const turns = async (count: number) => {
    for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
  };
  const up = await rawUpstream(t, async (wire) => {
    for (;;) {
      await nextRequest(wire);
      wire.send(ok('fine'));
      if (random(2) === 0) turns(random(12)).then(() => wire.socket.end());
    }
  });
  const clients = await Promise.all(Array.from({ length: 4 }, () => tunnel(up)));
  const statuses = new Map<number, number>();
  await Promise.all(
    clients.map(async (client) => {
      for (let i = 0; i < 75; i++) {
        const [status] = await ask(client, request('GET', '/random'));
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        await turns(random(12));
      }
    }),
  );
  t.strictSame([...statuses], [[200, 300]]);
  const again = (await at.recordsOf('/random', 300)).filter(({ attempts }) => attempts === 2);
  t.ok(again.length > 0, `${again.length} were sent again`);
});
