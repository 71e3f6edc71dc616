import type { Clock } from './clock.ts';
import type { Deadlines } from './deadlines.ts';
import type { Counters } from './diagnostics.ts';
import type { Envelope } from './envelope.ts';

/** Something that can run one turn. It never throws. */
export interface Steps {
  step(): void;
}

/** What all actors of one system share. */
export interface Core {
  readonly clock: Clock;
  /** 0..1 */
  readonly random: () => number;
  readonly counters: Counters;
  readonly deadlines: Deadlines<Envelope>;
  /** Lets `who` run one turn soon, after those who asked before. */
  dispatch(who: Steps): void;
  /** Run once all actors have stopped: links close here. */
  readonly onStopped: Set<() => void>;
}

const cores = new WeakMap<object, Core>();

export function setCore(system: object, core: Core): void {
  cores.set(system, core);
}

/** The inside of a system, for the parts of the runtime that take one as an argument. */
export function coreOf(system: object): Core {
  const core = cores.get(system);
  if (!core) throw new TypeError('not an actor system made by createSystem()');
  return core;
}
