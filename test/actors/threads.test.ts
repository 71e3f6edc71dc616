import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { ActorError } from '../../src/actors/core/errors.ts';
import { connect, serve } from '../../src/actors/core/link.ts';
import type { Ref } from '../../src/actors/core/protocol.ts';
import { policies } from '../../src/actors/core/supervision.ts';
import { type ActorSystem, createSystem } from '../../src/actors/core/system.ts';
import { type ThreadProtocol, type ThreadSpec, threadActor } from '../../src/actors/core/thread.ts';
import { createPool } from '../../src/workers/pool.ts';
import type { Collector, Mode, Subject } from './workers/subject.ts';

const codeOf = (ask: Promise<unknown>): Promise<string> =>
  ask.then(
    () => 'answered',
    (error) => (ActorError.is(error) ? error.code : String(error)),
  );

/** Generous: the machine may be busy. Every wait ends long before when all is well. */
async function until(condition: () => boolean, what: string): Promise<void> {
  for (const end = performance.now() + 10_000; !condition(); await sleep(5)) {
    if (performance.now() > end) throw new Error(`waited in vain: ${what}`);
  }
}

interface Lane {
  system: ActorSystem;
  /** The thread as an actor. */
  thread: Ref<ThreadProtocol>;
  /** The actor inside the thread, anew in each life. */
  subject: Ref<Subject>;
  lives: number;
  /** What the collector got from the thread. */
  numbers: number[];
  hooks: string[];
  deaths: string[];
  failures: unknown[];
  release(): void;
}

/** Slow beats for tests that aren't about them: a busy machine must not look like a hang. */
const calm = { heartbeatMs: 1_000, supervision: { ...policies.always, backoffMs: 10 } };

/** For all tests, since a thread takes its time to come up: the dead are replaced, the others used again. */
const pool = createPool({
  filename: new URL('./workers/subject.ts', import.meta.url),
  threads: 3,
  resourceLimits: { maxOldGenerationSizeMb: 96 },
});
t.teardown(() => pool.close());

/** A real thread of a real pool as a supervised actor. `held`: the collector waits for `release`. */
async function startLane(
  t: Test,
  mode: Mode = 'plain',
  options: Partial<ThreadSpec> & { credits?: number; held?: boolean } = {},
): Promise<Lane> {
  const system = createSystem();
  t.teardown(() => system.stop());
  const lane = { system, lives: 0, numbers: [], hooks: [], deaths: [], failures: [] } as unknown as Lane;
  const released = new Promise<void>((resolve) => {
    lane.release = resolve;
  });
  const collector = system.spawn<Collector>({
    name: 'collector',
    mailbox: 4,
    start: () => ({
      handlers: {
        async number(value) {
          if (options.held) await released;
          lane.numbers.push(value);
        },
        echo(value) {
          lane.numbers.push(value);
          return value;
        },
        hook: (name) => void lane.hooks.push(name),
      },
    }),
  });
  lane.thread = system.spawn(
    threadActor({
      name: 'lane',
      ...calm,
      ...options,
      run: (port, signal) =>
        pool.run({ port, mode }, { signal, transferList: [port] }).catch((error) => {
          lane.failures.push(error.code ?? error.name);
          throw error;
        }),
      onStart(port) {
        serve(system, port, { collector });
        const refs = connect<{ subject: Ref<Subject> }>(port, ['subject'], { credits: options.credits });
        lane.subject = refs.subject;
        system.watch(refs.subject, (path, reason) => lane.deaths.push(`${path} ${reason}`));
      },
      onUp: () => void lane.lives++,
    }),
  );
  if (mode !== 'never up' && mode !== 'end') await until(() => lane.lives === 1, 'the thread comes up');
  return lane;
}

t.test('2 order is kept across threads, both ways', async (t) => {
  const lane = await startLane(t);
  const many = 3_000;
  const wanted = Array.from({ length: many }, (_, i) => i);
  await lane.subject.ask('count', many);
  await until(() => lane.numbers.length === many, 'all numbers');
  t.same(lane.numbers, wanted);
  t.equal(lane.system.counters().refused, 0, 'credits kept the sender from a mailbox of 4');

  for (const i of wanted) {
    while (lane.subject.tell('note', i) === 'full') await new Promise(setImmediate);
  }
  t.same(await lane.subject.ask('notes', undefined), wanted);
});

t.test('4 deadlines travel as remaining time, and what expired in the port is skipped', async (t) => {
  const lane = await startLane(t);
  const remaining = await lane.subject.ask('remaining', undefined, { timeoutMs: 3_000 });
  t.ok(remaining > 2_000 && remaining <= 3_000, `${remaining} ms`);

  lane.subject.tell('block', 150);
  t.equal(await codeOf(lane.subject.ask('remaining', undefined, { timeoutMs: 60 })), 'ask_timeout');
  const handled = codeOf(lane.subject.ask('echo', 'x', { timeoutMs: 5_000 }));
  t.equal(await handled, 'answered', 'the link goes on after a late answer');

  // The thread must not handle what its asker has given up on: a late `count` would show here.
  lane.subject.tell('block', 150);
  t.equal(await codeOf(lane.subject.ask('count', 3, { timeoutMs: 60 })), 'ask_timeout');
  await lane.subject.ask('echo', 'x');
  t.same(lane.numbers, []);
});

t.test('5 credits bound the port', async (t) => {
  const lane = await startLane(t, 'plain', { credits: 4 });
  lane.subject.tell('block', 100);
  t.same(
    [1, 2, 3, 4, 5].map((i) => lane.subject.tell('note', i)),
    ['sent', 'sent', 'sent', 'full', 'full'],
  );
  t.equal(await codeOf(lane.subject.ask('echo', 'x')), 'mailbox_full');
  let more = 3;
  await until(() => lane.subject.tell('note', more + 1) === 'sent' && ++more === 8, 'credits for five more');
  let notes: number[] | undefined;
  for (const end = performance.now() + 10_000; !notes && performance.now() < end; await sleep(5)) {
    notes = await lane.subject.ask('notes', undefined).catch(() => undefined);
  }
  t.same(notes, [1, 2, 3, 4, 5, 6, 7, 8], 'what was refused was not sent, what was sent arrived');
  t.same(
    [1, 2, 3, 4].map((i) => lane.subject.tell('note', i)),
    ['sent', 'sent', 'sent', 'sent'],
  );
});

t.test('5 a slow actor stops a fast thread, not the other way round', async (t) => {
  const lane = await startLane(t, 'plain', { held: true });
  const counted = lane.subject.ask('count', 40);
  await until(() => lane.system.counters().told >= 17, 'as many as there are credits');
  await sleep(50);
  t.equal(lane.system.counters().told, 17, 'the credits of the thread, and the one being handled');
  lane.release();
  await counted;
  // The answer goes to who asked, the numbers to another actor.
  await until(() => lane.numbers.length === 40, 'all of them');
});

const deaths: [
  name: string,
  message: 'throwUncaught' | 'eatMemory' | 'closePort',
  failure: string | undefined,
][] = [
  ['an uncaught throw', 'throwUncaught', 'Error'],
  ['out of memory', 'eatMemory', 'ERR_WORKER_OUT_OF_MEMORY'],
  ['a closed port', 'closePort', 'AbortError'],
];

for (const [name, message, failure] of deaths) {
  t.test(`6 and 8 the death of a thread by ${name}`, async (t) => {
    // Only a heart that stops tells of a closed port; a thread busy with dying must not be taken for a hung one.
    const lane = await startLane(t, 'plain', { heartbeatMs: message === 'closePort' ? 400 : 60_000 });
    const { subject } = lane;
    const asked = codeOf(subject.ask('count', 0).then(() => subject.ask('echo', new Promise(() => {}))));
    t.equal(await asked, 'actor_failed', 'a body that can’t be cloned');
    t.equal(subject.tell('note', Symbol('x') as never), 'dead');
    t.equal(await codeOf(subject.ask('unclonable', undefined)), 'actor_failed');

    subject.tell(message, undefined);
    t.equal(await codeOf(subject.ask('never', undefined, { timeoutMs: 20_000 })), 'actor_dead');
    t.equal(subject.tell('note', 1), 'dead');
    t.equal(await codeOf(subject.ask('echo', 1)), 'actor_dead');
    await until(() => lane.lives === 2, 'another life');
    t.not(lane.subject, subject);
    t.equal(await lane.subject.ask('echo', 'alive'), 'alive');
    t.same(lane.deaths, ['//subject thread'], 'the watch fired once');
    t.same(lane.failures, [failure]);
    t.match(lane.system.counters(), { failed: 1, restarting: 1 });
  });
}

t.test('6 a thread that hangs is found by its heartbeat and killed', async (t) => {
  const lane = await startLane(t, 'plain', { heartbeatMs: 100 });
  lane.subject.tell('block', Number.POSITIVE_INFINITY);
  t.equal(
    await codeOf(lane.subject.ask('echo', 'x', { timeoutMs: 20 })),
    'ask_timeout',
    'whatever the thread does',
  );
  await until(() => lane.lives === 2, 'another life');
  t.same(lane.deaths, ['//subject thread']);
  t.same(lane.failures, ['AbortError']);
  t.equal(lane.system.counters().failed, 1);
  t.ok(lane.system.counters().silent >= 4);
  t.equal(await lane.subject.ask('echo', 'alive'), 'alive');
});

t.test('6 no thread is blamed for a busy main thread, nor for a short pause of its own', async (t) => {
  const lane = await startLane(t, 'plain', { heartbeatMs: 200 });
  for (const end = performance.now() + 1_500; performance.now() < end; );
  await sleep(250);
  lane.subject.tell('block', 250);
  await lane.subject.ask('echo', 'x');
  await sleep(250);
  t.equal(lane.lives, 1);
  t.equal(lane.system.counters().failed, 0);
});

t.test('6 a thread that never comes up, and one that ends by itself', async (t) => {
  const supervision = { ...policies.temporary };
  for (const mode of ['never up', 'end'] as const) {
    const lane = await startLane(t, mode, { supervision, startTimeoutMs: 500 });
    const died = new Promise((resolve) => lane.system.watch(lane.thread, (_, reason) => resolve(reason)));
    t.equal(await died, 'failed', mode);
    t.equal(lane.system.counters().restarting, 0);
  }
});

t.test('8 death watch across threads: stopped, failed, unknown', async (t) => {
  const lane = await startLane(t);
  lane.subject.tell('boom', undefined);
  t.equal(await lane.subject.ask('echo', 1), 1, 'a restart inside the thread is no death');
  lane.subject.tell('leave', undefined);
  await until(() => lane.deaths.length > 0, 'the notice');
  t.same(lane.deaths, ['//subject stopped']);
  t.equal(lane.subject.tell('note', 1), 'dead');
  t.equal(await codeOf(lane.subject.ask('echo', 1)), 'actor_dead');
  t.equal(await lane.thread.ask('status', undefined), 'up', 'the thread lives on');
});

t.test('9 a thread drains, then stops', async (t) => {
  const lane = await startLane(t);
  await lane.system.stop();
  t.same(lane.hooks, ['drain', 'stop']);
  t.same(lane.failures, [], 'it was not killed');
  t.match(lane.system.counters(), { failed: 0, overdue: 0 });
});

t.test('9 threads that are told to stop drain side by side', async (t) => {
  const lanes = await Promise.all([startLane(t), startLane(t)]);
  const ended = lanes.map(
    (lane) => new Promise((resolve) => lane.system.watch(lane.thread, (_, reason) => resolve(reason))),
  );
  for (const lane of lanes) t.equal(lane.thread.tell('stop', undefined), 'sent');
  t.same(await Promise.all(ended), ['stopped', 'stopped']);
  for (const lane of lanes) t.same([lane.hooks, lane.failures, lane.lives], [['drain', 'stop'], [], 1]);
});

t.test('9 a thread that dies, hangs or won’t stop when told', async (t) => {
  const cases: [mode: Mode, failure: string, hooks: string[]][] = [
    ['throw in drain', 'Error', ['drain']],
    // Found by its heartbeat: the deadline would come too late for this test.
    ['block in drain', 'AbortError', ['drain']],
    ['never stop', 'AbortError', ['drain', 'stop']],
  ];
  const play = async ([mode, failure, hooks]: (typeof cases)[number]) => {
    const lane = await startLane(t, mode, {
      heartbeatMs: 100,
      stopTimeoutMs: mode === 'never stop' ? 1_000 : 60_000,
    });
    let death = '';
    lane.system.watch(lane.thread, (_, reason) => {
      death = reason;
    });
    await lane.system.stop();
    t.same(lane.failures, [failure], mode);
    t.same(lane.hooks, hooks, mode);
    t.equal(death, mode === 'never stop' ? 'stopped' : 'failed', mode);
    t.match(lane.system.counters(), { restarting: 0, overdue: 0, failed: 1 }, mode);
  };
  await Promise.all(cases.map(play));
});

t.test('a pool task that throws rejects; a closed pool rejects', async (t) => {
  const pool = createPool({ filename: new URL('./workers/missing.ts', import.meta.url), threads: 1 });
  await t.rejects(pool.run({}), { code: 'ERR_MODULE_NOT_FOUND' });
  await pool.close();
  await t.rejects(pool.run({}), /closed/);
});
