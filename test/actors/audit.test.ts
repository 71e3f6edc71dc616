import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { type AuditOptions, auditActor, auditHealth, auditLine } from '../../src/actors/audit.ts';
import type { AuditLog } from '../../src/actors/audit-log.ts';
import { policies } from '../../src/actors/core/supervision.ts';
import { createSystem } from '../../src/actors/core/system.ts';
import { checkLog, openLog } from '../support/audit.ts';
import { manualClock } from '../support/manual-clock.ts';

const base = mkdtempSync(join(tmpdir(), 'broker-audit-'));
t.teardown(() => rmSync(base, { recursive: true }));

const start = Date.UTC(2026, 0, 31, 9);
const message = (n: number, size = 0) => ({ lines: auditLine({ n, fill: 'x'.repeat(size) }), count: 1 });

/** An actor over a log in a directory of its own, on a clock that the test moves. */
function setUp(t: Test, options: Partial<AuditOptions> = {}) {
  const dir = mkdtempSync(join(base, 'data-'));
  const clock = manualClock(start);
  const log = openLog(dir, { clock });
  const health = new Int32Array(new SharedArrayBuffer(4));
  const errors: Error[] = [];
  const system = createSystem({ clock });
  const spec = auditActor({ log, health, onError: (error) => errors.push(error), ...options });
  const audit = system.spawn({ ...spec, supervision: policies.always });
  t.teardown(async () => {
    void system.stop();
    await clock.advance(10_000);
    log.close();
  });
  return { dir, clock, log, health, errors, system, audit };
}

/** Numbers of the records in the log, events by their name. */
async function written(log: AuditLog): Promise<(number | string)[]> {
  const all: (number | string)[] = [];
  for await (const line of log.read({})) all.push(JSON.parse(line).n ?? JSON.parse(line).event);
  return all;
}

/** Puts a file in the place of the log's directory, and back. */
function breakDisk(dir: string): () => void {
  renameSync(join(dir, 'audit'), join(dir, 'away'));
  writeFileSync(join(dir, 'audit'), '');
  return () => {
    rmSync(join(dir, 'audit'));
    renameSync(join(dir, 'away'), join(dir, 'audit'));
  };
}

t.test('records of 50 ms share a batch', async (t) => {
  const { dir, audit, clock, log } = setUp(t);
  t.equal(audit.tell('append', message(1)), 'sent');
  audit.tell('append', { lines: message(2).lines + message(3).lines, count: 2 });
  await clock.advance(49);
  t.strictSame(await written(log), []);
  await clock.advance(1);
  t.strictSame(await written(log), [1, 2, 3]);
  t.match(await checkLog(dir), { ok: true, records: 3, head: { seq: 1 } });
  audit.tell('append', message(4, 2 ** 20));
  await clock.advance(0);
  t.strictSame(await written(log), [1, 2, 3, 4], 'a large batch does not wait');
});

t.test('flush and stop write at once', async (t) => {
  const { audit, log, system } = setUp(t);
  audit.tell('append', message(1));
  t.strictSame([await audit.ask('flush', {}), await written(log)], [{ written: true }, [1]]);
  audit.tell('append', message(2));
  await system.stop();
  t.strictSame(await written(log), [1, 2]);
});

t.test('while the disk refuses, health says so and nothing is lost', async (t) => {
  const { dir, audit, clock, log, health, errors } = setUp(t);
  audit.tell('append', message(1));
  await clock.advance(50);
  t.equal(health[0], auditHealth.writing);
  const mend = breakDisk(dir);
  audit.tell('append', message(2));
  await clock.advance(50);
  t.equal(health[0], auditHealth.failing);
  t.strictSame(await audit.ask('flush', {}), { written: false });
  audit.tell('append', message(3));
  await clock.advance(10_000);
  t.match(errors, [{ code: 'EEXIST' }], 'said once');
  mend();
  await clock.advance(250);
  t.equal(health[0], auditHealth.writing);
  t.strictSame(await written(log), [1, 2, 3]);
  t.match(await checkLog(dir), { ok: true, records: 3 });
  breakDisk(dir);
  audit.tell('append', message(4));
  await clock.advance(50);
  t.equal(errors.length, 2, 'and again the next time');
});

t.test('records that go to a directory which was removed are found in the new one', async (t) => {
  const { dir, audit, clock, log, health } = setUp(t);
  audit.tell('append', message(1));
  await clock.advance(50);
  rmSync(join(dir, 'audit'), { recursive: true });
  audit.tell('append', message(2));
  await clock.advance(50);
  t.equal(health[0], auditHealth.writing);
  t.strictSame(await written(log), [2]);
  t.equal(statSync(join(dir, 'audit')).mode & 0o777, 0o700);
  t.match(await checkLog(dir), { ok: true, head: { seq: 2 } });
});

t.test('what there is no room to hold is counted in a record', async (t) => {
  const { dir, audit, clock, log } = setUp(t, { maxHeldBytes: 10_000 });
  const mend = breakDisk(dir);
  for (let n = 0; n < 20; n++) audit.tell('append', message(n, 1000));
  await clock.advance(1000);
  mend();
  await clock.advance(250);
  t.strictSame(await written(log), [0, 1, 2, 3, 4, 5, 6, 7, 8, 'audit.dropped']);
  for await (const last of log.read({ limit: 1 }))
    t.match(JSON.parse(last), { time: /^2026-01-31T/, records: 11 });
  audit.tell('append', message(20, 5000));
  await clock.advance(50);
  t.equal((await written(log)).at(-1), 20, 'room again, and the count is not repeated');
});

t.test('a restart of the actor loses nothing that it held', async (t) => {
  const onError = () => {
    throw new Error('a fault in the error handler');
  };
  const { dir, audit, clock, log, system } = setUp(t, { onError });
  const mend = breakDisk(dir);
  audit.tell('append', message(1));
  await clock.advance(1000);
  t.match(system.counters(), { restarting: 1 });
  mend();
  await clock.advance(250);
  t.strictSame(await written(log), [1]);
});

t.test('a stop waits a while for the disk, then says what is lost', async (t) => {
  const { dir, audit, clock, log, errors, system } = setUp(t);
  const mend = breakDisk(dir);
  audit.tell('append', message(1));
  const stopped = system.stop();
  await clock.advance(3000);
  mend();
  await Promise.all([stopped, clock.advance(250)]);
  t.strictSame(await written(log), [1]);
  t.equal(errors.length, 1);

  const counted: number[] = [];
  const lost = setUp(t, { onLost: (records) => counted.push(records) });
  breakDisk(lost.dir);
  lost.audit.tell('append', { lines: message(1).lines + message(2).lines, count: 2 });
  await Promise.all([lost.system.stop(), lost.clock.advance(4500)]);
  t.strictSame(counted, [2]);
});

const skip = process.platform === 'linux' ? false : 'prlimit is Linux only';

t.test('a disk that fills up in the middle of a write', { skip }, async (t) => {
  const { dir, audit, clock, log, health, errors } = setUp(t);
  // A limit on the size of files does what a full disk does: part of a write succeeds, the next one fails.
  const limit = (octets: number | 'unlimited') =>
    execFileSync('/usr/bin/prlimit', ['--pid', String(process.pid), `--fsize=${octets}:unlimited`]);
  t.teardown(() => limit('unlimited'));
  // Node ignores the signal that comes with it, but tap ends the process unless someone else listens.
  process.on('SIGXFSZ', () => {});
  await audit.ask('flush', {});
  limit(2 ** 20);
  audit.tell('append', message(1, 2 ** 21));
  await clock.advance(1000);
  limit('unlimited');
  t.equal(health[0], auditHealth.failing);
  t.match(errors, [{ code: 'EFBIG' }], 'said once');
  t.match((await checkLog(dir)).firstBad, { reason: /ends within a batch/ });
  t.strictSame(await written(log), [], 'what is torn is not read');
  log.append(auditLine({ n: 'a shorter one' }));
  await clock.advance(250);
  t.equal(health[0], auditHealth.writing);
  t.strictSame(await written(log), ['a shorter one', 1]);
  t.match(await checkLog(dir), { ok: true, records: 2 });
});

/** A server in small, until it is killed. */
const child = `
const at = (name) => import(new URL('src/actors/' + name, ${JSON.stringify(new URL('../../', import.meta.url).href)}));
const { auditActor, auditLine } = await at('audit.ts');
const { openAuditLog } = await at('audit-log.ts');
const { systemClock } = await at('core/clock.ts');
const { createSecretKey } = await import('node:crypto');
const { createSystem } = await at('core/system.ts');
const health = new Int32Array(new SharedArrayBuffer(4));
const log = openAuditLog(process.argv[1], {
  clock: systemClock,
  key: createSecretKey(Buffer.alloc(32, 7)),
  anchor: null,
  keep: async () => {},
});
const audit = createSystem().spawn(auditActor({ log, health, onError: console.error, batchMs: 10 }));
let n = 0;
setInterval(() => {
  const lines = Array.from({ length: 10 }, () => auditLine({ n: n++, fill: 'x'.repeat(50) }));
  audit.tell('append', { lines: lines.join(''), count: 10 });
}, 5);
`;

t.test('a server that is killed loses no more than its last moments', async (t) => {
  const dir = mkdtempSync(join(base, 'killed-'));
  const killed = spawn(process.execPath, ['--input-type=module', '-e', child, dir], { stdio: 'inherit' });
  t.teardown(() => killed.kill('SIGKILL'));
  mkdirSync(join(dir, 'audit'), { recursive: true });
  for (let records = 0; records < 1000; ) {
    const verdict = await checkLog(dir);
    if (!verdict.ok) t.match(verdict, { ok: true }, 'in order at any moment');
    records = verdict.records;
    await delay(5);
  }
  killed.kill('SIGKILL');
  await once(killed, 'exit');
  const log = openLog(dir, { clock: manualClock(start) });
  const numbers = (await written(log)).filter((n) => n !== 'audit.recovered');
  log.close();
  t.ok(numbers.length >= 1000);
  t.strictSame(numbers, [...numbers.keys()], 'each record once, in order');
  t.match(await checkLog(dir), { ok: true });
});

t.test('a line of the log is JSON without control characters', async (t) => {
  const text = fc.string({ unit: 'binary' });
  fc.assert(
    fc.property(fc.array(fc.tuple(text, text)), (fields) => {
      const line = auditLine({ fields });
      return /^\P{Cc}*\n$/u.test(line) && isDeepStrictEqual(JSON.parse(line), { fields });
    }),
  );
  t.equal(auditLine({ path: '/\x7f\x9b2J\n' }), '{"path":"/\\u007f\\u009b2J\\n"}\n');
});
