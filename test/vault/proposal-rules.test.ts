import t from 'tap';
import type { AuthConfig } from '../../src/actors/vault/model.ts';
import type { Result } from '../../src/actors/vault/problem.ts';
import { checkProposal } from '../../src/actors/vault/proposal-rules.ts';
import { unresolved } from '../../src/actors/vault/service-rules.ts';
import { vectors } from './vectors.ts';

const bearer = (token: string): AuthConfig => ({ type: 'bearer', token });

function accepted<T>(result: Result<T>): T {
  if (!result.ok) throw new Error(result.problem.message);
  return result.value;
}

function field(result: Result<unknown>): unknown {
  return result.ok ? { accepted: result.value } : result.problem.extra?.field;
}

/** The field that a proposal of this one slot is refused for. */
function slot(fields: Record<string, unknown>): unknown {
  return field(checkProposal({ credentials: [{ action: 'set', key: 'KEY', ...fields }] }));
}

t.test('vectors: proposal_validate', async (t) => {
  // Cases that go against the protocol as it is here: each is shown to be accepted.
  const turned: Record<string, string> = {
    'proposal_validate-015': 'deleting a host that is not there does nothing',
    'proposal_validate-016': 'a slot that no service uses is fine',
    'proposal_validate-035': 'localhost may be a service; the network guard decides what is dialled',
  };
  const notPure: Record<string, string> = {
    'proposal_validate-038': 'the number of pending proposals is the vault’s',
  };
  for (const { id, input, expect, note } of vectors('proposal_validate')) {
    if (notPure[id] !== undefined) continue;
    const checked = checkProposal(input.body);
    const missing = checked.ok
      ? unresolved(
          checked.value.services,
          new Set(['GH_TOKEN']),
          new Set(checked.value.credentials.filter((slot) => slot.action === 'set').map((slot) => slot.key)),
        )
      : null;
    const status = checked.ok && missing === null ? 201 : 400;
    t.equal(status, turned[id] === undefined ? expect.status : 201, `${id} ${turned[id] ?? note}`);
  }
});

t.test('what is accepted comes back canonical, with values apart', async (t) => {
  const service = { host: 'API.Example.com.', auth: bearer('KEY'), description: 'd', enabled: true };
  const checked = accepted(
    checkProposal({
      services: [
        { action: 'set', ...service },
        { action: 'delete', host: '*.Example:443' },
        { action: 'set', host: 'b', enabled: false },
      ],
      credentials: [
        {
          action: 'set',
          key: 'KEY',
          description: '',
          obtain: 'https://a.example/x?y#z',
          obtain_instructions: 'i',
        },
        { action: 'set', key: 'MINE', value: 'hunter2\r\n' },
        { action: 'delete', key: 'OLD' },
      ],
      message: '<script>\u202e\u001b[31m',
    }),
  );
  t.strictSame(checked.services, [
    { action: 'set', ...service, host: 'api.example.com' },
    { action: 'delete', host: '*.example:443' },
    { action: 'set', host: 'b', enabled: false },
  ]);
  t.strictSame(checked.credentials, [
    {
      action: 'set',
      key: 'KEY',
      description: '',
      obtain: 'https://a.example/x?y#z',
      obtain_instructions: 'i',
    },
    { action: 'set', key: 'MINE', has_value: true },
    { action: 'delete', key: 'OLD' },
  ]);
  t.equal(checked.values.get('MINE')?.reveal(), 'hunter2\r\n', 'the value is kept exactly');
  t.equal(checked.values.size, 1);
  t.notMatch(JSON.stringify({ ...checked, values: [...checked.values] }), /hunter2/);
  t.equal(checked.message, '<script>\u202e\u001b[31m', 'text is kept as text');
  t.equal(checked.user_message, '');
});

t.test('every refusal names its field', async (t) => {
  const set = (fields: Record<string, unknown>) => ({
    services: [{ action: 'set', host: 'a', auth: bearer('K'), ...fields }],
  });
  const keys = (count: number) => Array.from({ length: count }, (_, i) => ({ action: 'set', key: `K${i}` }));
  const deletes = (count: number) =>
    Array.from({ length: count }, (_, i) => ({ action: 'delete', host: `h${i}` }));
  const change = { action: 'set', host: 'A.', auth: bearer('K') };
  const table: [unknown, string][] = [
    [null, 'body'],
    [[], 'body'],
    [{}, 'services'],
    [{ services: [], credentials: [], message: 'm' }, 'services'],
    [{ services: {} }, 'services'],
    [{ credentials: null }, 'credentials'],
    [{ services: deletes(11) }, 'services'],
    [{ credentials: keys(11) }, 'credentials'],
    [{ ...set({}), extra: 1 }, 'extra'],
    [{ ...set({}), message: 'x'.repeat(2001) }, 'message'],
    [{ ...set({}), user_message: 'x'.repeat(5001) }, 'user_message'],
    [{ ...set({}), message: 7 }, 'message'],
    [{ ...set({}), message: 'a\udc00' }, 'message'],
    [{ services: [7] }, 'services[0]'],
    [{ services: [{ host: 'a' }] }, 'services[0].action'],
    [set({ action: 'replace' }), 'services[0].action'],
    [set({ auth: undefined }), 'services[0].auth'],
    [
      set({ auth: undefined, enabled: true, substitutions: [{ key: 'K', placeholder: '__x__' }] }),
      'services[0].auth',
    ],
    [set({ host: '*.com' }), 'services[0].host'],
    [set({ auth: { type: 'passthrough', token: 'K' } }), 'services[0].auth.token'],
    [{ services: [{ action: 'delete' }] }, 'services[0].host'],
    [{ services: [{ action: 'delete', host: 'a', auth: bearer('K') }] }, 'services[0].auth'],
    [{ services: [change, { action: 'delete', host: 'a' }] }, 'services[1].host'],
    [{ credentials: ['KEY'] }, 'credentials[0]'],
    [{ credentials: [{ key: 'KEY' }] }, 'credentials[0].action'],
    [{ credentials: [{ action: 'delete', key: 'KEY', value: 'v' }] }, 'credentials[0].value'],
    [{ credentials: [{ action: 'delete' }] }, 'credentials[0].key'],
    [{ credentials: [...keys(2), { action: 'delete', key: 'K1' }] }, 'credentials[2].key'],
  ];
  for (const [body, wanted] of table)
    t.equal(field(checkProposal(body)), wanted, JSON.stringify(body).slice(0, 80));
  t.match(checkProposal({ credentials: keys(10), services: deletes(10), message: '😀'.repeat(2000) }), {
    ok: true,
  });

  t.equal(slot({ key: 'lower' }), 'credentials[0].key');
  t.equal(slot({ has_value: true }), 'credentials[0].has_value');
  t.equal(slot({ description: 'x'.repeat(501) }), 'credentials[0].description');
  t.equal(slot({ obtain_instructions: 'x'.repeat(1001) }), 'credentials[0].obtain_instructions');
  for (const value of ['', 7, null, 'x'.repeat(65537), 'é'.repeat(32769), 'a\ud83d']) {
    t.equal(slot({ value }), 'credentials[0].value', String(value).slice(0, 10));
  }
  t.match(slot({ value: 'é'.repeat(32768) }), { accepted: {} }, '64 KiB');
  const links = [
    '',
    'a.example',
    'ftp://a.example',
    'javascript:alert(1)',
    '//a.example',
    'https://',
    'https://u@a.example',
  ];
  const hidden = [
    'https://u:p@a.example',
    'https://@a.example\\x',
    ' https://a.example',
    'ht\ntps://a.example',
    'https://a.example/\u202eb',
  ];
  for (const obtain of [...links, ...hidden, `https://a.example/${'x'.repeat(483)}`, 7]) {
    t.equal(slot({ obtain }), 'credentials[0].obtain', String(obtain).slice(0, 30));
  }
  t.match(slot({ obtain: `https://a.example/${'x'.repeat(482)}` }), { accepted: {} }, '500 characters');
});

t.test('a refused value is not repeated', async (t) => {
  const checked = checkProposal({
    credentials: [{ action: 'set', key: 'KEY', value: `hunter2${'x'.repeat(65536)}` }],
  });
  t.notOk(checked.ok);
  t.notMatch(JSON.stringify(checked), /hunter2/);
});
