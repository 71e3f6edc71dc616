import { type AuditProtocol, auditLine } from '../../src/actors/audit.ts';
import type { Clock } from '../../src/actors/core/clock.ts';
import type { Ref } from '../../src/actors/core/protocol.ts';
import { RefusalSums } from '../../src/proxy/refusal-sums.ts';

/** Takes records of the control plane that the vault doesn't make. */
export interface ControlRecords {
  append(record: Readonly<Record<string, unknown>>): void;
  /** Writes what was summed up. */
  flush(): void;
}

/**
 * Sends records to the audit. Refused tokens and links over a rate are summed up by address, as the proxy's are.
 * @param rate refusals a second of one address that have a record each; 0: all
 */
export function createControlRecords(
  audit: () => Ref<AuditProtocol>,
  clock: Clock,
  rate: number,
): ControlRecords {
  const write = (lines: string): void => void audit().tell('append', { lines, count: 1 });
  const sums = new RefusalSums(write, rate);

  function isOwn({ action, peer, error, ...rest }: Readonly<Record<string, unknown>>): boolean {
    if (action !== 'auth.refused') return true;
    const refusal = { time: clock.now(), caller: `address ${peer}`, known: false, kind: String(error) };
    return sums.isOwn(refusal, (named) => {
      const { time: _, ...members } = {
        time: '',
        kind: 'control',
        ...rest,
        action,
        peer: named ? peer : null,
        error,
      };
      return auditLine(members).slice(1, -2);
    });
  }

  return {
    append(record) {
      if (!isOwn(record)) return;
      write(auditLine({ time: new Date(clock.now()).toISOString(), kind: 'control', ...record }));
    },
    flush: () => sums.flush(),
  };
}
