import type { ActorSpec } from './behavior.ts';
import { Cell } from './cell.ts';
import { Children } from './children.ts';
import { type Clock, systemClock } from './clock.ts';
import { type Core, setCore } from './core.ts';
import { createDeadlines } from './deadlines.ts';
import { createCounters } from './diagnostics.ts';
import { createDispatcher } from './dispatcher.ts';
import { refuse } from './envelope.ts';
import type { Parent } from './life.ts';
import { watchDeath } from './mortal.ts';
import type { OnDead, Protocol, Ref } from './protocol.ts';

/**
 * What the runtime guarantees. Each paragraph has a test of its number.
 *
 * 1. An actor handles one message at a time; an `await` in a handler doesn't let the next one in. Its start, death
 *    notices and drain are turns like messages. Work abandoned at a stop deadline may still run, its result unheard.
 * 2. Messages of one sender to one receiver are handled in the order in which they were sent, between threads too.
 * 3. `tell` answers `sent`, `full` or `dead` at once. It never waits and never throws.
 * 4. Every ask has a deadline. It travels with the message (`meta.deadline`, to be passed on), also between threads;
 *    a message whose deadline has passed is not handled any more.
 * 5. A mailbox is bounded. Messages from another thread are bounded by the credits of their link instead, each given
 *    back when its message leaves the mailbox, so that one that was `sent` isn't lost for want of room.
 * 6. A failure is judged by the child's named policy: stop, escalate, or restart after a back-off with jitter, and
 *    after n restarts in a time escalate. Escalation is a failure of the parent; at the root the process exits with 70.
 * 7. The mailbox survives a restart, and so do refs. The message that failed doesn't; its asker gets `actor_failed`.
 *    Children don't survive the restart of their parent: its `start` makes them anew.
 * 8. A death watch fires once, also for an actor that is already dead or whose thread dies. A restart is no death.
 * 9. A stop goes in reverse order of start, each actor with a deadline. The actor takes no further message, handles
 *    those it has, runs `onDrain`, stops its children, runs `onStop`. Asks still open at the end get `actor_dead`.
 * 10. All of it shows on `diagnostics_channel` and in `counters()`: names, paths and numbers, never a message body.
 */
export interface ActorSystem {
  readonly clock: Clock;
  /** Starts a top-level actor. Throws if the name is taken or the system has stopped. */
  spawn<P extends Protocol<P>>(spec: ActorSpec<P>): Ref<P>;
  /** Calls `onDead` once, when `ref` dies or at once if it is dead. The function returned takes the watch back. */
  watch(ref: { readonly path: string }, onDead: OnDead): () => void;
  /** Stops everything, the youngest first, and all timers. Never rejects. */
  stop(): Promise<void>;
  /** Numbers since the start; the names are those of `Counters`. */
  counters(): Readonly<Record<string, number>>;
}

export interface SystemOptions {
  clock?: Clock;
  /** For jitter: 0..1. Default `Math.random`. */
  random?: () => number;
  /** A failure that no supervisor could handle. Default: says so on stderr and exits with 70. */
  onEscalate?: (reason: unknown) => void;
}

/** A tree of actors in this thread. */
export function createSystem(options: SystemOptions = {}): ActorSystem {
  const { clock = systemClock, random = Math.random, onEscalate = exit70 } = options;
  const core: Core = {
    clock,
    random,
    counters: createCounters(),
    deadlines: createDeadlines(clock, (envelope) => refuse(core, envelope, 'ask_timeout')),
    dispatch: createDispatcher(clock),
    onStopped: new Set(),
  };
  const root: Parent = {
    path: '',
    children: new Children(),
    escalate: onEscalate,
  };
  let stopped: Promise<void> | undefined;

  async function stop(): Promise<void> {
    await root.children.end();
    for (const close of core.onStopped) close();
    core.deadlines.close();
  }

  const system: ActorSystem = {
    clock,
    spawn<P extends Protocol<P>>(spec: ActorSpec<P>) {
      if (stopped) throw new Error(`the actor system has stopped: '${spec.name}' can't be started`);
      return root.children.add(spec.name, () => new Cell(core, spec, root)).ref as unknown as Ref<P>;
    },
    watch: watchDeath,
    stop() {
      stopped ??= stop();
      return stopped;
    },
    counters: () => ({ ...core.counters }),
  };
  setCore(system, core);
  return system;
}

/** EX_SOFTWARE of sysexits.h. The message of the error stays out: it may quote what the actor was handling. */
function exit70(reason: unknown): never {
  const kind = reason instanceof Error ? reason.name : typeof reason;
  process.stderr.write(`A part that everything depends on failed too often (${kind}). Exiting with 70.\n`);
  process.exit(70);
}
