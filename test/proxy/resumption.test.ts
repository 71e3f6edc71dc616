import type tls from 'node:tls';
import t from 'tap';
import { openTlsTunnel, startLane, tunnelWire } from '../support/lane.ts';
import { httpUpstream, upstreamCa } from '../support/upstream.ts';
import { nextAnswer, wireOf } from '../support/wire.ts';

/* A TLS handshake with somebody whom one has met before is a short one, on both sides, and only with that one. */

const name = 'api.good.test';
const other = 'other.good.test';
const vault = {
  services: [name, other].map((host) => ({ host, auth: { type: 'bearer' as const, token: 'KEY' } })),
  credentials: { KEY: 'sk_test_resumption' },
};
const at = await startLane({ v1: vault, v2: vault }, { upstreamCa: [upstreamCa.certPem] });
t.teardown(() => at.stop());

const get = (host: string) => `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`;

for (const version of ['TLSv1.3', 'TLSv1.2'] as const) {
  const only = { minVersion: version, maxVersion: version } as const;

  t.test(`upstreams of ${version} are resumed, by vault and origin`, async (t) => {
    const seen: string[] = [];
    const up = await httpUpstream(
      t,
      (request, response) => {
        const socket = request.socket as tls.TLSSocket;
        seen.push(`${request.headers.host?.split(':')[0]} ${socket.isSessionReused()}`);
        // Another connection for each request.
        response.setHeader('Connection', 'close').end('ok');
      },
      { tls: only },
    );
    for (const [vaultName, host] of [
      ['v1', name],
      ['v1', name],
      ['v1', other],
      ['v2', name],
      ['v1', other],
    ]) {
      const client = await tunnelWire(at, vaultName, `${host}:${up.port}`);
      client.send(get(host));
      t.equal((await nextAnswer(client)).body, 'ok');
    }
    const expected = [`${name} false`, `${name} true`, `${other} false`, `${name} false`, `${other} true`];
    t.strictSame(seen, expected);
  });

  t.test(`clients of ${version} resume a tunnel's session`, async (t) => {
    const up = await httpUpstream(t, (_, response) => response.end('ok'));
    const open = async (session?: Buffer) => {
      const socket = await openTlsTunnel(at, 'v1', `${name}:${up.port}`, { tls: { ...only, session } });
      const client = wireOf(socket);
      client.send(get(name));
      t.equal((await nextAnswer(client)).body, 'ok');
      // Of TLS 1.3 it is the ticket's: that has come by now.
      return { reused: socket.isSessionReused(), session: socket.getSession() };
    };
    const first = await open();
    t.equal(first.reused, false);
    t.equal((await open(first.session)).reused, true);
  });
}
