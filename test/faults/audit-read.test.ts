/** Reading a long audit log: bounded memory, a thread that answers, and readers that don't read. */
import { mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { genesis, headerLine, type Link, seal, segmentName } from '../../src/actors/audit-chain.ts';
import { type Broker, startBroker, temporary, until } from '../support/broker.ts';

const started = Date.UTC(2026, 0, 31, 9);
const record = (n: number) => {
  const time = new Date(started + n).toISOString();
  return `${JSON.stringify({ time, kind: 'request', vault: `v${n % 2}`, actor: 'session:s', path: '/x'.repeat(100), n })}\n`;
};

/** A log as brokers without a key wrote it: the records 0 to `count`. */
function writeLog(directory: string, count: number): number {
  const folder = join(directory, 'audit');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  let last: Link = genesis;
  let octets = 0;
  for (let n = 0, seq = 1; n < count; seq++) {
    const pieces: Buffer[] = [];
    for (let batch = 0; batch < 64 && n < count; batch++) {
      const header =
        batch > 0 ? '' : headerLine({ seq, started, last }).replace('"version":2', '"version":1');
      const lines = Array.from({ length: Math.min(3000, count - n) }, () => record(n++));
      const bytes = Buffer.from(header + lines.join(''));
      const { link, line } = seal(last, bytes, null);
      pieces.push(bytes, Buffer.from(line));
      last = link;
    }
    const whole = Buffer.concat(pieces);
    octets += whole.length;
    writeFileSync(join(folder, segmentName(seq, started)), whole, { mode: 0o600 });
  }
  return octets;
}

const residentMiB = ({ process: { pid } }: Broker) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

/** Segments that the server has open. */
function openSegments({ process: { pid } }: Broker): number {
  return readdirSync(`/proc/${pid}/fd`).filter((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`).endsWith('.ndjson');
    } catch {
      return false;
    }
  }).length;
}

t.test(
  'four reads of a long log leave memory and everybody else alone, and so do readers that do not read',
  async (t) => {
    const directory = join(temporary(t), 'data');
    mkdirSync(directory, { mode: 0o700 });
    const count = 1_000_000;
    const octets = writeLog(directory, count);
    t.ok(octets > 250 * 2 ** 20, `${Math.round(octets / 2 ** 20)} MiB of log`);
    const broker = await startBroker(t, { directory, nodeOptions: ['--max-old-space-size=160'] });
    t.match(broker.printed().stdout, /^broker is ready/, 'it is whole');
    const authorization = `Bearer ${readFileSync(join(directory, 'owner.token'), 'utf8').trim()}`;
    const ask = (query: string) =>
      fetch(`${broker.address}/v1/audit?${query}`, { headers: { authorization } });
    const before = residentMiB(broker);

    let peak = 0;
    let health = 0;
    let done = false;
    const watch = (async () => {
      while (!done) {
        t.equal((await fetch(`${broker.address}/health`)).status, 200);
        health++;
        peak = Math.max(peak, residentMiB(broker));
        await sleep(20);
      }
    })();
    const counts = await Promise.all(
      ['limit=1000000', 'limit=1000000&newest=first', 'limit=999999', 'limit=1000000&vault=v1'].map(
        async (query) => {
          let lines = 0;
          const answer = await ask(query);
          t.equal(answer.status, 200);
          for await (const chunk of answer.body as unknown as AsyncIterable<Uint8Array>)
            for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines++;
          return lines;
        },
      ),
    );
    done = true;
    await watch;
    // Whatever the server recorded itself at its start came on top, and pushed as many out.
    t.strictSame(counts, [count, count, count - 1, count / 2]);
    t.ok(
      peak < before + 150,
      `${Math.round(before)} MiB before, ${Math.round(peak)} at most, ${health} answers of /health`,
    );

    const port = Number(new URL(broker.address).port);
    const idle = Array.from({ length: 4 }, () => {
      const socket = net.connect(port, '127.0.0.1').pause();
      socket.on('error', () => {});
      socket.write(`GET /v1/audit HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: ${authorization}\r\n\r\n`);
      return socket;
    });
    t.teardown(() => idle.map((socket) => socket.destroy()));
    await until(() => openSegments(broker) >= 5, 'each has a segment open');
    t.equal((await ask('limit=1')).status, 429, 'a fifth has to wait');
    t.ok(residentMiB(broker) < before + 150);
    await until(() => openSegments(broker) <= 1, 'they are ended');
    t.equal((await ask('limit=1')).status, 200);
  },
);
