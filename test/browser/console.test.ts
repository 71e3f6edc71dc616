/** The console in a real browser: what an operator does there, with and without scripts. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import t from 'tap';
import { Secret } from '../../src/actors/vault/secret.ts';
import { until } from '../support/broker.ts';
import { busy } from './furnish.ts';
import {
  by,
  complaints,
  done,
  password,
  prove,
  startChromium,
  startStage,
  visit,
  watchShifts,
} from './stage.ts';

const browser = await startChromium(t);
const stage = await startStage(t, busy());
const { vault } = stage;

const main = (page: Page) => page.locator('main').innerText();
const press = async (page: Page, name: string) => {
  await prove(page);
  await page.getByRole('button', { name, exact: true }).click();
};
const servicesOf = async (name: string) => (await done(vault.ask('service.list', { vault: name }))).services;
const keysOf = async (name: string) => (await done(vault.ask('credential.list', { vault: name }))).keys;

t.test('from sign-in to the first service', async (t) => {
  const page = await visit(t, browser, stage);
  const wrong = complaints(page);
  await page.goto(`${stage.baseUrl}/vaults?page=1`);
  t.match(page.url(), '/login?next=%2Fvaults%3Fpage%3D1');
  await page.getByLabel('Name').fill('owner');
  await page.getByLabel('Password').fill(password);
  await press(page, 'Sign in');
  await page.waitForURL(`${stage.baseUrl}/vaults?page=1`);
  await page.getByRole('link', { name: 'Overview' }).click();
  await page.getByRole('link', { name: 'Add a service' }).click();

  await page.getByLabel('Start from a well-known API').selectOption({ label: 'Twilio' });
  await press(page, 'Fill in');
  t.equal(await page.getByLabel('Host').inputValue(), 'api.twilio.com');
  await page.getByLabel('Value of TWILIO_ACCOUNT_SID').fill('AC1');
  await page.getByLabel('Value of TWILIO_AUTH_TOKEN').fill('secret of twilio');
  await press(page, 'Add the service');
  await page.getByText('The service is saved.').waitFor();
  t.match(
    await main(page),
    /api\.twilio\.com.*carry TWILIO_ACCOUNT_SID as user name and TWILIO_AUTH_TOKEN as password/s,
  );
  t.notMatch(await page.content(), 'secret of twilio');
  t.match(await servicesOf('default'), [
    {
      host: 'api.twilio.com',
      auth: { type: 'basic' },
      substitutions: [{ at: { path: '/2010-04-01/Accounts/__account_sid__*' } }],
    },
  ]);
  t.same(await keysOf('default'), ['TWILIO_ACCOUNT_SID', 'TWILIO_AUTH_TOKEN']);
  t.same(wrong, []);
});

t.test('services: the words of the API, edit, disable, remove', async (t) => {
  const page = await visit(t, browser, stage, { user: 'owner', javaScriptEnabled: false });
  await page.goto(`${stage.baseUrl}/vaults/default/new-service`);
  await page.getByLabel('Host').fill('*.com');
  await page.locator('[id="auth.token"]').fill('sk_live_pasted');
  await press(page, 'Add the service');
  const services = [{ host: '*.com', auth: { type: 'bearer', token: 'x' } }] as const;
  const refused = await vault.ask('service.set', { vault: 'default', mode: 'upsert', services, by });
  t.match(await page.getByRole('alert').innerText(), refused.ok ? 'refused' : refused.problem.message);
  t.equal(await page.getByLabel('Host').getAttribute('aria-invalid'), 'true');
  t.notMatch(await page.content(), 'sk_live_pasted', 'what may be a secret is not shown again');

  await page.getByLabel('Host').fill('api.example.com');
  await page.getByLabel(/^API key in a header/).check();
  t.notOk(
    await page.locator('[id="auth.token"]').isVisible(),
    'the fields of other kinds are out of the way',
  );
  await page.locator('[id="auth.key"]').fill('EXAMPLE_KEY');
  await page.getByLabel('Header', { exact: true }).fill('X-Key');
  await page.getByLabel('What stands before the value').fill('Token ');
  await press(page, 'Add the service');
  t.match(await page.getByRole('status').first().innerText(), /One step is left.*EXAMPLE_KEY/);
  t.equal(await page.evaluate('document.activeElement.name'), 'value.EXAMPLE_KEY');
  await page.getByLabel('Value of EXAMPLE_KEY').fill('v1');
  await press(page, 'Add the service');
  const find = async (host: string) => (await servicesOf('default')).find((service) => service.host === host);
  t.match(await find('api.example.com'), {
    auth: { type: 'api-key', key: 'EXAMPLE_KEY', header: 'X-Key', prefix: 'Token ' },
  });

  await page.getByRole('link', { name: 'api.example.com' }).click();
  await page.getByLabel(/^Headers of your own/).check();
  await page.getByLabel('Headers', { exact: true }).first().fill('X-A: {{ EXAMPLE_KEY }}\nX-B: b');
  await page.getByLabel('Description').fill('Changed');
  await press(page, 'Save');
  t.match(await find('api.example.com'), {
    description: 'Changed',
    auth: { type: 'custom', headers: { 'X-A': '{{ EXAMPLE_KEY }}', 'X-B': 'b' } },
  });
  await press(page, 'Disable api.example.com');
  t.match(await find('api.example.com'), { enabled: false });
  await press(page, 'Enable api.example.com');
  t.match(await main(page), 'The service is enabled.');
  await page.getByLabel('Host or description').fill('changed');
  await press(page, 'Find');
  t.equal(await page.locator('tbody tr').count(), 1);
  await page.getByRole('link', { name: 'api.example.com' }).click();
  await page.getByText('Remove', { exact: true }).click();
  await press(page, 'Remove api.example.com');
  t.equal(await find('api.example.com'), undefined);

  await page.goto(`${stage.baseUrl}/vaults/default/services/api.twilio.com`);
  await page.locator('[id="substitutions.0.key"]').fill('');
  await page.locator('[id="substitutions.0.placeholder"]').fill('');
  await press(page, 'Save');
  t.match(await page.getByRole('alert').innerText(), /keeps its placeholders/);
});

t.test('credentials: store, rotate, delete', async (t) => {
  const page = await visit(t, browser, stage, { user: 'owner' });
  await page.goto(`${stage.baseUrl}/vaults/default/credentials`);
  await page.getByLabel('Name').fill('not a key but a secret');
  await page.getByLabel('Value', { exact: true }).fill('v');
  await press(page, 'Store it');
  await page.getByRole('alert').waitFor();
  t.notMatch(await page.content(), 'not a key but a secret');
  await page.getByLabel('Name').fill('PEM_KEY');
  await page.getByText('It has several lines').last().click();
  await page.getByLabel('Value', { exact: true }).fill('line 1\nline 2');
  await press(page, 'Store it');
  await page.getByText('The value is stored.').waitFor();

  await page.getByRole('link', { name: 'Change EXAMPLE_KEY' }).click();
  await page.getByLabel('New value of EXAMPLE_KEY').fill('v2');
  await press(page, 'Set it');
  await page.getByText('The value is stored.').waitFor();
  await page.getByRole('link', { name: 'Change TWILIO_AUTH_TOKEN' }).click();
  t.match(await main(page), /It is sent to:\s+api\.twilio\.com/);
  await page.getByText('Delete this credential').click();
  t.match(await main(page), /Requests to api\.twilio\.com are refused without it/);
  await press(page, 'Delete TWILIO_AUTH_TOKEN');
  await page.getByText('The credential is deleted.').waitFor();
  t.same(await keysOf('default'), ['EXAMPLE_KEY', 'PEM_KEY', 'TWILIO_ACCOUNT_SID']);
});

t.test('vaults: made by keyboard, set, cleared, deleted', async (t) => {
  const page = await visit(t, browser, stage, { user: 'owner' });
  await page.goto(`${stage.baseUrl}/vaults`);
  const focused = () =>
    page.evaluate<string>('document.activeElement.name || document.activeElement.textContent');
  for (let i = 0; i < 30 && (await focused()) !== 'name'; i++) await page.keyboard.press('Tab');
  await page.keyboard.type('Billing!');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').waitFor();
  t.equal(await page.evaluate("document.activeElement.getAttribute('role')"), 'alert');
  await page.getByLabel('Name').fill('billing');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/vaults\/billing\?done=vault-made/);

  await page.getByRole('link', { name: 'Settings' }).first().click();
  await page.getByLabel('Requests to hosts without a service').selectOption('deny');
  await page.getByLabel(/Credentials over https only/).check();
  await page.getByLabel('Requests a second').fill('7');
  await press(page, 'Save');
  await page.getByText('The settings are saved.').waitFor();
  const view = await done(vault.ask('vault.get', { vault: 'billing' }));
  t.match(view, { unmatched_host_policy: 'deny', require_tls: true, rate_limit: { rps: 7 } });
  await page.getByText('Remove all services', { exact: true }).click();
  await press(page, 'Remove all services of billing');
  await page.getByText(/The vault was cleared/).waitFor();
  await page.getByRole('link', { name: 'Settings' }).first().click();
  await page.getByText('Delete the vault').first().click();
  await page.getByLabel('Its name, billing, once more').fill('biling');
  await press(page, 'Delete the vault');
  await page.getByRole('alert').waitFor();
  await page.getByText('Delete the vault').first().click();
  await page.getByLabel('Its name, billing, once more').fill('billing');
  await press(page, 'Delete the vault');
  await page.getByText('The vault and all that was in it are gone.').waitFor();
});

t.test('by keyboard alone: past the bar, a service from a template, and its way off', async (t) => {
  const page = await visit(t, browser, stage, { user: 'owner' });
  await page.goto(`${stage.baseUrl}/vaults/default/new-service`);
  const focused = () =>
    page.evaluate<string>(`(() => {
      const { id, textContent, tagName } = document.activeElement;
      return id || (tagName === 'BODY' ? 'nothing' : textContent.trim());
    })()`);
  /** Tabs on to what has this id or text, and never over something that doesn't show that it has the focus. */
  const tabTo = async (wanted: string) => {
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press('Tab');
      const ring = await page.evaluate<string>('getComputedStyle(document.activeElement).outlineStyle');
      if (ring === 'none') return t.fail(`${await focused()} does not show the focus`);
      if ((await focused()) === wanted) return;
    }
    t.fail(`${wanted} is not reached`);
  };
  await page.keyboard.press('Tab');
  t.equal(await focused(), 'Skip to content');
  await page.keyboard.press('Enter');
  await tabTo('Services');
  await tabTo('template');
  await page.keyboard.type('Linear');
  await tabTo('Fill in');
  await page.keyboard.press('Enter');
  await page.waitForURL(/template=linear/);
  await tabTo('host');
  await tabTo('auth-api-key');
  await tabTo('value-LINEAR_API_KEY');
  await page.keyboard.type('lin_api_1');
  await page.keyboard.press('Enter');
  await page.getByText('The service is saved.').waitFor();
  await tabTo('api.linear.app');
  await page.keyboard.press('Enter');
  await page.waitForURL(/services\/api\.linear\.app/);
  await tabTo('Remove');
  await page.keyboard.press('Enter');
  await tabTo('Remove api.linear.app');
  await page.keyboard.press('Enter');
  await page.getByText('The service is removed.').waitFor();
  t.notOk((await servicesOf('default')).some(({ host }) => host === 'api.linear.app'));
});

t.test('agents: invited, rotated, removed; sessions revoked', async (t) => {
  const page = await visit(t, browser, stage, { user: 'owner' });
  await page.goto(`${stage.baseUrl}/agents`);
  await page.getByLabel('Name').fill('release-bot');
  await press(page, 'Make an invite');
  const [, invite] = (await page.locator('#copied').innerText()).split('POST ');
  t.notMatch(page.url(), 'brk_', 'the address does not hold it');
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await press(page, 'Copy');
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  t.match(await page.evaluate('navigator.clipboard.readText()'), invite);
  const joined = await fetch(invite, { method: 'POST' });
  t.match(await joined.json(), { agent: 'release-bot', vaults: ['default'] });
  await page.getByRole('link', { name: 'Done' }).click();
  const row = page.getByRole('row', { name: /release-bot/ });
  await row.getByText('New token', { exact: true }).click();
  await row.getByRole('button', { name: 'Make a new token' }).click();
  t.match(await page.locator('#copied').innerText(), /^brk_agt_[0-9a-f]{72}$/);
  await page.getByRole('link', { name: 'Done' }).click();
  await row.getByText('Remove', { exact: true }).click();
  await row.getByRole('button', { name: 'Remove release-bot' }).click();
  await page.getByText('The agent is removed.').waitFor();

  await done(vault.ask('session.create', { vault: 'default', ttlSeconds: 3600, label: 'nightly', by }));
  await page.reload();
  await page.getByText('Revoke', { exact: true }).click();
  await press(page, 'Revoke nightly');
  await page.getByText('The session is revoked').waitFor();
  t.same(await vault.ask('session.list', {}), []);
});

/** What is in the files of the audit. */
function auditText({ directory }: typeof stage): string {
  const folder = join(directory, 'audit');
  return readdirSync(folder)
    .map((file) => readFileSync(join(folder, file), 'utf8'))
    .join('');
}

/** As a lane writes it. */
const request = {
  ...{
    kind: 'request',
    time: '2026-01-31T12:34:56.000Z',
    request_id: 'r1',
    vault: 'default',
    actor: 'session:s1',
  },
  ...{
    label: '<b>nightly</b>',
    method: 'GET',
    scheme: 'https',
    host: 'api.example.com',
    path: '/x',
    service: null,
  },
  ...{ keys: [], status: 403, error: 'forbidden', bytes_in: 0, bytes_out: 0, ms: 1.2 },
};

t.test('live: proposals, requests, figures', async (t) => {
  const page = await visit(t, browser, stage, { user: 'owner' });
  const wrong = complaints(page);
  const shifts = await watchShifts(page);
  // It looks whenever it begins to listen.
  const listening = page.waitForResponse(/\/live\/proposals/);
  await page.goto(`${stage.baseUrl}/proposals`);
  await listening;
  const { id } = await stage.propose({ credentials: [{ action: 'set', key: 'LIVE_KEY' }] });
  await page.getByText('A new proposal has come.').waitFor();
  t.match(await page.locator('.count').innerText(), /^1/);
  await done(vault.ask('proposal.reject', { id, reason: '', by }));
  await page.locator('.count').waitFor({ state: 'hidden' });
  t.equal(await shifts.sum(), 0, 'a proposal that comes and goes moves nothing');

  // What happens between the making of the page and the beginning of its stream isn't lost.
  await page.route(
    '**/live/requests*',
    async (route) => {
      stage.audit(request);
      await until(() => auditText(stage).includes('"kind":"request"'), 'it is written', 60);
      await route.continue();
    },
    { times: 1 },
  );
  await page.goto(`${stage.baseUrl}/requests`);
  const row = page.locator('#requests tr').first();
  await row.waitFor();
  t.match(
    await row.innerText(),
    /12:34:56\s+<b>nightly<\/b>.*GET api\.example\.com\s+\/x\s.*403, 1 ms\s+forbidden/s,
  );
  stage.audit({ ...request, method: 'DELETE', path: '/y', keys: ['A_KEY'], service: 'api.example.com' });
  await row.getByText('DELETE').waitFor();
  t.match(await page.locator('#requests tr').nth(1).innerText(), /GET/, 'the other one is beneath it');
  t.equal(await shifts.sum(), 0, 'requests that come move nothing');
  await row.hover();
  stage.audit({ ...request, method: 'PUT' });
  await page.getByText('1 new, shown when you leave the list.').waitFor();
  t.match(await row.innerText(), /DELETE/, 'what one points at stays');
  await page.mouse.move(0, 0);
  await row.getByText('PUT').waitFor();
  await row.getByRole('link', { name: /Explain/ }).focus();
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/explain/);
  t.match(await main(page), /It would go through as it is.*none matches/s, 'why nothing was injected');

  stage.audit({ ...request, host: 'other.example.net', status: 200, error: null, keys: ['A_KEY'] });
  const shown = async (query: string) => {
    await page.goto(`${stage.baseUrl}/requests?${query}`);
    return page.locator('#requests tr').count();
  };
  await until(async () => (await shown('vault=default')) === 4, 'all of them are written', 60);
  t.equal(await shown('host=other'), 1);
  t.equal(await shown('outcome=refused'), 3);
  t.equal(await shown('outcome=2xx'), 1);
  t.equal(await shown('outcome=forbidden&host=api.example'), 3);
  t.equal(await shown('host=nowhere'), 0);
  t.match(await main(page), /No request of late is like that/);

  await page.goto(stage.baseUrl);
  const figure = page.locator('[data-figure="requests"]');
  const before = await figure.innerText();
  await until(
    async () => (await figure.innerText()) !== before,
    'the figures go on without loading the page',
    60,
  );
  t.equal(await shifts.sum(), 0, 'and move nothing');
  t.same(wrong, []);
});

t.test('the audit, whole and broken', async (t) => {
  const page = await visit(t, browser, stage, { user: 'owner' });
  await page.goto(`${stage.baseUrl}/audit`);
  t.match(await main(page), /proposal\.reject/);
  await press(page, 'Verify the whole log');
  await page.getByText('The log is whole.').waitFor();
  const folder = join(stage.directory, 'audit');
  const [file] = readdirSync(folder);
  const text = readFileSync(join(folder, file), 'utf8');
  writeFileSync(join(folder, file), text.replace('proposal.reject', 'proposal.accept'));
  await press(page, 'Verify the whole log');
  await page.getByText('The log is not whole.').waitFor();
  t.match(await main(page), /line \d+/);
  writeFileSync(join(folder, file), text);
});

t.test('an admin sees and changes their own vaults alone', async (t) => {
  await done(vault.ask('vault.create', { name: 'research', by }));
  await stage.admin('ada', 'research');
  const values = new Map([['A_KEY', new Secret('v')]]);
  await done(vault.ask('credential.set', { vault: 'research', values, byAgent: false, by }));
  const page = await visit(t, browser, stage, { user: 'ada' });
  await page.goto(`${stage.baseUrl}/vaults`);
  t.match(await main(page), 'research');
  t.notMatch(await main(page), 'default');
  t.equal(await page.getByRole('button', { name: 'Make the vault' }).count(), 0);
  for (const path of [
    '/vaults/default',
    '/vaults/default/credentials',
    '/vaults/default/settings',
    '/vaults/default/new-service',
    '/proposals?vault=default',
    '/audit?vault=default',
    '/explain?vault=default',
  ]) {
    t.equal((await page.goto(stage.baseUrl + path))?.status(), 403, path);
  }
  await page.goto(`${stage.baseUrl}/audit`);
  t.equal(await page.getByRole('button', { name: 'Verify the whole log' }).count(), 0);
  t.notMatch(await main(page), /proposal\.reject|operator:owner\s+vault\.delete|agent\.remove/);
  await page.goto(`${stage.baseUrl}/requests`);
  t.match(await main(page), 'No requests yet');
  await page.getByText('Live: new requests show at the top.').waitFor();
  stage.audit(
    { ...request, label: 'of another vault' },
    { ...request, vault: 'research', label: 'of their own' },
  );
  await page.getByText('of their own').waitFor();
  t.equal(await page.locator('#requests tr').count(), 1);
});

t.test('signed out, going back shows nothing', async (t) => {
  const page = await visit(t, browser, stage, { user: 'owner' });
  await page.goto(`${stage.baseUrl}/vaults/default/credentials`);
  t.match(await main(page), 'PEM_KEY');
  await press(page, 'Sign out');
  await page.waitForURL(`${stage.baseUrl}/login`);
  await page.goBack();
  t.match(page.url(), '/login?next=');
  t.notMatch(await page.content(), 'PEM_KEY');
});
