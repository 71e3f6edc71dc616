/** Records of requests: JSON that finds room in its slot, whatever a request and its service are made of. */
import t from 'tap';
import { maxTailBytes, type RequestFacts, recordHead, recordTail } from '../../src/proxy/audit-line.ts';
import { slotBytes } from '../../src/proxy/audit-memory.ts';

const outcome = { sent: true, status: 200, error: null, bytesIn: 0, bytesOut: 0, milliseconds: 1 };

function facts(given: Partial<RequestFacts>): RequestFacts {
  const session = { kind: 'session', id: 's'.repeat(32), label: '\u{10ffff}'.repeat(200) };
  const access = { session, vault: { name: 'v'.repeat(64) }, auditNames: null };
  return {
    time: 0,
    requestId: 'r'.repeat(20),
    access: access as unknown as RequestFacts['access'],
    method: 'M'.repeat(32),
    scheme: 'https',
    host: `${'h'.repeat(253)}:65535`,
    path: '/',
    service: '*'.repeat(260),
    keys: [],
    ...given,
  };
}

const key = (i: number, length: number) => `K${i}_`.padEnd(length, 'X');

t.test('the longest record is JSON, and finds room', async (t) => {
  const many = Array.from({ length: 560 }, (_, i) => key(i, 128));
  for (const path of ['/', '\u0080', '"', '\u00ff', 'a'].map((each) => each.repeat(4000))) {
    for (const keys of [[], many.slice(0, 1), many]) {
      const given = facts({ path: `/${path}`, keys });
      const head = recordHead(given);
      t.ok(Buffer.byteLength(head) <= slotBytes - maxTailBytes, `${Buffer.byteLength(head)} octets`);
      const record = JSON.parse(head + recordTail(outcome));
      t.equal(record.keys.length + (record.keys_more ?? 0), keys.length, 'each key counts');
      t.same(record.keys, keys.slice(0, record.keys.length));
      t.ok(record.path_sha256, 'what is cut can be told from another');
    }
  }
});

t.test('the longest tail finds room', async (t) => {
  const reflected = new Set(Array.from({ length: 64 }, (_, i) => key(i, 128)));
  const most = Number.MAX_SAFE_INTEGER;
  const tail = recordTail({
    ...{ sent: true, status: 599, error: 'credential_not_found', attempts: 2, reflected, unlooked: true },
    ...{ bytesIn: most, bytesOut: most, milliseconds: most },
  });
  t.ok(tail.length <= maxTailBytes, `${tail.length} octets`);
  const record = JSON.parse(recordHead(facts({})) + tail);
  t.match([record.reflected.length, record.unlooked], [8, true]);
});

t.test('keys are all named where they are as many as services have', async (t) => {
  const keys = Array.from({ length: 20 }, (_, i) => key(i, 40));
  t.same(JSON.parse(recordHead(facts({ keys })) + recordTail(outcome)).keys, keys);
});
