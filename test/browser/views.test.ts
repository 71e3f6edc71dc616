/**
 * Every page in every state, wide and narrow, light and dark: without findings of axe, without a script's or a policy's
 * complaint, without a shift of its layout, within its size. With BROKER_SCREENS=DIRECTORY pictures of them are kept.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { BrowserContext, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { busy, furnish } from './furnish.ts';
import { barriers, complaints, type Stage, startChromium, startStage, visit } from './stage.ts';

interface View {
  readonly name: string;
  readonly path: string;
  /** Default: the owner; null: nobody. */
  readonly user?: string | null;
  readonly stage?: Stage;
  /** What is done on the page before it is looked at. */
  act?(page: Page): Promise<unknown>;
}

const screens = process.env.BROKER_SCREENS;
const looks = [
  { name: 'wide-light', colorScheme: 'light', viewport: { width: 1200, height: 800 } },
  { name: 'narrow-dark', colorScheme: 'dark', viewport: { width: 375, height: 760 } },
  ...(screens === undefined
    ? []
    : ([
        { name: 'wide-dark', colorScheme: 'dark', viewport: { width: 1200, height: 800 } },
        { name: 'narrow-light', colorScheme: 'light', viewport: { width: 375, height: 760 } },
      ] as const)),
] as const;

const browser = await startChromium(t);
const stage = await startStage(t, busy());
const bare = await startStage(t);
const found = await furnish(stage);
const link = ({ url }: { url: string }) => url.slice(stage.baseUrl.length);
const click = (name: string) => (page: Page) =>
  page.getByRole('button', { name, exact: true }).first().click();
const openAll = (page: Page) =>
  page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })");

const views: View[] = [
  { name: 'sign-in', path: '/login?next=/proposals', user: null },
  {
    name: 'sign-in-refused',
    path: '/login',
    user: null,
    async act(page) {
      await page.getByLabel('Name').fill('owner');
      await page.getByLabel('Password').fill('wrong password');
      await click('Sign in')(page);
      await page.getByRole('alert').waitFor();
    },
  },
  { name: 'sign-in-link', path: `/login?token=brk_opr_${'0'.repeat(72)}`, user: null },
  { name: 'signed-in', path: '/login' },
  { name: 'approve-plain', path: `/approve/${found.plain.id}` },
  { name: 'approve-visitor', path: link(found.plain), user: null },
  { name: 'approve-risky', path: `/approve/${found.risky.id}` },
  { name: 'approve-removal', path: `/approve/${found.removal.id}` },
  {
    name: 'approve-refused',
    path: `/approve/${found.plain.id}`,
    async act(page) {
      await page.evaluate("document.querySelector('[data-secret]').required = false");
      await click('Allow')(page);
      await page.getByRole('alert').waitFor();
    },
  },
  { name: 'approve-allowed', path: `/approve/${found.applied.id}` },
  { name: 'approve-denied', path: `/approve/${found.rejected.id}` },
  { name: 'approve-late', path: `/approve/${found.rejected.id}?late=yes` },
  { name: 'approve-expired', path: link(found.expired), user: null },
  { name: 'approve-part-of-link', path: '/approve/1', user: null },
  { name: 'approve-wrong-link', path: '/approve/1?token=brk_apr_x', user: null },
  { name: 'overview', path: '/' },
  { name: 'overview-first-start', path: '/', stage: bare },
  { name: 'vaults', path: '/vaults' },
  { name: 'vault-services', path: '/vaults/default' },
  { name: 'vault-services-done', path: '/vaults/default?done=service-saved' },
  { name: 'vault-services-empty', path: '/vaults/default', stage: bare },
  { name: 'service-new', path: '/vaults/default/new-service' },
  { name: 'service-template', path: '/vaults/research/new-service?template=twilio' },
  {
    name: 'service-refused',
    path: '/vaults/default/new-service?host=api.example.com',
    async act(page) {
      await page.getByLabel('Credential', { exact: true }).first().fill('not a key');
      await click('Add the service')(page);
      await page.getByRole('alert').waitFor();
    },
  },
  { name: 'service-edit', path: '/vaults/default/services/api.twilio.com', act: openAll },
  { name: 'vault-credentials', path: '/vaults/default/credentials?lines=yes' },
  { name: 'credential', path: '/vaults/default/credentials/STRIPE_KEY', act: openAll },
  { name: 'vault-credentials-empty', path: '/vaults/default/credentials', stage: bare },
  { name: 'vault-settings', path: '/vaults/billing/settings', act: openAll },
  { name: 'proposals', path: '/proposals' },
  { name: 'proposals-empty', path: '/proposals', stage: bare },
  { name: 'requests', path: '/requests' },
  { name: 'requests-empty', path: '/requests', stage: bare },
  {
    name: 'explain',
    path: '/explain?vault=default&method=POST&url=https%3A%2F%2Fapi.twilio.com%2F2010-04-01',
  },
  { name: 'explain-refused', path: '/explain?vault=billing&url=https%3A%2F%2Fapi.unknown.example%2Fv2' },
  { name: 'agents', path: '/agents', act: openAll },
  { name: 'agents-empty', path: '/agents', stage: bare },
  {
    name: 'agent-invited',
    path: '/agents',
    async act(page) {
      await page.getByLabel('billing', { exact: true }).check();
      await click('Make an invite')(page);
      await page.getByRole('heading', { name: 'Invite made' }).waitFor();
    },
  },
  { name: 'audit', path: '/audit' },
  { name: 'audit-verified', path: '/audit', act: click('Verify the whole log') },
  { name: 'not-found', path: '/vaults/nowhere' },
];

const profiles = new Map<string, BrowserContext>();

/** A browser profile for each look, user and broker, made when it is first needed. */
async function profileOf(t: Test, look: (typeof looks)[number], view: View): Promise<BrowserContext> {
  const home = view.stage ?? stage;
  const user = view.user === null ? undefined : (view.user ?? 'owner');
  const key = `${look.name} ${home.port} ${user}`;
  const { name: _, ...options } = look;
  const profile = profiles.get(key) ?? (await visit(t, browser, home, { ...options, user })).context();
  profiles.set(key, profile);
  return profile;
}

async function check(t: Test, look: (typeof looks)[number], view: View): Promise<void> {
  const page = await (await profileOf(t, look, view)).newPage();
  await page.addInitScript(watchShifts);
  const wrong = complaints(page);
  await page.goto((view.stage ?? stage).baseUrl + view.path);
  await view.act?.(page);
  await page.waitForLoadState('load');
  const findings = [...(await barriers(page)), ...wrong, ...(await tooWide(page))];
  t.same(findings, [], `${view.name}, ${look.name}`);
  if (!view.act) t.equal(await page.evaluate('window.shifted'), 0, 'nothing shifts');
  if (screens !== undefined) {
    mkdirSync(screens, { recursive: true });
    await page.screenshot({ path: join(screens, `${view.name}-${look.name}.png`), fullPage: true });
  }
  await page.close();
}

t.test('every page, every look', async (t) => {
  for (const view of views) await Promise.all(looks.map((look) => check(t, look, view)));
});

const watchShifts = `window.shifted = 0;
new PerformanceObserver((list) => { for (const entry of list.getEntries()) window.shifted += entry.value; })
  .observe({ type: 'layout-shift', buffered: true });`;

async function tooWide(page: Page): Promise<string[]> {
  const [wide, shown] = await page.evaluate<[number, number]>(
    '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
  );
  return wide > shown ? [`${wide} px wide in ${shown}`] : [];
}
