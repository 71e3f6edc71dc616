/*
 * One client that does its worst, as a process of its own: `node abuses.ts KIND`, the rest as JSON in BROKER_TEST_ABUSE.
 * It goes on until its standard input ends. What it does is bounded by its connections, never by a sleep.
 */
import net from 'node:net';
import tls from 'node:tls';

export interface Given {
  readonly proxyPort: number;
  readonly apiPort: number;
  readonly token: string;
  readonly revoked: string;
  /** host:port of the upstream: TLS, and plain. */
  readonly secure: string;
  readonly plain: string;
}

const given: Given = JSON.parse(process.env.BROKER_TEST_ABUSE ?? '{}');
const basic = (token: string) =>
  `Proxy-Authorization: Basic ${Buffer.from(`${token}:default`).toString('base64')}\r\n`;
const auth = basic(given.token ?? '');
const noise = Buffer.alloc(64 * 1024, 'x');

/** A connection that is opened again when it ends. `use` gets each. */
function keep(count: number, use: (socket: net.Socket) => void, port = given.proxyPort): void {
  for (let i = 0; i < count; i++) open();
  function open(): void {
    const socket = net.connect({ port, host: '127.0.0.1', noDelay: true });
    socket.on('error', () => {});
    // Not at once: a refusal must cost its sender no less than us.
    socket.on('close', () => setTimeout(open, 5));
    socket.on('connect', () => use(socket));
  }
}

/** Tunnels with TLS inside. */
function tunnels(count: number, target: string, use: (socket: net.Socket) => void): void {
  keep(count, (raw) => {
    raw.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${auth}\r\n`);
    raw.once('data', (answer) => {
      if (!answer.toString().startsWith('HTTP/1.1 200')) return void raw.destroy();
      const inner = tls.connect({ socket: raw, servername: target.split(':')[0], rejectUnauthorized: false });
      inner.on('error', () => raw.destroy());
      inner.on('close', () => raw.destroy());
      inner.once('secureConnect', () => use(inner));
    });
  });
}

/** Writes as fast as the other side takes it. */
function pour(socket: net.Socket, piece: string | Buffer): void {
  const write = () => {
    while (!socket.destroyed && socket.write(piece));
  };
  socket.on('drain', write);
  write();
}

const request = (path: string, more = '', method = 'GET', host = given.secure) =>
  `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\n${more}\r\n`;
const absolute = (host: string, more = auth, method = 'GET') =>
  `${method} http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n${more}\r\n`;

/** Sends `text` again for each answer that came. */
function again(socket: net.Socket, text: string | (() => string)): void {
  const next = () => socket.write(typeof text === 'string' ? text : text());
  socket.on('data', next);
  next();
}

let n = 0;

export const abuses: Readonly<Record<string, () => void>> = {
  downloads: () =>
    tunnels(8, given.secure, (s) => {
      s.resume();
      s.write(request('/download'));
    }),
  uploads: () =>
    tunnels(8, given.secure, (s) => {
      s.resume();
      s.write(request('/upload', 'Transfer-Encoding: chunked\r\n', 'POST'));
      pour(s, Buffer.concat([Buffer.from('10000\r\n'), noise, Buffer.from('\r\n')]));
    }),
  'pipelined 407s': () =>
    keep(8, (s) => {
      s.resume();
      pour(s, absolute(given.plain, '').repeat(100));
    }),
  'pipelined small requests': () =>
    tunnels(8, given.secure, (s) => {
      s.resume();
      pour(s, request('/small').repeat(50));
    }),
  'slow readers': () =>
    tunnels(32, given.secure, (s) => {
      s.pause();
      s.write(request('/download'));
      const timer = setInterval(() => s.read(1024), 50);
      s.on('close', () => clearInterval(timer));
    }),
  'slow heads': () =>
    keep(64, (s) => {
      s.resume();
      const timer = setInterval(() => s.write('G'), 100);
      s.on('close', () => clearInterval(timer));
    }),
  'silent connections': () => keep(300, (s) => s.resume()),
  'refused handshakes': () =>
    keep(8, (raw) => {
      raw.write(`CONNECT ${given.secure} HTTP/1.1\r\nHost: ${given.secure}\r\n${auth}\r\n`);
      raw.once('data', () => {
        const inner = tls.connect({ socket: raw, servername: 'other.test', rejectUnauthorized: false });
        inner.on('error', () => raw.destroy());
        inner.on('close', () => raw.destroy());
      });
    }),
  'handshakes that are dropped': () => tunnels(8, given.secure, (s) => s.destroy()),
  'names that never resolve': () => keep(64, (s) => again(s, () => absolute(`never${++n}.invalid`))),
  'names that nobody has': () => keep(16, (s) => again(s, () => absolute(`nobody${++n}.test.invalid`))),
  '421s': () => tunnels(8, given.secure, (s) => again(s, request('/', '', 'GET', 'other.test'))),
  '403s': () => keep(8, (s) => again(s, absolute('169.254.169.254'))),
  'CONNECT floods': () =>
    keep(16, (s) => {
      s.write(`CONNECT ${given.secure} HTTP/1.1\r\nHost: ${given.secure}\r\n${auth}\r\n`);
      s.once('data', () => s.destroy());
    }),
  'wrong tokens': () => keep(8, (s) => again(s, absolute(given.plain, basic(`brk_ses_${++n}`)))),
  'huge heads': () =>
    keep(8, (s) => {
      s.resume();
      pour(s, `GET / HTTP/1.1\r\n${'X-Y: 1\r\n'.repeat(200)}`);
    }),
  'many tunnels': () => tunnels(100, given.secure, (s) => again(s, request('/small'))),
  'a revoked session': () => keep(8, (s) => again(s, absolute(given.plain, basic(given.revoked)))),
  'WebSocket chatter': () =>
    tunnels(8, given.secure, (s) => {
      const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n';
      s.write(request('/ws', `Connection: Upgrade\r\nUpgrade: websocket\r\n${key}`));
      s.once('data', () => {
        s.resume();
        pour(s, Buffer.alloc(16));
      });
    }),
  'bodies of one byte a chunk': () =>
    tunnels(8, given.secure, (s) => {
      s.resume();
      s.write(request('/upload', 'Transfer-Encoding: chunked\r\n', 'POST'));
      pour(s, '1\r\nx\r\n'.repeat(500));
    }),
  'HEAD floods': () => tunnels(8, given.secure, (s) => again(s, request('/small', '', 'HEAD'))),
  'silent connections to the API': () => keep(300, (s) => s.resume(), given.apiPort),
};

if (process.env.BROKER_TEST_ABUSE !== undefined) {
  process.stdin.resume().once('end', () => process.exit());
  abuses[process.argv[2]]();
  process.stdout.write('begun\n');
}
