import { registerHooks } from 'node:module';
import { isMainThread } from 'node:worker_threads';

/*
 * Preloaded into a broker: its lanes read their state without the gate, from `ungated-reader.ts`.
 */

if (!isMainThread) {
  const replacement = new URL('./ungated-reader.ts', import.meta.url).href;
  registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context);
      const isReader =
        found.url.endsWith('/src/workers/state-reader.ts') && context.parentURL !== replacement;
      return isReader ? { ...found, url: replacement } : found;
    },
  });
}
