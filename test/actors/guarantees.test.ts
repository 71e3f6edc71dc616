import { execFile } from 'node:child_process';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { MessageChannel } from 'node:worker_threads';
import t, { type Test } from 'tap';
import type { ActorSpec, Context } from '../../src/actors/core/behavior.ts';
import { channels } from '../../src/actors/core/diagnostics.ts';
import { ActorError, type ActorErrorCode } from '../../src/actors/core/errors.ts';
import { connect, serve } from '../../src/actors/core/link.ts';
import type { Ref } from '../../src/actors/core/protocol.ts';
import { judge, policies } from '../../src/actors/core/supervision.ts';
import { type ActorSystem, createSystem } from '../../src/actors/core/system.ts';
import { manualClock } from '../support/manual-clock.ts';

interface Worker {
  note: { in: string };
  boom: { in: string };
  hold: { in: Promise<void> };
  leave: { in: undefined };
  echo: { in: string; out: string };
  crash: { in: string; out: never };
  wait: { in: Promise<void>; out: string };
  deadline: { in: undefined; out: number | undefined };
}

/** An actor that writes all that happens to it into `log`. */
function worker(log: string[], spec: Partial<ActorSpec<Worker>> = {}): ActorSpec<Worker> {
  return {
    name: 'worker',
    start: (ctx) => {
      log.push('start');
      return behavior(log, ctx);
    },
    ...spec,
  };
}

function behavior(log: string[], ctx: Context<Worker>) {
  return {
    handlers: {
      note(text: string) {
        log.push(text);
      },
      boom(text: string) {
        log.push(text);
        throw new Error('boom');
      },
      async hold(until: Promise<void>) {
        log.push('hold');
        await until;
        log.push('held');
      },
      leave: () => ctx.stopSelf(),
      echo(text: string) {
        log.push(text);
        return text;
      },
      crash(): never {
        throw new Error('crash');
      },
      async wait(until: Promise<void>) {
        await until;
        return 'waited';
      },
      deadline: (_: undefined, meta: { deadline?: number }) => meta.deadline,
    },
    onDrain: () => void log.push('drain'),
    onStop: () => void log.push('stop'),
  };
}

/** What is to be done now is done: on a slow machine that takes more than one turn of the event loop. */
async function tick(): Promise<void> {
  for (let turns = 0; turns < 10; turns++) await turn();
}

function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

/** A clock that knows how many timers were set on it and how many are still to fire. */
function countingClock(start = 0) {
  const clock = manualClock(start);
  const pending = new Set<() => void>();
  const counting = {
    ...clock,
    timersSet: 0,
    pending,
    setTimer(ms: number, fn: () => void) {
      counting.timersSet++;
      const cancel = clock.setTimer(ms, () => {
        pending.delete(cancel);
        fn();
      });
      pending.add(cancel);
      return () => {
        pending.delete(cancel);
        cancel();
      };
    },
  };
  return counting;
}

const codeOf = (ask: Promise<unknown>): Promise<ActorErrorCode | 'answered' | 'other'> =>
  ask.then(
    () => 'answered',
    (error) => (ActorError.is(error) ? error.code : 'other'),
  );

/** Generous, for what another event loop turn or a port brings. */
async function until(condition: () => boolean): Promise<void> {
  for (const end = performance.now() + 10_000; !condition(); await sleep(1)) {
    if (performance.now() > end) throw new Error(`waited in vain for ${condition}`);
  }
}

function setUp(test: Test, options: Parameters<typeof createSystem>[0] = {}): ActorSystem {
  const system = createSystem(options);
  test.teardown(() => system.stop());
  return system;
}

t.test('1 one message at a time, awaits included', async (t) => {
  const system = setUp(t);
  const log: string[] = [];
  const { opened, open } = gate();
  const started = gate();
  const ref = system.spawn(
    worker(log, {
      async start(ctx) {
        log.push('starting');
        await started.opened;
        log.push('started');
        ctx.watch(brief, () => void log.push('death'));
        return behavior(log, ctx);
      },
    }),
  );
  const brief = system.spawn(worker([], { name: 'brief' }));
  ref.tell('hold', opened);
  ref.tell('note', 'after');
  await tick();
  t.same(log, ['starting'], 'a start is a turn');
  started.open();
  await tick();
  brief.tell('leave', undefined);
  const echo = ref.ask('echo', 'last');
  await tick();
  t.same(log, ['starting', 'started', 'hold'], 'neither a message nor a death notice comes in between');
  open();
  await echo;
  await tick();
  t.same(log.slice(3), ['held', 'after', 'last', 'death']);

  let overlaps = 0;
  let running = 0;
  const turns = system.spawn<{ work: { in: number; out: undefined } }>({
    name: 'turns',
    start: () => ({
      handlers: {
        async work(rounds) {
          if (++running > 1) overlaps++;
          for (let i = 0; i < rounds; i++) await null;
          running--;
        },
      },
    }),
  });
  await Promise.all(Array.from({ length: 100 }, (_, i) => turns.ask('work', i % 5)));
  t.equal(overlaps, 0);
});

t.test('1 actors that keep each other busy leave the event loop its turns', async (t) => {
  const system = setUp(t);
  interface Ping {
    ping: { in: Ref<Ping> };
  }
  const rally = (name: string): ActorSpec<Ping> => ({
    name,
    start: (ctx) => ({ handlers: { ping: (from) => void from.tell('ping', ctx.self) } }),
  });
  system.spawn(rally('left')).tell('ping', system.spawn(rally('right')));
  // Its timers would never fire otherwise.
  await until(() => system.counters().turns > 1_000);
  t.pass();
});

t.test('2 order is kept per sender and receiver', async (t) => {
  const system = setUp(t);
  const log: string[] = [];
  const ref = system.spawn(worker(log, { mailbox: 3_000 }));
  const sent: string[] = [];
  const asks: Promise<string>[] = [];
  for (let i = 0; i < 2_000; i++) {
    sent.push(`${i}`);
    if (i % 3 === 0) asks.push(ref.ask('echo', `${i}`));
    else ref.tell('note', `${i}`);
  }
  await Promise.all(asks);
  await ref.ask('echo', 'last');
  t.same(log, ['start', ...sent, 'last']);
});

t.test(
  '2 urgent messages overtake, in their own order, and find room where others have filled the mailbox',
  async (t) => {
    const system = setUp(t);
    const { opened, open } = gate();
    const log: string[] = [];
    const urgent = (_: string, body: unknown) => String(body).startsWith('!');
    const ref = system.spawn(worker(log, { mailbox: 2, urgent }));
    await tick();
    ref.tell('hold', opened);
    await tick();
    t.same(
      ['a', 'b', 'c', '!1', '!2', '!3'].map((text) => ref.tell('note', text)),
      ['sent', 'sent', 'full', 'sent', 'sent', 'full'],
    );
    open();
    await tick();
    t.same(log, ['start', 'hold', 'held', '!1', '!2', 'a', 'b']);
  },
);

t.test('3 tell returns sent, full or dead, and never waits or throws', async (t) => {
  const system = setUp(t);
  const { opened, open } = gate();
  const log: string[] = [];
  const ref = system.spawn(worker(log, { mailbox: 2 }));
  await tick();
  t.equal(ref.tell('hold', opened), 'sent');
  await tick();
  t.equal(ref.tell('note', 'a'), 'sent');
  t.equal(ref.tell('note', 'b'), 'sent');
  t.equal(ref.tell('note', 'c'), 'full');
  t.equal(await codeOf(ref.ask('echo', 'd')), 'mailbox_full');
  open();
  await tick();
  t.equal(ref.tell('boom', 'x'), 'sent', 'a failure is not the sender’s');
  await tick();
  await system.stop();
  t.equal(ref.tell('note', 'e'), 'dead');
  t.equal(await codeOf(ref.ask('echo', 'f')), 'actor_dead');
  t.same(log, ['start', 'hold', 'held', 'a', 'b', 'x', 'stop']);

  // Checked by the compiler, never run.
  (_: Ref<Worker>) => {
    // @ts-expect-error a message with an answer isn't told
    ref.tell('echo', 'x');
    // @ts-expect-error a message without one isn't asked
    ref.ask('note', 'x');
    // @ts-expect-error the body has a type
    ref.tell('note', 1);
  };
});

t.test('4 every ask has a deadline, which travels along, and expired work is skipped', async (t) => {
  const clock = countingClock(1_000_000);
  const system = setUp(t, { clock });
  const log: string[] = [];
  const ref = system.spawn(worker(log, { askTimeoutMs: 700 }));
  await tick();

  t.equal(await ref.ask('deadline', undefined), 1_000_700, 'the default of the actor');
  t.equal(await ref.ask('deadline', undefined, { timeoutMs: 30 }), 1_000_030);
  t.equal(await ref.ask('deadline', undefined, { deadline: 1_000_020, timeoutMs: 30 }), 1_000_020);
  t.equal(
    await ref.ask('deadline', undefined, { timeoutMs: Number.POSITIVE_INFINITY }),
    1_000_700,
    'none is endless',
  );
  t.equal(await ref.ask('deadline', undefined, { timeoutMs: Number.NaN }), 1_000_700);
  t.equal(await codeOf(ref.ask('echo', 'too late', { deadline: 999_999 })), 'ask_timeout');

  const { opened, open } = gate();
  const outcomes: string[] = [];
  const outcome = (name: string, ask: Promise<unknown>) =>
    void codeOf(ask).then((code) => outcomes.push(`${name} ${code} ${clock.now()}`));
  outcome('wait', ref.ask('wait', opened, { timeoutMs: 300 }));
  outcome('b', ref.ask('echo', 'b', { timeoutMs: 200 }));
  outcome('c', ref.ask('echo', 'c', { timeoutMs: 100 }));
  outcome('d', ref.ask('echo', 'd', { timeoutMs: 400 }));
  await clock.advance(350);
  t.same(outcomes, ['c ask_timeout 1000100', 'b ask_timeout 1000200', 'wait ask_timeout 1000300']);
  open();
  await tick();
  t.equal(outcomes[3], 'd answered 1000350');
  t.same(log, ['start', 'd'], 'b and c were never handled');
  t.equal(system.counters().expired, 4);

  const before = clock.timersSet;
  for (let i = 0; i < 10; i++) {
    await ref.ask('echo', 'e');
    await clock.advance(1);
  }
  await clock.advance(10_000);
  t.ok(clock.timersSet - before <= 2, 'an ask that is answered costs no timer');
});

t.test('5 mailboxes are bounded, and credits bound the ports', async (t) => {
  const system = setUp(t);
  const log: string[] = [];
  const ref = system.spawn(worker(log));
  const { opened, open } = gate();
  ref.tell('hold', opened);
  await tick();
  let sent = 0;
  while (ref.tell('note', 'n') === 'sent') sent++;
  t.equal(sent, 1024, 'the default bound');

  const { port1, port2 } = new MessageChannel();
  serve(system, port1, { worker: ref });
  const remote = connect<{ worker: Ref<Worker> }>(port2, ['worker'], { credits: 3 });
  const results = ['w', 'x', 'y', 'z'].map((text) => remote.worker.tell('note', text));
  t.same(results, ['sent', 'sent', 'sent', 'full']);
  t.equal(await codeOf(remote.worker.ask('echo', 'z')), 'mailbox_full');
  await sleep(10);
  t.equal(
    remote.worker.tell('note', 'z'),
    'full',
    'credits come back when the message leaves the mailbox, not before',
  );
  open();
  await until(() => log.includes('y'));
  await until(() => remote.worker.tell('note', 'again') === 'sent');
  await until(() => log.includes('again'));
  t.same(
    log.filter((text) => 'wxyz'.includes(text)),
    ['w', 'x', 'y'],
    'what was sent arrived, though the mailbox was full',
  );

  const closed = new Promise((resolve) => port2.once('close', resolve));
  await system.stop();
  await closed;
  t.equal(remote.worker.tell('note', 'x'), 'dead', 'a link ends with the system');
});

t.test('5 the credits of messages that died with their actor come back', async (t) => {
  const system = setUp(t);
  const ref = system.spawn(worker([], { supervision: policies.temporary }));
  const other = system.spawn(worker([], { name: 'other' }));
  const { port1, port2 } = new MessageChannel();
  const { close } = serve(system, port1, { worker: ref, other });
  t.teardown(close);
  const names = ['worker', 'other', 'unknown'] as const;
  const remote = connect<Record<(typeof names)[number], Ref<Worker>>>(port2, names, { credits: 4 });
  const deaths: string[] = [];
  system.watch(remote.worker, (path, reason) => deaths.push(`${path} ${reason}`));
  const { opened, open } = gate();
  ref.tell('hold', opened);
  remote.worker.tell('boom', 'x');
  remote.worker.tell('note', 'x');
  remote.worker.tell('note', 'x');
  const asked = codeOf(remote.worker.ask('echo', 'x'));
  await until(() => system.counters().asked === 1);
  open();
  t.equal(await asked, 'actor_dead');
  await until(() => deaths.length > 0);
  t.equal(system.counters().dropped, 3);
  t.equal(await codeOf(remote.worker.ask('echo', 'x')), 'actor_dead');
  t.equal(remote.unknown.tell('note', 'x'), 'sent');
  t.equal(await codeOf(remote.unknown.ask('echo', 'x')), 'actor_dead', 'no such name');
  t.equal(remote.unknown.tell('note', 'x'), 'dead');
  const all = ['a', 'b', 'c', 'd'].map((text) => remote.other.ask('echo', text));
  t.same(await Promise.all(all), ['a', 'b', 'c', 'd']);
  remote[Symbol.dispose]();
  system.watch(remote.worker, (path, reason) => deaths.push(`${path} ${reason}`));
  system.watch(remote.other, (path, reason) => deaths.push(`${path} ${reason}`));
  t.same(deaths, ['//worker failed', '//worker failed', '//other thread'], 'a death has one reason');
});

t.test('6 a failed actor is started again after a back-off with jitter', async (t) => {
  const clock = manualClock();
  const chances = [0, 0.5, 1];
  const system = setUp(t, { clock, random: () => chances.shift() ?? 0 });
  const log: string[] = [];
  const supervision = { ...policies.transient, backoffMs: 100, maxBackoffMs: 300, jitter: 0.5 };
  const ref = system.spawn(worker(log, { supervision }));
  const restarted = () => log.filter((entry) => entry === 'start').length - 1;
  for (const [n, delay] of [100, 150, 150, 300].entries()) {
    ref.tell('boom', 'x');
    await clock.advance(delay - 1);
    t.equal(restarted(), n, `not before ${delay} ms`);
    await clock.advance(1);
    t.equal(restarted(), n + 1);
  }
  t.same(log.slice(0, 4), ['start', 'x', 'stop', 'start'], 'each life lets go of what it holds');
});

t.test('6 at most n restarts in t, then the failure is the parent’s', async (t) => {
  const clock = manualClock();
  const escalated: unknown[] = [];
  const system = setUp(t, { clock, onEscalate: (reason) => escalated.push(reason) });
  const log: string[] = [];
  let child: Ref<Worker> | undefined;
  const supervision = { ...policies.transient, maxRestarts: 2, withinMs: 1_000, backoffMs: 1, jitter: 0 };
  system.spawn({
    name: 'parent',
    supervision: { ...supervision, maxRestarts: 1 },
    start(ctx) {
      log.push('parent');
      child = ctx.spawn(worker(log, { name: 'child', supervision }));
      return { handlers: {} };
    },
  });
  const fail = async (times: number) => {
    for (let i = 0; i < times; i++) {
      child?.tell('boom', 'x');
      await clock.advance(10);
    }
  };
  await clock.advance(0);
  const first = child;
  await fail(2);
  await clock.advance(1_000);
  await fail(2);
  t.equal(child, first, 'two in a second are allowed, however often');
  await fail(1);
  t.not(child, first, 'the third fails the parent, which starts anew with a new child');
  t.equal(first?.tell('note', 'x'), 'dead');
  t.equal(log.filter((entry) => entry === 'parent').length, 2);
  t.same(escalated, []);
  await fail(3);
  t.match(escalated, [{ message: 'boom' }], 'above the root there is no one');
  t.equal(child?.tell('note', 'x'), 'dead');
  t.equal(system.counters().escalated, 3);
});

t.test('6 policies judge as they are named', async (t) => {
  t.same(judge(policies.critical, [], 0, 0), { action: 'escalate' });
  t.same(judge(policies.temporary, [], 0, 0), { action: 'stop' });
  const many = Array.from({ length: 100 }, (_, i) => i);
  t.match(judge(policies.always, many, 100, 0), { action: 'restart', delayMs: policies.always.maxBackoffMs });
  t.same(judge(policies.transient, [0, 1, 2, 3, 4], 5, 0), { action: 'escalate' });

  const system = setUp(t);
  const log: string[] = [];
  const deaths: string[] = [];
  const ref = system.spawn(worker(log, { supervision: policies.temporary }));
  system.watch(ref, (path, reason) => deaths.push(`${path} ${reason}`));
  t.equal(await codeOf(ref.ask('crash', 'x')), 'actor_failed');
  await tick();
  t.same(log, ['start', 'stop']);
  t.same(deaths, ['/worker failed']);
});

t.test('6 at the root the process exits with 70', async (t) => {
  const source = (failure: string) => `
    import { createSystem } from ${JSON.stringify(new URL('../../src/actors/core/system.ts', import.meta.url))};
    const supervision = { strategy: 'escalate', maxRestarts: 0, withinMs: 0, backoffMs: 0, maxBackoffMs: 0, jitter: 0 };
    createSystem().spawn({ name: 'vault', supervision, start(ctx) { ${failure}; return { handlers: {} }; } });
    setTimeout(() => {}, 10_000);`;
  const failures = [
    'throw new Error("s3cret")',
    'ctx.clock.setTimer(1, () => { throw new Error("s3cret") })',
  ];
  for (const failure of failures) {
    const args = ['--input-type=module-typescript', '-e', source(failure)];
    const { code, stderr } = await new Promise<{ code: unknown; stderr: string }>((resolve) => {
      execFile(process.execPath, args, (error, _stdout, stderr) => resolve({ code: error?.code, stderr }));
    });
    t.equal(code, 70, stderr);
    t.match(stderr, /Exiting with 70/);
    t.notMatch(stderr, /s3cret/);
  }
});

t.test('7 the mailbox survives a restart, the failing message does not, and its asker is told', async (t) => {
  const clock = manualClock();
  const system = setUp(t, { clock });
  const log: string[] = [];
  const ref = system.spawn(worker(log));
  await tick();
  const crash = codeOf(ref.ask('crash', 'x'));
  ref.tell('note', 'a');
  const echo = ref.ask('echo', 'b');
  ref.tell('boom', 'c');
  ref.tell('note', 'd');
  t.equal(await crash, 'actor_failed');
  t.same(log, ['start']);
  await tick();
  ref.tell('note', 'e');
  await clock.advance(1_000);
  t.equal(await echo, 'b');
  t.same(log, ['start', 'stop', 'start', 'a', 'b', 'c', 'stop', 'start', 'd', 'e']);
});

t.test('7 a start that fails is tried again, before the messages that wait', async (t) => {
  const clock = manualClock();
  const system = setUp(t, { clock });
  const log: string[] = [];
  let tries = 0;
  const ref = system.spawn(
    worker(log, {
      async start(ctx) {
        if (++tries < 3) throw new Error('not yet');
        return behavior(log, ctx);
      },
    }),
  );
  ref.tell('note', 'a');
  await clock.advance(1_000);
  t.equal(tries, 3);
  t.same(log, ['a']);
});

t.test('7 timers, watches and children of a life end with it', async (t) => {
  const clock = manualClock();
  const system = setUp(t, { clock });
  const log: string[] = [];
  const other = system.spawn(worker([], { name: 'other' }));
  let lives = 0;
  let old: Context<Worker> | undefined;
  const ref = system.spawn(
    worker(log, {
      start(ctx) {
        const life = ++lives;
        old ??= ctx;
        ctx.clock.setTimer(100, () => void log.push(`timer ${life}`));
        ctx.watch(other, () => void log.push(`watch ${life}`));
        ctx.spawn(worker(log, { name: 'child' }));
        return behavior(log, ctx);
      },
    }),
  );
  await tick();
  t.throws(() => old?.spawn(worker([], { name: 'child' })), /already running/);
  ref.tell('boom', 'x');
  await clock.advance(60);
  t.throws(() => old?.spawn(worker([])), /life of it is over/);
  t.same(log, ['start', 'x', 'drain', 'stop', 'stop', 'start'], 'the child is stopped before its parent');
  other.tell('leave', undefined);
  await clock.advance(200);
  t.same(log.slice(6), ['watch 2', 'timer 2']);

  let failures = 0;
  system.spawn<Record<never, never>>({
    name: 'twice',
    start(ctx) {
      if (failures++ === 0) {
        ctx.fail('once');
        ctx.fail('twice');
      }
      return { handlers: {} };
    },
  });
  await clock.advance(1_000);
  t.equal(failures, 2, 'the second failure was of a life that is over');
});

t.test('8 death watch fires once', async (t) => {
  const system = setUp(t);
  const deaths: string[] = [];
  const note = (who: string) => (path: string, reason: string) =>
    void deaths.push(`${who}: ${path} ${reason}`);
  const ref = system.spawn(worker([], { supervision: { ...policies.transient, backoffMs: 1 } }));
  system.watch(ref, note('outside'));
  const forget = system.watch(ref, note('forgotten'));
  let cancel = () => {};
  system.spawn({
    name: 'watcher',
    start(ctx) {
      ctx.watch(ref, note('watcher'));
      cancel = ctx.watch(ref, note('cancelled'));
      return { handlers: {} };
    },
  });
  await tick();
  ref.tell('boom', 'x');
  await ref.ask('echo', 'x');
  t.same(deaths, [], 'a restart is no death');
  forget();
  cancel();
  ref.tell('leave', undefined);
  await sleep(5);
  t.same(deaths, ['outside: /worker stopped', 'watcher: /worker stopped']);
  system.watch(ref, note('late'));
  t.same(deaths.slice(2), ['late: /worker stopped']);
  t.throws(() => system.watch({ path: '/no/ref' }, note('x')), /not a ref/);
});

t.test('9 stop goes in reverse order of start, drain first', async (t) => {
  const system = setUp(t);
  const log: string[] = [];
  const { opened, open } = gate();
  const named = (name: string, children: string[] = []): ActorSpec<Worker> => ({
    name,
    start(ctx) {
      for (const child of children) ctx.spawn(named(child));
      const own: string[] = [];
      return {
        ...behavior(own, ctx),
        onDrain: () => void log.push(`drain ${name} ${own.length}`),
        onStop: () => void log.push(`stop ${name}`),
      };
    },
  });
  const first = system.spawn(named('first'));
  const last = system.spawn(named('last', ['a', 'b']));
  await tick();
  last.tell('hold', opened);
  last.tell('note', 'waits');
  const asked = last.ask('echo', 'waits');
  const stopped = system.stop();
  t.equal(last.tell('note', 'late'), 'dead', 'nothing new comes in');
  t.equal(first.tell('note', 'x'), 'sent', 'the elder still works');
  t.throws(() => system.spawn(named('new')), /has stopped/);
  open();
  t.equal(await asked, 'waits', 'what was in flight is answered');
  await stopped;
  t.same(log, [
    'drain last 4',
    'drain b 0',
    'stop b',
    'drain a 0',
    'stop a',
    'stop last',
    'drain first 1',
    'stop first',
  ]);
});

t.test('9 each stop has a deadline', async (t) => {
  const clock = countingClock();
  const system = createSystem({ clock });
  const log: string[] = [];
  const never = new Promise<void>(() => {});
  const deaths: string[] = [];
  const stuck = (name: string, handler?: Promise<void>) => {
    const ref = system.spawn<Worker>({
      name,
      stopTimeoutMs: 100,
      start: (ctx) => ({
        ...behavior(log, ctx),
        onDrain: () => (handler ? undefined : never),
        onStop: () => {
          log.push(`stop ${name} ${clock.monotonic()}`);
          return never;
        },
      }),
    });
    system.watch(ref, (path, reason) => deaths.push(`${path} ${reason} ${clock.monotonic()}`));
    return ref;
  };
  const throws = system.spawn(
    worker([], {
      name: 'throws',
      start: (ctx) => ({
        ...behavior(log, ctx),
        onDrain() {
          throw new Error('drain');
        },
        onStop() {
          throw new Error('stop');
        },
      }),
    }),
  );
  system.watch(throws, (path, reason) => deaths.push(`${path} ${reason} ${clock.monotonic()}`));
  stuck('drain');
  const handler = stuck('handler', never);
  await tick();
  const running = codeOf(handler.ask('wait', never, { timeoutMs: 10_000 }));
  const waiting = codeOf(handler.ask('echo', 'x', { timeoutMs: 10_000 }));
  await tick();
  const stopped = system.stop();
  await clock.advance(99);
  t.same(deaths, []);
  await clock.advance(500);
  await stopped;
  t.same([await running, await waiting], ['actor_dead', 'actor_dead']);
  t.same(log, ['stop handler 100', 'stop drain 200'], 'onStop is called all the same');
  t.same(deaths, ['/handler stopped 100', '/drain stopped 200', '/throws failed 200']);
  t.equal(system.counters().overdue, 4);
  t.equal(system.counters().dropped, 1);
  t.equal(clock.pending.size, 0, 'no timer is left');
});

t.test('9 a stop during a back-off or a start', async (t) => {
  const clock = manualClock();
  const system = createSystem({ clock });
  const log: string[] = [];
  const ref = system.spawn(worker(log));
  await tick();
  ref.tell('boom', 'x');
  const echo = codeOf(ref.ask('echo', 'y'));
  const starting = gate();
  system.spawn(
    worker(log, {
      name: 'slow',
      stopTimeoutMs: 10,
      async start(ctx) {
        await starting.opened;
        return behavior(log, ctx);
      },
    }),
  );
  await tick();
  const stopped = system.stop();
  await clock.advance(10);
  await stopped;
  t.equal(await echo, 'actor_dead');
  t.same(log, ['start', 'x', 'stop']);
  starting.open();
  await tick();
  t.same(log, ['start', 'x', 'stop', 'stop'], 'a start that comes too late lets go again');
});

t.test('10 events and counters for all of it, never message bodies', async (t) => {
  const seen: Record<string, unknown[]> = {};
  for (const [name, { name: channel }] of Object.entries(channels)) {
    const listener = (event: unknown) => {
      seen[name] ??= [];
      seen[name].push(event);
    };
    subscribe(channel, listener);
    t.teardown(() => unsubscribe(channel, listener));
  }
  const clock = manualClock();
  const onEscalate = () => {};
  const system = createSystem({ clock, random: () => 0, onEscalate });
  const supervision = { ...policies.transient, maxRestarts: 1 };
  const ref = system.spawn(worker([], { mailbox: 2, supervision, stopTimeoutMs: 10 }));
  await tick();
  const { port1, port2 } = new MessageChannel();
  const { close } = serve(system, port1, { worker: ref });
  const remote = connect<{ worker: Ref<Worker> }>(port2, ['worker'], { credits: 1 });
  t.equal(remote.worker.tell('boom', 's3cret'), 'sent');
  t.equal(remote.worker.tell('note', 's3cret'), 'full');
  await sleep(10);
  ref.tell('note', 's3cret');
  void codeOf(ref.ask('echo', 's3cret', { timeoutMs: 1 }));
  ref.tell('note', 's3cret');
  await clock.advance(1_000);
  ref.tell('boom', 's3cret');
  ref.tell('note', 's3cret');
  await clock.advance(1);
  const never = new Promise<void>(() => {});
  system.spawn(worker([], { name: 'slow', stopTimeoutMs: 10 })).tell('hold', never);
  await tick();
  close();
  const stopped = system.stop();
  await clock.advance(20);
  await stopped;
  await sleep(5);

  t.match(seen, {
    started: [{ path: '/worker', restarts: 0 }, { restarts: 1 }, { path: '/slow' }],
    failed: [{ path: '/worker', message: 'boom', error: { message: 'boom' } }, { message: 'boom' }],
    restarting: [{ path: '/worker', delayMs: 50 }],
    expired: [{ path: '/worker', message: 'echo' }],
    refused: [
      { path: '//worker', message: 'note', result: 'full' },
      { path: '/worker', message: 'note', result: 'full' },
    ],
    escalated: [{ path: '/worker' }],
    dropped: [{ path: '/worker', message: 'note' }],
    overdue: [{ path: '/slow' }],
    stopped: [
      { path: '/worker', reason: 'failed' },
      { path: '/slow', reason: 'stopped' },
    ],
    linked: [{ paths: ['/worker'] }, { paths: ['//worker'] }],
    unlinked: [{ paths: ['/worker'] }, { paths: ['//worker'] }],
  });
  const { silent, ...counted } = system.counters();
  t.match(counted, {
    started: 3,
    failed: 2,
    restarting: 1,
    expired: 1,
    refused: 1,
    escalated: 1,
    dropped: 1,
  });
  t.match(counted, { overdue: 1, stopped: 2, linked: 1, unlinked: 1, told: 5, asked: 1 });
  t.notMatch(JSON.stringify(seen), /s3cret/);
});
