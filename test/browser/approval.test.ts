/** The page on which a human decides, in a real browser: from the link to what happened. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { Secret } from '../../src/actors/vault/secret.ts';
import { hashToken } from '../../src/actors/vault/token.ts';
import {
  barriers,
  by,
  complaints,
  done,
  giveCookie,
  password,
  prove,
  signIn,
  startChromium,
  startStage,
  visit,
} from './stage.ts';

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

/** Needs nothing from whoever allows it. */
const plain = {
  ...asking,
  services: [{ action: 'set', host: 'plain.example.com', auth: { type: 'passthrough' } }],
  credentials: [],
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
/** Where no script runs, with the operator's password. */
const allow = async (page: Page) => {
  await prove(page);
  await page.getByRole('button', { name: 'Allow' }).click();
};
/** The page takes clicks and keys: not at once, since they may be meant for another. */
const isSettled = (page: Page) => page.waitForFunction(`!document.body.classList.contains('settling')`);
const heading = (page: Page) => page.getByRole('heading', { level: 1 }).innerText();
const main = (page: Page) => page.locator('main').innerText();

/** What is on the page now is for everyone: axe has nothing to say, and nothing is cut off at the side. */
async function isForEveryone(t: Test, page: Page, what: string): Promise<void> {
  t.same(await barriers(page), [], `axe: ${what}`);
  const isCutOff = 'document.documentElement.scrollWidth > document.documentElement.clientWidth';
  const wide = `[...document.querySelectorAll('body *')]
    .filter((each) => each.scrollWidth > each.clientWidth && each.clientWidth > 1).map((each) => each.outerHTML)`;
  t.same(await page.evaluate(`${isCutOff} ? ${wide} : []`), [], `fits into its width: ${what}`);
  t.notOk(await page.evaluate(isCutOff));
}

/** A page without JavaScript, for axe to look at: the same markup where scripts may run. */
async function copyOf(t: Test, page: Page): Promise<Page> {
  const copy = await visit(t, browser, stage);
  const body = (await page.content()).replace(/<script[^>]*><\/script>/, '');
  await copy.route(page.url(), (route) => route.fulfill({ body, contentType: 'text/html' }));
  await copy.goto(page.url());
  return copy;
}

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
  t.notMatch(await page.content(), /brk_/, 'no token is in the page');
  await isForEveryone(t, page, 'signed out');
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
  t.equal(await focused(page), 'value.STRIPE_KEY', 'the browser asks for the value');
  t.equal(await statusOf(id), 'pending', 'and sends nothing without it');
  await field.fill('Bearer sk_test_1');
  t.match(await page.locator('[data-hint]').innerText(), /begins with the kind of authentication/);
  await field.fill('\u201csk_test_1\u201d');
  t.match(await page.locator('[data-hint]').innerText(), /that no header can carry/);
  await field.fill('sk_test_page_value');
  t.equal(await page.locator('[data-hint]').innerText(), '');
  await isForEveryone(t, page, 'to be decided');
  await allow(page);
  await page.getByText('Allowed by owner.').waitFor();
  await isForEveryone(t, page, 'allowed');
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
  const { id, url } = await stage.propose(asking);
  const page = await visit(t, browser, stage, { user: 'owner' });
  await page.goto(url);
  await page.getByLabel('Or deny it, with a reason').fill('Use the sandbox.\nAsk again then.');
  await page.getByRole('button', { name: 'Deny' }).click();
  await page.getByText('Denied by owner.').waitFor();
  t.match(await main(page), 'Use the sandbox.');
  await isForEveryone(t, page, 'denied');
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
      await page.getByRole('region', { name: 'Your credentials would reach more' }).innerText(),
      /STRIPE_KEY would be sent to api\.str1pe\.com: in the header Authorization, over https and unencrypted http\./,
    );
    t.match(
      await page.getByRole('region', { name: 'Look twice' }).innerText(),
      /could be taken for stripe\.com/,
    );
    const tick = page.getByLabel('Yes, I want STRIPE_KEY to be sent to api.str1pe.com.');
    await page.getByLabel('Value of NEW_KEY').fill('v');
    await allow(page);
    t.equal(await statusOf(id), 'pending', 'without its own tick the browser sends nothing');

    // What the browser checks, the server checks too.
    const lift = () =>
      page.evaluate("document.querySelectorAll('[required]').forEach((field) => { field.required = false })");
    await lift();
    await allow(page);
    await page.getByRole('alert').waitFor();
    t.match(await page.getByRole('alert').innerText(), /Nothing was changed\..*needs a tick of its own/s);
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
    await isForEveryone(t, page, 'refused');
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
  await isForEveryone(t, page, 'expired');

  const { id, url: own } = await stage.propose(asking);
  const wrong = await page.goto(own.replace(/.{8}$/, '00000000'));
  t.equal(wrong?.status(), 404);
  await isForEveryone(t, page, 'a wrong link');
  await done(
    vault.ask('proposal.cancel', { id, vault: 'default', by: { ...by, actor: 'agent:release-bot' } }),
  );
  await page.goto(own);
  t.match(await main(page), /no longer pending: the agent has withdrawn it/);
  await isForEveryone(t, page, 'withdrawn');
});

t.test('decided by someone else: seen at once, and too late', async (t) => {
  const { id, url } = await stage.propose(plain);
  const page = await visit(t, browser, stage, { user: 'owner' });
  const still = await visit(t, browser, stage, { user: 'owner', javaScriptEnabled: false });
  await Promise.all([page.goto(url), still.goto(url)]);
  await still.waitForURL(`${stage.baseUrl}/approve/${id}`);
  await done(vault.ask('proposal.reject', { id, reason: 'no', by: { ...by, actor: 'operator:bob' } }));
  await page.getByText('This proposal was denied in the meantime.').waitFor();
  t.ok(await page.getByRole('button', { name: 'Allow' }).isDisabled());
  await page.evaluate('scrollTo(0, document.body.scrollHeight)');
  const told = await page.locator('[data-live="proposal"]').boundingBox();
  t.ok(told !== null && told.y >= 0, 'one sees why, wherever one is on the page');
  await isForEveryone(t, page, 'decided meanwhile');
  await page.getByRole('link', { name: 'See what happened' }).click();
  t.match(await main(page), /Denied by bob\./);
  await allow(still);
  await isForEveryone(t, await copyOf(t, still), 'too late');
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

t.test('two live windows at once: one counts, the other is told, before or after its answer', async (t) => {
  const { id, url } = await stage.propose({ credentials: [{ action: 'set', key: 'LIVE_KEY' }] });
  const windows = await Promise.all([0, 1].map(() => visit(t, browser, stage, { user: 'owner' })));
  for (const [i, page] of windows.entries()) {
    await page.goto(url);
    await page.getByLabel('Value of LIVE_KEY').fill(`value-${i}`);
  }
  // As fast as can be: where the other window's answer has taken the button away, nothing happens.
  const press = (page: Page) =>
    page.evaluate("setTimeout(() => document.querySelector('#allow button').click())");
  await Promise.all(windows.map(press));
  const late = /decided before your answer came|was allowed in the meantime/;
  await Promise.all(
    windows.map((page) =>
      page
        .getByText(new RegExp(`^Allowed by owner|${late.source}`))
        .first()
        .waitFor(),
    ),
  );
  const texts = await Promise.all(windows.map(main));
  t.equal(texts.filter((text) => late.test(text)).length, 1);
  t.equal(await statusOf(id), 'applied');
});

t.test('what one has just decided oneself is not told as news', async (t) => {
  const { id, url } = await stage.propose(plain);
  const page = await visit(t, browser, stage, { user: 'owner' });
  const looks = () => page.waitForResponse((answer) => answer.url().endsWith(`/v1/proposals/${id}`));
  await Promise.all([looks(), page.goto(url)]);
  await page.evaluate(`new MutationObserver(() => sessionStorage.setItem('told', 'yes'))
    .observe(document.querySelector('[data-live="proposal"]'), { childList: true })`);
  // The answer is held back until the page has heard of the decision otherwise.
  await page.route(`**/approve/${id}`, async (route) => {
    if (route.request().method() !== 'POST') return route.continue();
    const [response] = await Promise.all([route.fetch({ maxRedirects: 0 }), looks()]);
    await new Promise((resolve) => setTimeout(resolve, 200));
    await route.fulfill({ response });
  });
  await allow(page);
  await page.getByText('Allowed by owner.').waitFor();
  t.equal(await page.evaluate("sessionStorage.getItem('told')"), null);
});

t.test('a click that was meant for a window in front of the page decides nothing', async (t) => {
  const { url } = await stage.propose({ credentials: [{ action: 'delete', key: 'GONE' }] });
  const page = await visit(t, browser, stage, { user: 'owner' });
  await page.goto(url);
  const button = page.getByRole('button', { name: 'Allow' });
  await button.scrollIntoViewIfNeeded();
  const box = await button.boundingBox();
  const hit = `document.elementFromPoint(${(box?.x ?? 0) + 5}, ${(box?.y ?? 0) + 5}).tagName`;
  await page.waitForFunction(`${hit} === 'BUTTON'`);
  // The window in front closes, and this one has the focus again.
  t.not(await page.evaluate(`dispatchEvent(new Event('focus')); ${hit}`), 'BUTTON');
  await allow(page);
  await page.getByText('Allowed by owner.').waitFor();
});

t.test('keys that are typed on while the page opens decide nothing', async (t) => {
  for (const part of ['decide', 'value-TYPED_KEY']) {
    const { id, url } = await stage.propose({
      credentials: [
        { action: 'set', key: 'TYPED_KEY' },
        { action: 'delete', key: 'GONE' },
      ],
    });
    const page = await visit(t, browser, stage, { user: 'owner' });
    await page.goto(`${url}#${part}`, { waitUntil: 'commit' });
    for (let i = 0; i < 6; i++)
      for (const key of ['Tab', 'Space', 'h', 'Enter']) await page.keyboard.press(key, { delay: 1 });
    await isSettled(page);
    const found = await done(vault.ask('proposal.get', { id }));
    t.equal(found.status, 'pending', part);
    t.equal(new URL(page.url()).hash, '', 'whoever opened it does not say where the keyboard begins');
  }
});

t.test('sign-in on the way, and back', async (t) => {
  const { id, url } = await stage.propose(plain);
  const page = await visit(t, browser, stage);
  await page.goto(url);
  await page.getByLabel('Name').fill('owner');
  await page.getByLabel('Password').fill('not this one');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').waitFor();
  await isForEveryone(t, page, 'sign-in refused');
  t.equal(await page.getByLabel('Name').inputValue(), 'owner', 'the name is kept');
  t.equal(await page.getByLabel('Password').inputValue(), '');
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL(`${stage.baseUrl}/approve/${id}`);
  await allow(page);
  await page.getByText('Allowed by owner.').waitFor();

  // Signed out in another window: to sign in, and back to the page.
  const later = await stage.propose(plain);
  await page.goto(later.url);
  const [cookie] = (await page.context().cookies()).filter(({ name }) => name === 'broker_session');
  await done(vault.ask('operator.signOut', { hash: hashToken(cookie.value), by }));
  await allow(page);
  await page.waitForURL(/\/login\?next=/);
  await page.getByLabel('Name').fill('owner');
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL(`${stage.baseUrl}/approve/${later.id}`);
  t.equal(await statusOf(later.id), 'pending');
});

t.test('without a key of the browser: each answer by password or by a code', async (t) => {
  const code = async () => (await done(vault.ask('operator.code', { name: 'owner', by }))).code.reveal();
  for (const javaScriptEnabled of [true, false]) {
    for (const [answer, outcome] of [
      ['Allow', 'Allowed by owner.'],
      ['Deny', 'Denied by owner.'],
    ]) {
      const { id } = await stage.propose(plain);
      const page = await visit(t, browser, stage, { javaScriptEnabled });
      await giveCookie(page.context(), stage);
      const wrong = complaints(page);
      await page.goto(`${stage.baseUrl}/approve/${id}`);
      const button = page.getByRole('button', { name: answer, exact: true });
      await button.click();
      await page.getByRole('heading', { name: 'Show that it is you' }).waitFor();
      t.equal(await statusOf(id), 'pending', `${answer} by the cookie alone`);
      await isForEveryone(t, await copyOf(t, page), 'asked to show that it is you');
      await page.goBack();
      const form = page.locator('form', { has: button });
      await form.locator('[autocomplete=one-time-code]').fill('12');
      await button.click();
      await page.getByText('The code is wrong').waitFor();
      t.equal(await statusOf(id), 'pending', 'by a wrong code');
      // What was typed is asked for no second time.
      await page.locator('[autocomplete=one-time-code]').fill(await code());
      await page.getByRole('button', { name: 'Go on' }).click();
      await page.getByText(outcome).waitFor();
      t.same(wrong, []);
    }
  }
  const { id } = await stage.propose(asking);
  const page = await visit(t, browser, stage, {
    javaScriptEnabled: false,
    viewport: { width: 320, height: 640 },
  });
  await giveCookie(page.context(), stage);
  await page.goto(`${stage.baseUrl}/approve/${id}`);
  await page.getByLabel('Value of STRIPE_KEY').fill('typed-value');
  // By now other services have the key: what was ticked goes on with the form, too.
  for (const tick of await page.getByRole('checkbox').all()) await tick.check();
  await page.getByRole('button', { name: 'Allow' }).click();
  await page.getByLabel('Value of STRIPE_KEY, again').waitFor();
  t.notMatch(await page.content(), 'typed-value');
  await isForEveryone(t, await copyOf(t, page), 'asked again, on a small phone');
  await page.getByLabel('Value of STRIPE_KEY, again').fill('sk_live_again');
  await page.getByLabel('Your password').fill(password);
  await page.getByRole('button', { name: 'Go on' }).click();
  await page.getByText('Allowed by owner.').waitFor();
});

t.test("who doesn't administer the vault may look, and is told whom to ask", async (t) => {
  await done(vault.ask('vault.create', { name: 'other', by }));
  await stage.admin('eve', 'other');
  const { id, url } = await stage.propose(plain);
  const page = await visit(t, browser, stage, { user: 'eve' });
  await page.goto(url);
  t.match(await main(page), /signed in as eve, who doesn’t administer this vault/);
  t.equal(await page.getByRole('button', { name: 'Allow' }).count(), 0);
  await isForEveryone(t, page, 'signed in as somebody who may not');
  await page.getByRole('link', { name: 'sign in as somebody else' }).click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL(/\/login\?next=/);
  await page.getByLabel('Name').fill('owner');
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL(`${stage.baseUrl}/approve/${id}`);
  await page.getByRole('button', { name: 'Allow' }).waitFor();
  await signIn(page.context(), stage, 'eve');
  await page.context().clearCookies({ name: 'broker_approval' });
  t.equal((await page.goto(`${stage.baseUrl}/approve/${id}`))?.status(), 404);
});

t.test("from another site's link, signed in", async (t) => {
  const { id, url } = await stage.propose(plain);
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

const pem = '-----BEGIN KEY-----\nabc\n-----END KEY-----\n';

t.test('without JavaScript', async (t) => {
  const { id, url } = await stage.propose({
    services: [bearer('keys.example.com', 'PEM_KEY')],
    credentials: [{ action: 'set', key: 'PEM_KEY', description: 'A key in PEM form' }],
  });
  const page = await visit(t, browser, stage, { javaScriptEnabled: false });
  await page.goto(url);
  await page.waitForURL(`${stage.baseUrl}/approve/${id}`);
  await page.getByLabel('Name').fill('owner');
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('link', { name: 'It has several lines' }).click();
  const area = page.getByLabel('Value of PEM_KEY');
  t.equal(await area.evaluate((field) => field.tagName), 'TEXTAREA');
  t.equal(
    await page.evaluate("getComputedStyle(document.querySelector('.secret')).webkitTextSecurity"),
    'disc',
  );
  await area.fill(pem);
  await isForEveryone(t, await copyOf(t, page), 'without JavaScript');
  await allow(page);
  await page.getByText('Allowed by owner.').waitFor();
  t.equal(await statusOf(id), 'applied');

  const other = await stage.propose({ credentials: [{ action: 'delete', key: 'PEM_KEY' }] });
  await page.goto(`${stage.baseUrl}/approve/${other.id}`);
  await prove(page);
  await page.getByRole('button', { name: 'Deny' }).click();
  await page.getByText('Denied by owner.').waitFor();
  t.equal(await statusOf(other.id), 'rejected');
});

t.test('on a phone', async (t) => {
  const { id, url } = await stage.propose({
    services: [
      { ...bearer(`${'a'.repeat(60)}.example.com`, 'PHONE_KEY'), description: 'x'.repeat(200) },
      bearer('api.str1pe.com', 'STORED_KEY'),
    ],
    credentials: [
      { action: 'set', key: 'PHONE_KEY', obtain: `https://example.com/${'z'.repeat(300)}` },
      { action: 'set', key: 'STORED_KEY', value: 'given' },
    ],
    user_message: `a-very-long-word-${'y'.repeat(300)}`,
  });
  for (const look of [{ colorScheme: 'dark', viewport: { width: 320, height: 640 } }, {}] as const) {
    const page = await visit(t, browser, stage, {
      user: 'owner',
      viewport: { width: 390, height: 844 },
      isMobile: true,
      hasTouch: true,
      ...look,
    });
    await page.goto(url);
    await page.getByRole('link', { name: 'It has several lines' }).tap();
    await page.getByLabel('Value of PHONE_KEY').fill('one-line\n');
    t.match(await page.locator('[data-hint]').innerText(), /ends with a line break/);
    await page.getByLabel('Value of PHONE_KEY').fill(pem);
    t.equal(await page.locator('[data-hint]').innerText(), '');
    await isForEveryone(t, page, `a phone, ${look.colorScheme ?? 'light'}`);
    for (const button of await page.locator('main button').all()) {
      const box = await button.boundingBox();
      t.ok(box !== null && box.height >= 44, 'high enough for a thumb');
    }
    if (look.colorScheme) continue;
    await page.getByRole('button', { name: 'Allow' }).tap();
    await page.getByText('Allowed by owner.').waitFor();
    await isForEveryone(t, page, 'allowed, on a phone');
  }
  t.equal(await statusOf(id), 'applied');
});

t.test('by keyboard alone', async (t) => {
  await store('OLD_KEY', 'old');
  const { id, url } = await stage.propose({
    services: [bearer('tab.example.com', 'TAB_KEY'), bearer('new.example.org', 'OLD_KEY')],
    credentials: [{ action: 'set', key: 'TAB_KEY' }],
  });
  const page = await visit(t, browser, stage);
  const tabTo = async (name: string) => {
    for (let i = 0; i < 40 && (await focused(page)) !== name; i++) await page.keyboard.press('Tab');
    t.equal(await focused(page), name);
  };
  const type = async (name: string, text: string) => {
    await tabTo(name);
    await page.keyboard.type(text);
  };
  await page.goto(url);
  await isSettled(page);
  await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('Shift+Tab');
  t.equal(await focused(page), 'Skip to content');
  await page.keyboard.press('Enter');
  await type('name', 'owner');
  await type('password', password);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Allow' }).waitFor();
  await isSettled(page);
  await isForEveryone(t, page, 'by keyboard');
  await tabTo('tick.0');
  await page.keyboard.press('Space');
  await type('value.TAB_KEY', 'typed');
  await page.keyboard.press('Tab');
  t.equal(await focused(page), 'It has several lines');
  await tabTo('Allow');
  t.not(
    await page.evaluate('getComputedStyle(document.activeElement).outlineStyle'),
    'none',
    'one sees where one is',
  );
  await page.keyboard.press('Enter');
  await page.getByText('Allowed by owner.').waitFor();
  t.equal(await heading(page), `Proposal ${id}`);

  const other = await stage.propose({ credentials: [{ action: 'delete', key: 'TAB_KEY' }] });
  await page.goto(other.url);
  await isSettled(page);
  await type('reason', 'no');
  await tabTo('Deny');
  await page.keyboard.press('Space');
  await page.getByText('Denied by owner.').waitFor();
  t.match(await done(vault.ask('proposal.get', { id: other.id })), { review_note: 'no' });
});

t.test(
  'each increase has a tick of its own; what comes first; words that are long; links that are none',
  async (t) => {
    await store('OWN_WORD', 'of the agent');
    await store('WILD_KEY', 'w');
    await done(
      vault.ask('service.set', {
        vault: 'default',
        mode: 'upsert',
        services: [
          { host: 'metrics.evil.example', auth: { type: 'bearer', token: 'OWN_WORD' } },
          { host: '*.wild.example', auth: { type: 'bearer', token: 'WILD_KEY' } },
          { host: 'kept.wild.example', auth: { type: 'passthrough' } },
        ],
        by,
      }),
    );
    const { id, url } = await stage.propose({
      services: [
        { ...bearer('api.word.example', 'OWN_WORD'), description: `d${' description'.repeat(40)}` },
        { action: 'delete', host: 'kept.wild.example' },
      ],
      credentials: [
        { action: 'set', key: 'OWN_WORD', obtain: `${stage.baseUrl.replace(/\d+$/, '1')}/tokens` },
        { action: 'delete', key: 'NEVER_WAS' },
      ],
      user_message: `Please allow this.\n${'Look twice\n'.repeat(200)}the end of it`,
    });
    for (const javaScriptEnabled of [false, true]) {
      const page = await visit(t, browser, stage, { user: 'owner', javaScriptEnabled });
      await page.goto(url);
      await page.waitForURL(`${stage.baseUrl}/approve/${id}`);
      const ticks = page.getByRole('checkbox');
      t.same(await ticks.evaluateAll((all) => all.map((each) => each.closest('label')?.innerText.trim())), [
        'Yes, I want WILD_KEY to be sent to kept.wild.example.',
        'Yes, I want OWN_WORD to be sent to metrics.evil.example.',
      ]);
      const text = await main(page);
      t.ok(text.indexOf('metrics.evil.example') < text.indexOf('In the agent’s words'), 'risks come first');
      const words = page.locator('blockquote').first();
      const height = async () => (await words.boundingBox())?.height ?? 0;
      const folded = await height();
      t.ok(folded < 400, `${folded} px of the agent's words`);
      t.notOk(await page.getByText('the end of it').isVisible());
      await words.getByText(/Show all of it \(/).click();
      t.ok(await page.getByText('the end of it').isVisible());
      t.match(text, /\/tokens\s+not a link: it leads to the broker itself/);
      t.equal(await page.getByRole('link', { name: 'tokens' }).count(), 0);
      await page.getByLabel('Value of OWN_WORD').fill('typed');
      await ticks.first().check();
      await allow(page);
      t.equal(await statusOf(id), 'pending', 'one tick is not the other');
      if (!javaScriptEnabled) continue;
      await isForEveryone(t, page, 'increases');
      await ticks.last().check();
      await allow(page);
      await page.getByText('Allowed by owner.').waitFor();
    }
    t.equal(await statusOf(id), 'applied');
  },
);

t.test('what an operator wrote into a header is not shown to whoever has the link', async (t) => {
  await store('OWN_KEY', 'own');
  const headers = { Authorization: 'Key {{ OWN_KEY }}', 'X-Pin': 'written-by-the-operator' };
  const services = [{ host: 'own.example.com', auth: { type: 'custom', headers } }] as const;
  await done(vault.ask('service.set', { vault: 'default', mode: 'upsert', services, by }));
  const { url } = await stage.propose({ services: [{ action: 'delete', host: 'own.example.com' }] });
  const page = await visit(t, browser, stage);
  await page.goto(url);
  t.match(
    await main(page),
    /carry …\{\{ OWN_KEY \}\} in the header Authorization and … in the header X-Pin\./,
  );
  t.notMatch(await page.content(), 'written-by');
  await signIn(page.context(), stage, 'owner');
  await page.reload();
  t.match(await main(page), /written-by-the-operator in the header X-Pin/, 'an operator sees it');
});

t.test('a link to get a value at, to a domain that could be taken for another', async (t) => {
  const { url } = await stage.propose({
    credentials: [{ action: 'set', key: 'LINK_KEY', obtain: 'https://dashboard.strip\u0435.com/apikeys' }],
  });
  const page = await visit(t, browser, stage);
  await page.goto(url);
  const [, name = ''] = /leads to (\S+), which could be taken for stripe\.com/.exec(await main(page)) ?? [];
  t.match(name, /^dashboard\.xn--/);
  t.match(await page.getByRole('link', { name: 'apikeys' }).innerText(), `https://${name}/apikeys`);
});

/** What has the focus: the text of a link or button, the name of a field. */
function focused(page: Page): Promise<string> {
  return page.evaluate('document.activeElement.name || document.activeElement.textContent');
}
