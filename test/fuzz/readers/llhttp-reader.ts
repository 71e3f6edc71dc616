/** Reads HTTP/1.1 with node:http (llhttp): one frame in (length, kind, bytes), one JSON reading out. */
import http from 'node:http';
import { Duplex } from 'node:stream';
import type { Field, Message, Reading } from '../reading.ts';

/** Above the 64 KiB that a head may take on either side of the proxy. */
const maxHeaderSize = 256 * 1024;

type Sink = Duplex & { reading: Reading; open: Message | null };

/** A connection on which exactly these bytes come, and then the end. */
function connection(reading: Reading): Sink {
  const duplex = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
  return Object.assign(duplex, { reading, open: null });
}

function pairs(raw: readonly string[]): Field[] {
  const list: Field[] = [];
  for (let i = 0; i < raw.length; i += 2) list.push([raw[i], raw[i + 1]]);
  return list;
}

/** Follows one message to its end. */
function collect(sink: Sink, message: http.IncomingMessage, start: [string, string]): void {
  const read: Message = { start, fields: pairs(message.rawHeaders), body: '', trailers: [] };
  sink.open = read;
  message.setEncoding('latin1');
  message.on('data', (text: string) => {
    read.body += text;
  });
  message.on('end', () => {
    read.trailers = pairs(message.rawTrailers);
    sink.reading.messages.push(read);
    if (sink.open === read) sink.open = null;
  });
  message.on('error', () => {});
}

function note(sink: Sink, error: Error & { code?: string }): void {
  if (sink.reading.end !== 'clean') return;
  const short = error.code === 'HPE_INVALID_EOF_STATE' || error.code === 'ECONNRESET';
  sink.reading.end = short ? 'incomplete' : 'refused';
  sink.reading.why = `${error.code} ${error.message}`;
}

function server(insecureHTTPParser: boolean): http.Server {
  const made = http.createServer({ insecureHTTPParser, maxHeaderSize, keepAlive: false });
  made.requestTimeout = 0;
  made.headersTimeout = 0;
  made.on('request', (request) => {
    collect(request.socket as unknown as Sink, request, [request.method ?? '', request.url ?? '']);
  });
  made.on('clientError', (error, socket) => note(socket as unknown as Sink, error));
  return made;
}

const strict = server(false);
const lenient = server(true);
const turn = () => new Promise((resolve) => setImmediate(resolve));

async function readRequests(on: http.Server, raw: Buffer): Promise<Reading> {
  const reading: Reading = { messages: [], partial: null, end: 'clean', why: '' };
  const sink = connection(reading);
  on.emit('connection', sink);
  sink.push(raw);
  // Bodies come by streams of their own: all of them have flowed before the next turn.
  await turn();
  reading.partial = sink.open;
  sink.push(null);
  await turn();
  if (reading.partial !== null && reading.end === 'clean') reading.end = 'incomplete';
  sink.destroy();
  return reading;
}

async function readResponses(method: string, raw: Buffer): Promise<Reading> {
  const reading: Reading = { messages: [], partial: null, end: 'clean', why: '' };
  const sink = connection(reading);
  const request = http.request({
    method,
    maxHeaderSize,
    host: 'x',
    createConnection: () => sink as unknown as import('node:net').Socket,
  });
  request.on('information', ({ statusCode, statusMessage, rawHeaders }) => {
    const start: [string, string] = [String(statusCode), statusMessage];
    reading.messages.push({ start, fields: pairs(rawHeaders), body: '', trailers: [] });
  });
  request.on('response', (response) =>
    collect(sink, response, [String(response.statusCode), response.statusMessage ?? '']),
  );
  request.on('error', (error) => note(sink, error));
  request.end();
  await turn();
  sink.push(raw);
  // Whatever else ends the connection does it later: only surplus bytes do it within the call.
  if (sink.destroyed && reading.end === 'clean') {
    reading.end = 'refused';
    reading.why = 'bytes behind the answer';
  }
  await turn();
  if (!sink.destroyed) sink.push(null);
  await turn();
  if (sink.open !== null) {
    reading.partial = sink.open;
    if (reading.end === 'clean') reading.end = 'incomplete';
  }
  sink.destroy();
  return reading;
}

function read(kind: string, raw: Buffer): Promise<Reading> {
  if (kind === 'q') return readRequests(strict, raw);
  if (kind === 'l') return readRequests(lenient, raw);
  return readResponses(kind === 'h' ? 'HEAD' : 'GET', raw);
}

let pending: Buffer = Buffer.alloc(0);
let last: Promise<unknown> = Promise.resolve();
process.stdin.on('data', (chunk: Buffer) => {
  pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
  const readings: Promise<Reading>[] = [];
  while (pending.length >= 4) {
    const end = 4 + pending.readUInt32BE(0);
    if (pending.length < end) break;
    readings.push(read(pending.latin1Slice(4, 5), pending.subarray(5, end)));
    pending = pending.subarray(end);
  }
  // In the order of the frames, one write for all that came together.
  last = Promise.all([last, ...readings]).then(([, ...all]) => {
    const frames = all.map((reading) => {
      const text = Buffer.from(JSON.stringify(reading));
      const size = Buffer.alloc(4);
      size.writeUInt32BE(text.length);
      return Buffer.concat([size, text]);
    });
    process.stdout.write(Buffer.concat(frames));
  });
});
