import type { Steps } from './core.ts';
import { Fifo } from './fifo.ts';

/** About a millisecond of small handlers. */
const turnsPerTick = 256;

/**
 * Shares the thread among the actors that have something to do: one turn each, in order, in microtasks. After every
 * 256 turns it waits for the event loop, so that actors who keep each other busy can't keep sockets and timers out.
 */
export function createDispatcher(): (who: Steps) => void {
  const ready = new Fifo<Steps>();
  let scheduled = false;
  let turns = 0;

  function run(): void {
    for (let next = ready.shift(); next; next = ready.shift()) {
      next.step();
      if (++turns === turnsPerTick) {
        setImmediate(resume);
        return;
      }
    }
    scheduled = false;
  }

  function resume(): void {
    turns = 0;
    run();
  }

  return (who) => {
    ready.push(who);
    if (scheduled) return;
    scheduled = true;
    queueMicrotask(run);
  };
}
