import type { Cell } from './cell.ts';

/** The living actors under one parent, in the order in which they were started. */
export class Children {
  readonly #cells = new Map<string, Cell>();

  /** @throws {Error} if the name is taken or can't be part of a path. */
  add(name: string, create: () => Cell): Cell {
    if (name === '' || name.includes('/'))
      throw new Error(`'${name}' can't name an actor: it is empty or has a slash`);
    if (this.#cells.has(name))
      throw new Error(`an actor named '${name}' is already running here; choose another name`);
    const cell = create();
    this.#cells.set(name, cell);
    return cell;
  }

  remove(name: string): void {
    this.#cells.delete(name);
  }

  /** Stops them, the youngest first, each within its own deadline. */
  async end(): Promise<void> {
    // Asked for anew each time: a drain may start further children.
    for (let last = [...this.#cells.values()].at(-1); last; last = [...this.#cells.values()].at(-1)) {
      await last.end('stopped');
    }
  }
}
