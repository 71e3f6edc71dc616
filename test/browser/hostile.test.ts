/** What others try with the pages: scripts in an agent's words, other sites' forms and frames, rebound names, leaks. */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { payloads } from './payloads.ts';
import { by, done, password, startChromium, startStage, visit } from './stage.ts';

const browser = await startChromium(t);
const stage = await startStage(t);
const { vault } = stage;
const statusOf = async (id: number) => (await done(vault.ask('proposal.get', { id }))).status;

/** Another site: answers every request with this page, and remembers what it was asked. */
async function site(t: Test, page = ''): Promise<{ origin: string; asked: IncomingHttpHeaders[] }> {
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
  return { origin: `http://evil.test:${(server.address() as AddressInfo).port}`, asked };
}

/** Notes each script that runs, whatever it is that lets it. */
async function trap(page: Page): Promise<() => string[]> {
  const ran: string[] = [];
  await page.context().exposeFunction('xss', () => void ran.push(page.url()));
  page.on('dialog', (dialog) => void dialog.dismiss().then(() => ran.push(dialog.message())));
  return () => ran;
}

t.test('a hundred scripts in every field that an agent can write: none runs', async (t) => {
  t.equal(payloads.length, 100);
  t.equal(new Set(payloads).size, 100);
  const page = await visit(t, browser, stage, { user: 'owner' });
  const ran = await trap(page);

  // The trap works: this very page would have been noticed.
  await page.setContent(payloads[6]);
  for (let i = 0; i < 50 && ran().length === 0; i++) await page.waitForTimeout(20);
  t.equal(ran().splice(0).length, 1, 'where nothing escapes it, it runs');

  const violations: string[] = [];
  page.on('console', (message) => {
    if (/Content Security Policy|Trusted/.test(message.text())) violations.push(message.text());
  });
  for (let at = 0; at < payloads.length; at += 5) {
    const some = payloads.slice(at, at + 5);
    const { id, url } = await stage.propose({
      services: some.flatMap((payload, i) => [
        {
          ...{ action: 'set', host: `a${i}.example.com`, description: payload },
          auth: { type: 'custom', headers: { 'X-A': header(payload) } },
        },
        {
          action: 'set',
          host: `b${i}.example.com`,
          auth: { type: 'api-key', key: 'KEY_0', prefix: header(payload) },
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
    const shown = await page.locator('blockquote').first().innerText();
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
  await page.waitForTimeout(150);
  await page.goto(`${stage.baseUrl}/requests`);
  t.equal(await page.locator('#requests tr').count(), 100);
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
  await page.waitForTimeout(150);
  await page.goto(`${stage.baseUrl}/audit`);
  for (const payload of payloads.slice(0, 3)) {
    for (const path of [
      '/vaults/default?q=',
      '/requests?host=',
      '/explain?url=',
      '/requests?outcome=',
      '/login?next=',
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

  // Not by the API either, with or without CORS.
  const tried = await page.context().newPage();
  await tried.goto((await site(t)).origin);
  const answers = await tried.evaluate<string[], string>(async (base) => {
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
  }, `${stage.baseUrl}/v1/proposals/${id}/approve`);
  t.same(answers, ['refused', 'refused'], 'not even that it was refused is told');
  t.equal(await statusOf(id), 'pending');
});

t.test('no page stands in a frame, and none is read by another site', async (t) => {
  const { url } = await stage.propose({ credentials: [{ action: 'delete', key: 'GONE' }] });
  const evil = await site(
    t,
    `<iframe src="${stage.baseUrl}/"></iframe><iframe src="${url}"></iframe><iframe src="${stage.baseUrl}/login"></iframe>`,
  );
  const page = await visit(t, browser, stage, { user: 'owner' });
  const held: string[] = [];
  page.on('console', (message) => held.push(message.text()));
  await page.goto(evil.origin);
  await page.waitForTimeout(200);
  t.equal(page.frames().length, 4);
  for (const frame of page.frames().slice(1)) t.match(frame.url(), /^(chrome-error:|about:)/, 'refused');
  t.ok(held.some((text) => /frame-ancestors|X-Frame-Options/.test(text)));
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
  }
  t.equal(asked.length, 2);
  for (const { referer } of asked) t.equal(referer, undefined);
});

t.test('a name that was rebound to our address gets nothing', async (t) => {
  const page = await visit(t, browser, stage, { user: 'owner' });
  const { url } = await stage.propose({ credentials: [{ action: 'delete', key: 'GONE' }] });
  for (const path of ['/', '/login', url.slice(stage.baseUrl.length)]) {
    const answer = await page.goto(`http://rebound.test:${stage.port}${path}`);
    t.equal(answer?.status(), 421, path.slice(0, 12));
    t.notMatch(await page.content(), /proposal|password/i);
  }
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
