/** Whose wrong tokens, passwords and codes are counted together, and whom they shut out. */
import { request } from 'node:http';
import t from 'tap';
import { networkOf } from '../../src/actors/vault/network.ts';
import { failureMemory, SignInFailures } from '../../src/actors/vault/sign-in-failures.ts';
import { startBroker } from './start-front.ts';

const right = 'correct horse battery';

t.test('guesses are counted by network, apart from wrong tokens', async (t) => {
  const broker = await startBroker({ settings: { 'auth-failures': 3 } });
  t.teardown(broker.stop);
  const body = { password: right };
  await broker.ask('PUT', '/v1/operators/owner/password', { token: broker.operator, body });
  const login = (password: string, localAddress: string) =>
    new Promise<number>((resolve, reject) => {
      const headers = { 'content-type': 'application/json' };
      const to = { host: '127.0.0.1', port: broker.port, method: 'POST', path: '/v1/login', agent: false };
      request({ ...to, headers, localAddress }, (answer) => resolve(answer.resume().statusCode ?? 0))
        .on('error', reject)
        .end(JSON.stringify({ name: 'owner', password }));
    });
  const tokens = Array.from({ length: 5 }, async (_, i) =>
    broker.ask('GET', '/v1/vaults', { token: `wrong${i}` }),
  );
  t.same((await Promise.all(tokens)).map(({ status }) => status).sort(), [401, 401, 401, 429, 429]);
  t.equal(await login(right, '127.0.0.1'), 200, 'wrong tokens shut no password out');
  for (const address of ['127.0.0.2', '127.0.3.4', '127.9.9.9'])
    t.equal(await login('wrong', address), 401, address);
  t.equal(await login(right, '127.0.0.77'), 429, 'all of loopback is one network');
  t.equal((await broker.ask('GET', '/v1/vaults', { token: broker.operator })).status, 200);
});

t.test('an account waits for guesses of several networks, but not where it was signed in from', (t) => {
  const failures = new SignInFailures(failureMemory(), 5);
  const at = Date.now();
  failures.guessedRight('198.51.100.7', 'ann');
  for (let network = 0; network < 4; network++)
    for (let i = 0; i < 5; i++) t.equal(failures.countGuess(`192.0.2.${network}`, 'ann', at), 0);
  t.ok(failures.guessWait('192.0.2.1', 'bob', at) > 0, 'a network that had its guesses');
  t.equal(failures.guessWait('192.0.2.99', 'bob', at), 0, 'another account from another network');
  t.ok(failures.guessWait('192.0.2.99', 'ann', at) > 0, 'the account from another network');
  t.equal(failures.guessWait('198.51.100.7', 'ann', at), 0, 'where it was signed in from');
  t.equal(failures.guessWait('192.0.2.99', 'ann', at + 300_000), 0, 'five minutes later');
  t.equal(failures.count('192.0.2.1', at), 0, 'tokens are counted apart');
  t.end();
});

t.test('nobody chooses a name, or an address, that falls into the slot of another', (t) => {
  // What falls together in one broker, found by trying, does not in the next.
  const found = (failures: SignInFailures, names: readonly string[]) =>
    names.filter((name) => failures.guessWait('203.0.113.9', name, Date.now()) > 0);
  const names = Array.from({ length: 20_000 }, (_, i) => `x${i}`);
  const [one, other] = [1, 2].map(() => {
    const failures = new SignInFailures(failureMemory(), 1);
    for (let i = 0; i < 4; i++) failures.countGuess(`192.0.2.${i}`, 'ann', Date.now());
    return failures;
  });
  const together = found(one, names);
  t.ok(together.length > 0, 'a table is small enough for some');
  t.ok(found(other, together).length < together.length / 2);
  t.equal(one.guessWait('ann', 'bob', Date.now()), 0, 'a name is no network');
  t.end();
});

t.test('networks', (t) => {
  const cases: [address: string, network: string][] = [
    ['127.0.0.1', 'loopback'],
    ['127.255.3.4', 'loopback'],
    ['::1', 'loopback'],
    ['::ffff:127.0.0.9', 'loopback'],
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8::/64'],
    ['fe80::1%eth0', 'fe80::/64'],
    ['', ''],
  ];
  for (const [address, network] of cases) t.equal(networkOf(address), network, address);
  t.end();
});
