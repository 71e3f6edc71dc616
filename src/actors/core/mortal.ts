import type { OnDead } from './protocol.ts';

/** How the runtime watches a ref, wherever its actor lives. */
export const onDeath: unique symbol = Symbol('actors.onDeath');

export interface Mortal {
  /** Calls back once, at once if it is dead already. The function returned takes the watch back. */
  readonly [onDeath]: (onDead: OnDead) => () => void;
}

/** @throws {TypeError} for something that isn't a ref of this runtime. */
export function watchDeath(ref: { readonly path: string }, onDead: OnDead): () => void {
  const watch = (ref as { readonly path: string } & Partial<Mortal>)[onDeath];
  if (!watch) throw new TypeError(`${ref.path} is not a ref that can be watched`);
  return watch(onDead);
}

/** The watchers of one actor, and what they are told. */
export class Watchers {
  #watchers: Set<OnDead> | undefined = new Set();
  #tell: ((onDead: OnDead) => void) | undefined;

  get dead(): boolean {
    return this.#tell !== undefined;
  }

  add(onDead: OnDead): () => void {
    if (this.#tell) this.#tell(onDead);
    else this.#watchers?.add(onDead);
    return () => {
      this.#watchers?.delete(onDead);
    };
  }

  /** Tells all of them, and everyone who comes later. Only the first call counts. */
  died(...death: Parameters<OnDead>): void {
    if (this.#tell) return;
    this.#tell = (onDead) => onDead(...death);
    const watchers = this.#watchers;
    this.#watchers = undefined;
    if (watchers) for (const onDead of watchers) onDead(...death);
  }
}
