/**
 * A resolver that never answers: whoever asks for its names waits, others' look-ups go on. The real getaddrinfo of a real
 * server, which runs in a mount namespace with a resolv.conf of its own; that takes root.
 */
import dgram from 'node:dgram';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { run, startBroker, temporary, until } from '../support/broker.ts';
import { startUpstream } from '../support/tls-upstream.ts';

const mayMount = (await run('unshare', ['-m', 'true'])).code === 0;

t.test(
  'names that hang are their sessions own: another one is served as if there were none',
  { skip: mayMount ? false : 'only root can mount' },
  async (t) => {
    const upstream = await startUpstream(t, { scheme: 'http' });
    /** Names that were asked for, once each. */
    const asked = new Set<string>();
    const resolver = dgram.createSocket('udp4').bind(53, '127.0.53.53');
    t.teardown(() => void resolver.close());
    resolver.on('message', (message) => {
      let name = '';
      for (let at = 12; message[at] > 0; at += message[at] + 1)
        name += `${message.toString('latin1', at + 1, at + 1 + message[at])}.`;
      asked.add(name.toLowerCase());
    });
    await once(resolver, 'listening');
    const folder = temporary(t);
    const good = Array.from({ length: 200 }, (_, i) => `good${i}.test`);
    const files = {
      'resolv.conf': 'nameserver 127.0.53.53\noptions timeout:5 attempts:1\n',
      'nsswitch.conf': 'hosts: files dns\n',
      hosts: `127.0.0.1 localhost ${good.join(' ')}\n`,
    };
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    const mounts = Object.keys(files).map((name) => `mount --bind ${join(folder, name)} /etc/${name}`);
    const broker = await startBroker(t, {
      args: ['--allow-private-ranges', '--rate-limit', '0'],
      within: ['unshare', '-m', 'sh', '-c', `${mounts.join(' && ')} && exec "$@"`, 'sh'],
    });
    const well = await broker.session();
    const bad = await broker.session();
    const sockets: net.Socket[] = [];
    t.teardown(() => {
      for (const socket of sockets) socket.destroy();
    });
    const open = (token: string, host: string): net.Socket => {
      const socket = net.connect(broker.proxyPort, '127.0.0.1').on('error', () => {});
      sockets.push(socket);
      const basic = Buffer.from(`${token}:default`).toString('base64');
      socket.write(
        `GET http://${host}/x HTTP/1.1\r\nHost: ${host}\r\nProxy-Authorization: Basic ${basic}\r\n\r\n`,
      );
      return socket;
    };
    const statusOf = async (socket: net.Socket) =>
      Number(String((await once(socket, 'data'))[0]).split(' ')[1]);
    let next = 0;
    const median = async (): Promise<number> => {
      const took: number[] = [];
      for (let i = 0; i < 40; i++) {
        const from = performance.now();
        t.equal(await statusOf(open(well, `${good[next++]}:${upstream.port}`)), 200);
        took.push(performance.now() - from);
      }
      return took.sort((a, b) => a - b)[20];
    };
    await median();
    const idle = await median();

    const stuck = Array.from({ length: 100 }, (_, i) => open(bad, `slow${i}.test:80`));
    await until(() => asked.size >= 4, 'its first look-ups');
    const besides = await median();
    t.ok(
      besides < 5 * idle + 20,
      `median ${besides.toFixed(1)} ms beside names that hang, idle ${idle.toFixed(1)} ms`,
    );
    t.ok(asked.size <= 8, `${asked.size} of its names were asked for: four at once`);
    // What nobody waits for any longer is never asked for; what is under way can't be called back.
    for (const socket of stuck) socket.destroy();
    const before = asked.size;
    const last = open(bad, 'last.test:80');
    await until(() => asked.has('last.test.'), 'the only name that is still wanted');
    t.ok(asked.size <= before + 5, `${asked.size - before} more were asked for, of ${100 - before}`);
    t.ok([502, 504].includes(await statusOf(last)), 'it is told so');
  },
);
