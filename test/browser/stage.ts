/** What the browser tests play on: a real front on the real vault, and a real Chromium. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import axe from 'axe-core';
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from 'playwright-core';
import type { Test } from 'tap';
import { createExplain } from '../../bin/server/explain.ts';
import { auditActor, auditLine } from '../../src/actors/audit.ts';
import { openAuditLog } from '../../src/actors/audit-log.ts';
import { verifyAuditLog } from '../../src/actors/audit-verify.ts';
import { type Clock, systemClock } from '../../src/actors/core/clock.ts';
import type { Ref } from '../../src/actors/core/protocol.ts';
import { createSystem } from '../../src/actors/core/system.ts';
import { fileKek } from '../../src/actors/vault/keyfile.ts';
import { openLmdbStore } from '../../src/actors/vault/lmdb-store.ts';
import { hashPassword, verifyPassword } from '../../src/actors/vault/password-hash.ts';
import type { By, ProposalBody, VaultProtocol } from '../../src/actors/vault/protocol.ts';
import { failureBytes, SignInFailures } from '../../src/actors/vault/sign-in-failures.ts';
import { vaultActor } from '../../src/actors/vault/vault-actor.ts';
import { prepareVault } from '../../src/actors/vault/vault-boot.ts';
import { createEventHub } from '../../src/http/event-hub.ts';
import { startFront } from '../../src/http/front.ts';
import type { FrontOptions } from '../../src/http/front-options.ts';
import { createNetguard } from '../../src/proxy/netguard.ts';

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
  options: Partial<FrontOptions> = {},
  startsAt = systemClock.now(),
): Promise<Stage> {
  const directory = mkdtempSync(join(tmpdir(), 'broker-browser-'));
  let ahead = startsAt - systemClock.now();
  const clock: Clock = { ...systemClock, now: () => systemClock.now() + ahead };
  const system = createSystem({ clock });
  const log: string[] = [];
  const auditLog = openAuditLog(directory, { clock });
  const onError = (error: Error) => log.push(error.message);
  const health = new Int32Array(new SharedArrayBuffer(4));
  const audit = system.spawn(auditActor({ log: auditLog, health, onError }));
  const store = await openLmdbStore(directory);
  const kek = await prepareVault({ store, kek: fileKek(directory), directory, now: clock.now() });
  const hub = createEventHub();
  const vault = system.spawn(vaultActor({ store, kek, audit, onEvent: hub.publish, onError }));
  const netguard = createNetguard({
    allowPrivateRanges: false,
    allow: [],
    ownPorts: [],
    ownAddresses: () => [],
  });
  const front = await startFront({
    host: '127.0.0.1',
    port: 0,
    tls: null,
    baseUrl: null,
    hostNames: ['127.0.0.1', 'localhost'],
    proxyPort: 14322,
    proxyUrl: (token, name) => `https://${token}:${name}@127.0.0.1:14322`,
    caPem: () => '',
    vault,
    events: hub,
    failures: new SignInFailures(new SharedArrayBuffer(failureBytes), 50),
    ready: () => true,
    draining: () => false,
    log: (level, message, fields) => log.push(JSON.stringify({ level, message, ...fields })),
    audit: (record) => void audit.tell('append', { lines: auditLine(record), count: 1 }),
    auditRead: (query) => auditLog.read(query),
    auditFollow: (query, listener) => auditLog.follow(query, listener),
    auditVerify: () => verifyAuditLog(directory),
    explain: createExplain({ vault, baseUrl: 'http://127.0.0.1:14321', netguard }),
    passwords: {
      hash: async (secret) => ({ ok: true, value: hashPassword(secret.reveal(), { N: 2 ** 7, r: 8, p: 1 }) }),
      verify: async (secret, known) => ({
        ok: true,
        value: known !== null && verifyPassword(secret.reveal(), known),
      }),
    },
    ...options,
    clock: { ...(options.clock ?? clock), now: clock.now },
  });
  const baseUrl = `http://127.0.0.1:${front.port}`;
  t.teardown(async () => {
    await front.close(200);
    await system.stop();
    auditLog.close();
    await store.close();
    rmSync(directory, { recursive: true });
  });
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

export async function signIn(context: BrowserContext, stage: Stage, user: string): Promise<void> {
  const value = await stage.cookie(user);
  await context.addCookies([
    { name: 'broker_session', value, url: stage.baseUrl, httpOnly: true, sameSite: 'Strict' },
  ]);
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
