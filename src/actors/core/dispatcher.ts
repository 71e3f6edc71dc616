import type { Clock } from './clock.ts';
import type { Steps } from './core.ts';
import { Fifo } from './fifo.ts';

/** How long actors may have the thread before sockets and timers get it, in ms. */
const budgetMs = 2;
/** And how many turns, so that a clock which stands still keeps nothing out. */
const turnsPerTick = 256;

/**
 * Shares the thread among the actors that have something to do: one turn each, in order, in microtasks. When that has
 * taken two milliseconds it waits for the event loop: turns are timed, not counted, since one of them may be a commit.
 */
export function createDispatcher({ monotonic }: Pick<Clock, 'monotonic'>): (who: Steps) => void {
  const ready = new Fifo<Steps>();
  let scheduled = false;
  /** The event loop hasn't turned since `end` was set. */
  let inTick = false;
  /** Monotonic ms. */
  let end = 0;
  let turns = 0;

  function begin(): void {
    inTick = true;
    end = monotonic() + budgetMs;
    turns = 0;
    setImmediate(() => {
      inTick = false;
    }).unref();
  }

  function run(): void {
    if (!inTick) begin();
    while (ready.length > 0) {
      if (turns++ === turnsPerTick || monotonic() >= end) {
        setImmediate(resume);
        return;
      }
      ready.shift()?.step();
    }
    scheduled = false;
  }

  function resume(): void {
    begin();
    run();
  }

  return (who) => {
    ready.push(who);
    if (scheduled) return;
    scheduled = true;
    queueMicrotask(run);
  };
}
