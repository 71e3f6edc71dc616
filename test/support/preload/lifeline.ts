import { isMainThread } from 'node:worker_threads';

/*
 * Preloaded into every broker that tests start: ends it when its standard input does, which is when the test that holds
 * the other end is gone, however that went.
 */

if (isMainThread) {
  process.stdin.once('end', () => process.kill(process.pid, 'SIGKILL'));
  process.stdin.once('error', () => process.kill(process.pid, 'SIGKILL'));
  process.stdin.resume();
  (process.stdin as unknown as { unref(): void }).unref();
}
