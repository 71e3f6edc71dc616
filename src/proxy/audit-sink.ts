import { createHash } from 'node:crypto';
import type { Access } from './lane-state.ts';
import type { Refusal } from './refusal-sums.ts';

/** One proxied request, as the audit has it: names and numbers, never a value. */
export interface RequestRecord {
  /** Wall clock at the start, ms. */
  readonly time: number;
  readonly requestId: string;
  /** Who asked, and for which vault; null: that is not known. */
  readonly access: Access | null;
  /** The address of a caller that is not known by a token. */
  readonly peer?: string | null;
  /** An upstream got something of it: it has a record of its own, whatever else comes. */
  readonly sent: boolean;
  readonly method: string;
  readonly scheme: 'http' | 'https' | 'tcp';
  /** `host` or `host:port` where the port is not the scheme's. */
  readonly host: string;
  /** As the client wrote it, placeholders and all, without the query. */
  readonly path: string;
  readonly service: string | null;
  readonly keys: readonly string[];
  readonly status: number;
  /** The broker's error code, or what ended the exchange early; null where all went well. */
  readonly error: string | null;
  /** How often the request was sent upstream; absent: once at most. */
  readonly attempts?: number;
  /** Body bytes from and to the client. */
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly milliseconds: number;
}

/** What a refused request is counted as where there are many. */
export function refusalOf({ time, access, peer, error }: RequestRecord): Refusal {
  if (access === null) return { time, caller: `address ${peer ?? ''}`, known: false, kind: `${error}` };
  const { session, vault } = access;
  return { time, caller: `${session.kind} ${session.id}`, known: true, kind: `${vault.name} ${error}` };
}

/** Members of a record that say who asked: of a sum for several callers. */
export const unnamed: Pick<RequestRecord, 'access' | 'peer'> = { access: null, peer: null };

/** A batch is sent off when it is nearly so large, in bytes, or so old. */
const batchBytes = 48 * 1024;
const batchMs = 20;

/**
 * Collects a lane's audit records as finished NDJSON lines and sends them off in batches: a request costs some
 * hundred bytes in a buffer, not a message. While the audit can't be written, `healthy` is false and the lane answers
 * 503.
 */
export class AuditSink {
  readonly #send: (lines: Uint8Array, count: number) => boolean;
  readonly #health: Int32Array;
  readonly #failOpen: boolean;
  /** Text that lived as string fragments until the batch is sent would cost several times its making. */
  readonly #buffer = Buffer.allocUnsafeSlow(batchBytes);
  #used = 0;
  #count = 0;
  #timer: NodeJS.Timeout | null = null;
  /** Batches that the port did not take: kept, in order. */
  readonly #unsent: { lines: Uint8Array; count: number }[] = [];

  /**
   * @param send false where the audit actor can't take more now
   * @param health shared word: 0 writing, 1 failing
   */
  constructor(send: (lines: Uint8Array, count: number) => boolean, health: Int32Array, failOpen: boolean) {
    this.#send = send;
    this.#health = health;
    this.#failOpen = failOpen;
  }

  /** Whether requests may go on (protocol, "Audit": fail closed). */
  get healthy(): boolean {
    return this.#failOpen || (Atomics.load(this.#health, 0) === 0 && this.#unsent.length < 64);
  }

  record(r: RequestRecord): void {
    this.add(`{"time":"${isoTime(r.time)}",${membersOf(r)}}\n`);
  }

  /** A finished line, such as a sum of refusals. */
  add(line: string): void {
    // A UTF-16 unit becomes three octets at most.
    if (line.length * 3 > batchBytes - this.#used) this.#close();
    if (line.length * 3 > batchBytes) this.#unsent.push({ lines: Buffer.from(line), count: 1 });
    else {
      this.#used += this.#buffer.write(line, this.#used);
      this.#count++;
    }
    if (this.#unsent.length > 0) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), batchMs);
  }

  /** Sends off what there is. */
  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#close();
    while (this.#unsent.length > 0 && this.#send(this.#unsent[0].lines, this.#unsent[0].count))
      this.#unsent.shift();
    if (this.#unsent.length > 0) this.#timer = setTimeout(() => this.flush(), batchMs);
  }

  /** Ends the present batch. */
  #close(): void {
    if (this.#count === 0) return;
    // A copy of its own size: what is posted is cloned with all of the memory behind it.
    this.#unsent.push({ lines: new Uint8Array(this.#buffer.subarray(0, this.#used)), count: this.#count });
    this.#used = 0;
    this.#count = 0;
  }
}

const plainText = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;

/** JSON of a text; most are plain and need no more than quotes. Control characters never stand raw. */
function json(text: string): string {
  if (plainText.test(text)) return `"${text}"`;
  return JSON.stringify(text).replace(
    /[\x7f-\x9f]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Timestamps of one second are made once, but for their milliseconds. */
let stampedSecond = 0;
let stamp = '';
function isoTime(ms: number): string {
  const second = Math.floor(ms / 1000);
  if (second !== stampedSecond) {
    stampedSecond = second;
    stamp = new Date(second * 1000).toISOString().slice(0, -4);
  }
  const rest = ms - second * 1000;
  return `${stamp}${rest < 10 ? '00' : rest < 100 ? '0' : ''}${rest}Z`;
}

/** The members that say who asked, made once for all requests of a tunnel. */
function namesOf(access: Access): string {
  const { session, vault } = access;
  const known = access.auditNames;
  if (known !== null && known.label === session.label) return known.text;
  const label = session.label === null ? 'null' : json(session.label);
  const text = `"vault":${json(vault.name)},"actor":${json(`${session.kind}:${session.id}`)},"label":${label}`;
  access.auditNames = { label: session.label, text };
  return text;
}

function nobody(peer: string | null | undefined): string {
  return `"vault":null,"actor":null,"label":null${peer ? `,"peer":${json(peer)}` : ''}`;
}

/** Octets of a path that are kept. It is as long as its writer likes; methods and hosts are short where they are read. */
const maxPath = 1024;

/** What is cut off a path can still be told from another by its hash. */
function pathMembers(path: string): string {
  if (path.length <= maxPath) return `"path":${json(path)}`;
  const hash = createHash('sha256').update(path, 'latin1').digest('hex');
  return `"path":${json(path.slice(0, maxPath))},"path_length":${path.length},"path_sha256":"${hash}"`;
}

/** A record's members but for its time. */
export function membersOf(r: RequestRecord): string {
  const attempts = r.attempts !== undefined && r.attempts > 1 ? `"attempts":${r.attempts},` : '';
  const keys = r.keys.length === 0 ? '' : `"${r.keys.join('","')}"`;
  return (
    `"kind":"request","request_id":"${r.requestId}",` +
    `${r.access === null ? nobody(r.peer) : namesOf(r.access)},"method":${json(r.method)},"scheme":"${r.scheme}",` +
    `"host":${json(r.host)},${pathMembers(r.path)},"service":${r.service === null ? 'null' : json(r.service)},` +
    `"keys":[${keys}],"status":${r.status},"error":${r.error === null ? 'null' : `"${r.error}"`},${attempts}` +
    `"bytes_in":${r.bytesIn},"bytes_out":${r.bytesOut},"ms":${r.milliseconds.toFixed(1)}`
  );
}
