/** The page on which a human decides, in a real browser: from the link to what happened. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { Secret } from '../../src/actors/vault/secret.ts';
import { by, complaints, done, password, startChromium, startStage, visit } from './stage.ts';

const browser = await startChromium(t);
const stage = await startStage(t);
const { vault } = stage;

const bearer = (host: string, token: string) =>
  ({ action: 'set', host, auth: { type: 'bearer', token } }) as const;
const asking = {
  services: [bearer('api.stripe.com', 'STRIPE_KEY')],
  credentials: [
    {
      action: 'set',
      key: 'STRIPE_KEY',
      description: 'Restricted key',
      obtain: 'https://dashboard.stripe.com/apikeys',
    },
  ],
  message: 'For the nightly report.',
  user_message: 'I need to read payments.',
} as const;

const statusOf = async (id: number) => (await done(vault.ask('proposal.get', { id }))).status;
const store = (key: string, value: string) =>
  done(
    vault.ask('credential.set', {
      vault: 'default',
      values: new Map([[key, new Secret(value)]]),
      byAgent: false,
      by,
    }),
  );
const allow = (page: Page) => page.getByRole('button', { name: 'Allow' }).click();
const heading = (page: Page) => page.getByRole('heading', { level: 1 }).innerText();
const main = (page: Page) => page.locator('main').innerText();

t.test('the link alone shows everything and decides nothing', async (t) => {
  const { id, url } = await stage.propose(asking);
  const page = await visit(t, browser, stage);
  const wrong = complaints(page);
  await page.goto(url);
  t.equal(new URL(page.url()).search, '', 'the token is out of the address');
  const text = await main(page);
  t.match(text, 'release-bot');
  t.match(text, /Requests to api\.stripe\.com will carry STRIPE_KEY as a bearer token\./);
  t.match(text, /The agent says to you\. The broker has not checked it\.\s+I need to read payments\./);
  t.equal(await page.getByRole('button', { name: /allow|deny/i }).count(), 0);
  t.equal(await page.locator('[data-secret]').count(), 0);
  await page.reload();
  t.match(await main(page), 'api.stripe.com', 'the page can be loaded again without the token');
  const [cookie] = (await page.context().cookies(url)).filter(({ name }) => name === 'broker_approval');
  t.match(cookie, { httpOnly: true, sameSite: 'Strict', path: `/approve/${id}` });
  t.equal(await statusOf(id), 'pending');
  t.same(wrong, []);
});

t.test('allow, with a value that is hidden and checked', async (t) => {
  const { id, url } = await stage.propose(asking);
  const page = await visit(t, browser, stage, { user: 'owner' });
  const wrong = complaints(page);
  await page.goto(url);
  const field = page.getByLabel('Value of STRIPE_KEY');
  t.equal(await field.getAttribute('type'), 'password');
  t.equal(await field.getAttribute('autocomplete'), 'off');
  await allow(page);
  t.equal(await statusOf(id), 'pending', 'without the value the browser sends nothing');
  await field.fill('Bearer sk_test_1');
  t.match(await page.locator('[data-hint]').innerText(), /begins with the kind of authentication/);
  await field.fill('sk_test_page_value');
  t.equal(await page.locator('[data-hint]').innerText(), '');
  await allow(page);
  await page.waitForURL(`${stage.baseUrl}/approve/${id}`);
  t.match(await main(page), /Allowed by owner\..*next request is served already.*STRIPE_KEY was stored/s);
  t.equal(await statusOf(id), 'applied');
  t.notMatch(await page.content(), 'sk_test_page_value', 'the value is nowhere in the page');
  t.notMatch(stage.log.join(), 'sk_test_page_value');
  t.match(await done(vault.ask('credential.list', { vault: 'default' })), { keys: ['STRIPE_KEY'] });
  await page.goBack();
  await page.getByText('Allowed by owner').waitFor();
  t.match(await main(page), /Allowed by owner/, 'going back shows what is, not what was');
  t.same(wrong, []);
});

t.test('deny with a reason', async (t) => {
  const { id, url } = await stage.propose({
    services: [bearer('a.example.com', 'STRIPE_KEY')],
    credentials: [],
  });
  const page = await visit(t, browser, stage, { user: 'owner' });
  await page.goto(url);
  await page.getByLabel('Or deny it, with a reason').fill('Use the sandbox.\nAsk again then.');
  await page.getByRole('button', { name: 'Deny' }).click();
  await page.getByText('Denied by owner.').waitFor();
  t.match(await main(page), 'Use the sandbox.');
  const proposal = await done(vault.ask('proposal.get', { id }));
  t.match(proposal, {
    status: 'rejected',
    review_note: 'Use the sandbox.\nAsk again then.',
    reviewed_by: 'operator:owner',
  });
});

t.test(
  'a value that is missing, an existing key for a new host, and a vault that changes meanwhile',
  async (t) => {
    await store('STRIPE_KEY', 'sk_live');
    const { id, url } = await stage.propose({
      services: [bearer('api.str1pe.com', 'STRIPE_KEY'), bearer('new.example.com', 'NEW_KEY')],
      credentials: [{ action: 'set', key: 'NEW_KEY' }],
    });
    const page = await visit(t, browser, stage, { user: 'owner' });
    await page.goto(url);
    t.match(
      await page.locator('.grave').innerText(),
      /STRIPE_KEY, which you have stored already, would be sent to api\.str1pe\.com/,
    );
    t.match(await page.locator('.grave').innerText(), /could be taken for stripe\.com/);
    const tick = page.getByLabel('Yes, I want STRIPE_KEY to be sent there.');
    await page.getByLabel('Value of NEW_KEY').fill('v');
    await allow(page);
    t.equal(await statusOf(id), 'pending', 'without its own tick the browser sends nothing');

    // What the browser checks, the server checks too.
    const lift = () =>
      page.evaluate("document.querySelectorAll('[required]').forEach((field) => { field.required = false })");
    await lift();
    await allow(page);
    await page.getByRole('alert').waitFor();
    t.match(await page.getByRole('alert').innerText(), /Nothing was changed\..*Confirm each key/s);
    await tick.check();
    await lift();
    await allow(page);
    const alert = page.getByRole('alert').filter({ hasText: 'credentials.NEW_KEY: is missing' });
    await alert.waitFor();
    t.ok(await tick.isChecked(), 'the tick is kept');
    t.equal(await page.getByLabel('Value of NEW_KEY').inputValue(), '', 'the value is not');
    t.equal(await page.getByLabel('Value of NEW_KEY').getAttribute('aria-invalid'), 'true');
    t.equal(
      await page.evaluate("document.activeElement.getAttribute('role')"),
      'alert',
      'the refusal is read first',
    );
    t.equal(await statusOf(id), 'pending');

    await done(vault.ask('vault.update', { vault: 'default', patch: { require_tls: true }, by }));
    await page.getByLabel('Value of NEW_KEY').fill('v');
    await allow(page);
    await page.getByText('The vault has changed since you loaded this page').waitFor();
    t.equal(await statusOf(id), 'pending', 'what is allowed is what was seen');
    await page.getByLabel('Value of NEW_KEY').fill('v');
    await allow(page);
    await page.getByText('Allowed by owner.').waitFor();
    t.equal(await statusOf(id), 'applied');
  },
);

t.test('expired, withdrawn, wrong', async (t) => {
  const expired = await startStage(t);
  const { url } = await expired.propose(asking);
  expired.later(8 * 86_400_000);
  const page = await visit(t, browser, expired);
  const answer = await page.goto(url);
  t.equal(answer?.status(), 410);
  t.match(await main(page), /expired\. Ask the agent for a new one/);

  const { id, url: own } = await stage.propose(asking);
  const wrong = await page.goto(own.replace(/.{8}$/, '00000000'));
  t.equal(wrong?.status(), 404);
  await done(
    vault.ask('proposal.cancel', { id, vault: 'default', by: { ...by, actor: 'agent:release-bot' } }),
  );
  await page.goto(own);
  t.match(await main(page), /no longer pending: it was cancelled/);
});

t.test('decided by someone else: seen at once, and too late', async (t) => {
  const { id, url } = await stage.propose({ ...asking, credentials: [] });
  const page = await visit(t, browser, stage, { user: 'owner' });
  const still = await visit(t, browser, stage, { user: 'owner', javaScriptEnabled: false });
  await Promise.all([page.goto(url), still.goto(url)]);
  await still.waitForURL(`${stage.baseUrl}/approve/${id}`);
  await done(vault.ask('proposal.reject', { id, reason: 'no', by: { ...by, actor: 'operator:bob' } }));
  await page.getByText('This proposal was denied in the meantime.').waitFor();
  t.ok(await page.getByRole('button', { name: 'Allow' }).isDisabled());
  await page.getByRole('link', { name: 'See what happened' }).click();
  t.match(await main(page), /Denied by bob\./);
  await allow(still);
  t.match(
    await main(still),
    /decided before your answer came.*Nothing that you entered was used.*Denied by bob/s,
  );
});

t.test('two windows at once: one counts, the other is told', async (t) => {
  const { id, url } = await stage.propose({
    services: [bearer('two.example.com', 'TWO_KEY')],
    credentials: [{ action: 'set', key: 'TWO_KEY' }],
  });
  const windows = await Promise.all(
    [0, 1].map(() => visit(t, browser, stage, { user: 'owner', javaScriptEnabled: false })),
  );
  for (const [i, page] of windows.entries()) {
    await page.goto(url);
    await page.waitForURL(`${stage.baseUrl}/approve/${id}`);
    await page.getByLabel('Value of TWO_KEY').fill(`value-${i}`);
  }
  await Promise.all(windows.map(allow));
  await Promise.all(windows.map((page) => page.getByText('Allowed by owner').waitFor()));
  const texts = await Promise.all(windows.map(main));
  t.equal(texts.filter((text) => /decided before your answer came/.test(text)).length, 1);
  t.equal(texts.filter((text) => /Allowed by owner/.test(text)).length, 2);
  t.equal(await statusOf(id), 'applied');
});

t.test('sign-in on the way, and back', async (t) => {
  const { id, url } = await stage.propose({ ...asking, credentials: [] });
  const page = await visit(t, browser, stage);
  await page.goto(url);
  await page.getByLabel('Name').fill('owner');
  await page.getByLabel('Password').fill('not this one');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel('Name').fill('owner');
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL(`${stage.baseUrl}/approve/${id}`);
  await allow(page);
  await page.getByText('Allowed by owner.').waitFor();

  // Signed out in another window: to sign in, and back to the page.
  const later = await stage.propose({ ...asking, credentials: [] });
  await page.goto(later.url);
  await page.context().clearCookies({ name: 'broker_session' });
  await allow(page);
  await page.waitForURL(/\/login\?next=/);
  await page.getByLabel('Name').fill('owner');
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL(`${stage.baseUrl}/approve/${later.id}`);
  t.equal(await statusOf(later.id), 'pending');
});

t.test("who doesn't administer the vault may look, and is told whom to ask", async (t) => {
  await done(vault.ask('vault.create', { name: 'other', by }));
  await stage.admin('eve', 'other');
  const { id, url } = await stage.propose({ ...asking, credentials: [] });
  const page = await visit(t, browser, stage, { user: 'eve' });
  await page.goto(url);
  t.match(await main(page), /signed in as eve, who doesn’t administer this vault/);
  t.equal(await page.getByRole('button', { name: 'Allow' }).count(), 0);
  await page.context().clearCookies({ name: 'broker_approval' });
  t.equal((await page.goto(`${stage.baseUrl}/approve/${id}`))?.status(), 404);
});

t.test("from another site's link, signed in", async (t) => {
  const { id, url } = await stage.propose({ ...asking, credentials: [] });
  const chat = createServer((_, reply) =>
    reply.setHeader('content-type', 'text/html').end(`<a href="${url}">decide</a>`),
  );
  await new Promise<void>((resolve) => chat.listen(0, '127.0.0.1', resolve));
  t.teardown(() => chat.close());
  for (const javaScriptEnabled of [true, false]) {
    const page = await visit(t, browser, stage, { user: 'owner', javaScriptEnabled });
    await page.goto(`http://chat.test:${(chat.address() as AddressInfo).port}/`);
    await page.getByRole('link').click();
    await page.waitForURL(`${stage.baseUrl}/approve/${id}`);
    await page.getByRole('button', { name: 'Allow' }).waitFor();
    t.pass(`strict cookies are there, ${javaScriptEnabled ? 'with' : 'without'} JavaScript`);
    await page.goBack();
    t.match(page.url(), 'chat.test', 'the address with the token is not in the history');
  }
});

t.test('without JavaScript, on a phone, by keyboard alone', async (t) => {
  const pem = '-----BEGIN KEY-----\nabc\n-----END KEY-----\n';
  const { id, url } = await stage.propose({
    services: [{ ...bearer('keys.example.com', 'PEM_KEY'), description: 'x'.repeat(200) }],
    credentials: [{ action: 'set', key: 'PEM_KEY', description: 'A key in PEM form' }],
    user_message: `a-very-long-word-${'y'.repeat(300)}`,
  });
  const page = await visit(t, browser, stage, {
    user: 'owner',
    javaScriptEnabled: false,
    viewport: { width: 360, height: 740 },
    isMobile: true,
    hasTouch: true,
  });
  await page.goto(url);
  await page.waitForURL(`${stage.baseUrl}/approve/${id}`);
  await page.getByRole('link', { name: 'It has several lines' }).tap();
  const area = page.getByLabel('Value of PEM_KEY');
  t.equal(await area.evaluate((field) => field.tagName), 'TEXTAREA');
  t.equal(
    await page.evaluate("getComputedStyle(document.querySelector('.secret')).webkitTextSecurity"),
    'disc',
  );
  await noSidewaysScroll(t, page);
  await area.fill(pem);
  await page.getByRole('button', { name: 'Allow' }).tap();
  await page.getByText('Allowed by owner.').waitFor();
  t.equal(await statusOf(id), 'applied');

  const keyboard = await stage.propose({
    services: [bearer('tab.example.com', 'TAB_KEY')],
    credentials: [{ action: 'set', key: 'TAB_KEY' }],
  });
  const desk = await visit(t, browser, stage, { user: 'owner' });
  await desk.goto(keyboard.url);
  await desk.keyboard.press('Tab');
  t.equal(await focused(desk), 'Skip to content');
  await desk.keyboard.press('Enter');
  for (let i = 0; i < 20 && (await focused(desk)) !== 'value.TAB_KEY'; i++) await desk.keyboard.press('Tab');
  await desk.keyboard.type('typed');
  await desk.keyboard.press('Tab');
  t.equal(await focused(desk), 'It has several lines');
  await desk.keyboard.press('Tab');
  t.equal(await focused(desk), 'Allow');
  await desk.keyboard.press('Enter');
  await desk.getByText('Allowed by owner.').waitFor();
  t.equal(await heading(desk), `Proposal ${keyboard.id}`);
});

/** What has the focus: the text of a link or button, the name of a field. */
function focused(page: Page): Promise<string> {
  return page.evaluate('document.activeElement.name || document.activeElement.textContent');
}

async function noSidewaysScroll(t: Test, page: Page): Promise<void> {
  const [wide, shown] = await page.evaluate<[number, number]>(
    '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
  );
  t.ok(wide <= shown, `${wide} px fit into ${shown}`);
}
