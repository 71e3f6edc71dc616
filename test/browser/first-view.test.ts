/** What the first look at a page costs, with ten thousand services and as many credentials in the vault. */
import t from 'tap';
import { Secret } from '../../src/actors/vault/secret.ts';
import { by, done, giveCookie, startChromium, startStage, visit } from './stage.ts';

const many = 10_000;
/** Octets of a page and all that it loads, as they are transferred: 50 KiB. */
const most = 50 * 1024;

const stage = await startStage(t);
const browser = await startChromium(t);
const { vault } = stage;
const values = new Map(Array.from({ length: many }, (_, i) => [`KEY_${i}`, new Secret(`value ${i}`)]));
await done(vault.ask('credential.set', { vault: 'default', values, byAgent: false, by }));
const services = Array.from({ length: many }, (_, i) => ({
  host: `api-${i}.example.com`,
  description: `The service of team ${i}`,
  auth: { type: 'bearer', token: `KEY_${i}` } as const,
}));
await done(vault.ask('service.set', { vault: 'default', mode: 'replace', services, by }));

t.test('small', async (t) => {
  for (const path of [
    '/',
    '/vaults',
    '/vaults/default',
    '/vaults/default?q=team+99',
    '/vaults/default/credentials',
    '/vaults/default/new-service',
    '/vaults/default/services/api-77.example.com',
    '/proposals',
    '/requests',
    '/agents',
    '/audit',
    '/explain?url=https://api-9.example.com/',
  ]) {
    // Each in a profile of its own, so that nothing is there from the one before.
    // Not by signing in: that loads what the page would.
    const page = await visit(t, browser, stage);
    await giveCookie(page.context(), stage);
    const session = await page.context().newCDPSession(page);
    await session.send('Network.enable');
    const sizes: number[] = [];
    session.on('Network.loadingFinished', ({ encodedDataLength }) => sizes.push(encodedDataLength));
    await page.goto(stage.baseUrl + path);
    const waited = await page.evaluate<number>(
      "(({ requestStart, responseStart }) => responseStart - requestStart)(performance.getEntriesByType('navigation')[0])",
    );
    const size = sizes.reduce((sum, each) => sum + each, 0);
    t.ok(sizes.length >= 3, 'the page, its style and its script are counted');
    t.ok(size <= most, `${path}: ${size} octets`);
    t.comment(`${path}: ${size} octets, answered within ${Math.round(waited)} ms`);
    await page.context().close();
  }
});
