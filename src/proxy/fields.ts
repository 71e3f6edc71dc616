/**
 * What the proxy knows of a header field name. Computed once for each spelling that is seen (agents send the
 * same few dozen names over and over) and kept in a bounded cache, so that a request costs one look-up a field.
 */
export interface FieldName {
  /** As it was sent: case is kept on the way through. */
  readonly name: string;
  readonly lower: string;
  readonly role: FieldRole;
  /** Where the name holds `_`: what it becomes when a CGI-like server maps `_` and `-` to one another. */
  readonly alias: string | null;
}

/** Numbers, not a union of strings: compared once for each field of each request. */
export const role = {
  endToEnd: 0,
  /** RFC 7230 6.1 and the protocol's list: stops here. */
  hopByHop: 1,
  host: 2,
  contentLength: 3,
  transferEncoding: 4,
  connection: 5,
  expect: 6,
  upgrade: 7,
  /** X-Vault: authenticates the client to the broker. */
  vault: 8,
  proxyAuthorization: 9,
  authorization: 10,
  keepAlive: 11,
} as const;
type FieldRole = (typeof role)[keyof typeof role];

const roles = new Map<string, FieldRole>([
  ['connection', role.connection],
  ['keep-alive', role.keepAlive],
  ['proxy-authenticate', role.hopByHop],
  // What only a proxy on the way says (RFC 9110 11.7.3, RFC 9209): upstreams don't speak for this one.
  ['proxy-authentication-info', role.hopByHop],
  ['proxy-status', role.hopByHop],
  ['proxy-authorization', role.proxyAuthorization],
  ['proxy-connection', role.hopByHop],
  ['te', role.hopByHop],
  ['trailer', role.hopByHop],
  ['transfer-encoding', role.transferEncoding],
  ['upgrade', role.upgrade],
  ['http2-settings', role.hopByHop],
  ['host', role.host],
  ['content-length', role.contentLength],
  ['expect', role.expect],
  ['x-vault', role.vault],
  ['authorization', role.authorization],
]);

const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const cache = new Map<string, FieldName>();
/** Names are chosen by clients and upstreams: past this many the cache starts again, so that it can't grow. */
const cacheLimit = 4096;

/** Looks a field name up; null where it is not a token (RFC 9110 5.6.2). */
export function fieldName(name: string): FieldName | null {
  const known = cache.get(name);
  if (known !== undefined) return known;
  if (!token.test(name)) return null;
  const lower = name.toLowerCase();
  const alias = lower.includes('_') ? lower.replaceAll('_', '-') : null;
  const made: FieldName = { name, lower, role: roles.get(lower) ?? role.endToEnd, alias };
  // A name sliced from a head keeps the whole head alive: copy what is kept, and keep no long ones.
  if (name.length <= 64) {
    if (cache.size >= cacheLimit) cache.clear();
    cache.set(Buffer.from(name, 'latin1').latin1Slice(), made);
  }
  return made;
}

/** Whether a name stands for a field that frames, routes or authenticates, whatever its spelling. */
export function isReserved(lower: string): boolean {
  return roles.has(lower);
}
