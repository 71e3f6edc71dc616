import { MessageChannel } from 'node:worker_threads';
import { LaneRecords } from '../proxy/lane-records.ts';
import type { LaneAudit } from './boot.ts';
import type { RunFiles } from './run-files.ts';

export interface Recordings {
  /** All lanes' records that may have to be written: of those that run, and of those that have ended. */
  readonly sources: Set<LaneRecords>;
  /** Memory for one life of a lane. */
  open(lane: number): Recording;
  /** Resolves when no thread is left, and what each had under way is among the sources. */
  settled(): Promise<unknown>;
}

/** One life of a lane. */
export interface Recording {
  readonly boot: LaneAudit;
  /** The task is over, or has never begun. */
  close(): void;
}

/** Lives that have ended and whose records can't be written, most: a lane that ends on and on must not fill memory. */
const maxEnded = 16;

/**
 * Keeps each lane's records until they are written, however the lane ends.
 * @param ring told that there is something to read in one of the sources
 */
export function createRecordings(runFiles: Pick<RunFiles, 'create'>, ring: () => void): Recordings {
  const sources = new Set<LaneRecords>();
  const running = new Set<Promise<void>>();
  let ended: LaneRecords[] = [];

  return {
    sources,
    open(lane) {
      const run = runFiles.create(lane);
      const records = new LaneRecords(run);
      const { port1, port2 } = new MessageChannel();
      sources.add(records);
      port1.on('message', ring);
      port1.unref();
      // A task is said to be over before its thread has stopped; a port closes when the thread that had it is gone.
      const end = new Promise<void>((resolve) => {
        port1.once('close', () => {
          records.takeOver();
          resolve();
          ended.push(records);
          ended = ended.filter(({ over }) => !over);
          if (ended.length > maxEnded) ended.shift()?.giveUp();
          ring();
        });
      });
      running.add(end);
      void end.then(() => running.delete(end));
      return { boot: { memory: records.memory, runFile: run.fd, port: port2 }, close: () => port2.close() };
    },
    settled: () => Promise.all(running),
  };
}
