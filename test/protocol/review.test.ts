/** What an approval has to have been shown: by the API and at a terminal, against ways around it. */
import t, { type Test } from 'tap';
import { type Broker, launcher, startBroker } from '../support/broker.ts';
import { onTerminal } from '../support/terminal.ts';

type Json = Record<string, unknown>;
interface Increase {
  readonly key: string;
  readonly hosts: readonly string[];
  readonly surface: string;
  readonly ticked_by: string;
}
interface Shown {
  readonly status: string;
  readonly requested_by: Json;
  readonly review: {
    readonly fingerprint: string;
    readonly increases: readonly Increase[];
    readonly risks?: unknown;
  };
}

let broker: Broker;
let token = '';
t.before(async () => {
  broker = await startBroker(t);
  token = await broker.session('default');
});

const setting = (host: string, key: string, more: object = {}) => ({
  action: 'set',
  host,
  auth: { type: 'bearer', token: key },
  ...more,
});
const slot = (key: string, more: object = {}) => ({ action: 'set', key, ...more });

async function propose(body: object): Promise<number> {
  return (await broker.api<{ id: number }>('POST', '/v1/proposals', { token, body })).body.id;
}
const look = async (id: number) => (await broker.api<Shown>('GET', `/v1/proposals/${id}`)).body;
const approve = (id: number, body: object = {}) =>
  broker.api<Json>('POST', `/v1/proposals/${id}/approve`, { body });
const services = (list: object[]) =>
  broker.api('PUT', '/v1/vaults/default/services', { body: { services: list } });
const credentials = (values: Json, as?: string) =>
  broker.api('POST', '/v1/credentials', {
    body: { credentials: values },
    ...(as === undefined ? { vault: 'default' } : { token: as }),
  });
const lines = ({ review }: Shown) =>
  review.increases.map((each) => `${each.key} ${each.hosts} ${each.surface} ${each.ticked_by}`);

/** Refused without a tick, and by a tick for something else; then done. Gives what was to be ticked. */
async function needsTick(t: Test, id: number, given: Json = {}): Promise<string[]> {
  const unasked = await approve(id, { credentials: given });
  t.match(unasked, { status: 409, body: { error: 'confirmation_required' } }, 'nothing is done unasked');
  const shown = await look(id);
  const { fingerprint, increases } = shown.review;
  const review = { fingerprint, increases };
  for (const more of [{ confirm_existing: ['OWN', 'WILD', 'K'] }, { confirm: 'x'.repeat(22) }]) {
    const answer = await approve(id, { credentials: given, ...more });
    t.match(answer, { status: 409, body: { error: 'confirmation_required', review } });
  }
  t.equal((await look(id)).status, 'pending');
  const done = await approve(id, { credentials: given, confirm: fingerprint });
  t.match(done, { status: 200, body: { status: 'applied' } });
  return lines(shown);
}

const auth = 'auth header Authorization';

t.test(
  'a service is approved with the agent’s own key, then a human is asked to fill that key',
  async (t) => {
    await credentials({ OWN: 'worthless' }, token);
    const first = await propose({ services: [setting('metrics.evil.test', 'OWN')] });
    t.same(await needsTick(t, first), [`OWN metrics.evil.test ${auth} confirm`]);
    const second = await propose({ services: [setting('api.good.test', 'OWN')], credentials: [slot('OWN')] });
    t.same(await needsTick(t, second, { OWN: 'sk_live' }), [
      `OWN api.good.test ${auth} value`,
      `OWN metrics.evil.test ${auth} confirm`,
    ]);
    const third = await propose({ credentials: [slot('OWN', { value: 'of the agent again' })] });
    t.equal(
      (await needsTick(t, third)).length,
      2,
      'nor does an agent’s value replace a stored one by itself',
    );
  },
);

t.test('a removal that lets a wildcard’s key through', async (t) => {
  await credentials({ WILD: 'w', K: 'k' });
  for (const enabled of [true, false]) {
    await services([
      { host: '*.wild.test', auth: { type: 'bearer', token: 'WILD' } },
      { host: 'kept.wild.test', auth: { type: 'passthrough' }, enabled },
    ]);
    const id = await propose({ services: [{ action: 'delete', host: 'kept.wild.test' }] });
    t.same(await needsTick(t, id), [`WILD kept.wild.test ${auth} confirm`], `enabled: ${enabled}`);
  }
});

t.test('the same host: another surface, a placeholder without its place, passthrough no more', async (t) => {
  const at = { path: '/bot__k__/*' };
  const placed = { substitutions: [{ key: 'K', placeholder: '__k__', at }] };
  const passthrough = { type: 'passthrough' };
  await services([{ host: 'bot.test', auth: passthrough, ...placed }]);
  const free = { substitutions: [{ key: 'K', placeholder: '__k__', in: ['path'] }] };
  const again = await propose({
    services: [{ action: 'set', host: 'bot.test', auth: passthrough, ...placed }],
  });
  t.match(await approve(again), { status: 200 }, 'nothing grows');
  const wider = await propose({
    services: [{ action: 'set', host: 'bot.test', auth: passthrough, ...free }],
  });
  t.same(await needsTick(t, wider), ['K bot.test path confirm']);
  const slotted = await propose({ services: [setting('bot.test', 'K')] });
  t.same(await needsTick(t, slotted), [`K bot.test ${auth} confirm`]);
});

t.test('a value is the tick for what the proposal names, and for no more', async (t) => {
  const named = { services: [setting('new.test', 'NEW')], credentials: [slot('NEW')] };
  t.match(await approve(await propose(named), { credentials: { NEW: 'v' } }), { status: 200 });
  const own = { services: [setting('own.test', 'GIVEN')], credentials: [slot('GIVEN', { value: 'v' })] };
  t.match(await approve(await propose(own)), { status: 200 }, 'an agent’s value of a new key');
  // The proposal says nothing of the placeholder that is there already.
  const substitutions = [{ key: 'NEW', placeholder: '__new__' }];
  await services([{ host: 'new.test', auth: { type: 'bearer', token: 'NEW' }, substitutions }]);
  t.same(await needsTick(t, await propose(named), { NEW: 'w' }), [
    `NEW new.test ${auth} value`,
    'NEW new.test path confirm',
    'NEW new.test query confirm',
  ]);
});

t.test('what has changed since it was shown is shown again', async (t) => {
  await services([{ host: 'a.test', auth: { type: 'bearer', token: 'K' } }]);
  const id = await propose({ services: [setting('b.test', 'WILD')], credentials: [slot('K')] });
  const { review } = await look(id);
  await broker.api('POST', '/v1/vaults/default/services', {
    body: { services: [{ host: 'c.test', auth: { type: 'bearer', token: 'K' } }] },
  });
  const stale = await approve(id, { credentials: { K: 'v' }, confirm: review.fingerprint });
  t.match(stale, { status: 409, body: { error: 'confirmation_required' } });
  const { risks: _, ...now } = (await look(id)).review;
  t.same(stale.body.review, now);
  t.equal((await look(id)).review.increases.length, review.increases.length + 1);
  await broker.api('PATCH', '/v1/vaults/default', { body: { require_tls: true } });
  const again = stale.body.review as Shown['review'];
  t.match(await approve(id, { credentials: { K: 'v' }, confirm: again.fingerprint }), { status: 409 });
  t.match((await look(id)).review.increases, [{ scheme: 'https' }]);
  await broker.api('PATCH', '/v1/vaults/default', { body: { require_tls: false } });
});

t.test('who asked, and what for: API, list, show', async (t) => {
  await services([]);
  const id = await propose({ services: [setting('who.test', 'K')] });
  const { requested_by } = await look(id);
  t.match(requested_by, { kind: 'session', id: /./ });
  const { body } = await broker.api<{ proposals: (Shown & { id: number })[] }>(
    'GET',
    '/v1/proposals?status=pending',
  );
  t.match(
    body.proposals.find((each) => each.id === id),
    {
      requested_by,
      review: { fingerprint: (await look(id)).review.fingerprint },
    },
  );
  const byAgent = await broker.api<Json>('GET', `/v1/proposals/${id}`, { token });
  t.match(byAgent.body, { requested_by });
  t.notOk('review' in byAgent.body, 'which key goes where is for operators');
  const list = await broker.command(['vault', 'proposal', 'list', '--status', 'pending']);
  t.match(list.stdout, new RegExp(`^${id} .*session .*${requested_by.id}.* who\\.test`, 'm'));
  const show = await broker.command(['vault', 'proposal', 'show', String(id)]);
  t.match(show.stdout, /requested_by:\n {2}kind: session/);
  t.match(show.stdout, /increases:\n {4}- key: K/);
});

t.test(
  'without a terminal the command line approves nothing that it was not told in so many words',
  async (t) => {
    const id = await propose({ services: [setting('cli.test', 'K')] });
    const run = (args: readonly string[], stdin = '') =>
      broker.command(['vault', 'proposal', 'approve', String(id), ...args], { stdin });
    const { fingerprint } = (await look(id)).review;
    const refusals: [args: string[], code: number, message: RegExp][] = [
      [[], 2, /no terminal to ask on.*--yes --confirm FINGERPRINT/],
      [['--stdin'], 2, /K would be sent to cli\.test.*--yes --confirm FINGERPRINT/],
      [['--yes'], 2, /--yes needs --confirm/],
      [['--confirm', fingerprint], 2, /--confirm goes with --yes/],
      [['--yes', '--confirm', 'x'.repeat(22)], 1, /changed since it was shown; nothing was approved/],
    ];
    for (const [args, code, message] of refusals) {
      const ran = await run(args);
      t.match(ran, { code, stdout: '' }, args.join(' '));
      t.match(ran.stderr.replaceAll('\n', ' '), message);
    }
    t.equal((await look(id)).status, 'pending');
    const done = await run(['--yes', '--confirm', fingerprint]);
    t.match(done, {
      code: 0,
      stderr: /Look twice:\n {2}! K would be sent to cli\.test: in the header Authorization/,
    });
    t.equal((await look(id)).status, 'applied');

    const plain = await propose({
      services: [{ action: 'set', host: 'pass.test', auth: { type: 'passthrough' } }],
    });
    const asked = await broker.command(['vault', 'proposal', 'approve', String(plain)], { stdin: '' });
    t.match(asked, { code: 2, stderr: /no terminal/ }, 'also where there is nothing to fill in or to tick');
    t.equal((await look(plain)).status, 'pending');
  },
);

t.test('on a terminal: all of it is shown, each increase and the whole are asked for', async (t) => {
  await services([{ host: '*.term.test', auth: { type: 'bearer', token: 'WILD' } }]);
  await services([
    { host: '*.term.test', auth: { type: 'bearer', token: 'WILD' } },
    { host: 'kept.term.test', auth: { type: 'bearer', token: 'K' } },
  ]);
  const id = await propose({
    services: [{ action: 'delete', host: 'kept.term.test' }, setting('other.test', 'K')],
    credentials: [{ action: 'delete', key: 'NEVER_WAS' }],
    user_message: `Harmless.\nAllow proposal 1? [y/N] y\n${'more\n'.repeat(50)}`,
  });
  const run = () =>
    onTerminal(t, [launcher, 'vault', 'proposal', 'approve', String(id)], {
      BROKER_ADDR: broker.address,
      BROKER_DATA_DIR: broker.directory,
    });
  const shown = [
    `Proposal ${id} for the vault default, asked for by the session`,
    'Look twice:',
    '! WILD would be sent to kept.term.test',
    '! K would be sent to other.test',
    'What changes:',
    'remove the service kept.term.test',
    'add the service other.test',
    'delete the credential NEVER_WAS',
    "The agent's words",
    '| Harmless.',
    '| Allow proposal 1? [y/N] y',
    'more characters: broker vault proposal show',
    'Fingerprint of what is shown here',
    'WILD would be sent to kept.term.test',
    'Is that what you want? [y/N]',
  ];
  const no = run();
  await no.talk([shown, 'y\r'], ['K would be sent to other.test', 'n\r']);
  await no.sees('Nothing was approved.');
  t.match(await no.ended, { code: 1 });
  t.equal((await look(id)).status, 'pending');

  const changed = run();
  await changed.talk([shown, 'y\r'], ['K would be sent to other.test', 'y\r']);
  await changed.sees(`Allow proposal ${id}? [y/N]`);
  await broker.api('PATCH', '/v1/vaults/default', { body: { require_tls: true } });
  changed.type('y\r');
  await changed.sees(
    'has changed since it was shown; nothing was approved',
    'over https only',
    'Is that what you want?',
  );
  t.equal((await look(id)).status, 'pending', 'it is shown and asked for once more');
  changed.type('y\r');
  await changed.talk(['K would be sent to other.test', 'y\r'], [`Allow proposal ${id}? [y/N]`, 'y\r']);
  await changed.sees('is applied to vault default');
  t.match(await changed.ended, { code: 0 });
  t.equal((await look(id)).status, 'applied');
});
