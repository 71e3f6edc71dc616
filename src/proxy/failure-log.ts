/** Lines at once, and lines a second after that: whoever finds a way to make something throw can't fill the log. */
const burst = 20;
/** A place in our own code or in the runtime, as V8 writes it: nothing that a message could hold. */
const place =
  /^ {4}at (?:(?:async |new )?([\w.#<> ]+) \()?(?:file:\/\/\/|node:|\/)(?:[^\s()]*\/)?([^\s()/]+:\d+:\d+)\)?$/gm;

/**
 * Says on standard error that something of the broker's own threw: what kind of error, and where, in one line. Its
 * message stays unsaid: it may quote what a client or an upstream sent, or a credential.
 */
export class FailureLog {
  readonly #write: (line: string) => void;
  #left = burst;
  #at = 0;
  #unsaid = 0;

  constructor(write: (line: string) => void) {
    this.#write = write;
  }

  /**
   * Never throws.
   * @param requestId the request that it cost, where there was one
   */
  failed(error: unknown, requestId: string | null): void {
    const now = Date.now();
    this.#left = Math.min(burst, this.#left + Math.max(0, now - this.#at) / 1000);
    this.#at = now;
    if (this.#left < 1) {
      this.#unsaid++;
      return;
    }
    this.#left--;
    const said = {
      request_id: requestId,
      ...described(error),
      ...(this.#unsaid > 0 && { unsaid: this.#unsaid }),
    };
    this.#unsaid = 0;
    const time = new Date(now).toISOString();
    this.#write(
      `${JSON.stringify({ time, level: 'error', message: 'Something failed in a lane. It cost this request only.', ...said })}\n`,
    );
  }
}

/** Kind, code and places of whatever was thrown. */
function described(error: unknown): { kind: string; code?: string; at?: string[] } {
  try {
    if (!(error instanceof Error)) return { kind: typeof error };
    const { code } = error as NodeJS.ErrnoException;
    const at = Array.from(
      (error.stack ?? '').replace(error.message, '').matchAll(place),
      ([, what, where]) => (what === undefined ? where : `${what} ${where}`),
    );
    const known = typeof code === 'string' && /^[A-Z_0-9]{1,64}$/.test(code);
    return { kind: error.constructor.name, ...(known && { code }), at: at.slice(0, 5) };
  } catch {
    return { kind: 'unknown' };
  }
}
