import { MessageChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { ActorSpec, Behavior, Context } from './behavior.ts';
import type { Cell } from './cell.ts';
import { report } from './diagnostics.ts';
import { beatOf, postBeat } from './heartbeat.ts';
import { cellOf } from './local-ref.ts';
import { policies, type SupervisionPolicy } from './supervision.ts';

/** A worker thread as an actor. Times are milliseconds. */
export interface ThreadSpec {
  name: string;
  /**
   * Starts the thread's task and hands it `port`; the promise lasts as long as the task. `signal` must kill
   * the thread. A Piscina task does both: `pool.run({ port }, { signal, transferList: [port] })`.
   */
  run(port: MessagePort, signal: AbortSignal): Promise<unknown>;
  /** Gets this side of the port before the task starts, to `serve` refs on it. */
  onStart?(port: MessagePort): void;
  /** The thread has called `heartbeat`: it works. Once in each life. */
  onUp?(): void;
  /** Default 250. */
  heartbeatMs?: number;
  /** Beats in a row without an answer after which the thread counts as hung. Default 4. */
  missedHeartbeats?: number;
  /** From the start to the thread's call of `heartbeat`. Default 10 000. */
  startTimeoutMs?: number;
  /** Default `policies.always`. */
  supervision?: SupervisionPolicy;
  /** For its drain and stop; it is killed when nine tenths are over. Default 5000. */
  stopTimeoutMs?: number;
}

export interface ThreadProtocol {
  status: { in: undefined; out: ThreadStatus };
  /** Ends the thread in order, as the end of its parent would: several can drain side by side this way. */
  stop: { in: undefined };
}

type ThreadStatus = 'starting' | 'up' | 'draining' | 'ended';

/**
 * An actor whose life is a thread's. It fails when the task rejects (an uncaught throw, out of memory) or ends without
 * being told to, when the port closes, when the thread doesn't come up in time and when it misses its beats; a thread
 * that still runs then is killed. Its supervision starts another.
 */
export function threadActor(spec: ThreadSpec): ActorSpec<ThreadProtocol> {
  return {
    name: spec.name,
    supervision: spec.supervision ?? policies.always,
    stopTimeoutMs: spec.stopTimeoutMs,
    start: (ctx) => runThread(spec, ctx),
  };
}

function runThread(spec: ThreadSpec, ctx: Context<ThreadProtocol>): Behavior<ThreadProtocol> {
  const { heartbeatMs = 250, missedHeartbeats = 4, startTimeoutMs = 10_000, stopTimeoutMs = 5_000 } = spec;
  const { core } = cellOf(ctx.self) as Cell;
  const { port1: port, port2 } = new MessageChannel();
  const kill = new AbortController();
  let status: ThreadStatus = 'starting';
  let missed = 0;
  let answered = true;
  let stopping = false;
  let drained = (): void => {};

  function fail(reason: unknown): void {
    if (status !== 'ended') ctx.fail(reason);
    status = 'ended';
    kill.abort();
  }

  function beat(): void {
    if (status === 'ended') return;
    // Beats are counted, not time: when this thread was busy for long, no other one is blamed for it.
    missed = answered ? 0 : missed + 1;
    if (missed > 0) report(core.counters, 'silent', { path: ctx.self.path, missed });
    if (missed >= missedHeartbeats) {
      fail(new Error(`thread ${spec.name} hangs: it missed ${missed} heartbeats`));
      return;
    }
    answered = false;
    postBeat(port, 'ping');
    ctx.clock.setTimer(heartbeatMs, beat);
  }

  function up(): void {
    try {
      spec.onUp?.();
    } catch (error) {
      fail(error);
    }
  }

  function onMessage(data: unknown): void {
    switch (beatOf(data)) {
      case 'up':
        if (status !== 'starting') return;
        status = 'up';
        beat();
        up();
        break;
      case 'pong':
        answered = true;
        break;
      case 'drained':
        drained();
        break;
    }
  }

  port.on('message', onMessage);
  // The task's own end says more than the port's; a task that goes on without its port is of no use.
  port.on('close', () =>
    ctx.clock.setTimer(heartbeatMs, () => fail(new Error(`thread ${spec.name} closed its port`))),
  );
  ctx.clock.setTimer(startTimeoutMs, () => {
    if (status === 'starting')
      fail(new Error(`thread ${spec.name} did not start within ${startTimeoutMs} ms`));
  });
  const ended = (async () => {
    try {
      spec.onStart?.(port);
      await spec.run(port2, kill.signal);
      if (!stopping) fail(new Error(`thread ${spec.name} ended without being told to`));
    } catch (error) {
      fail(error);
    } finally {
      status = 'ended';
      flush(port);
      port.close();
    }
  })();

  return {
    handlers: { status: () => status, stop: () => ctx.stopSelf() },
    async onDrain() {
      stopping = true;
      // Not a timer of this life, which is over before the thread has stopped.
      const cancel = core.clock.setTimer(stopTimeoutMs * 0.9, () => kill.abort());
      void ended.then(cancel);
      if (status !== 'up') return;
      status = 'draining';
      const done = new Promise<boolean>((resolve) => {
        drained = () => resolve(true);
      });
      postBeat(port, 'drain');
      const killed = ended.then(() => false);
      if (!(await Promise.race([done, killed]))) throw new Error(`thread ${spec.name} died while it drained`);
    },
    async onStop() {
      const gracefully = status === 'draining';
      if (gracefully) postBeat(port, 'stop');
      else kill.abort();
      await ended;
      if (gracefully && kill.signal.aborted)
        throw new Error(`thread ${spec.name} did not stop and was killed`);
    },
  };
}

/** Hands on what the thread said before its end: closing the port would lose it. */
function flush(port: MessagePort): void {
  for (let last = receiveMessageOnPort(port); last; last = receiveMessageOnPort(port)) {
    port.emit('message', last.message);
  }
}
