import type { AuditLog } from './audit-log.ts';
import type { ActorSpec } from './core/behavior.ts';

export interface AuditProtocol {
  /** Records that a lane or the control plane made: complete NDJSON lines, as text or as its UTF-8, and how many. */
  append: { in: { lines: string | Uint8Array; count: number } };
  /** Writes now what was appended before. `written: false`: the disk refuses, and the records are still held. */
  flush: { in: Record<string, never>; out: { written: boolean } };
}

/** What the shared health word says, so that every lane knows in one load whether it may proxy. */
export const auditHealth = { writing: 0, failing: 1 } as const;

export interface AuditOptions {
  /** Whoever opened it closes it, after the actor has stopped: the actor may be restarted in between. */
  readonly log: Pick<AuditLog, 'append'>;
  /** Its first word is an `auditHealth`. */
  readonly health: Int32Array<SharedArrayBuffer>;
  /** Told once when writing begins to fail, and once when records are lost because the stop came first. */
  readonly onError: (error: Error) => void;
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
  const { log, health, onError, batchMs = 50, retryMs = 250, maxHeldBytes = 16 * 2 ** 20 } = options;
  // All of this outlives a restart of the actor: what was accepted once is owed to the log.
  let held: { lines: Uint8Array; count: number }[] = [];
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
        try {
          while (held.length > 0) writeBatch();
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

      function fail(error: Error): void {
        Atomics.store(health, 0, auditHealth.failing);
        const first = !failing;
        failing = true;
        schedule();
        if (first) onError(error);
      }

      if (held.length > 0 || dropped > 0) schedule();

      return {
        handlers: {
          append({ lines, count }) {
            const bytes = typeof lines === 'string' ? Buffer.from(lines) : lines;
            if (heldBytes + bytes.length > maxHeldBytes) {
              dropped += count;
            } else {
              held.push({ lines: bytes, count });
              heldBytes += bytes.length;
            }
            if (heldBytes >= batchBytes && !failing) write();
            else schedule();
          },
          flush: () => ({ written: write() }),
        },
        async onDrain() {
          const end = clock.monotonic() + drainMs;
          while (!write() && clock.monotonic() < end) {
            await new Promise<void>((resolve) => clock.setTimer(retryMs, resolve));
          }
          const lost = held.reduce((sum, { count }) => sum + count, dropped);
          if (lost > 0) onError(new Error(`${lost} audit records could not be written before the stop.`));
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
