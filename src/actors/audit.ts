import type { AuditLog } from './audit-log.ts';
import type { ActorSpec } from './core/behavior.ts';

export interface AuditProtocol {
  /** Records of the control plane: complete NDJSON lines, as text or as its UTF-8, and how many. */
  append: {
    in: {
      lines: string | Uint8Array;
      count: number;
      /** The sender has them on the disk until they are in the log, and bounds them: they are never dropped, nor lost by a stop. */
      owed?: boolean;
    };
  };
  /** One of the sources has something to read. */
  ready: { in: Record<string, never> };
  /**
   * Writes now what was appended before, and what is in the sources. `written: false`: the disk refuses, and the records are still held.
   */
  flush: { in: Record<string, never>; out: { written: boolean } };
}

/** What the shared health word says, so that every lane knows in one load whether it may proxy. */
export const auditHealth = { writing: 0, failing: 1 } as const;

/** Where records wait until they are written: a lane's memory. */
export interface RecordSource {
  /** Complete lines that are yet to be written, `maxBytes` at most, valid until `written`; null: there are none. */
  read(maxBytes: number): Uint8Array | null;
  /** The octets that `read` gave last are in the log. */
  written(octets: number): void;
  /** Records that found no room since this was asked last. */
  takeDropped(): number;
  /** Records that are yet to be written. */
  countLines(): number;
  /** All is written, and nothing more will come. */
  readonly over: boolean;
  /** Called once it is over. */
  close(): void;
}

export interface AuditOptions {
  /** Whoever opened it closes it, after the actor has stopped: the actor may be restarted in between. */
  readonly log: Pick<AuditLog, 'append'>;
  /** Read at each writing; one that is over is taken out. While the disk refuses, records stay where they are. */
  readonly sources?: Set<RecordSource>;
  /** Its first word is an `auditHealth`. */
  readonly health: Int32Array<SharedArrayBuffer>;
  /** Told once when writing begins to fail. */
  readonly onError: (error: Error) => void;
  /** Told how many records are lost because the stop came before they could be written. */
  readonly onLost?: (records: number) => void;
  /** Records of several lanes share a batch: the first of them waits so many milliseconds. Default 50. */
  readonly batchMs?: number;
  /** Milliseconds between two attempts while the disk refuses. Default 250. */
  readonly retryMs?: number;
  /** Octets held while the disk refuses; what comes on top is counted, not kept. Default 16 MiB. */
  readonly maxHeldBytes?: number;
}

/** A batch isn't made larger than this, so that a disk that is nearly full still takes some. */
const batchBytes = 2 ** 20;

/** How long a stop is held up by a disk that refuses. Within the runtime's own limit of 5 seconds. */
const drainMs = 4000;

/**
 * Writes the audit log, and says in shared memory whether it can. Nothing is dropped silently: records are held
 * while the disk refuses, and those for which there was no room are counted in an `audit.dropped` record.
 */
export function auditActor(options: AuditOptions): ActorSpec<AuditProtocol> {
  const { log, sources = new Set(), health, onError, onLost = () => {} } = options;
  const { batchMs = 50, retryMs = 250, maxHeldBytes = 16 * 2 ** 20 } = options;
  // All of this outlives a restart of the actor: what was accepted once is owed to the log.
  let held: { lines: Uint8Array; count: number; owed: boolean }[] = [];
  let heldBytes = 0;
  let dropped = 0;
  let failing = false;

  return {
    name: 'audit',
    start({ clock }) {
      let cancel: (() => void) | undefined;

      // Handlers and timers run to their end without waiting, so that none finds another's work half done.
      function schedule(): void {
        cancel ??= clock.setTimer(failing ? retryMs : batchMs, write);
      }

      function write(): boolean {
        cancel?.();
        cancel = undefined;
        for (const source of sources) dropped += source.takeDropped();
        try {
          while (held.length > 0) writeBatch();
          for (const source of sources) writeAll(source);
          if (dropped > 0) {
            const time = new Date(clock.now()).toISOString();
            log.append(auditLine({ time, event: 'audit.dropped', records: dropped }));
            dropped = 0;
          }
        } catch (error) {
          fail(error as Error);
          return false;
        }
        failing = false;
        Atomics.store(health, 0, auditHealth.writing);
        return true;
      }

      function writeBatch(): void {
        let taken = 0;
        let bytes = 0;
        while (taken < held.length && (taken === 0 || bytes + held[taken].lines.length <= batchBytes)) {
          bytes += held[taken++].lines.length;
        }
        log.append(...held.slice(0, taken).map(({ lines }) => lines));
        held = held.slice(taken);
        heldBytes -= bytes;
      }

      function writeAll(source: RecordSource): void {
        for (let lines = source.read(batchBytes); lines !== null; lines = source.read(batchBytes)) {
          log.append(lines);
          source.written(lines.length);
        }
        if (!source.over) return;
        sources.delete(source);
        source.close();
      }

      function fail(error: Error): void {
        Atomics.store(health, 0, auditHealth.failing);
        const first = !failing;
        failing = true;
        schedule();
        if (first) onError(error);
      }

      // What rang while no life of this actor listened is looked for, too.
      schedule();

      return {
        handlers: {
          append({ lines, count, owed = false }) {
            const bytes = typeof lines === 'string' ? Buffer.from(lines) : lines;
            if (!owed && heldBytes + bytes.length > maxHeldBytes) {
              dropped += count;
            } else {
              held.push({ lines: bytes, count, owed });
              heldBytes += bytes.length;
            }
            if (heldBytes >= batchBytes && !failing) write();
            else schedule();
          },
          ready: () => schedule(),
          flush: () => ({ written: write() }),
        },
        async onDrain() {
          const end = clock.monotonic() + drainMs;
          while (!write() && clock.monotonic() < end) {
            await new Promise<void>((resolve) => clock.setTimer(retryMs, resolve));
          }
          let lost = held.reduce((sum, { count, owed }) => (owed ? sum : sum + count), dropped);
          for (const source of sources) lost += source.countLines();
          if (lost > 0) onLost(lost);
        },
      };
    },
  };
}

/**
 * A record as a line of the log: JSON and a line feed. Beside what JSON escapes, DEL and the C1 controls are
 * escaped too: a terminal that prints the log must not take part of a record for a command.
 */
export function auditLine(record: object): string {
  const json = JSON.stringify(record).replace(
    /[\x7f-\x9f]/g,
    (char) => `\\u00${char.charCodeAt(0).toString(16)}`,
  );
  return `${json}\n`;
}
