/** Kills in the middle of changes of the master password: what opens the store is the old one or the new one. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { type Broker, launcher, run, startBroker, temporary } from '../support/broker.ts';

const rounds = 20;

/** null: the key file. */
type Opener = string | null;

const env = (opener: Opener): Record<string, string> =>
  opener === null ? {} : { BROKER_MASTER_PASSWORD: opener };

t.test(`${rounds} kills in the middle of re-wrapping leave the old password or the new one`, async (t) => {
  const directory = join(temporary(t), 'data');

  /** Starts by the one of these that opens the store; the others must be refused. */
  async function startBy(openers: readonly Opener[]): Promise<{ broker: Broker; opener: Opener }> {
    for (const [i, opener] of openers.entries()) {
      if (i === openers.length - 1)
        return { broker: await startBroker(t, { directory, env: env(opener) }), opener };
      const broker = await startBroker(t, { directory, env: env(opener) }).catch((error: Error) => error);
      if (!(broker instanceof Error)) return { broker, opener };
      if (!/is wrong|none was given|key file/.test(broker.message)) throw broker;
    }
    throw new Error('nothing to open it with');
  }

  let { broker, opener } = await startBy([null]);
  const values = { A: 'canary-a', B: 'canary-b' };
  await broker.api('POST', '/v1/credentials', { vault: 'default', body: { credentials: values } });
  const put = (body: object) => broker.api('PUT', '/v1/master-password', { body });
  const from = performance.now();
  await put({ new: 'password 0' });
  opener = 'password 0';
  const took = performance.now() - from;
  const outcomes = { kept: 0, changed: 0, acknowledged: 0 };

  for (let round = 1; round <= rounds; round++) {
    // Set, change and remove in turn, as what is there allows.
    const next: Opener = opener !== null && round % 3 === 0 ? null : `password ${round}`;
    let acknowledged = false;
    const changing = put({ current: opener ?? undefined, new: next ?? undefined }).then(
      ({ status }) => {
        acknowledged = status === 200;
      },
      () => {},
    );
    // A change takes two derivations, and setting the first password one; most of the time is before the commit.
    await new Promise((resolve) =>
      setTimeout(resolve, Math.random() * took * (opener === null || next === null ? 1.3 : 2.5)),
    );
    broker.process.kill('SIGKILL');
    await Promise.all([changing, broker.ended]);
    const before: Opener = opener;
    ({ broker, opener } = await startBy(acknowledged ? [next] : [before, next]));
    t.ok(opener === next || !acknowledged, `round ${round}: acknowledged, so it is the new one`);
    outcomes[acknowledged ? 'acknowledged' : opener === next ? 'changed' : 'kept']++;
    t.notMatch(broker.printed().stderr, /damaged/, `round ${round}: all values open`);
    t.equal(
      existsSync(join(directory, 'master.key')),
      opener === null,
      `round ${round}: the file is there iff it counts`,
    );
    const { body } = await broker.api<{ keys: string[] }>('GET', '/v1/credentials', { vault: 'default' });
    t.same(body.keys, ['A', 'B']);
  }
  t.comment(JSON.stringify(outcomes));
  t.ok(outcomes.kept > 0 && outcomes.acknowledged > 0, 'kills came before and after');

  broker.process.kill('SIGTERM');
  await broker.ended;
  const flags = ['--data-dir', directory, '--port', '0', '--proxy-port', '0'];
  const wrong = await run(launcher, ['server', ...flags], {
    env: { BROKER_MASTER_PASSWORD: 'password none' },
  });
  t.equal(wrong.code, 1);
});
