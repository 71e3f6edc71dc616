import { parseAuthority } from '../actors/vault/authority.ts';
import { type Problem, problem, type Result, refuse } from '../actors/vault/problem.ts';

/** A request, as far as it has arrived. */
export interface Incoming {
  /** As sent: methods are case-sensitive (RFC 9110 section 9.1). */
  readonly method: string;
  /** As sent, nothing decoded, without the query. */
  readonly path: string;
  /** As sent, without the question mark. */
  readonly query: string;
  /** Octets of the request line and the headers, about; without cookies, which are not the sender's choice. */
  readonly headSize: number;
  /** Every value of a header in the order of arrival; `name` in lower case. */
  values(name: string): readonly string[];
  /** IP address of the other end. */
  readonly peer: string;
  /** Aborts when the exchange is over: the client has its whole reply, or is gone. */
  readonly over: AbortSignal;
  /** The whole body, or null where it is larger than `limit` octets. Call it once at most. */
  body(limit: number): Promise<Uint8Array | null>;
}

/** Octets; more is answered with 413. */
export const maxBody = 1024 * 1024;
/** Octets; more is answered with 431. Browsers send the cookies of every other server on `localhost` along. */
const maxHead = 16 * 1024;

/**
 * Refuses a head that is too large, and what the parser lets pass although two servers in a row could take it for
 * different requests: more than one length, or a transfer coding beside `chunked` (RFC 9112 sections 6.1 and 6.3).
 */
export function framingProblem(incoming: Incoming): Problem | null {
  if (incoming.headSize > maxHead) return problem('headers_too_large');
  const codings = incoming.values('transfer-encoding');
  const isClear =
    incoming.values('content-length').length <= 1 &&
    (codings.length === 0 || (codings.length === 1 && codings[0].toLowerCase() === 'chunked'));
  if (isClear) return null;
  return problem(
    'invalid_request',
    'The length of the body is not clear. Send one Content-Length, or Transfer-Encoding: chunked.',
  );
}

/**
 * Tells whether a request names this server in `Host` (RFC 9110 section 7.2), whatever the port: a web page whose name
 * was rebound to our address still sends its own name.
 */
export function createHostCheck(names: readonly string[]): (incoming: Incoming) => boolean {
  const canonical = new Set(names.map((name) => parseAuthority(name, 80)?.host ?? name.toLowerCase()));
  return (incoming) => {
    const hosts = incoming.values('host');
    const authority = hosts.length === 1 ? parseAuthority(hosts[0], 80) : null;
    return authority !== null && canonical.has(authority.host);
  };
}

/** The body, where it is JSON by its headers or empty. */
export async function readBody(incoming: Incoming, limit: number): Promise<Result<Uint8Array>> {
  const bytes = await incoming.body(limit);
  if (bytes === null) return refuse('payload_too_large', tooLarge(limit));
  if (bytes.length > 0 && !isJson(incoming)) return refuse('unsupported_media_type');
  return { ok: true, value: bytes };
}

function tooLarge(limit: number): string | undefined {
  return limit === maxBody ? undefined : `The body is larger than ${limit} octets. Send less.`;
}

function isJson(incoming: Incoming): boolean {
  const types = incoming.values('content-type');
  return (
    types.length === 1 &&
    /^application\/json\s*(?:;\s*charset="?utf-8"?\s*)?$/i.test(types[0]) &&
    incoming.values('content-encoding').every((coding) => coding.toLowerCase() === 'identity')
  );
}
