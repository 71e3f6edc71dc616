/** The dialogue that builds services, on a real terminal, at a running broker. */
import t, { type Test } from 'tap';
import { type Broker, each, launcher, startBroker } from '../support/broker.ts';
import { keys, onTerminal, type Terminal } from '../support/terminal.ts';

let broker: Broker;

t.before(async () => {
  broker = await startBroker(t);
  for (const name of ['dev', 'empty', 'change']) await broker.api('POST', '/v1/vaults', { body: { name } });
  for (const vault of ['dev', 'change']) {
    const body = { credentials: { KEY_A: 'a', KEY_B: 'b' } };
    await broker.api('POST', '/v1/credentials', { vault, body });
  }
});

const servicesOf = async (vault: string) =>
  (await broker.api<{ services: object[] }>('GET', `/v1/vaults/${vault}/services`)).body.services;
const setServices = (vault: string, services: object[]) =>
  broker.api('PUT', `/v1/vaults/${vault}/services`, { body: { services } });

function build(t: Test, vault: string): Terminal {
  return onTerminal(t, [launcher, 'vault', 'service', 'set', '--vault', vault], {
    BROKER_ADDR: broker.address,
    BROKER_DATA_DIR: broker.directory,
  });
}

const clear = '\x15';

t.test('services are built in a dialogue', async (t) => {
  const terminal = build(t, 'dev');
  await terminal.talk(
    [['Services of vault dev', '❯ + Add a service'], keys.enter],
    [['Host', '> such as api.example.com'], '*.com'],
    [['Host *.com', 'right above a public suffix'], `${clear}*.Dev.Test.`],
    ['❯ *.dev.test', keys.enter],
    [['Description', '❯ (none)'], 'The dev API'],
    ['❯ The dev API', keys.enter],
    [['How does the broker authenticate?', '❯ bearer'], keys.down + keys.down],
    ['❯ api-key', keys.enter],
    [['Credential with the key', '❯ KEY_A'], keys.down],
    ['❯ KEY_B', keys.enter],
    [['Header Authorization', '❯ Authorization'], `${clear}X Key`],
    ['> must be a legal header name', `${clear}X-Key`],
    ['❯ X-Key', keys.enter],
    [['Prefix', '❯ (none)'], keys.enter],
    ['Replace a placeholder', `y${keys.enter}`],
    [['Credential', '❯ KEY_A'], keys.enter],
    [['Placeholder', '> such as __account_sid__'], 'account'],
    ['> could be an ordinary word', `${clear}__account__`],
    ['❯ __account__', keys.enter],
    [['Where is it replaced?', '❯ in one path'], keys.enter],
    [['Path', '> such as /bot__account__/*'], '/account'],
    ['> does not hold the placeholder', `${clear}/a/__account__/*`],
    ['❯ /a/__account__/*', keys.enter],
    ['Replace another placeholder', keys.enter],
  );
  await terminal.sees('Services of vault dev', '*.dev.test (api-key)', '+ Add a service');
  t.same(await servicesOf('dev'), [], 'nothing is saved yet');
  terminal.type(keys.down + keys.down);
  await terminal.talk(['❯ Look at all of it, and save', keys.enter]);
  await terminal.sees(
    'services:',
    '- host: "*.dev.test"',
    'placeholder: __account__',
    'Make these the services',
  );
  t.same(await servicesOf('dev'), [], 'nor before a yes, when all of it has been shown');
  terminal.type(keys.enter);
  await terminal.sees('Vault dev now has 1 service.');
  t.match(await terminal.ended, { code: 0 });
  t.same(await servicesOf('dev'), [
    {
      host: '*.dev.test',
      description: 'The dev API',
      auth: { type: 'api-key', key: 'KEY_B', header: 'X-Key' },
      substitutions: [{ key: 'KEY_A', placeholder: '__account__', at: { path: '/a/__account__/*' } }],
    },
  ]);
});

t.test('templates, several headers, another place for a placeholder', async (t) => {
  const terminal = build(t, 'dev');
  await terminal.talk(
    [['*.dev.test (api-key)', '+ Add a service'], keys.down],
    ['❯ + Add a service', keys.enter],
    [['Host'], '*.dev.test'],
    ['> is among the services already.', `${clear}b.test`],
    ['❯ b.test', keys.enter],
    ['Description', keys.enter],
    ['How does the broker authenticate?', keys.up + keys.up],
    ['❯ custom', keys.enter],
    ['> such as X-Api-Key', 'X-One'],
    ['❯ X-One', keys.enter],
    ['> such as Key {{ KEY_A }}', 'Key {{ NOPE }}'],
    ['> there is no credential NOPE.', `${clear}Key {{`],
    ['belongs to no placeholder', `${clear}Key {{ KEY_A }}`],
    ['❯ Key {{ KEY_A }}', keys.enter],
    ['Another header?', `y${keys.enter}`],
    ['> such as X-Api-Key', 'x-one'],
    ['> this header is there already', `${clear}X-Two`],
    ['❯ X-Two', keys.enter],
    ['Template of X-Two', 'fixed'],
    ['❯ fixed', keys.enter],
    ['Another header?', keys.enter],
    ['Replace a placeholder', `y${keys.enter}`],
    ['❯ KEY_A', keys.enter],
    ['Placeholder', '~b~1'],
    ['❯ ~b~1', keys.enter],
    ['Where is it replaced?', keys.up],
    ['❯ anywhere', keys.enter],
    // Takes the first two away and adds the third.
    ['Where may it stand?', ` ${keys.down} ${keys.down} ${keys.enter}`],
    ['Replace another placeholder', keys.enter],
    ['b.test (custom)', keys.down + keys.down + keys.down],
    ['❯ Look at all of it', keys.enter],
    ['Make these the services', keys.enter],
  );
  t.match(await terminal.ended, { code: 0 });
  t.same((await servicesOf('dev'))[1], {
    host: 'b.test',
    auth: { type: 'custom', headers: { 'X-One': 'Key {{ KEY_A }}', 'X-Two': 'fixed' } },
    substitutions: [{ key: 'KEY_A', placeholder: '~b~1', in: ['header'] }],
  });
});

t.test('services that are there: set up anew, disabled, enabled, removed', async (t) => {
  const bearer = (host: string) => ({ host, auth: { type: 'bearer', token: 'KEY_A' } });
  await setServices('change', [bearer('a.test'), bearer('b.test'), { ...bearer('c.test'), enabled: false }]);
  const terminal = build(t, 'change');
  await terminal.talk(
    ['❯ a.test (bearer)', keys.enter],
    ['❯ Set it up anew', keys.enter],
    ['❯ a.test', keys.enter],
    ['Description', keys.enter],
    ['❯ bearer', keys.down],
    ['❯ basic', keys.enter],
    ['Credential with the user name', keys.enter],
    ['Credential with the password', keys.up],
    ['❯ (an empty password)', keys.enter],
    ['Replace a placeholder', keys.enter],
    [['a.test (basic)', 'b.test (bearer)', 'c.test (bearer, disabled)'], keys.down],
    ['❯ b.test', keys.enter],
    ['Set it up anew', keys.down],
    ['❯ Disable', keys.enter],
    [['b.test (bearer, disabled)'], keys.down + keys.down],
    ['❯ c.test', keys.enter],
    ['Set it up anew', keys.down],
    ['❯ Enable', keys.enter],
    [['c.test (bearer)'], keys.enter],
    ['❯ Set it up anew', keys.down + keys.down],
    ['❯ Remove', keys.enter],
    [['❯ b.test'], keys.up + keys.up],
    ['❯ Look at all of it', keys.enter],
    ['Make these the services', `n${keys.enter}`],
    ['Services of vault change', keys.up + keys.up],
    ['❯ Look at all of it', keys.enter],
    ['Make these the services', keys.enter],
  );
  t.match(await terminal.ended, { code: 0 });
  t.same(await servicesOf('change'), [{ ...bearer('b.test'), enabled: false }, bearer('c.test')]);
});

t.test('Ctrl-C, Ctrl-D and leaving change nothing, and give the terminal back', async (t) => {
  const before = [{ host: 'kept.test', auth: { type: 'bearer', token: 'KEY_A' } }];
  await setServices('change', before);
  const places: (readonly [string, string])[][] = [
    [],
    [
      ['❯ kept.test', keys.up + keys.up + keys.up],
      ['❯ + Add a service', keys.enter],
    ],
    [
      ['❯ kept.test', keys.enter],
      ['❯ Set it up anew', keys.down + keys.down],
      ['❯ Remove', keys.enter],
      ['❯ + Add', keys.down],
      ['❯ Look', keys.enter],
    ],
  ];
  const cases = places.flatMap((place, i) => [keys.interrupt, keys.end].map((end) => ({ place, i, end })));
  await each(cases, async ({ place, i, end }) => {
    const terminal = build(t, 'change');
    await terminal.talk(...place);
    await terminal.sees(['Services of vault', 'Host', 'Make these the services'][i]);
    terminal.type(end);
    t.match(await terminal.ended, { code: 130 });
    t.match(terminal.shown, /Interrupted\. Nothing was changed\./);
    const { raw } = terminal;
    t.ok(raw.lastIndexOf('\x1b[?25l') <= raw.lastIndexOf('\x1b[?25h'), 'the cursor is shown again');
    t.same(await servicesOf('change'), before);
  });
  const terminal = build(t, 'change');
  await terminal.talk(['❯ kept.test', keys.up], ['❯ Leave without saving', keys.enter]);
  await terminal.sees('Nothing was changed.');
  t.match(await terminal.ended, { code: 0 });
  t.same(await servicesOf('change'), before);
});

t.test('what someone else changed meanwhile is not lost', async (t) => {
  const terminal = build(t, 'change');
  await terminal.sees('❯ kept.test');
  const other = [{ host: 'other.test', auth: { type: 'passthrough' } }];
  await setServices('change', other);
  terminal.type(keys.up + keys.up);
  await terminal.talk(['❯ Look at all of it', keys.enter], ['Make these the services', keys.enter]);
  t.match(await terminal.ended, { code: 1 });
  t.match(terminal.shown, /changed meanwhile\. Nothing was saved/);
  t.same(await servicesOf('change'), other);
});

t.test('a vault without credentials: what needs one says so', async (t) => {
  const terminal = build(t, 'empty');
  await terminal.talk(
    ['❯ + Add a service', keys.enter],
    ['Host', 'a.test'],
    ['❯ a.test', keys.enter],
    ['Description', keys.enter],
  );
  await terminal.sees('bearer', '(needs a credential: set one first', 'custom', 'passthrough');
  terminal.type(keys.up);
  await terminal.talk(['❯ passthrough', keys.enter], ['a.test (passthrough)', keys.down + keys.down]);
  await terminal.talk(['❯ Look at all of it', keys.enter], ['Make these the services', keys.enter]);
  t.match(await terminal.ended, { code: 0 });
  t.same(await servicesOf('empty'), [{ host: 'a.test', auth: { type: 'passthrough' } }]);
});

t.test('without a terminal there is no dialogue', async (t) => {
  const ran = await broker.command(['vault', 'service', 'set']);
  t.match(ran, {
    code: 2,
    stdout: '',
    stderr: /^broker: The dialogue needs a terminal\. .*-f services\.yaml.*\n$/,
  });
});
