/**
 * What one session does to another: the 99th percentile of a well-behaved one's requests, with and without somebody who
 * does their worst, as a ratio within one run. One lane, so that nobody is elsewhere. KINDS (a pattern), ROUNDS and
 * SAMPLES choose less of it.
 */
import { writeFileSync } from 'node:fs';
import net from 'node:net';
import { setPriority } from 'node:os';
import { join } from 'node:path';
import tls from 'node:tls';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { type Broker, collect, start, startBroker, temporary, until } from '../support/broker.ts';
import { anyName, upstreamCa } from '../support/upstream.ts';
import { nextAnswer, type Wire, wireOf } from '../support/wire.ts';
import { abuses, type Given } from './abuses.ts';

const rounds = Number(process.env.ROUNDS ?? 3);
const samples = Number(process.env.SAMPLES ?? 300);
const most = 2;
const name = 'api.good.test';
const script = (file: string) => fileURLToPath(new URL(file, import.meta.url));

function child(t: Test, file: string, args: readonly string[], env: Readonly<Record<string, string>>) {
  const started = start(process.execPath, ['--disable-warning=ExperimentalWarning', script(file), ...args], {
    env,
  });
  t.teardown(() => started.kill('SIGKILL'));
  return { process: started, ...collect(started) };
}

/** A tunnel with TLS inside, by somebody who asks, waits for the answer, and asks again. */
async function wellBehaved(broker: Broker, token: string, target: string): Promise<Wire> {
  const socket = net.connect({ port: broker.proxyPort, host: '127.0.0.1', noDelay: true });
  const outer = wireOf(socket);
  const auth = Buffer.from(`${token}:default`).toString('base64');
  outer.send(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\nProxy-Authorization: Basic ${auth}\r\n\r\n`);
  await outer.take('\r\n\r\n');
  socket.removeAllListeners('data');
  const inner = tls.connect({ socket, servername: name, rejectUnauthorized: false });
  await new Promise((resolve, reject) => inner.once('secureConnect', resolve).once('error', reject));
  return wireOf(inner);
}

const p99 = (times: number[]) => times.sort((a, b) => a - b)[Math.floor(times.length * 0.99)];
const median = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

t.test(
  'another session waits at most twice as long as alone, for each abuse',
  { timeout: 880_000 },
  async (t) => {
    const ca = join(temporary(t), 'ca.pem');
    writeFileSync(ca, upstreamCa.certPem);
    const broker = await startBroker(t, {
      args: [
        ...['--upstream-ca', ca, '--network-allow', '127.0.0.1'],
        ...['--rate-limit', '0', '--rate-inflight', '0'],
      ],
      preload: ['names'],
      workers: 1,
    });
    const upstreamPorts = async () => {
      const env = { BROKER_TEST_CERTIFICATE: JSON.stringify(anyName) };
      const { printed } = child(t, './fairness-upstream.ts', [], env);
      await until(() => printed().stdout.includes('\n'), 'an upstream listens');
      return printed().stdout.trim().split(' ');
    };
    const [secure, plain] = await upstreamPorts();
    // Not the one that is kept busy.
    const [own] = await upstreamPorts();
    const [token, good] = [await broker.session(), await broker.session()];
    const { body } = await broker.api<{ id: string; token: string }>('POST', '/v1/sessions', {
      body: { vault: 'default' },
    });
    await broker.api('DELETE', `/v1/sessions/${body.id}`);
    const given: Given = {
      proxyPort: broker.proxyPort,
      apiPort: Number(new URL(broker.address).port),
      token,
      revoked: body.token,
      secure: `${name}:${secure}`,
      plain: `${name}:${plain}`,
    };
    const target = `${name}:${own}`;
    const wire = await wellBehaved(broker, good, target);

    let errors = 0;
    async function measure(): Promise<number> {
      const times: number[] = [];
      for (let i = 0; i < samples; i++) {
        const begun = performance.now();
        wire.send(`GET /small HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
        if ((await nextAnswer(wire)).status !== 200) errors++;
        times.push(performance.now() - begun);
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      return p99(times);
    }

    await measure();
    for (const kind of Object.keys(abuses)) {
      if (!new RegExp(process.env.KINDS ?? '').test(kind)) continue;
      const ratios: number[] = [];
      const shown: string[] = [];
      for (let round = 0; round < rounds; round++) {
        const idle = await measure();
        const abuser = child(t, './abuses.ts', [kind], { BROKER_TEST_ABUSE: JSON.stringify(given) });
        // On a machine of its own it would not take the cores that the other session and the broker run on.
        setPriority(abuser.process.pid ?? 0, 10);
        await until(() => abuser.printed().stdout !== '', `${kind} has begun`);
        await new Promise((resolve) => setTimeout(resolve, 300));
        const under = await measure();
        abuser.process.kill('SIGKILL');
        await abuser.ended;
        ratios.push(under / idle);
        shown.push(`${idle.toFixed(1)} → ${under.toFixed(1)} ms`);
      }
      const ratio = median(ratios);
      t.comment(`${kind}: × ${ratio.toFixed(2)} (${shown.join(', ')})`);
      t.ok(ratio <= most, `${kind}: × ${ratio.toFixed(2)}`);
    }
    t.equal(errors, 0, 'nothing of the other session failed');
    const { status } = await broker.api('GET', '/health');
    t.equal(status, 200);
  },
);
