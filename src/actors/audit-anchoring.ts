import { closeSync, fdatasync, fsync, open } from 'node:fs';
import { promisify } from 'node:util';
import type { AuditAnchor } from './audit-chain.ts';
import type { Clock } from './core/clock.ts';

const dataToDisk = promisify(fdatasync);
const toDisk = promisify(fsync);
const opened = promisify(open);

/** Files that wait for their way to the disk. More than that go there at once. */
const maxClosing = 8;
const everyMs = 1000;

export interface AnchoringOptions {
  readonly clock: Clock;
  readonly folder: string;
  /** Keeps an anchor in the store; rejects where it can't. */
  readonly keep: (anchor: AuditAnchor) => Promise<void>;
  /** Where the log begins and stands now. */
  readonly anchor: () => AuditAnchor;
  /** The file that is written. */
  readonly written: () => number | null;
  /** Told of each anchor that the store has. */
  readonly onKept: (anchor: AuditAnchor) => void;
}

/**
 * Keeps the store's knowledge of the log fresh: within a second of each batch that was written. What an anchor says is
 * on the disk before it is kept, so that a log that falls short of its anchor lost something.
 */
export class Anchoring {
  readonly #options: AnchoringOptions;
  /** Files that are written no more, and not known to be on the disk. */
  readonly #closing: number[] = [];
  #cancel: (() => void) | null = null;
  #running: Promise<void> | null = null;
  #stopped = false;

  constructor(options: AnchoringOptions) {
    this.#options = options;
  }

  /** The log isn't any more as the store knows it. */
  changed(): void {
    if (this.#stopped || this.#running !== null) return;
    this.#cancel ??= this.#options.clock.setTimer(everyMs, () => {
      this.#cancel = null;
      // The store's trouble is told by the store.
      this.now().catch(() => this.changed());
    });
  }

  /** Takes over a file that is written no more. */
  close(fd: number, sync: () => void): void {
    if (this.#stopped || this.#closing.length >= maxClosing) sync();
    else this.#closing.push(fd);
  }

  /** Brings what is written to the disk, and keeps where it stands. */
  async now(): Promise<void> {
    while (this.#running !== null) await this.#running.catch(() => {});
    this.#cancel?.();
    this.#cancel = null;
    const anchor = this.#options.anchor();
    const run = this.#run(anchor);
    this.#running = run;
    try {
      await run;
    } finally {
      this.#running = null;
    }
    const { head, first } = this.#options.anchor();
    if (head.seq !== anchor.head.seq || first.seq !== anchor.first.seq) this.changed();
  }

  async #run(anchor: AuditAnchor): Promise<void> {
    const { folder, keep, onKept } = this.#options;
    const written = this.#options.written();
    const closing = this.#closing.splice(0);
    try {
      for (const fd of closing) await dataToDisk(fd);
    } finally {
      for (const fd of closing) closeSync(fd);
    }
    if (written !== null) await dataToDisk(written);
    // A new file outlives a power cut only when its directory entry is on the disk.
    const directory = await opened(folder, 'r');
    await toDisk(directory).finally(() => closeSync(directory));
    await keep(anchor);
    onKept(anchor);
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel?.();
    for (const fd of this.#closing.splice(0)) closeSync(fd);
  }
}
