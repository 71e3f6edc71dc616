import { renameSync, writeFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { BroadcastChannel, isMainThread, threadId } from 'node:worker_threads';

/*
 * Preloaded into the broker (`--import`), into its main thread and each of its others. SIGUSR2
 * begins a CPU profile of all threads, a second one ends it and writes one file for each thread to
 * BENCH_PROFILE_DIR: NAME.part while it runs, NAME.cpuprofile when it is whole. A profile by --cpu-prof would hold the start and the warm-up too.
 */

const channel = new BroadcastChannel('bench-profile');
channel.unref();

/** Between two samples, in µs: some hundred thousand in a run, at a cost of a few per cent. */
const interval = 200;
let session: Session | null = null;
const file = `${process.env.BENCH_PROFILE_DIR}/${isMainThread ? 'main' : `thread-${threadId}`}`;

async function toggle(): Promise<void> {
  if (session === null) {
    writeFileSync(`${file}.part`, '');
    session = new Session();
    session.connect();
    await session.post('Profiler.enable');
    await session.post('Profiler.setSamplingInterval', { interval });
    await session.post('Profiler.start');
    return;
  }
  const { profile } = await session.post('Profiler.stop');
  session.disconnect();
  session = null;
  writeFileSync(`${file}.part`, JSON.stringify(profile));
  renameSync(`${file}.part`, `${file}.cpuprofile`);
}

if (isMainThread) {
  process.on('SIGUSR2', () => {
    channel.postMessage('toggle');
    void toggle();
  });
} else {
  channel.onmessage = () => void toggle();
}
