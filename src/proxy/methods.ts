/** What request methods mean to a proxy (RFC 9110 9): which may be sent again, which have a body that is read. */

const undefinedBody: ReadonlySet<string> = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE', 'TRACK']);
const idempotent: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE']);

/**
 * Whether a body has a meaning under this method (RFC 9110 9.3). Where it has none, a server may leave it unread, and
 * take it for its next request. Extension methods are taken to define theirs.
 */
export function definesBody(method: string): boolean {
  // Some servers know `get`, too.
  return !undefinedBody.has(method) && !undefinedBody.has(method.toUpperCase());
}

/** Whether doing it twice comes to the same as doing it once (RFC 9110 9.2.2). Extension methods: not known, so no. */
export function isIdempotent(method: string): boolean {
  return idempotent.has(method);
}

/** Whether the answer shows the request, with what was put into it: TRACE, and TRACK, its older form in some servers. */
export function showsRequest(method: string): boolean {
  return method.length === 5 && /^trac[ek]$/i.test(method);
}
