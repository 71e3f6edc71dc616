/** One proxied request, as the audit has it: names and numbers, never a value. */
export interface RequestRecord {
  /** Wall clock at the start, ms. */
  readonly time: number;
  readonly requestId: string;
  readonly vault: string | null;
  /** `session:ID` or `agent:NAME`. */
  readonly actor: string | null;
  readonly label: string | null;
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
  /** Body bytes from and to the client. */
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly milliseconds: number;
}

/** Lines are sent off when there are this many, or at the next sweep. */
const batchLines = 128;
const batchMs = 20;

/**
 * Collects a lane's audit records as finished NDJSON lines and sends them off in batches: a request costs one
 * string, not a message. While the audit can't be written, `healthy` is false and the lane answers 503.
 */
export class AuditSink {
  readonly #send: (lines: string, count: number) => boolean;
  readonly #health: Int32Array;
  readonly #failOpen: boolean;
  #lines = '';
  #count = 0;
  #timer: NodeJS.Timeout | null = null;
  /** Batches that the port did not take: kept, in order. */
  readonly #unsent: { lines: string; count: number }[] = [];

  /**
   * @param send false where the audit actor can't take more now
   * @param health shared word: 0 writing, 1 failing
   */
  constructor(send: (lines: string, count: number) => boolean, health: Int32Array, failOpen: boolean) {
    this.#send = send;
    this.#health = health;
    this.#failOpen = failOpen;
  }

  /** Whether requests may go on (protocol, "Audit": fail closed). */
  get healthy(): boolean {
    return this.#failOpen || (Atomics.load(this.#health, 0) === 0 && this.#unsent.length < 64);
  }

  record(r: RequestRecord): void {
    this.#lines += lineOf(r);
    this.#count++;
    if (this.#count >= batchLines) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), batchMs);
  }

  /** Sends off what there is. */
  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#count > 0) {
      this.#unsent.push({ lines: this.#lines, count: this.#count });
      this.#lines = '';
      this.#count = 0;
    }
    while (this.#unsent.length > 0 && this.#send(this.#unsent[0].lines, this.#unsent[0].count))
      this.#unsent.shift();
    if (this.#unsent.length > 0) this.#timer = setTimeout(() => this.flush(), batchMs);
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

/** Timestamps of one millisecond are made once. */
let stampedMs = 0;
let stamp = '';
function isoTime(ms: number): string {
  if (ms !== stampedMs) {
    stampedMs = ms;
    stamp = new Date(ms).toISOString();
  }
  return stamp;
}

function lineOf(r: RequestRecord): string {
  const keys = r.keys.length === 0 ? '' : `"${r.keys.join('","')}"`;
  return (
    `{"time":"${isoTime(r.time)}","kind":"request","request_id":"${r.requestId}",` +
    `"vault":${r.vault === null ? 'null' : json(r.vault)},"actor":${r.actor === null ? 'null' : json(r.actor)},` +
    `"label":${r.label === null ? 'null' : json(r.label)},"method":${json(r.method)},"scheme":"${r.scheme}",` +
    `"host":${json(r.host)},"path":${json(r.path)},"service":${r.service === null ? 'null' : json(r.service)},` +
    `"keys":[${keys}],"status":${r.status},"error":${r.error === null ? 'null' : `"${r.error}"`},` +
    `"bytes_in":${r.bytesIn},"bytes_out":${r.bytesOut},"ms":${r.milliseconds.toFixed(1)}}\n`
  );
}
