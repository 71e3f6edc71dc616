import { type MessagePort, threadId } from 'node:worker_threads';
import { heartbeat } from '../../../src/actors/core/heartbeat.ts';
import { connect, serve } from '../../../src/actors/core/link.ts';
import type { Ref } from '../../../src/actors/core/protocol.ts';
import { createSystem } from '../../../src/actors/core/system.ts';

/** What the tests ask of an actor inside a thread. */
export interface Subject {
  echo: { in: unknown; out: unknown };
  /** Milliseconds until the asker's deadline, as the thread sees it. */
  remaining: { in: undefined; out: number };
  /** An answer that can't be cloned. */
  unclonable: { in: undefined; out: unknown };
  note: { in: number };
  notes: { in: undefined; out: number[] };
  /** Sends that many numbers to the collector, and asks it now and then. */
  count: { in: number; out: undefined };
  never: { in: undefined; out: undefined };
  boom: { in: undefined };
  leave: { in: undefined };
  /** Blocks the thread's event loop for ms, or for ever. */
  block: { in: number };
  throwUncaught: { in: undefined };
  eatMemory: { in: undefined };
  closePort: { in: undefined };
}

export interface Collector {
  number: { in: number };
  echo: { in: number; out: number };
  hook: { in: string };
}

export type Mode = 'plain' | 'throw in drain' | 'block in drain' | 'never stop' | 'never up' | 'end';

function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

/** Asks until there is a credit for it. */
async function patiently(ask: () => Promise<unknown>): Promise<void> {
  for (let done = false; !done; ) {
    done = await ask().then(
      () => true,
      (error) => {
        if (error.code !== 'mailbox_full') throw error;
        return new Promise((resolve) => setImmediate(resolve, false));
      },
    );
  }
}

/** A thread as a lane is one: serves an actor, uses one of the main thread, keeps the heartbeat, stops when told. */
export default async function run({ port, mode }: { port: MessagePort; mode: Mode }): Promise<number> {
  if (mode === 'end') return threadId;
  const system = createSystem();
  const notes: number[] = [];
  const hold: unknown[] = [];
  const subject = system.spawn<Subject>({
    name: 'subject',
    start: (ctx) => ({
      handlers: {
        echo: (value) => value,
        remaining: (_, { deadline = 0 }) => deadline - Date.now(),
        unclonable: () => () => {},
        note: (value) => void notes.push(value),
        notes: () => notes,
        async count(many) {
          for (let i = 0; i < many; i++) {
            if (i % 100 === 50) await patiently(() => collector.ask('echo', i));
            else while (collector.tell('number', i) === 'full') await new Promise(setImmediate);
          }
          return undefined;
        },
        never: () => new Promise<undefined>(() => {}),
        boom() {
          throw new Error('boom');
        },
        leave: () => ctx.stopSelf(),
        block: (ms) => block(ms),
        throwUncaught: () => {
          setImmediate(() => {
            throw new Error('uncaught');
          });
        },
        eatMemory() {
          for (;;) hold.push(new Array(10_000).fill(Math.random()));
        },
        closePort: () => port.close(),
      },
    }),
  });
  serve(system, port, { subject });
  const { collector } = connect<{ collector: Ref<Collector> }>(port, ['collector'], { credits: 16 });
  if (mode !== 'never up') {
    await new Promise<void>((resolve) => {
      heartbeat(port, {
        async onDrain() {
          collector.tell('hook', 'drain');
          if (mode === 'throw in drain') throw new Error('drain');
          if (mode === 'block in drain') block(Number.POSITIVE_INFINITY);
        },
        onStop() {
          collector.tell('hook', 'stop');
          if (mode !== 'never stop') resolve();
        },
      });
    });
  } else {
    await new Promise(() => {});
  }
  await system.stop();
  return threadId;
}
