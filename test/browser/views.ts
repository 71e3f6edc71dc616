/** Every page in every state, for those who check it and for those who take its picture. */
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import type { Proposals } from './furnish.ts';
import { type Lasting, type Stage, visit } from './stage.ts';

export interface View {
  /** In file names, too. */
  readonly name: string;
  /** In Markdown. */
  readonly shows: string;
  readonly path: string;
  /** Default: the owner; null: nobody. */
  readonly user?: string | null;
  readonly stage: Stage;
  /** What is done on the page before it is looked at. */
  act?(page: Page): Promise<unknown>;
}

/** Windows that pages are looked at in. */
export const windows = {
  wide: { viewport: { width: 1280, height: 800 } },
  narrow: { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true },
} as const;

/** A browser profile for each look, user and broker, made when it is first needed: to sign in takes longer than to look. */
export function createProfiles(t: Lasting, browser: Browser) {
  const profiles = new Map<string, BrowserContext>();
  return async (look: BrowserContextOptions, { stage, user = 'owner' }: View): Promise<BrowserContext> => {
    const key = JSON.stringify([look, stage.port, user]);
    const known = profiles.get(key);
    if (known) return known;
    const page = await visit(t, browser, stage, { ...look, user: user ?? undefined });
    profiles.set(key, page.context());
    await page.close();
    return page.context();
  };
}

const click = (name: string) => (page: Page) =>
  page.getByRole('button', { name, exact: true }).first().click();
const openAll = (page: Page) =>
  page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })");

/**
 * @param stage a broker in the middle of its work, and the proposals on it
 * @param bare one that was just started
 */
export function viewsOf(stage: Stage, found: Proposals, bare: Stage): View[] {
  const link = ({ url }: { url: string }) => url.slice(stage.baseUrl.length);
  const views: (Omit<View, 'stage'> & { readonly stage?: Stage })[] = [
    { name: 'sign-in', shows: 'Signing in', path: '/login?next=/proposals', user: null },
    {
      name: 'sign-in-refused',
      shows: 'Signing in, with a wrong password',
      path: '/login',
      user: null,
      async act(page) {
        await page.getByLabel('Name').fill('owner');
        await page.getByLabel('Password').fill('wrong password');
        await click('Sign in')(page);
        await page.getByRole('alert').waitFor();
      },
    },
    {
      name: 'sign-in-link',
      shows: 'The link of `broker login`',
      path: `/login?token=brk_opr_${'0'.repeat(72)}`,
      user: null,
    },
    { name: 'signed-in', shows: 'Signed in already', path: '/login' },
    { name: 'approve-plain', shows: 'A proposal', path: `/approve/${found.plain.id}` },
    {
      name: 'approve-visitor',
      shows: 'The same for who holds the link and isn’t signed in',
      path: link(found.plain),
      user: null,
    },
    { name: 'approve-risky', shows: 'A proposal to look at twice', path: `/approve/${found.risky.id}` },
    { name: 'approve-removal', shows: 'A proposal that takes away', path: `/approve/${found.removal.id}` },
    {
      name: 'approve-refused',
      shows: 'A proposal allowed without its value',
      path: `/approve/${found.plain.id}`,
      async act(page) {
        await page.evaluate("document.querySelector('[data-secret]').required = false");
        await click('Allow')(page);
        await page.getByRole('alert').waitFor();
      },
    },
    { name: 'approve-allowed', shows: 'A proposal that was allowed', path: `/approve/${found.applied.id}` },
    { name: 'approve-denied', shows: 'A proposal that was denied', path: `/approve/${found.rejected.id}` },
    {
      name: 'approve-late',
      shows: 'Somebody else was faster',
      path: `/approve/${found.rejected.id}?late=yes`,
    },
    { name: 'approve-expired', shows: 'A proposal that has expired', path: link(found.expired), user: null },
    { name: 'approve-part-of-link', shows: 'The link without its token', path: '/approve/1', user: null },
    {
      name: 'approve-wrong-link',
      shows: 'A link that isn’t one',
      path: '/approve/1?token=brk_apr_x',
      user: null,
    },
    { name: 'overview', shows: 'The overview', path: '/' },
    { name: 'overview-first-start', shows: 'The overview at the first start', path: '/', stage: bare },
    { name: 'vaults', shows: 'Vaults', path: '/vaults' },
    { name: 'vault-services', shows: 'The services of a vault', path: '/vaults/default' },
    { name: 'vault-services-done', shows: 'After a change', path: '/vaults/default?done=service-saved' },
    { name: 'vault-services-cleared', shows: 'A vault that was cleared', path: '/vaults/research' },
    { name: 'vault-services-empty', shows: 'A vault without services', path: '/vaults/default', stage: bare },
    { name: 'service-new', shows: 'A new service', path: '/vaults/default/new-service' },
    {
      name: 'service-template',
      shows: 'A new service from a template',
      path: '/vaults/research/new-service?template=twilio',
    },
    {
      name: 'service-refused',
      shows: 'A service that is refused',
      path: '/vaults/default/new-service?host=api.example.com',
      async act(page) {
        await page.getByLabel('Credential', { exact: true }).first().fill('not a key');
        await click('Add the service')(page);
        await page.getByRole('alert').waitFor();
      },
    },
    {
      name: 'service-next-step',
      shows: 'The value of a new service’s credential',
      path: '/vaults/default/new-service?host=api.example.com',
      async act(page) {
        await page.getByLabel('Credential', { exact: true }).first().fill('EXAMPLE_KEY');
        await click('Add the service')(page);
        await page.getByText('One step is left').waitFor();
      },
    },
    {
      name: 'service-edit',
      shows: 'A service',
      path: '/vaults/default/services/api.twilio.com',
      act: openAll,
    },
    {
      name: 'vault-credentials',
      shows: 'The credentials of a vault',
      path: '/vaults/default/credentials?lines=yes',
    },
    {
      name: 'credential',
      shows: 'A credential',
      path: '/vaults/default/credentials/STRIPE_KEY',
      act: openAll,
    },
    {
      name: 'vault-credentials-empty',
      shows: 'A vault without credentials',
      path: '/vaults/default/credentials',
      stage: bare,
    },
    {
      name: 'vault-settings',
      shows: 'The settings of a vault',
      path: '/vaults/billing/settings',
      act: openAll,
    },
    { name: 'proposals', shows: 'Proposals', path: '/proposals' },
    { name: 'proposals-empty', shows: 'No proposals', path: '/proposals', stage: bare },
    { name: 'requests', shows: 'Requests as they happen', path: '/requests' },
    {
      name: 'requests-no-match',
      shows: 'No requests like that',
      path: '/requests?vault=billing&outcome=5xx',
    },
    { name: 'requests-empty', shows: 'No requests', path: '/requests', stage: bare },
    {
      name: 'explain',
      shows: 'Why a request carries a credential',
      path: '/explain?vault=default&method=POST&url=https%3A%2F%2Fapi.twilio.com%2F2010-04-01',
    },
    {
      name: 'explain-refused',
      shows: 'Why a request is refused',
      path: '/explain?vault=billing&url=https%3A%2F%2Fapi.unknown.example%2Fv2',
    },
    { name: 'agents', shows: 'Agents and sessions', path: '/agents', act: openAll },
    { name: 'agents-empty', shows: 'No agents', path: '/agents', stage: bare },
    {
      name: 'agent-invited',
      shows: 'An invite',
      path: '/agents',
      async act(page) {
        await page.getByLabel('billing', { exact: true }).check();
        await click('Make an invite')(page);
        await page.getByRole('heading', { name: 'Invite made' }).waitFor();
      },
    },
    {
      name: 'agent-token',
      shows: 'A new token of an agent',
      path: '/agents',
      async act(page) {
        const row = page.getByRole('row', { name: /release-bot/ });
        await row.getByText('New token', { exact: true }).click();
        await row.getByRole('button', { name: 'Make a new token' }).click();
        await page.getByRole('heading', { name: 'New token' }).waitFor();
      },
    },
    { name: 'audit', shows: 'The audit', path: '/audit' },
    {
      name: 'audit-verified',
      shows: 'The audit, verified',
      path: '/audit',
      act: click('Verify the whole log'),
    },
    { name: 'not-found', shows: 'What isn’t there', path: '/vaults/nowhere' },
  ];
  return views.map((view) => ({ stage, ...view }));
}
