import { administers } from '../caller.ts';
import type { OperatorIdentity } from '../route.ts';
import { figures } from './figures.ts';

/** A proxied request, as the audit has it. */
export interface RequestRecord {
  readonly time: string;
  readonly request_id: string;
  readonly vault: string | null;
  readonly actor: string | null;
  readonly label: string | null;
  readonly method: string;
  readonly scheme: string;
  readonly host: string;
  readonly path: string;
  readonly service: string | null;
  readonly keys: readonly string[];
  /** 0: it ended without an answer. */
  readonly status: number;
  readonly error: string | null;
  readonly ms: number;
  /** How many refused requests this record stands for. */
  readonly count?: number;
}

/** Which requests somebody wants to see; what is absent lets all pass. */
export interface RequestFilter {
  readonly vault?: string;
  /** A part of it. */
  readonly host?: string;
  /** `refused`, `bare` (nothing was injected), a class such as `5xx`, a status, or an error code. */
  readonly outcome?: string;
}

/** The request of a line of the audit; null where it is a record of something else, or damaged. */
export function requestOf(line: string): RequestRecord | null {
  if (!line.includes('"kind":"request"')) return null;
  try {
    const record = JSON.parse(line);
    return record.kind === 'request' ? record : null;
  } catch {
    return null;
  }
}

/** Whether an operator may see a request, and wants to. Pure. */
export function isWanted(record: RequestRecord, filter: RequestFilter, identity: OperatorIdentity): boolean {
  const { vault, host, outcome } = filter;
  // What never got as far as a vault is for owners: it may have been meant for any.
  if (record.vault === null ? identity.role !== 'owner' : !administers(identity, record.vault)) return false;
  return (
    (!vault || record.vault === vault) &&
    (!host || record.host.includes(host.trim().toLowerCase())) &&
    (!outcome || hasOutcome(record, outcome))
  );
}

function hasOutcome({ status, error, keys }: RequestRecord, outcome: string): boolean {
  if (outcome === 'refused') return error !== null;
  if (outcome === 'bare') return keys.length === 0 && error === null;
  if (/^[1-5]xx$/.test(outcome)) return Math.floor(status / 100) === Number(outcome[0]);
  return error === outcome || String(status) === outcome;
}

/** A request as a row of the table has it, for the page and for its script alike. */
export interface RequestCells {
  readonly time: string;
  readonly clock: string;
  readonly who: string;
  readonly vault: string;
  /** Method and host, and the scheme where it isn't https. */
  readonly target: string;
  readonly path: string;
  /** What was injected, or why nothing was. */
  readonly credential: string;
  /** Status, and how long it took. */
  readonly answer: string;
  readonly tone: 'good' | 'warn' | 'bad';
  readonly error: string;
  /** Where it is told why. */
  readonly why: string;
}

export function cellsOf(record: RequestRecord): RequestCells {
  const { time, vault, actor, label, method, scheme, host, path, service, keys, status, error, ms, count } =
    record;
  const url = `${scheme}://${host}${path}`;
  const asked = new URLSearchParams({ vault: vault ?? 'default', method, url });
  return {
    time,
    clock: time.slice(11, 19),
    who: label ?? actor ?? 'unknown',
    vault: vault ?? '–',
    target: `${method} ${scheme === 'https' ? '' : `${scheme}://`}${host}`,
    path,
    credential: keys.length > 0 ? keys.join(', ') : service === null ? 'none: no service' : 'none',
    answer:
      count === undefined
        ? `${status || 'none'}, ${figures(Math.round(ms))} ms`
        : `${status}, ${figures(count)} times`,
    tone: error !== null || status >= 500 || status === 0 ? 'bad' : status >= 400 ? 'warn' : 'good',
    error: error ?? '',
    why: `/explain?${asked}`,
  };
}
