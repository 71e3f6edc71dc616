import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { isMainThread } from 'node:worker_threads';

/*
 * Preloaded into a broker: the first of its threads to find a file `throw`, `memory` or `hang` in
 * BROKER_TEST_SABOTAGE comes to that end.
 */

const acts: Record<string, () => void> = {
  throw: () => {
    throw new Error('sabotage');
  },
  memory: () => {
    const held: unknown[] = [];
    for (;;) held.push(new Array(1000).fill({}));
  },
  hang: () => {
    for (;;);
  },
};

const folder = process.env.BROKER_TEST_SABOTAGE;
if (!isMainThread && folder !== undefined) {
  setInterval(() => {
    for (const [name, act] of Object.entries(acts)) {
      if (taken(join(folder, name))) act();
    }
  }, 10).unref();
}

/** Renaming succeeds for one thread only. */
function taken(file: string): boolean {
  try {
    renameSync(file, `${file}.taken`);
    return true;
  } catch {
    return false;
  }
}
