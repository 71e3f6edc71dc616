/**
 * A new operator's first minutes, with the console alone: from a broker that was just started to an agent's request
 * that was refused, proposed, allowed, and goes through with its credential.
 */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { run, startBroker } from '../support/broker.ts';
import { startNeighbour } from './neighbour.ts';
import { complaints, startChromium } from './stage.ts';

t.test('from the start to an approved proposal', async (t) => {
  const began = performance.now();
  const upstream = createServer((request, response) => {
    seen.push(request.headers);
    response.end('hello');
  });
  const seen: IncomingHttpHeaders[] = [];
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  t.teardown(() => upstream.close());
  const host = `127.0.0.1:${(upstream.address() as AddressInfo).port}`;

  const broker = await startBroker(t, { args: ['--network-allow', '127.0.0.0/8'] });
  t.match(broker.printed().stdout, /in a browser.*broker login/, 'the start says how to get here');
  const login = await broker.command(['login']);
  const link = /http:\S+\/login\?token=\S+/.exec(login.stdout)?.[0] ?? '';

  const browser = await startChromium(t);
  const page = await (await browser.newContext()).newPage();
  page.setDefaultTimeout(20_000);
  const wrong = complaints(page);
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  const go = (name: string) => page.getByRole('link', { name, exact: true }).first().click();
  await page.goto(link);
  await press('Sign in');
  await page.getByRole('heading', { name: 'Start here' }).waitFor();

  await go('have them refused');
  await page.getByLabel('Requests to hosts without a service').selectOption('deny');
  await press('Save');
  await page.getByText('The settings are saved.').waitFor();

  await go('Overview');
  await go('Invite an agent');
  await page.getByLabel('Name').fill('release-bot');
  await press('Make an invite');
  const words = (await page.locator('#copied').innerText()).split(' ');
  t.equal(words[0], 'curl');
  const joined = await run('curl', ['-s', ...words.slice(1)]);
  const { BROKER_ADDR, BROKER_SESSION_TOKEN: token, proxy_port } = JSON.parse(joined.stdout);
  await go('Done');
  await page.getByRole('row', { name: /release-bot/ }).waitFor();

  // The agent, from here on by curl: it is refused, and told what to do.
  const proxy = ['-s', '-x', `http://${token}:default@127.0.0.1:${proxy_port}`, '--noproxy', ''];
  const ask = async () => (await run('curl', [...proxy, `http://${host}/x`])).stdout;
  const { error, proposal_hint } = JSON.parse(await ask());
  t.equal(error, 'forbidden');
  const endpoint = proposal_hint.endpoint.replace('POST ', '').replace('{base_url}', BROKER_ADDR);
  const body = {
    services: [{ action: 'set', host, auth: { type: 'bearer', token: 'BUILD_TOKEN' } }],
    credentials: [{ action: 'set', key: 'BUILD_TOKEN', description: 'A token that reads builds' }],
    user_message: 'I need to read the build status.',
  };
  const headers = [`Authorization: Bearer ${token}`, 'X-Vault: default', 'Content-Type: application/json'];
  const flags = headers.flatMap((header) => ['-H', header]);
  await page.goto(broker.address);
  const proposed = await run('curl', ['-s', endpoint, ...flags, '-d', JSON.stringify(body)]);
  t.match(JSON.parse(proposed.stdout), { status: 'pending', id: 1 });

  await page.getByText('A new proposal has come.').waitFor();
  await go('Load this page again');
  await go('Proposal 1');
  await page.locator('[data-secret="BUILD_TOKEN"]').fill('build-token-1');
  for (const tick of await page.locator('main [type="checkbox"]').all()) await tick.check();

  // Meanwhile the operator looks at what the agent serves on a port of its own. It gets the cookie, and puts another there.
  const neighbour = await startNeighbour(t, 'broker_session=x; Path=/');
  const other = await page.context().newPage();
  await other.goto(neighbour.origin);
  await other.close();
  t.match(neighbour.stolen(), /^broker_session=brk_opr_/);
  const proposal = `${broker.address}/approve/1`;
  const forged = await neighbour.forge(proposal, {
    decision: 'allow',
    'value.BUILD_TOKEN': 'agent',
    csrf: '',
  });
  t.equal(forged.status, 403);
  const read = await neighbour.forge(proposal, { decision: 'allow', 'value.BUILD_TOKEN': 'agent' });
  t.match([read.status, await read.text()], [403, /Show that it is you/], 'with all that the page shows');
  t.equal((await neighbour.ask('POST', `${broker.address}/v1/sessions`)).status, 403);
  t.match(await broker.api('GET', '/v1/proposals/1'), { body: { status: 'pending' } });

  await press('Allow');
  await page.getByText('Allowed by owner.').waitFor();

  t.equal(await ask(), 'hello');
  t.match(seen, [{ authorization: 'Bearer build-token-1' }]);
  await go('Requests');
  await page.getByText('BUILD_TOKEN').waitFor();
  t.same(wrong, []);
  t.comment(`${Math.round((performance.now() - began) / 100) / 10} s`);
});
