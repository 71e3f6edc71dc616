/** What others try with the pages: scripts in an agent's words, other sites' forms and frames, rebound names, leaks. */
import assert from 'node:assert/strict';
import { createServer, type IncomingHttpHeaders, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import type { ProposalBody } from '../../src/actors/vault/protocol.ts';
import { startNeighbour } from './neighbour.ts';
import { payloads } from './payloads.ts';
import { by, complaints, done, password, startChromium, startStage, visit } from './stage.ts';

const browser = await startChromium(t);
const stage = await startStage(t);
const { vault } = stage;
const statusOf = async (id: number) => (await done(vault.ask('proposal.get', { id }))).status;

/**
 * Another site: answers every request with this page, and remembers what it was asked.
 * @param host our own makes it the same site by the rules of cookies, which know no ports (RFC 6265 section 8.5)
 */
async function site(
  t: Test,
  page = '',
  host = 'evil.test',
): Promise<{ origin: string; asked: IncomingHttpHeaders[] }> {
  const asked: IncomingHttpHeaders[] = [];
  const server = createServer((request, reply) => {
    if (request.url === '/') asked.push(request.headers);
    reply.setHeader('content-type', 'text/html').end(page);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return { origin: `http://${host}:${(server.address() as AddressInfo).port}`, asked };
}

/** A proposal of a session with this label. */
async function proposeAs(label: string, body: ProposalBody): Promise<{ id: number; url: string }> {
  const session = { actor: 'session:s1', label, request_id: 'r' };
  const made = await done(vault.ask('proposal.create', { vault: 'default', body, by: session }));
  const { id } = made.proposal;
  return { id, url: `${stage.baseUrl}/approve/${id}?token=${made.approvalToken.reveal()}` };
}

/** Notes each script that runs, whatever it is that lets it. */
async function trap(page: Page): Promise<() => string[]> {
  const ran: string[] = [];
  await page.context().exposeFunction('xss', () => void ran.push(page.url()));
  page.on('dialog', (dialog) => void dialog.dismiss().then(() => ran.push(dialog.message())));
  return () => ran;
}

/** Waits for something that nothing announces. */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (let i = 0; i < 600; i++) {
    if (await isSo()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error('It did not happen within half a minute.');
}

t.test('a hundred scripts in every field that an agent can write: none runs', async (t) => {
  t.equal(payloads.length, 100);
  t.equal(new Set(payloads).size, 100);
  const page = await visit(t, browser, stage, { user: 'owner' });
  const ran = await trap(page);

  // The trap works: this very page would have been noticed.
  await page.setContent(payloads[6]);
  await until(async () => ran().length > 0);
  t.equal(ran().splice(0).length, 1, 'where nothing escapes it, it runs');

  const violations: string[] = [];
  page.on('console', (message) => {
    if (/Content Security Policy|Trusted/.test(message.text())) violations.push(message.text());
  });
  for (let at = 0; at < payloads.length; at += 5) {
    const some = payloads.slice(at, at + 5);
    const { id, url } = await proposeAs(some.join(' ').slice(0, 200), {
      services: some.flatMap((payload, i) => [
        {
          ...{ action: 'set', host: `a${i}.example.com`, description: payload },
          auth: { type: 'custom', headers: { 'X-A': header(payload) } },
        },
        {
          ...{ action: 'set', host: `b${i}.example.com`, description: payload },
          auth: { type: 'api-key', key: 'KEY_0', header: "x-'`&|", prefix: header(payload) },
        },
      ]),
      credentials: some.map((payload, i) => ({
        ...{ action: 'set', key: `KEY_${i}`, description: payload, obtain_instructions: payload },
        obtain: `https://example.com/${payload.replace(/[\s\\\p{Cc}]/gu, '')}`,
      })),
      message: some.toReversed().join('\n'),
      user_message: some.join('\n'),
    });
    await page.goto(url);
    const words = page.locator('blockquote').first();
    const rest = words.locator('details > .text');
    const isFolded = (await rest.count()) > 0;
    if (isFolded) await words.locator('summary').click();
    const shown = await (isFolded ? rest : words).innerText();
    t.equal(shown, some.join('\n').replaceAll('\0', '[U+0000]'), 'they are shown as they were written');
    await done(vault.ask('proposal.reject', { id, reason: some.join('\n'), by }));
    await page.goto(`${stage.baseUrl}/approve/${id}`);
    await page.getByText('Denied by owner').waitFor();
  }
  await page.goto(`${stage.baseUrl}/proposals`);

  // What a lane writes of a request is the agent's own, too; here it comes both with the page and after it.
  const record = (text: string) => ({
    ...{
      time: new Date().toISOString(),
      kind: 'request',
      request_id: 'r',
      vault: 'default',
      actor: `session:${text}`,
    },
    ...{
      label: text,
      method: text,
      scheme: 'https',
      host: text,
      path: `/${text}`,
      service: text,
      keys: [text],
    },
    ...{ status: 200, error: text, bytes_in: 0, bytes_out: 0, ms: 1 },
  });
  stage.audit(...payloads.map(record));
  await until(async () => {
    await page.goto(`${stage.baseUrl}/requests`);
    return (await page.locator('#requests tr').count()) === 100;
  });
  await page.getByText('Live: new requests').waitFor();
  stage.audit(
    ...payloads.map((payload, i) => ({ ...record(payload), time: `2001-01-01T00:00:00.${100 + i}Z` })),
  );
  await page.locator('time[datetime="2001-01-01T00:00:00.199Z"]').waitFor();
  await page
    .getByRole('link', { name: /Explain/ })
    .first()
    .click();
  stage.audit(
    ...payloads.map((payload) => ({ ...record(payload), kind: 'control', action: payload, target: payload })),
  );
  await until(async () => {
    await page.goto(`${stage.baseUrl}/audit`);
    return (await page.getByText('#{xss()}').count()) > 0;
  });
  for (const payload of [payloads.slice(6, 30).join(''), payloads.slice(73).join('')]) {
    for (const path of [
      '/vaults/default?q=',
      '/requests?host=',
      '/explain?url=',
      '/requests?outcome=',
      '/login?next=',
      '/login?token=',
      '/approve/1?token=',
      '/approve/1?lines=',
      '/approve/1?late=',
      '/vaults/default/new-service?host=',
      '/?done=',
    ]) {
      await page.goto(stage.baseUrl + path + encodeURIComponent(payload));
    }
  }
  t.same(ran(), []);
  t.same(violations, [], 'and nothing even had to be held back by the policy');
});

/** What a header of a service may hold: no braces of its own, no octets beyond ASCII. */
function header(text: string): string {
  return text.replace(/[{}]/g, '').replace(/[^ -~]/g, '');
}

t.test("another site's form, signed in: nothing is decided", async (t) => {
  const { id } = await stage.propose({ credentials: [{ action: 'delete', key: 'GONE' }] });
  const target = `${stage.baseUrl}/approve/${id}`;
  const form = `<form method="post" action="${target}"><input name="decision" value="allow"></form><script>document.forms[0].submit()</script>`;
  const evil = await site(t, form);
  const page = await visit(t, browser, stage, { user: 'owner' });
  await page.goto(evil.origin);
  await page.waitForURL(`${stage.baseUrl}/**`);
  t.match(await page.locator('main').innerText(), /does not come from a page of the broker/);
  t.equal(await statusOf(id), 'pending');

  // Another port of our own host: the browser sends our strict cookies along, to this and to what stands in a frame.
  const sandboxed = `<iframe name="f" sandbox="allow-scripts allow-forms allow-top-navigation" srcdoc='${form.replace('<form', '<form target="_top"')}'></iframe>`;
  for (const [what, text] of [
    ['a neighbour', form],
    ['a neighbour of no origin', sandboxed],
  ]) {
    const neighbour = await site(t, text, '127.0.0.1');
    const sent = page.waitForRequest((request) => request.url() === target && request.method() === 'POST');
    await page.goto(neighbour.origin);
    t.match((await (await sent).allHeaders()).cookie ?? '', what === 'a neighbour' ? 'broker_session=' : '');
    await page.getByText('does not come from a page of the broker').waitFor();
    t.equal(await statusOf(id), 'pending', what);
  }

  // Nor does another site sign the browser in as somebody of its choice.
  await stage.admin('mallet', 'default');
  const signsIn = `<form method="post" action="${stage.baseUrl}/login"><input name="name" value="mallet"><input name="password" value="${password}"></form><script>document.forms[0].submit()</script>`;
  for (const host of ['evil.test', '127.0.0.1']) {
    await page.goto((await site(t, signsIn, host)).origin);
    await page.getByText('does not come from a page of the broker').waitFor();
  }
  await page.goto(`${stage.baseUrl}/login`);
  t.match(await page.locator('main').innerText(), 'signed in as owner');

  // Not by the API either, with or without CORS.
  const tried = await page.context().newPage();
  await tried.goto((await site(t)).origin);
  const ask = async (base: string) => {
    const results: string[] = [];
    for (const init of [
      { method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}' },
      {
        method: 'POST',
        mode: 'cors',
        credentials: 'include',
        headers: { 'content-type': 'application/json' },
        body: '{}',
      },
    ] as RequestInit[]) {
      results.push(
        await fetch(base, init).then(
          ({ type }) => type,
          () => 'refused',
        ),
      );
    }
    return results;
  };
  const api = `${stage.baseUrl}/v1/proposals/${id}/approve`;
  t.same(await tried.evaluate(ask, api), ['refused', 'refused'], 'not even that it was refused is told');
  await tried.goto((await site(t, '', '127.0.0.1')).origin);
  t.same(await tried.evaluate(ask, api), ['refused', 'refused'], 'nor to a neighbour');
  t.equal(await statusOf(id), 'pending');
});

t.test('who listens on another port gets the cookie, and nothing for it', async (t) => {
  const { id, url } = await stage.propose({ credentials: [{ action: 'set', key: 'NEIGHBOUR_KEY' }] });
  const page = await visit(t, browser, stage, { user: 'owner', viewport: { width: 390, height: 844 } });
  const neighbour = await startNeighbour(t);
  await page.goto(neighbour.origin);
  t.match(neighbour.stolen(), /^broker_session=brk_opr_/);
  const at = (path: string) => stage.baseUrl + path;
  const answer = { decision: 'allow', 'value.NEIGHBOUR_KEY': 'its own' };
  const forged: [string, Record<string, string>][] = [
    [`/approve/${id}`, answer],
    [`/approve/${id}`, { ...answer, 'proof.code': '000000' }],
    [`/approve/${id}`, { decision: 'deny', reason: '' }],
    ['/agents', { name: 'mine', 'vault.default': 'yes', life: 'never' }],
    ['/vaults', { name: 'mine' }],
    ['/vaults/default/settings', { unmatched_host_policy: 'deny' }],
    ['/vaults/default/credentials', { key: 'MINE', 'value.new': 'x' }],
    ['/vaults/default/new-service', { host: 'a.example', type: 'passthrough' }],
  ];
  for (const [path, fields] of forged) {
    const got = await neighbour.forge(at(path), fields);
    t.match([got.status, await got.text()], [403, /Show that it is you/], `${path} ${fields.decision ?? ''}`);
  }
  for (const path of [
    '/v1/sessions',
    '/v1/agents/invites',
    '/v1/login-links',
    '/v1/login-codes',
    '/v1/backup',
  ])
    t.equal((await neighbour.ask('POST', at(path))).status, 403, path);
  t.equal((await neighbour.ask('POST', at('/login/resume'))).status, 415);
  t.equal((await neighbour.ask('POST', at('/login/resume'), { a: 'b' })).status, 401);
  await neighbour.forge(at('/'), {});
  await neighbour.ask('POST', at('/logout'), { csrf: '' });
  t.equal((await neighbour.ask('GET', at('/v1/vaults'))).status, 200, 'and the operator is signed in still');

  // By the operator's own browser, from its page: another origin has none of our keys, and its requests say which it is.
  const stored = await page.evaluate<number>('indexedDB.databases().then(({ length }) => length)');
  t.equal(stored, 0);
  const asked = await page.evaluate<string, string>(async (target) => {
    const body = new URLSearchParams({ a: 'b' });
    const sent = fetch(target, { method: 'POST', mode: 'no-cors', credentials: 'include', body });
    return sent.then(
      ({ type }) => type,
      () => 'refused',
    );
  }, at('/login/resume'));
  t.equal(asked, 'refused');
  t.equal(await statusOf(id), 'pending');

  const wrong = complaints(page);
  // The key can't be taken out of the browser, not even by a script of ours.
  await page.goto(url);
  const taken = await page.evaluate<string>(`new Promise((resolve) => {
    const opening = indexedDB.open('broker');
    opening.onsuccess = () => {
      const found = opening.result.transaction('keys').objectStore('keys').get('origin');
      found.onsuccess = () => crypto.subtle.exportKey('jwk', found.result.privateKey)
        .then(() => 'taken', ({ name }) => resolve(name));
    };
  })`);
  t.equal(taken, 'InvalidAccessError');

  // What the operator sends is good for that one answer.
  const sent = page.waitForRequest(
    (request) => request.method() === 'POST' && request.url() === at(`/approve/${id}`),
  );
  await page.getByLabel('Value of NEIGHBOUR_KEY').fill('from\u00fc the operator');
  await page.getByRole('button', { name: 'Deny' }).click();
  const fields = Object.fromEntries(new URLSearchParams((await sent).postData() ?? ''));
  await page.getByText('Denied by owner.').waitFor();
  const later = await stage.propose({ credentials: [{ action: 'set', key: 'NEIGHBOUR_KEY' }] });
  t.equal((await neighbour.ask('POST', at(`/approve/${id}`), fields)).status, 409, 'sent again');
  t.equal((await neighbour.ask('POST', at(`/approve/${later.id}`), fields)).status, 403, 'sent elsewhere');
  const altered = { ...fields, decision: 'allow' };
  t.equal((await neighbour.ask('POST', at(`/approve/${id}`), altered)).status, 403, 'altered');
  t.equal(await statusOf(later.id), 'pending');
  t.same(wrong, []);
});

t.test('a cookie that another port puts in the place of ours signs nobody out', async (t) => {
  for (const leaves of [
    'broker_session=x; Path=/',
    'broker_session=; Path=/; Max-Age=0',
    'broker_session=x; Path=/approve',
    'broker_session=x; Path=/live',
  ]) {
    const neighbour = await startNeighbour(t, leaves);
    const page = await visit(t, browser, stage, { user: 'owner' });
    const tab = await page.context().newPage();
    const { id } = await stage.propose({ credentials: [{ action: 'delete', key: 'GONE' }] });

    // On the page as it is open, and as it lives.
    await page.goto(`${stage.baseUrl}/proposals`);
    await tab.goto(neighbour.origin);
    const news = await stage.propose({ credentials: [{ action: 'delete', key: 'GONE' }] });
    await page.getByText('A new proposal has come.').waitFor();

    await page.goto(`${stage.baseUrl}/approve/${id}`);
    await page.getByRole('button', { name: 'Allow' }).waitFor();
    await tab.goto(neighbour.origin);
    await page.getByRole('button', { name: 'Allow' }).click();
    await page.getByText('Allowed by owner.').waitFor();
    await tab.goto(neighbour.origin);
    await page.goto(`${stage.baseUrl}/approve/${news.id}`);
    await page.getByRole('button', { name: 'Deny' }).click();
    await page.getByText('Denied by owner.').waitFor();

    // Who has signed out stays signed out.
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Password').waitFor();
    await page.goto(`${stage.baseUrl}/proposals`);
    await page.getByLabel('Password').waitFor();
    await page.context().close();
  }
});

t.test('another session in the place of ours: what is sent is nobody’s until it is proved', async (t) => {
  const neighbour = await startNeighbour(t, `broker_session=${await stage.cookie()}; Path=/`);
  const page = await visit(t, browser, stage, { user: 'owner' });
  const { id } = await stage.propose({ credentials: [{ action: 'delete', key: 'GONE' }] });
  await page.goto(neighbour.origin);
  await page.goto(`${stage.baseUrl}/approve/${id}`);
  await page.getByRole('button', { name: 'Allow' }).click();
  await page.getByRole('heading', { name: 'Show that it is you' }).waitFor();
  t.equal(await statusOf(id), 'pending');
});

t.test('no page stands in a frame, and none is read by another site', async (t) => {
  const { url } = await stage.propose({ credentials: [{ action: 'delete', key: 'GONE' }] });
  const inside = [`${stage.baseUrl}/`, url, `${stage.baseUrl}/login`];
  const frames = inside.map(
    (each) => `<iframe src="${each}"></iframe><object data="${each}"></object><embed src="${each}">`,
  );
  // A neighbour on our own host is the same site: there our cookies come along.
  for (const host of ['evil.test', '127.0.0.1']) {
    const page = await visit(t, browser, stage, { user: 'owner' });
    const held: string[] = [];
    page.on('console', (message) => held.push(message.text()));
    await page.goto((await site(t, frames.join(''), host)).origin);
    await until(async () => held.filter((text) => /frame-ancestors|X-Frame-Options/.test(text)).length >= 3);
    t.ok(page.frames().length >= 4);
    for (const frame of page.frames().slice(1)) t.match(frame.url(), /^(chrome-error:|about:|$)/, 'refused');
  }
});

t.test('who opens the page in a window has no hold on it', async (t) => {
  const { url } = await stage.propose({ credentials: [{ action: 'delete', key: 'GONE' }] });
  const page = await visit(t, browser, stage, { user: 'owner' });
  await page.goto((await site(t, '', '127.0.0.1')).origin);
  const [opened] = await Promise.all([
    page.context().waitForEvent('page'),
    page.evaluate(`globalThis.held = open(${JSON.stringify(url)}); 0`),
  ]);
  await opened.getByRole('button', { name: 'Allow' }).waitFor();
  t.equal(await opened.evaluate('window.opener'), null);
  t.equal(await page.evaluate('held.closed'), true, 'to its opener it is as good as closed');
});

t.test('what was seen is not there any more after signing out', async (t) => {
  const { id, url } = await stage.propose({
    credentials: [{ action: 'set', key: 'SEEN_KEY' }],
    user_message: 'for the operator alone',
  });
  const page = await visit(t, browser, stage, { user: 'owner' });
  const cached: string[] = [];
  page.on('response', (answer) => {
    const isPage = answer.request().resourceType() === 'document';
    if (isPage && answer.headers()['cache-control'] !== 'no-store') cached.push(answer.url());
  });
  await page.goto(`${stage.baseUrl}/approve/${id}`);
  await page.getByLabel('Value of SEEN_KEY').fill('typed-and-left');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL(/\/login/);
  await page.goBack();
  await page.getByRole('heading', { name: 'Nothing to see yet' }).waitFor();
  t.notMatch(await page.content(), /SEEN_KEY|for the operator alone|typed-and-left/);

  // By the link one sees it again, but nothing that was typed.
  await page.goto(url);
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  await page.goBack();
  await page.goForward();
  t.notMatch(await page.content(), 'typed-and-left');
  t.same(cached, [], 'no page may be kept');
});

t.test('the token of a link stays in no history, and no script can read it', async (t) => {
  const { id, url } = await stage.propose({ credentials: [{ action: 'delete', key: 'GONE' }] });
  const { origin } = await site(t, `<a href="${url}">decide</a>`);
  for (const [from, javaScriptEnabled] of [
    [url, true],
    [url, false],
    [origin, true],
    [origin, false],
  ] as const) {
    const page = await visit(t, browser, stage, { javaScriptEnabled });
    await page.goto(from);
    if (from === origin) await page.getByRole('link').click();
    await page.waitForURL(`${stage.baseUrl}/approve/${id}`);
    // From another site, the page loads itself once more.
    await page.locator('meta[http-equiv="refresh"]').waitFor({ state: 'detached' });
    const session = await page.context().newCDPSession(page);
    const { entries } = await session.send('Page.getNavigationHistory');
    t.same(
      entries.filter((each) => `${each.url}${each.title}`.includes('brk_')),
      [],
    );
    const readable = 'document.cookie + document.referrer + location + document.documentElement.outerHTML';
    t.notMatch(await page.evaluate(readable), 'brk_');
  }
});

t.test('following the link changes nothing, however often', async (t) => {
  const { id, url } = await stage.propose({ credentials: [{ action: 'delete', key: 'GONE' }] });
  const cookie = `broker_session=${await stage.cookie()}`;
  const purposes: Record<string, string>[] = [{}, { cookie }, { 'sec-purpose': 'prefetch', cookie }];
  for (let i = 0; i < 100; i++) {
    const query = i % 2 === 0 ? '' : '&decision=allow&confirm.K=yes';
    const answer = await fetch(url + query, { headers: purposes[i % 3] });
    await answer.text();
    assert.equal(answer.status, 200);
  }
  t.equal(await statusOf(id), 'pending');
  const page = await visit(t, browser, stage, { user: 'owner' });
  await page.goto(url);
  await page.getByRole('button', { name: 'Allow' }).click();
  await page.getByText('Allowed by owner.').waitFor();
});

t.test('signing in leads to a page of ours, whatever the address says', async (t) => {
  for (const next of [
    '//evil.test/',
    '/\\evil.test/',
    '/\t/evil.test/',
    'https://evil.test/',
    'javascript:xss()',
    `${stage.baseUrl}@evil.test/`,
  ]) {
    const page = await visit(t, browser, stage);
    await page.goto(`${stage.baseUrl}/login?next=${encodeURIComponent(next)}`);
    await page.getByLabel('Name').fill('owner');
    await page.getByLabel('Password').fill(password);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    t.equal(page.url(), `${stage.baseUrl}/`, JSON.stringify(next));
  }
});

t.test('a link out of the page tells nobody where it came from', async (t) => {
  const { origin, asked } = await site(t, '<script>document.title = String(window.opener)</script>');
  const { url } = await stage.propose({ credentials: [{ action: 'set', key: 'KEY', obtain: `${origin}/` }] });
  for (const javaScriptEnabled of [true, false]) {
    const page = await visit(t, browser, stage, { user: 'owner', javaScriptEnabled });
    await page.goto(url);
    await page.waitForURL(url.replace(/\?.*/, ''));
    const [opened] = await Promise.all([
      page.context().waitForEvent('page'),
      page.getByRole('link', { name: origin }).click(),
    ]);
    await opened.waitForLoadState();
    if (javaScriptEnabled) t.equal(await opened.title(), 'null', 'and nobody can reach back');
    // Nor would a link do that doesn't say so itself.
    await page.evaluate(`document.querySelector('main a[target]').removeAttribute('rel')`);
    const [plain] = await Promise.all([
      page.context().waitForEvent('page'),
      page.getByRole('link', { name: origin }).click(),
    ]);
    await plain.waitForLoadState();
  }
  t.equal(asked.length, 4);
  for (const { referer } of asked) t.equal(referer, undefined);
});

t.test('a name that was rebound to our address gets nothing', async (t) => {
  const page = await visit(t, browser, stage, { user: 'owner' });
  const { id, url } = await stage.propose({ credentials: [{ action: 'delete', key: 'GONE' }] });
  for (const path of ['/', '/login', url.slice(stage.baseUrl.length)]) {
    const answer = await page.goto(`http://rebound.test:${stage.port}${path}`);
    t.equal(answer?.status(), 421, path.slice(0, 12));
    t.notMatch(await page.content(), /proposal|password/i);
  }
  // What a script of such a page asks for, were the browser to bring the cookie.
  const cookie = `broker_session=${await stage.cookie()}`;
  for (const [method, path] of [
    ['GET', '/v1/proposals'],
    ['GET', '/discover'],
    ['POST', `/approve/${id}`],
    ['POST', `/v1/proposals/${id}/approve`],
  ]) {
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const headers = { host: 'rebound.test', origin: 'http://rebound.test', cookie };
      request({ port: stage.port, host: '127.0.0.1', method, path, headers }, (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      })
        .on('error', reject)
        .end();
    });
    t.equal(status, 421, `${method} ${path}`);
  }
  t.equal(await statusOf(id), 'pending');
});

t.test('whoever holds the link cannot decide from the page, whatever they do to it', async (t) => {
  const { id, url } = await stage.propose({ credentials: [{ action: 'delete', key: 'GONE' }] });
  const page = await visit(t, browser, stage);
  await page.goto(url);
  for (const decision of ['allow', 'deny']) {
    const answer = await page.evaluate<string, string>(async (what) => {
      const body = new URLSearchParams({ decision: what, seen: '', csrf: '' });
      return (await fetch('', { method: 'POST', body })).url;
    }, decision);
    t.match(answer, '/login?next=');
  }
  t.equal(await statusOf(id), 'pending');

  // Signed in as one operator, a form with another one's token is no form of theirs.
  const [mine, theirs] = [await visit(t, browser, stage, { user: 'owner' }), await visit(t, browser, stage)];
  await mine.goto(`${stage.baseUrl}/approve/${id}`);
  const csrf = await mine.locator('[name=csrf]').first().inputValue();
  await stage.admin('mallory', 'default');
  await theirs.goto(`${stage.baseUrl}/login`);
  await theirs.getByLabel('Name').fill('mallory');
  await theirs.getByLabel('Password').fill(password);
  await theirs.getByRole('button', { name: 'Sign in' }).click();
  await theirs.waitForURL(`${stage.baseUrl}/`);
  const status = await theirs.evaluate<number, [string, string]>(
    async ([path, token]) => {
      const body = new URLSearchParams({ decision: 'allow', csrf: token });
      return (await fetch(path, { method: 'POST', body })).status;
    },
    [`/approve/${id}`, csrf],
  );
  t.equal(status, 403);
  t.equal(await statusOf(id), 'pending');
});
