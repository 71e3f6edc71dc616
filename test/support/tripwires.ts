import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

/*
 * Loaded before the proxy is: each function of it, and each callback, can be made to throw, once.
 */

/** Where bodies of functions begin, as the formatter writes them. Other blocks do no harm. */
const bodies = [
  /^(?:export )?(?:async )?function .*\{$/,
  /^ {2}(?:async |get |static )?#?\w+\(.*\{$/,
  /^(?: {2})?\)(?:: .*)? \{$/,
  /=> \{$/,
];
const notBodies = /^ {2}(?:if|for|while|switch|catch|do)\b/;
/** Where a body begins with `try`, nothing can throw before it. Records of what failed; and what only the runtime calls, at any time. */
const spared =
  /(?:audit-.*|lane-records|run-file|meters|refusal-sums|failure-log|sweep|limits|lane-counts|lane-state|drain)\.ts$/;
/** Callbacks that do nothing but hand on to what contains; the runtime calls them. */
const sparedLines =
  /^function onData\(|const settle = |this\.#lookup\(|const giveBack = |connection\.onData = |^ +callback: \(size|#serve = |#poll \?\?= |\bfail\(|#fail\(/;

const hits = new Set<string>();
let armed: string | null = null;
let fired = false;

function trip(point: string): void {
  hits.add(point);
  if (point !== armed) return;
  // The sweeper looks at everyone's connections, not only at those of who is to fail.
  if (new Error().stack?.includes('/sweep.ts')) return;
  armed = null;
  fired = true;
  throw new Error(`tripped at ${point} with sk_test_value`);
}

Object.assign(globalThis, { trip });
registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!/\/src\/proxy\/[\w-]+\.ts$/.test(url) || spared.test(url)) return loaded;
    const name = url.slice(url.lastIndexOf('/') + 1, -3);
    // Behind the test runner's own loader it is an array of octets.
    const text = loaded.source ?? readFileSync(new URL(url));
    const source = (typeof text === 'string' ? text : Buffer.from(text as Uint8Array).toString())
      .split('\n')
      .map((line, i, lines) =>
        bodies.some((body) => body.test(line)) &&
        !notBodies.test(line) &&
        !sparedLines.test(line) &&
        !lines.slice(i + 1, i + 3).some((next) => next.trim() === 'try {')
          ? `${line} globalThis.trip?.('${name}:${i + 1}');`
          : line,
      )
      .join('\n');
    return { ...loaded, source };
  },
});

/** The points that were passed since `watch`. */
export function watch(): () => string[] {
  hits.clear();
  return () => [...hits];
}

/** The next time that this point is passed, it throws. */
export function arm(point: string): void {
  armed = point;
  fired = false;
}

/** Whether it did. */
export function disarm(): boolean {
  armed = null;
  return fired;
}
