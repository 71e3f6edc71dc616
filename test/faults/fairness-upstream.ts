/* The upstream of the fairness suite, as a process of its own: prints its TLS port and its plain one. */
import { createHash } from 'node:crypto';
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';

const piece = Buffer.alloc(256 * 1024, 'x');

function answer(request: http.IncomingMessage, response: http.ServerResponse): void {
  if (request.url === '/download') {
    const write = () => {
      while (!response.destroyed && response.write(piece));
    };
    response.on('drain', write);
    write();
  } else {
    request.resume();
    if (request.url !== '/upload') response.end('x'.repeat(256));
  }
}

function upgrade(request: http.IncomingMessage, socket: NodeJS.ReadableStream & NodeJS.WritableStream): void {
  const key = request.headers['sec-websocket-key'] ?? '';
  const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
  socket.on('error', () => {});
  socket.resume();
  socket.write(
    `HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
  );
}

const certificate = JSON.parse(process.env.BROKER_TEST_CERTIFICATE ?? '{}');
const servers = [
  https.createServer({ keepAliveTimeout: 60_000, ...certificate }, answer),
  http.createServer(answer),
];
for (const server of servers) server.on('upgrade', upgrade);
await Promise.all(
  servers.map((server) => new Promise<void>((done) => void server.listen(0, '127.0.0.1', done))),
);
process.stdin.resume().once('end', () => process.exit());
process.stdout.write(`${servers.map((server) => (server.address() as AddressInfo).port).join(' ')}\n`);
