import type { Random } from '../fuzz/random.ts';

/** One hostile request: all that its sender does. Latin1 throughout. */
export interface Attack {
  readonly kind: string;
  /** The service it goes to; without a port. */
  readonly host: string;
  readonly tls: boolean;
  readonly text: string;
  /** Where `text` is cut into writes of their own. */
  readonly cuts: readonly number[];
  /** Writes what is behind the first cut only when an answer has begun. */
  readonly holdsBack: boolean;
  /** Final answers that come where all is well; 0: they go on until the sender leaves. */
  readonly answers: number;
  /** The first answer has no body, whatever it says. */
  readonly head: boolean;
  /** What the sender does when all is written: waits for its answers, sends no more, or goes. */
  readonly ending: 'wait' | 'end' | 'leave';
}

/** What a kind of attack is made from. */
export interface Making {
  readonly chance: Random;
  readonly index: number;
  /** `host:port` of a service. */
  authority(host: string, tls?: boolean): string;
  /** A path's segment by which the upstream knows what to do, and the request can be found again. */
  mark(behaviour: string): string;
}

/** What is not said is as for one plain request over TLS. */
export function attack(given: Pick<Attack, 'kind' | 'host' | 'text'> & Partial<Attack>): Attack {
  return { tls: true, cuts: [], holdsBack: false, answers: 1, head: false, ending: 'wait', ...given };
}

/** A request's head, with its end. */
export function head(
  { authority }: Pick<Making, 'authority'>,
  line: string,
  host: string,
  fields: readonly string[] = [],
): string {
  return `${[`${line} HTTP/1.1`, `Host: ${authority(host)}`, ...fields].join('\r\n')}\r\n\r\n`;
}
