/** What the browser tests play on: a real front on the real vault, and a real Chromium. */
import { existsSync } from 'node:fs';
import axe from 'axe-core';
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from 'playwright-core';
import type { Test } from 'tap';
import { auditLine } from '../../src/actors/audit.ts';
import { type Clock, systemClock } from '../../src/actors/core/clock.ts';
import type { Ref } from '../../src/actors/core/protocol.ts';
import { hashPassword } from '../../src/actors/vault/password-hash.ts';
import type { By, ProposalBody, VaultProtocol } from '../../src/actors/vault/protocol.ts';
import { type Composed, composeBroker } from '../support/compose.ts';

export const by: By = { actor: 'operator:owner', label: 'owner', request_id: 'stage' };

/** The owner's, and that of every operator that a test makes. */
export const password = 'correct horse battery staple';

/** As strong as the real ones in form, and a thousand times as fast. */
const encoded = hashPassword(password, { N: 2 ** 7, r: 8, p: 1 });

/** What a test needs for as long as it lasts. */
export type Lasting = Pick<Test, 'teardown'>;

export interface Stage {
  /** Where it listens, whatever its links say. */
  readonly baseUrl: string;
  /** The data directory. */
  readonly directory: string;
  readonly port: number;
  readonly vault: Ref<VaultProtocol>;
  /** What the front gave to be logged, as JSON. */
  readonly log: string[];
  /** Writes records as a lane does. */
  audit(...records: object[]): void;
  /** A proposal of an agent's: its id and the link to it. */
  propose(body: ProposalBody, vault?: string): Promise<{ readonly id: number; readonly url: string }>;
  /** The cookie of an operator. */
  cookie(name?: string): Promise<string>;
  /** Puts the broker's wall clock forward. */
  later(ms: number): void;
  /** What it shows: milliseconds since the epoch. */
  now(): number;
  /** Makes an admin with a password. */
  admin(name: string, ...vaults: string[]): Promise<void>;
}

/**
 * Starts a front for one test.
 * @param startsAt what the broker's wall clock shows then; default: the time
 */
export async function startStage(
  t: Lasting,
  given: Omit<Composed, 'clock'> = {},
  startsAt = systemClock.now(),
): Promise<Stage> {
  let ahead = startsAt - systemClock.now();
  const clock: Clock = { ...systemClock, now: () => systemClock.now() + ahead };
  const composed = await composeBroker({ ...given, clock });
  t.teardown(composed.stop);
  const { front, directory, log } = composed;
  const { vault, audit } = composed.tree;
  const baseUrl = `http://127.0.0.1:${front.port}`;
  await done(vault.ask('operator.password', { name: 'owner', encoded, by }));

  return {
    baseUrl,
    directory,
    port: front.port,
    vault,
    log,
    audit(...records) {
      audit.tell('append', { lines: records.map(auditLine).join(''), count: records.length });
    },
    async propose(body, name = 'default') {
      const agent = { actor: 'agent:release-bot', label: 'release-bot', request_id: 'stage' };
      const { proposal, approvalToken } = await done(
        vault.ask('proposal.create', { vault: name, body, by: agent }),
      );
      const { id } = proposal;
      return { id, url: `${baseUrl}/approve/${id}?token=${approvalToken.reveal()}` };
    },
    async cookie(name = 'owner') {
      return (await done(vault.ask('operator.signIn', { name, kind: 'cookie', by }))).token.reveal();
    },
    later(ms) {
      ahead += ms;
    },
    now: clock.now,
    async admin(name, ...vaults) {
      await done(vault.ask('operator.create', { name, role: 'admin', vaults, encoded, by }));
    },
  };
}

/** The value of a result that has to be one. */
export async function done<T>(
  result: Promise<{ ok: true; value: T } | { ok: false; problem: unknown }>,
): Promise<T> {
  const settled = await result;
  if (!settled.ok) throw new Error(JSON.stringify(settled.problem));
  return settled.value;
}

const programs = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/snap/bin/chromium',
];

/** Starts Chromium for one test file. It fails where there is none: what isn't looked at isn't tested. */
export async function startChromium(t: Lasting): Promise<Browser> {
  const executablePath = process.env.CHROMIUM ?? programs.find((path) => existsSync(path));
  if (executablePath === undefined)
    throw new Error('There is no Chromium. Install it, or name it in CHROMIUM.');
  const browser = await chromium.launch({
    executablePath,
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      // A page that was rebound to our address.
      '--host-resolver-rules=MAP *.test 127.0.0.1',
    ],
  });
  t.teardown(() => browser.close());
  return browser;
}

/** A page in a browser profile of its own, where `user` is signed in. It is closed after the test. */
export async function visit(
  t: Lasting,
  browser: Browser,
  stage: Stage,
  { user, ...options }: BrowserContextOptions & { readonly user?: string } = {},
): Promise<Page> {
  const context = await browser.newContext(options);
  t.teardown(() => context.close());
  context.setDefaultTimeout(30_000);
  if (user !== undefined) await signIn(context, stage, user);
  return context.newPage();
}

/** Signs a browser in by a link, as `broker login` prints it: where scripts run it has a key of its own then. */
export async function signIn(context: BrowserContext, stage: Stage, user: string): Promise<void> {
  const link = stage.vault.ask('operator.signIn', { name: user, kind: 'login-link', by });
  const page = await context.newPage();
  await page.goto(`${stage.baseUrl}/login?token=${(await done(link)).token.reveal()}`);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL(`${stage.baseUrl}/`);
  await page.close();
}

/** Puts a cookie of an operator into a browser, which has no key for it. */
export async function giveCookie(context: BrowserContext, stage: Stage, user = 'owner'): Promise<void> {
  const value = await stage.cookie(user);
  await context.addCookies([
    { name: 'broker_session', value, url: stage.baseUrl, httpOnly: true, sameSite: 'Strict' },
  ]);
}

/** Fills in the password wherever a form of the page asks to show that it is the operator. */
export async function prove(page: Page): Promise<void> {
  for (const field of await page.locator('[name="proof.password"]').all()) {
    if (await field.isVisible()) await field.fill(password);
  }
}

/** What axe finds on a page, a line each. */
export async function barriers(page: Page): Promise<string[]> {
  const session = await page.context().newCDPSession(page);
  // By way of the protocol: the page's own policy lets no other script in.
  await session.send('Runtime.evaluate', { expression: axe.source });
  const { result } = await session.send('Runtime.evaluate', {
    expression: `axe.run().then(({ violations }) => JSON.stringify(violations.flatMap(({ id, nodes }) =>
      nodes.map(({ html, failureSummary }) => id + ': ' + html + ' ' + failureSummary))))`,
    awaitPromise: true,
    returnByValue: true,
  });
  await session.detach();
  return JSON.parse(result.value);
}

/** Adds up how far what is on a page moves while it is loaded and lives: 0 where nothing does. To be called first. */
export async function watchShifts(page: Page): Promise<{ sum(): Promise<number> }> {
  await page.addInitScript(`window.shifted = 0;
    new PerformanceObserver((list) => { for (const { value } of list.getEntries()) window.shifted += value; })
      .observe({ type: 'layout-shift', buffered: true });`);
  return { sum: () => page.evaluate<number>('window.shifted') };
}

/** Collects what a page complains of: errors in scripts, and what its policy forbids. */
export function complaints(page: Page): string[] {
  const found: string[] = [];
  page.on('pageerror', (error) => found.push(String(error)));
  page.on('console', (message) => {
    // A refusal's status is logged as an error too.
    const isStatus = /Failed to load resource: the server responded/.test(message.text());
    if (message.type() === 'error' && !isStatus) found.push(message.text());
  });
  return found;
}
