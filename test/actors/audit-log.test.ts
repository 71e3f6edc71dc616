import { createHmac } from 'node:crypto';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import type { AuditLog } from '../../src/actors/audit-log.ts';
import type { AuditQuery } from '../../src/actors/audit-read.ts';
import {
  anchors,
  auditKey,
  batchesOf,
  checkLog,
  segmentPaths as files,
  openLog,
  rechain,
} from '../support/audit.ts';
import { manualClock } from '../support/manual-clock.ts';

const base = fs.mkdtempSync(join(tmpdir(), 'broker-audit-'));
t.teardown(() => fs.rmSync(base, { recursive: true }));
const fresh = () => fs.mkdtempSync(join(base, 'data-'));

const start = Date.UTC(2026, 0, 31, 9);
const day = 24 * 3_600_000;
const at = (ms: number) => new Date(ms).toISOString();

const open = openLog;

async function records(log: AuditLog, query: AuditQuery = {}): Promise<string[]> {
  const all: string[] = [];
  for await (const line of log.read(query)) all.push(line);
  return all;
}

const line = (n: number) => JSON.stringify({ time: at(start), vault: 'default', n });
const batch = (...numbers: number[]) => numbers.map((n) => `${line(n)}\n`).join('');

t.test('what is written can be read and checked', async (t) => {
  const dir = fresh();
  const log = open(dir);
  log.append(batch(1, 2));
  log.append(batch(3));
  t.strictSame(await records(log), [line(1), line(2), line(3)]);
  log.close();
  const [file, ...more] = files(dir);
  t.equal(more.length, 0);
  t.equal(fs.statSync(file).mode & 0o777, 0o600);
  t.equal(fs.statSync(join(dir, 'audit')).mode & 0o777, 0o700);

  // The documented format, computed here from its description.
  const [header, one, two, first, three, second] = fs.readFileSync(file, 'utf8').split('\n');
  const zero = '0'.repeat(64);
  t.match(JSON.parse(header), { segment: { version: 2, seq: 1, batch: 1, prev: zero } });
  const mac = (prev: string, ...lines: string[]) => {
    const octets = [Buffer.from(prev, 'hex'), Buffer.from(`${lines.join('\n')}\n`)];
    return createHmac('sha256', auditKey).update(Buffer.concat(octets)).digest('hex');
  };
  const hash = mac(zero, header, one, two);
  t.strictSame(JSON.parse(first), { chain: { seq: 1, count: 3, prev: zero, hash } });
  const head = { seq: 2, hash: mac(hash, three) };
  t.strictSame(JSON.parse(second), { chain: { seq: 2, count: 1, prev: hash, hash: head.hash } });
  t.strictSame(await checkLog(dir), {
    ...{ ok: true, checked: 'contents', anchored: false },
    ...{ segments: 1, records: 3, head, missing: [] },
  });
});

t.test('a log that is opened again goes on in its last segment', async (t) => {
  const dir = fresh();
  open(dir).close();
  t.match(await checkLog(dir), { ok: true, segments: 0, records: 0, head: null }, 'none yet');
  for (const n of [1, 2, 3]) {
    const log = open(dir);
    log.append(line(n));
    log.close();
  }
  t.match(await checkLog(dir), { ok: true, segments: 1, records: 3, head: { seq: 3 } });
});

/** Two segments, three batches, closed. */
function sample(): { dir: string; paths: string[]; whole: Buffer[] } {
  const dir = fresh();
  const log = open(dir, { maxBytes: 1050 });
  log.append(batch(1, 2));
  log.append(batch(3));
  log.append(batch(4, 5));
  log.close();
  const paths = files(dir);
  return { dir, paths, whole: paths.map((path) => fs.readFileSync(path)) };
}

t.test('every change of a single octet is found', async (t) => {
  const { dir, paths, whole } = sample();
  t.equal(paths.length, 2);
  t.match(await checkLog(dir), { ok: true, segments: 2, records: 5 });
  const place = fc
    .nat({ max: 1 })
    .chain((file) => fc.tuple(fc.constant(file), fc.nat({ max: whole[file].length - 1 })));
  await fc.assert(
    fc.asyncProperty(place, fc.integer({ min: 1, max: 255 }), async ([file, offset], mask) => {
      const bytes = Buffer.from(whole[file]);
      bytes[offset] ^= mask;
      fs.writeFileSync(paths[file], bytes);
      const { ok, firstBad } = await checkLog(dir);
      fs.writeFileSync(paths[file], whole[file]);
      return !ok && firstBad !== undefined && paths.some((path) => path.endsWith(firstBad.file));
    }),
    { numRuns: 400 },
  );
  t.match(await checkLog(dir), { ok: true });
});

t.test('what is left out, repeated or exchanged is found, and where', async (t) => {
  const { dir, paths, whole } = sample();
  const lines = whole[0].toString().trimEnd().split('\n');
  const damaged = async (changed: string[]) => {
    fs.writeFileSync(paths[0], `${changed.join('\n')}\n`);
    return (await checkLog(dir)).firstBad;
  };
  const file = paths[0].split('/').at(-1);
  t.match(await damaged(lines.toSpliced(1, 1)), { file, line: 1, reason: /lines of this batch are not/ });
  t.match(await damaged(lines.toSpliced(4, 2)), { line: 1, reason: /does not go on from the one before/ });
  t.match(await damaged([...lines, ...lines.slice(4)]), { file, line: 7, reason: /batch 3 is expected/ });
  const forked = lines[5].replace(
    /"prev":"[0-9a-f]/,
    (prev) => `${prev.slice(0, -1)}${prev.endsWith('0') ? 1 : 0}`,
  );
  t.match(await damaged([...lines.slice(0, 5), forked]), { file, line: 5, reason: /does not go on/ });
  t.match(await damaged([...lines.slice(0, 4), lines[5], lines[4]]), { file, line: 5 });
  t.match(await damaged(lines.slice(1)), { file, line: 1, reason: /header/ });
  fs.writeFileSync(paths[0], whole[1]);
  t.match((await checkLog(dir)).firstBad, { file, line: 1, reason: /another file/ });
});

t.test('what a crash tore is cut off, noted, and the chain goes on', async (t) => {
  const { paths, whole } = sample();
  const name = paths[1].split('/').at(-1) as string;
  const sizes = Array.from({ length: whole[1].length }, (_, size) => size);
  for (const size of sizes.filter((size) => size % 11 === 0 || size > whole[1].length - 5)) {
    const copy = fresh();
    fs.mkdirSync(join(copy, 'audit'));
    fs.writeFileSync(join(copy, 'audit', paths[0].split('/').at(-1) as string), whole[0]);
    fs.writeFileSync(join(copy, 'audit', name), whole[1].subarray(0, size));
    const log = open(copy);
    log.append(batch(6));
    const found = await records(log);
    log.close();
    const note = { event: 'audit.recovered', segment: name, cut_bytes: size };
    const notes = found.splice(3, found.length - 4).map((text) => JSON.parse(text));
    t.strictSame(found, [line(1), line(2), line(3), line(6)], `cut at ${size}`);
    t.match(notes, size === 0 ? [] : [note]);
    t.equal(notes.length, size === 0 ? 0 : 1);
    t.match(await checkLog(copy), { ok: true, records: 4 + notes.length });
    fs.rmSync(copy, { recursive: true });
  }
});

t.test('a last batch is cut whose chain line reached the disk before its lines', async (t) => {
  const { dir, paths, whole } = sample();
  fs.rmSync(paths[1]);
  const holed = Buffer.from(whole[0]);
  const third = holed.indexOf(line(3));
  fs.writeFileSync(paths[0], holed.fill(0, third, third + 20));
  fs.appendFileSync(paths[0], Buffer.alloc(4096));
  const log = open(dir);
  t.match(await records(log), [line(1), line(2), /audit\.recovered/]);
  log.close();
  t.match(await checkLog(dir), { ok: true });
});

t.test('segments are closed by size and by age', async (t) => {
  const dir = fresh();
  const clock = manualClock(start);
  const log = open(dir, { clock, maxBytes: 4096 });
  for (let n = 0; n < 100; n++) log.append(batch(n));
  const bySize = files(dir);
  t.ok(bySize.length > 3 && bySize.every((path) => fs.statSync(path).size <= 4096), `${bySize.length} files`);
  await clock.advance(day - 1);
  log.append(batch(100));
  t.equal(files(dir).length, bySize.length, 'not a day old');
  await clock.advance(1);
  log.append(batch(101));
  const all = files(dir);
  t.equal(all.length, bySize.length + 1, 'a day old');
  t.match(all.at(-1), `/20260201T090000000Z-${String(all.length).padStart(8, '0')}.ndjson`);
  log.append(`{"long":"${'x'.repeat(10_000)}"}\n`);
  log.close();
  t.match(await checkLog(dir), { ok: true, segments: all.length + 1, records: 103 });
});

t.test('retention deletes whole old segments, and the rest can be checked', async (t) => {
  const bySize = fresh();
  const log = open(bySize, { maxBytes: 4096, retainBytes: 12_288 });
  for (let n = 0; n < 200; n++) log.append(batch(n));
  await log.settle();
  log.close();
  const kept = files(bySize);
  t.ok(kept.length >= 2 && kept.reduce((sum, path) => sum + fs.statSync(path).size, 0) <= 12_288);
  const verdict = await checkLog(bySize);
  t.match(verdict, { ok: true, segments: kept.length, head: { seq: 200 } });
  fs.rmSync(kept[1]);
  t.match((await checkLog(bySize)).firstBad, { reason: /missing/ }, 'one from the middle is missed');

  const byAge = fresh();
  const clock = manualClock(start);
  const aged = open(byAge, { clock, retainDays: 3 });
  for (let n = 0; n < 10; n++) {
    aged.append(batch(n));
    await clock.advance(day);
  }
  await aged.settle();
  t.strictSame(await records(aged), [5, 6, 7, 8, 9].map(line), 'what may still be three days old');
  aged.close();
  t.match(await checkLog(byAge), { ok: true });
});

/** Three segments of ten batches of two records, a second apart, closed; the store knows all of it. */
async function known(): Promise<{ dir: string; paths: string[] }> {
  const dir = fresh();
  const clock = manualClock(start);
  const log = open(dir, { clock, maxBytes: 4000 });
  for (let n = 0; n < 60; n += 2) {
    const lines = [n, n + 1].map(
      (i) => `${JSON.stringify({ time: at(start + i * 1000), vault: 'v', n: i })}\n`,
    );
    log.append(lines.join(''));
  }
  await log.settle();
  log.close();
  t.match(await checkLog(dir, true), { ok: true, anchored: true, records: 60, missing: [] });
  return { dir, paths: files(dir) };
}

t.test('a log that was rewritten and chained anew is found, with and without its version', async (t) => {
  for (const disguise of [false, true]) {
    const { dir } = await known();
    rechain(dir, (lines) => {
      const rewritten = lines.replace('"n":7', '"n":8');
      return disguise ? rewritten.replace('"version":2', '"version":1') : rewritten;
    });
    const verdict = await checkLog(dir, true);
    t.match(verdict, { ok: false, firstBad: { line: 1 } });
    t.match(verdict.firstBad?.reason, disguise ? /without the key/ : /not what its chain line says/);
  }
});

t.test(
  'an emptied folder, a cut end, a missing beginning and middle are found, and from where to where',
  async (t) => {
    const second = (n: number) => at(start + n * 1000);
    const cases: [what: string, damage: (paths: string[], dir: string) => void, missing: object][] = [
      [
        'emptied',
        (paths) => paths.map((path) => fs.rmSync(path)),
        { from: 1, to: 30, after: null, before: null },
      ],
      ['gone', (_, dir) => fs.rmSync(join(dir, 'audit'), { recursive: true }), { from: 1, to: 30 }],
      ['end', (paths) => fs.rmSync(paths.at(-1) as string), { to: 30, before: null }],
      [
        'last batch',
        (paths) => {
          const path = paths.at(-1) as string;
          fs.writeFileSync(path, batchesOf(fs.readFileSync(path, 'utf8')).slice(0, -2).join(''));
        },
        { from: 29, to: 30, after: second(55), before: null },
      ],
      ['beginning', (paths) => fs.rmSync(paths[0]), { from: 1, after: null }],
      ['middle', (paths) => fs.rmSync(paths[1]), { after: /Z/, before: /Z/ }],
    ];
    for (const [what, damage, missing] of cases) {
      const { dir, paths } = await known();
      damage(paths, dir);
      const found = await checkLog(dir, true);
      t.match([found.ok, found.missing.length], [false, 1], what);
      t.match(found.missing[0], missing, what);
      // The next start goes on behind what is missing: it can be told for ever, by the numbers.
      const log = open(dir);
      log.append(batch(1000));
      await log.settle();
      t.equal(log.anchor().head.seq, 31, what);
      log.close();
      const later = await checkLog(dir, true);
      t.match([later.ok, later.missing.length], [false, 1], what);
      t.match(later.missing[0], { ...missing, before: /Z/ }, what);
    }
  },
);

t.test('whatever batch or segment is taken out, repeated or exchanged is found', async (t) => {
  const { dir, paths } = await known();
  const whole = paths.map((path) => fs.readFileSync(path, 'utf8'));
  const batches = whole.map(batchesOf);
  const place = fc.nat({ max: paths.length - 1 }).chain((file) => {
    const index = fc.nat({ max: batches[file].length - 1 });
    return fc.tuple(fc.constant(file), index, index);
  });
  await fc.assert(
    fc.asyncProperty(
      place,
      fc.constantFrom('out', 'twice', 'exchange', 'segment'),
      async ([file, a, b], how) => {
        const changed = [...batches[file]];
        if (how === 'out') changed.splice(a, 1);
        if (how === 'twice') changed.splice(b, 0, changed[a]);
        if (how === 'exchange') [changed[a], changed[b]] = [changed[b], changed[a]];
        if (how === 'segment') changed.splice(0);
        if (changed.join('') === whole[file]) return true;
        if (changed.length === 0) fs.rmSync(paths[file]);
        else fs.writeFileSync(paths[file], changed.join(''));
        const { ok } = await checkLog(dir, true);
        fs.writeFileSync(paths[file], whole[file]);
        return !ok;
      },
    ),
    { numRuns: 150 },
  );
  t.match(await checkLog(dir, true), { ok: true });
});

t.test(
  'a log without a key goes on with one, can be read and checked, and is anchored from then on',
  async (t) => {
    const { dir } = await known();
    rechain(dir, (lines) => lines.replace('"version":2', '"version":1'));
    anchors.delete(dir);
    t.match(await checkLog(dir), { ok: true, records: 60 }, 'as a log of before is');
    const log = open(dir);
    log.append(batch(60));
    t.equal((await records(log)).length, 61);
    await log.settle();
    log.close();
    t.match(await checkLog(dir, true), { ok: true, records: 61 });
    t.equal(anchors.get(dir)?.unkeyed.seq, 30);
    rechain(dir, (lines) => (lines.includes('"version":2') ? lines : lines.replace('"n":7', '"n":8')));
    t.match(await checkLog(dir, true), { ok: false });
  },
);

t.test(
  'whoever fills the log loses records of their own first, and what was taken out is on record',
  async (t) => {
    const dir = fresh();
    const clock = manualClock(start);
    const retainBytes = 800_000;
    const log = open(dir, { clock, maxBytes: 80_000, retainBytes });
    const records_ = (actor: string | null, n: number, size: number) =>
      `${JSON.stringify({ time: at(clock.now()), kind: 'request', vault: 'v', actor, n, path: 'x'.repeat(size) })}\n`;
    for (let n = 0; n < 600; n++) {
      await clock.advance(100);
      // What the path says is not who it is of.
      log.append(records_('session:flood', n, 6000), n % 10 === 0 ? records_('session:good', n, 30) : '');
      if (n % 50 === 0) log.append(`{"time":"${at(clock.now())}","event":"of the broker"}\n`);
      if (n % 20 === 0) await log.settle();
    }
    await log.settle();
    const left = (await records(log)).map((text) => JSON.parse(text));
    log.close();
    const size = files(dir).reduce((sum, path) => sum + fs.statSync(path).size, 0);
    t.ok(size <= retainBytes, `${size} octets`);
    const of = (actor: string) => left.filter((record) => record.actor === actor).map(({ n }) => n);
    t.strictSame(
      of('session:good'),
      Array.from({ length: 60 }, (_, i) => i * 10),
      'all of it is there',
    );
    t.equal(left.filter(({ event }) => event === 'of the broker').length, 12);
    const flood = of('session:flood');
    t.strictSame(
      flood,
      Array.from({ length: flood.length }, (_, i) => 600 - flood.length + i),
      'the newest of it',
    );
    t.ok(flood.length * 6000 > retainBytes / 8);
    const thinned = left.filter(({ event }) => event === 'audit.thinned');
    const taken = thinned.reduce((sum, { of, records }) => sum + (of === 'session:flood' ? records : 0), 0);
    t.equal(taken + flood.length, 600, 'how many are gone is known');
    t.equal(thinned[0].first, at(start + 100));
    t.match(await checkLog(dir, true), { ok: true, anchored: true, missing: [] });

    const path = files(dir).find((one) => fs.readFileSync(one, 'utf8').includes('"thinned":')) as string;
    const whole = fs.readFileSync(path, 'utf8');
    for (const change of [
      (text: string) => text.replace('"records":', '"records":1'),
      (text: string) => text.replace(/\{.*"session:good".*\n/, ''),
      (text: string) => text.replace(/"from":(\d)/, '"from":1$1'),
      (text: string) =>
        text.replace(/"thinned":"./, (mac) => `${mac.slice(0, -1)}${mac.endsWith('0') ? 1 : 0}`),
    ]) {
      fs.writeFileSync(path, change(whole));
      t.not(fs.readFileSync(path, 'utf8'), whole);
      t.match(await checkLog(dir, true), { ok: false });
    }
    fs.writeFileSync(path, whole);
    // It is thinned again, and the chain still holds.
    const again = open(dir, { clock, maxBytes: 80_000, retainBytes: 400_000 });
    again.append(records_('session:good', 600, 30));
    await again.settle();
    again.close();
    t.match(await checkLog(dir, true), { ok: true });
  },
);

t.test('a query gives the newest records that match, newest last', async (t) => {
  const dir = fresh();
  const clock = manualClock(start);
  const log = open(dir, { clock, maxBytes: 100_000 });
  const vaults = ['default', 'bücher', 'third'];
  // Long enough for several pieces a file, with characters of several octets on their borders.
  const written = Array.from({ length: 3000 }, (_, n) => {
    const path = '/é€😀'.repeat(n === 1500 ? 20_000 : n % 17);
    return JSON.stringify({ time: at(start + n * 1000), vault: vaults[n % 3], n, path });
  });
  for (const [n, one] of written.entries()) {
    await clock.advance(n % 100 === 0 ? 100_000 : 0);
    log.append(`${one}\n`);
  }
  t.ok(files(dir).length > 3);
  t.strictSame(await records(log, { limit: 2000 }), written.slice(-2000));
  await fc.assert(
    fc.asyncProperty(
      fc.option(fc.constantFrom(...vaults, 'none'), { nil: undefined }),
      fc.option(fc.integer({ min: -10, max: 3010 }), { nil: undefined }),
      fc.option(fc.oneof(fc.nat({ max: 20 }), fc.nat({ max: 4000 })), { nil: undefined }),
      async (vault, second, limit) => {
        const since = second === undefined ? undefined : start + second * 1000;
        const wanted = written.filter((one, n) => {
          return (vault === undefined || JSON.parse(one).vault === vault) && n >= (second ?? 0);
        });
        const newest = limit === undefined ? wanted : wanted.slice(Math.max(0, wanted.length - limit));
        t.strictSame(await records(log, { vault, since, limit }), newest);
        t.strictSame(await records(log, { vault, since, limit, newest: 'first' }), newest.toReversed());
      },
    ),
    { numRuns: 30 },
  );
  log.close();
});
