import type { AuditProtocol } from '../audit.ts';
import type { Ref } from '../core/protocol.ts';
import type { Change, Store } from './store.ts';

/**
 * Takes the records of changes to the audit so that none is lost: each is a row of the commit that makes the change,
 * with a number, and stays in the store until the log has it on the disk. The rows go with later commits.
 */
export interface AuditOutbox {
  /**
   * Reads what the last life, or the last process, left behind, and sends on what the log doesn't have.
   * @param lastAudited the number of the last change in the log; asked once, and only where it matters
   */
  load(store: Store, lastAudited: () => number): Promise<void>;
  /** Rows to commit along with a change, whose records `lineOf` gives by their numbers. */
  stage(count: number, lineOf: (index: number, change: number) => string): Staged;
  /** A record that has no change. */
  add(line: string): void;
  /** Tries to send what is held; true: nothing is held any more. */
  flush(): boolean;
  /** So much waits to be written that nothing more may be changed. */
  isFull(): boolean;
  /** One turn of several: asks the audit what it has written, and takes rows out by `commit`. true: none is left. */
  tidy(commit: (changes: readonly Change[]) => Promise<void>): Promise<boolean>;
}

/** What one commit has to do with the outbox; one of its functions is called afterwards. */
export interface Staged {
  readonly changes: readonly Change[];
  done(): void;
  failed(): void;
}

/** UTF-16 units: some thousand changes. */
const maxHeld = 1 << 20;
/** Rows that may wait for the log, and UTF-16 units of them. */
const maxRows = 16_384;
const maxRowUnits = 4 << 20;
/** Rows that a commit takes out, most. */
const maxRemoved = 512;

const counterKey = 'last';

export function createOutbox(audit: Ref<AuditProtocol>): AuditOutbox {
  let last = 0;
  /** How long each row in the store is, by its number, in order. */
  let rows = new Map<number, number>();
  let rowUnits = 0;
  /** Lines for which the audit's mailbox had no room yet. */
  let held = '';
  let count = 0;
  /** The highest number that the audit was given, that it had written when it was asked, and the time before that. */
  let sent = -1;
  let written = 0;
  let settled = 0;
  /** Of the lines that are held. */
  let newest = 0;
  let asking = false;

  function hold(line: string, change: number): void {
    held += line;
    count++;
    newest = Math.max(newest, change);
  }

  function flush(): boolean {
    if (count > 0 && audit.tell('append', { lines: held, count, owed: true }) === 'sent') {
      held = '';
      count = 0;
      sent = newest;
    }
    return count === 0;
  }

  function takeSettled(): [number, number][] {
    const taken: [number, number][] = [];
    for (const row of rows) {
      if (row[0] > settled || taken.length === maxRemoved) break;
      taken.push(row);
    }
    for (const [change, units] of taken) {
      rows.delete(change);
      rowUnits -= units;
    }
    return taken;
  }

  function putRow(change: number, units: number): void {
    rows.set(change, units);
    rowUnits += units;
  }

  function stage(records: number, lineOf: (index: number, change: number) => string): Staged {
    const removed = takeSettled();
    const added = Array.from({ length: records }, (_, i) => {
      const change = ++last;
      return { change, line: lineOf(i, change) };
    });
    const changes: Change[] = [
      ...removed.map(([change]): Change => ({ table: 'outbox', key: keyOf(change), value: null })),
      ...added.map(({ change, line }): Change => ({ table: 'outbox', key: keyOf(change), value: { line } })),
    ];
    if (records > 0) changes.push({ table: 'outbox', key: counterKey, value: { line: String(last) } });
    return {
      changes,
      done() {
        for (const { change, line } of added) {
          putRow(change, line.length);
          hold(line, change);
        }
        flush();
      },
      failed() {
        for (const [, units] of removed) rowUnits += units;
        rows = new Map([...removed, ...rows]);
      },
    };
  }

  /**
   * Asks whether the records given so far are written. Their rows go at the next turn only: the log is on the disk, and
   * not just in the system's cache, within a second.
   */
  async function settle(): Promise<void> {
    if (asking || sent <= written) return;
    asking = true;
    const upTo = sent;
    try {
      if ((await audit.ask('flush', {})).written) written = Math.max(written, upTo);
    } catch {
      // The audit is busy, or between two lives.
    } finally {
      asking = false;
    }
  }

  return {
    async load(store, lastAudited) {
      const found = new Map<number, string>();
      for await (const { table, key, value } of store.load('outbox')) {
        if (table !== 'outbox' || value === null) continue;
        if (key === counterKey) last = Math.max(last, Number(value.line));
        else found.set(Number(key), value.line);
      }
      if (sent < 0) sent = found.size === 0 ? 0 : lastAudited();
      const known = Math.max(sent, newest);
      rows = new Map();
      rowUnits = 0;
      for (const [change, line] of [...found].sort(([a], [b]) => a - b)) {
        last = Math.max(last, change);
        putRow(change, line.length);
        if (change > known) hold(line, change);
      }
      flush();
    },
    stage,
    add(line) {
      hold(line, 0);
      flush();
    },
    flush,
    isFull: () => held.length > maxHeld || rows.size > maxRows || rowUnits > maxRowUnits,
    async tidy(commit) {
      settled = written;
      const removed = stage(0, () => '');
      // Not awaited: the log may take its time, and this is not the only thing to do.
      void settle();
      if (removed.changes.length === 0) return rows.size === 0;
      try {
        await commit(removed.changes);
        removed.done();
      } catch {
        removed.failed();
      }
      return rows.size === 0;
    },
  };
}

/** Of one length, so that they sort as numbers. */
function keyOf(change: number): string {
  return String(change).padStart(16, '0');
}
