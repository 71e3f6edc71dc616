import type { ResourceLimits, Transferable } from 'node:worker_threads';
import { Piscina } from 'piscina';

export interface PoolOptions {
  /** Module whose default export is the task: a function of what `run` is given. */
  filename: URL;
  /** How many tasks run at once, each in a thread of its own. As many more may wait. */
  threads: number;
  /** A thread above them dies, and its task rejects with `ERR_WORKER_OUT_OF_MEMORY`. */
  resourceLimits?: ResourceLimits;
  /** The death of a thread that had no task, which `run` tells nobody about. Default: ignored, another takes its place. */
  onError?: (error: Error) => void;
}

export interface Pool {
  /**
   * Runs one task in a thread. Rejects when the task throws, when its thread dies, and when `signal` aborts, which
   * kills the thread even in a busy loop. The thread is replaced, the task isn't started again.
   * A task that waits for a new thread which then can't load the module waits until its `signal` aborts: give one.
   */
  run(
    task: unknown,
    options?: { signal?: AbortSignal; transferList?: readonly Transferable[] },
  ): Promise<unknown>;
  /** Kills all threads; tasks that still run reject. */
  close(): Promise<void>;
}

/** Threads that are all there from the start, for tasks that last as long as the process or for short ones. */
export function createPool({ filename, threads, resourceLimits, onError = () => {} }: PoolOptions): Pool {
  const piscina = new Piscina({
    filename: filename.href,
    minThreads: threads,
    maxThreads: threads,
    concurrentTasksPerWorker: 1,
    maxQueue: threads,
    resourceLimits,
    // The default blocks the event loop of a thread that has no task, and a long task's sockets and ports with it.
    atomics: 'disabled',
    recordTiming: false,
  });
  piscina.on('error', onError);
  let closed = false;
  return {
    async run(task, { signal, transferList } = {}) {
      // Piscina itself would start threads again.
      if (closed) throw new Error('the thread pool is closed');
      return piscina.run(task, { signal, transferList: transferList && [...transferList] });
    },
    async close() {
      closed = true;
      // Idle threads don't keep the process alive, not even until they have ended.
      const hold = setInterval(() => {}, 1_000);
      await piscina.destroy();
      clearInterval(hold);
    },
  };
}
