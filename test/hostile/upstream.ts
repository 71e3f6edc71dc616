/*
 * The upstreams that the hostile requests go to, as a process of its own: prints its TLS port and its plain one, then a
 * line for each request that it saw, and for what it took for a body that it shouldn't have got.
 */
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import tls from 'node:tls';
import { ByteReader } from './byte-reader.ts';
import { type Message, readBody, readHead, requestLine } from './message.ts';
import { type Asked, echoAnswer, noteOf, plainAnswer } from './upstream-answers.ts';

const requestStart = /[!-~]+ [!-~]+ HTTP\/1\.[01]\r\n/;

/** What the process says, one to a line. */
export type Said =
  | { readonly ports: readonly [secure: number, plain: number] }
  | { readonly method: string; readonly host: string; readonly path: string }
  | { readonly took: string };

function say(said: Said): void {
  process.stdout.write(`${JSON.stringify(said)}\n`);
}

/** Answers that end their connection, or are none; the rest of it is never read. */
const ends: Readonly<Record<string, (asked: Asked) => string>> = {
  closed: () => '',
  reset: () => '',
  closedhead: () => 'HTTP/1.1 200 OK\r\nX-Some',
  closedbody: () => 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome',
  earlyclose: (asked) => plainAnswer(asked, 'Connection: close\r\n', 'HTTP/1.1 413 Too much\r\n'),
  garbage: () => '\0\x01\x02 no HTTP\r\n\r\n'.repeat(20),
  longhead: () => `HTTP/1.1 200 OK\r\n${'X-Long: long\r\n'.repeat(8000)}\r\n`,
  interims: () => 'HTTP/1.1 103 E\r\nLink: </a>\r\n\r\n'.repeat(40),
  badchunk: () => 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\nmore\r\n0\r\n\r\n',
  badlength: () => 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk',
  both: () =>
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
};

/** Answers after which it goes on. */
const answers: Readonly<Record<string, (asked: Asked) => string>> = {
  ok: (asked) => plainAnswer(asked),
  cl0: (asked) => plainAnswer(asked),
  early: (asked) => plainAnswer(asked),
  s204: ({ seen }) => `HTTP/1.1 204 No Content\r\nX-Seen: ${seen}\r\n\r\n`,
  s407: (asked) =>
    plainAnswer(asked, 'Proxy-Authenticate: Basic realm="broker"\r\n', 'HTTP/1.1 407 Again\r\n'),
  s101: () => 'HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  errorfield: (asked) => plainAnswer(asked, 'X_Broker_Error: internal\r\nX-Broker-Error: internal\r\n'),
  // An answer too many: it would be the next request's.
  two: (asked) => plainAnswer(asked) + plainAnswer({ ...asked, isHead: false }),
};

/** Those that don't read a body before they answer, or take it for what comes next. */
const readsNoBody = /^(cl0|early|earlyclose)$/;

async function serve(socket: net.Socket): Promise<void> {
  const reader = new ByteReader(socket);
  for (;;) {
    const head = await nextHead(reader);
    if (head === null) break;
    const { method, path } = requestLine(head.line);
    const host = head.field('host').replace(/:\d+$/, '');
    say({ method, host, path: path.slice(0, 1024) });
    const [, id, behaviour] = /\/([a-z]\d+(?:x\d+)?)~([\w.]*)/.exec(path) ?? [null, host, 'ok'];
    const [kind, ...how] = behaviour.split('.');
    const isSmuggled = id.startsWith('s');
    if (head.field('expect') !== '' && !readsNoBody.test(kind)) socket.write('HTTP/1.1 100 Continue\r\n\r\n');
    const body = readsNoBody.test(kind) ? Buffer.alloc(0) : await readBody(reader, head, false);
    if (isSmuggled && body !== null) say({ took: body.latin1Slice() });
    if (body === null) break;
    const asked = {
      seen: `${id}${head.line.includes('/sentinel') ? ' sentinel' : ''}`,
      bytes: Buffer.concat([Buffer.from(`${head.head}\r\n\r\n`, 'latin1'), body]),
      isHead: method === 'HEAD',
    };
    if (!(await answer(socket, asked, kind, how, () => noteOf(head.head, body)))) break;
  }
  socket.destroy();
}

/** Lenient as the worst of them: what is no request line is read over. */
async function nextHead(reader: ByteReader): Promise<Message | null> {
  for (;;) {
    const head = await readHead(reader);
    if (head === null || requestStart.test(`${head.line}\r\n`)) return head;
    const at = requestStart.exec(`${head.head}\r\n`)?.index;
    if (at !== undefined) return { ...head, line: head.head.slice(at).split('\r\n')[0] };
  }
}

/** false: the connection ends here. */
async function answer(
  socket: net.Socket,
  asked: Asked,
  kind: string,
  how: readonly string[],
  note: () => string,
): Promise<boolean> {
  const write = (data: string | Buffer) => void socket.write(data as string, 'latin1');
  if (kind === 'echo') {
    const { pieces, ends } = echoAnswer(asked, how);
    for (const piece of pieces) {
      write(piece);
      if (pieces.length > 2) await sleep(1);
    }
    if (!ends) return true;
    socket.end();
    await sleep(20);
    return false;
  }
  if (kind === 'note') {
    const content = asked.isHead ? '' : note();
    write(`HTTP/1.1 200 OK\r\nX-Seen: ${asked.seen}\r\nContent-Length: ${content.length}\r\n\r\n${content}`);
    return true;
  }
  if (kind === 'held') {
    await sleep(1500);
    write(plainAnswer(asked));
    return true;
  }
  if (kind === 'never') {
    await sleep(1000);
    return false;
  }
  if (kind === 'slow') {
    for (const byte of plainAnswer(asked)) {
      write(byte);
      await sleep(2);
    }
    return true;
  }
  if (kind === 'closelater') {
    write(plainAnswer(asked));
    setTimeout(() => socket.destroy(), asked.bytes.length % 20);
    return true;
  }
  const last = ends[kind];
  if (last !== undefined) {
    if (kind === 'reset') raw.get(socket.remotePort)?.resetAndDestroy();
    write(last(asked));
    socket.end();
    await sleep(20);
    return false;
  }
  write((answers[kind] ?? answers.ok)(asked));
  return true;
}

const certificate = JSON.parse(process.env.BROKER_TEST_CERTIFICATE ?? '{}');
/** TCP connections by their client's port: a reset is theirs, below TLS. */
const raw = new Map<number | undefined, net.Socket>();
const onConnection = (socket: net.Socket) => {
  socket.setNoDelay(true).on('error', () => {});
  serve(socket).catch((error) => {
    process.stderr.write(`${error.stack}\n`);
    socket.destroy();
  });
};
const servers = [
  tls.createServer({ ...certificate, allowHalfOpen: true }, onConnection),
  net.createServer({ allowHalfOpen: true }, onConnection),
];
servers[0].on('tlsClientError', () => {});
for (const server of servers) {
  server.on('connection', (socket: net.Socket) => {
    raw.set(socket.remotePort, socket);
    const { remotePort } = socket;
    socket.once('close', () => raw.delete(remotePort));
  });
}
await Promise.all(
  servers.map((server) => new Promise<void>((done) => void server.listen(0, '127.0.0.1', done))),
);
process.stdin.resume().once('end', () => process.exit());
const [secure, plain] = servers.map((server) => (server.address() as net.AddressInfo).port);
say({ ports: [secure, plain] });
