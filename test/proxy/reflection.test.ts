/** Answers that hold what was put into their requests, over real sockets. */
import zlib from 'node:zlib';
import t from 'tap';
import type { Service } from '../../src/actors/vault/model.ts';
import { openTunnel, startLane } from '../support/lane.ts';
import { rawUpstream } from '../support/upstream.ts';
import { eventually, nextAnswer, nextRequest, type Wire, wireOf } from '../support/wire.ts';

const secret = 'tok/Abc+123=xyz';
const host = 'api.good.test';
const bearer = { host, auth: { type: 'bearer', token: 'K' } } as const;
const modes = {
  audit: bearer,
  redact: { ...bearer, reflection: 'redact' },
  pass: { ...bearer, reflection: 'pass' },
} as const;
const basic = { host, auth: { type: 'basic', username: 'U', password: 'P' }, reflection: 'redact' } as const;
const anywhere = {
  host,
  auth: { type: 'passthrough' },
  substitutions: [{ key: 'K', placeholder: '__k__' }],
} as const;
const placed = {
  ...anywhere,
  substitutions: [{ key: 'K', placeholder: '__k__', at: { path: '/bot__k__/*' } }],
} as const;
const vault = (service: Service) => ({ services: [service], credentials: { K: secret, U: 'me', P: 'pw' } });
// What stands still is given up after 10 s; here when the test says that they are over.
const { setTimeout: setTimer } = globalThis;
const idle: (() => void)[] = [];
globalThis.setTimeout = ((then: () => void, ms?: number, ...rest: []) => {
  if (ms === 10_000) idle.push(then);
  return setTimer(then, ms, ...rest);
}) as typeof setTimeout;

const lane = await startLane({
  ...{ audit: vault(modes.audit), redact: vault(modes.redact), pass: vault(modes.pass) },
  ...{ basic: vault(basic), anywhere: vault(anywhere), placed: vault(placed) },
});
t.teardown(() => lane.stop());

type Script = (
  wire: Wire,
  request: { line: string; fields: readonly (readonly [string, string])[] },
) => unknown;
let script: Script = () => {};
const up = await rawUpstream(
  t,
  async (wire) => {
    for (;;) {
      const request = await nextRequest(wire);
      await script(wire, request);
    }
  },
  { tls: false },
);
let count = 0;
/** One request in a vault whose upstream does this; the answer, and what its record says of it. */
async function asked(name: string, answer: Script, target = '', fields = '') {
  script = answer;
  const path = `/${++count}`;
  const wire = wireOf(await openTunnel(lane, name, `${host}:${up.port}`));
  wire.send(`GET ${target || path} HTTP/1.1\r\nHost: ${host}\r\n${fields}\r\n`);
  const { status, fields: came, body } = await nextAnswer(wire);
  wire.close();
  const [record] = await lane.recordsOf((target || path).split('?')[0]);
  return { status, fields: came, body, reflected: record.reflected, record };
}
const replies = (head: string, body: string | Buffer): Script => {
  return (wire) => {
    wire.send(`HTTP/1.1 200 OK\r\n${head}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n`);
    wire.send(body);
  };
};
const stars = (text: string) => '*'.repeat(text.length);

t.test('pass, audit, redact: the body, whatever its form', async (t) => {
  for (const form of [
    secret,
    encodeURIComponent(secret),
    secret.replaceAll('/', '\\/'),
    [...secret].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join(''),
    Buffer.from(secret).toString('hex'),
  ]) {
    const body = `{"a":"${form}"}`;
    const passed = await asked('pass', replies('', body));
    t.match([passed.body, passed.reflected], [body, undefined]);
    const audited = await asked('audit', replies('', body));
    t.match([audited.body, audited.reflected], [body, ['K']]);
    const redacted = await asked('redact', replies('', body));
    t.match([redacted.body, redacted.reflected], [`{"a":"${stars(form)}"}`, ['K']], form);
  }
  const quiet = await asked('audit', replies('', 'nothing of it: tok/Abc+123=xy'));
  t.equal(quiet.reflected, undefined);
  const base64 = Buffer.from(`x${secret}`).toString('base64');
  const redacted = await asked('redact', replies('', base64));
  t.equal(redacted.body.length, base64.length);
  t.match(redacted.body, /\*{18}/);
});

t.test('head, interim answers and trailers', async (t) => {
  const trailers: Script = (wire) => {
    wire.send(`HTTP/1.1 103 Early Hints\r\nLink: <${secret}>\r\n\r\n`);
    wire.send(`HTTP/1.1 200 ${secret}\r\nLocation: /?k=${encodeURIComponent(secret)}\r\nX: y\r\n`);
    wire.send(
      `Transfer-Encoding: chunked\r\n\r\n5\r\ntok/A\r\n3\r\nbc+\r\n7\r\n123=xyz\r\n0\r\nT: ${secret}\r\n\r\n`,
    );
  };
  script = trailers;
  const wire = wireOf(await openTunnel(lane, 'redact', `${host}:${up.port}`));
  wire.send(`GET /trailers HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
  await eventually(() => wire.all.includes(`T: ${stars(secret)}`), 'the trailer');
  const { all } = wire;
  t.notOk(all.includes(secret) || all.includes(encodeURIComponent(secret)));
  t.match(all, `Link: <${stars(secret)}>`);
  t.match(all, `Location: /?k=${stars(encodeURIComponent(secret))}`);
  t.equal(
    [...all.matchAll(/\*/g)].length,
    4 * secret.length + encodeURIComponent(secret).length,
    'and in three chunks',
  );
  wire.close();
  const [record] = await lane.recordsOf('/trailers');
  t.same(record.reflected, ['K']);
  const found = await asked('audit', replies(`Location: /?k=${encodeURIComponent(secret)}\r\n`, ''));
  t.same(found.reflected, ['K'], 'a head by itself');
});

t.test('events come at once; what may be a beginning waits until it is clear', async (t) => {
  let go = () => {};
  script = async (wire) => {
    wire.send('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n');
    for (const text of ['data: one\n\n', 'data: tok/Ab', `${secret.slice(6)}\n\n`]) {
      wire.send(`${text.length.toString(16)}\r\n${text}\r\n`);
      await new Promise<void>((resolve) => {
        go = resolve;
      });
    }
    wire.send('0\r\n\r\n');
  };
  const wire = wireOf(await openTunnel(lane, 'redact', `${host}:${up.port}`));
  wire.send(`GET /events HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
  await eventually(() => wire.all.includes('data: one\n\n'), 'the next event');
  go();
  await eventually(() => wire.all.includes('data: \r\n'), 'the next event');
  t.notOk(wire.all.includes('tok'));
  go();
  await eventually(() => wire.all.includes('***************\n\n'), 'the next event');
  go();
  await eventually(() => wire.all.endsWith('0\r\n\r\n'), 'the next event');
  wire.close();
});

t.test('coded bodies: looked into beside the way, or sent decoded', async (t) => {
  const body = `${'x'.repeat(5000)} ${secret} end`;
  const codings = {
    gzip: zlib.gzipSync(body),
    br: zlib.brotliCompressSync(body),
    deflate: zlib.deflateSync(body),
  };
  for (const [coding, bytes] of Object.entries(codings)) {
    const head = `Content-Encoding: ${coding}\r\nETag: "a"\r\nDigest: x\r\n`;
    const audited = await asked('audit', replies(head, bytes));
    t.same([audited.reflected, audited.body.length], [['K'], bytes.length], `audit ${coding}`);
    const redacted = await asked('redact', replies(head, bytes));
    t.equal(redacted.body, body.replace(secret, stars(secret)), `redact ${coding}`);
    t.same(redacted.reflected, ['K']);
    const names = redacted.fields.map(([name]) => name.toLowerCase());
    for (const gone of ['content-encoding', 'etag', 'digest', 'content-length'])
      t.notOk(names.includes(gone), `${coding} ${gone}`);
  }
  const unknown = await asked('redact', replies('Content-Encoding: zip\r\n', 'x'));
  t.match([unknown.status, JSON.parse(unknown.body).error], [502, 'upstream_protocol']);
  const part = await asked('redact', (wire) => {
    wire.send('HTTP/1.1 206 Partial Content\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx');
  });
  t.match([part.status, JSON.parse(part.body).error], [502, 'upstream_protocol']);
  const weak = await asked('redact', replies('Content-Encoding: gzip\r\nETag: W/"a"\r\n', codings.gzip));
  t.ok(weak.fields.some(([name, value]) => name === 'ETag' && value === 'W/"a"'));
  const empty = await asked('redact', replies('Content-Encoding: gzip\r\n', ''));
  t.equal(empty.body, '');
});

t.test('redact asks for identity coding; a placeholder without a place redacts by itself', async (t) => {
  let seen = '';
  const echo: Script = (wire, { line, fields }) => {
    seen = fields.filter(([name]) => name.toLowerCase() === 'accept-encoding').join();
    const body = line.split(' ')[1];
    wire.send(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  };
  const form = encodeURIComponent(secret);
  const open = await asked('anywhere', echo, '/open?text=__k__', 'Accept-Encoding: gzip\r\n');
  t.equal(open.body, `/open?text=${stars(form)}`);
  t.equal(seen, 'Accept-Encoding,identity');
  const bound = await asked('placed', echo, '/bot__k__/sendMessage?text=__k__', 'Accept-Encoding: gzip\r\n');
  t.match(bound.body, /\?text=__k__$/, 'in its place only');
  t.equal(seen, 'Accept-Encoding,gzip');
  t.same(bound.reflected, ['K']);
  const login = await asked('basic', (wire, { fields }) => {
    const [, value] = fields.find(([name]) => name === 'Authorization') ?? ['', ''];
    wire.send(`HTTP/1.1 200 OK\r\nContent-Length: ${value.length}\r\n\r\n${value}`);
  });
  t.match(
    [login.body, login.reflected],
    [/^Basic \*+$/, ['U', 'P']],
    'the form that is sent, of short values too',
  );
});

t.test('HEAD, 204 and 304 stay as they are', async (t) => {
  const found = await asked('redact', (wire) =>
    wire.send('HTTP/1.1 204 No Content\r\nContent-Encoding: gzip\r\n\r\n'),
  );
  t.equal(found.status, 204);
  const cached = await asked('redact', (wire) =>
    wire.send('HTTP/1.1 304 Not Modified\r\nETag: "a"\r\nContent-Encoding: gzip\r\n\r\n'),
  );
  t.equal(cached.status, 304);
  t.ok(cached.fields.some(([name]) => name === 'ETag'));
});

t.test('a body that unfolds to a gigabyte costs a look no more than a megabyte', async (t) => {
  const bomb = zlib.gzipSync(Buffer.alloc(64 * 1024 * 1024));
  const before = process.memoryUsage().rss;
  for (let i = 0; i < 5; i++) {
    const found = await asked('audit', replies('Content-Encoding: gzip\r\n', bomb));
    t.equal(found.body.length, bomb.length);
    t.equal(found.record.status, 200);
  }
  t.ok(process.memoryUsage().rss - before < 128 * 1024 * 1024);
});

t.test(
  'coded answers that stand still take the look away from their own session only, and not for long',
  async (t) => {
    const gzip = 'Content-Encoding: gzip\r\n';
    const coded = zlib.gzipSync(secret);
    const own = {
      audit: lane.addSession({ vaults: ['audit'] }),
      redact: lane.addSession({ vaults: ['redact'] }),
    };
    const stands: Script = (wire) => {
      wire.send(`HTTP/1.1 200 OK\r\n${gzip}Content-Length: 100\r\n\r\n`);
      wire.send(coded.subarray(0, 10));
    };
    const open = async (name: 'audit' | 'redact', path: string, answer: Script) => {
      script = answer;
      const wire = wireOf(await openTunnel(lane, name, `${host}:${up.port}`, { token: own[name] }));
      wire.send(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
      await eventually(() => wire.all.includes('\r\n\r\n'), 'an answer');
      return wire;
    };
    const still: Wire[] = [];
    for (let i = 0; i < 8; i++) still.push(await open('audit', '/still', stands));
    for (let i = 0; i < 8; i++) still.push(await open('redact', '/still-redact', stands));
    const ninth = await open('audit', '/ninth', replies(gzip, coded));
    const [record] = await lane.recordsOf('/ninth');
    t.match([record.reflected, record.unlooked], [undefined, true], 'the record says that nobody looked');
    const refused = await open('redact', '/refused', replies(gzip, coded));
    t.match(refused.all, /^HTTP\/1.1 502 /);
    for (const name of ['audit', 'redact'] as const) {
      const other = await asked(name, replies(gzip, coded));
      t.match(
        [other.status, other.reflected, other.record.unlooked],
        [200, ['K'], undefined],
        `others: ${name}`,
      );
    }
    for (const over of idle.splice(0)) over();
    const cut = await lane.recordsOf('/still-redact', 8);
    t.ok(cut.every(({ error }) => error !== null));
    const later = await open('audit', '/later', replies(gzip, coded));
    t.same((await lane.recordsOf('/later'))[0].reflected, ['K'], 'its places are free again');
    for (const wire of [...still, ninth, refused, later]) wire.close();
    const given = await lane.recordsOf('/still', 8);
    t.ok(given.every(({ unlooked }) => unlooked === true));
  },
);

t.test('a record says where a coded answer was not looked into', async (t) => {
  const gzip = 'Content-Encoding: gzip\r\n';
  const twice = replies('Content-Encoding: gzip, gzip\r\n', zlib.gzipSync(zlib.gzipSync(secret)));
  for (const [answer, unlooked] of [
    [twice, true],
    [replies('Content-Encoding: zip\r\n', 'x'), true],
    [replies(gzip, 'no gzip'), true],
    [replies(gzip, zlib.gzipSync(Buffer.alloc(4 * 1024 * 1024))), true],
    [replies(gzip, zlib.gzipSync('x')), undefined],
    [replies(gzip, ''), undefined],
    [replies('', 'x'), undefined],
  ] as const)
    t.equal((await asked('audit', answer)).record.unlooked, unlooked);
});
