/** What a client presents to the proxy. Neither part has been looked up yet. */
export interface ProxyCredentials {
  /** The session or agent token, never empty. A secret: not for logs, errors or audit. */
  readonly token: string;
  /** The vault's name; '' where none was given, so that `X-Vault` or the session decides. */
  readonly vault: string;
}

const basic = /^basic +([A-Za-z0-9+/]+={0,2})$/i;
const bearerShape = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i;
const visible = /^[!-~]+$/;
// RFC 7617 section 2: no control characters in user or password.
const withoutControls = /^[ -~\u0080-\u00ff]*$/;

/**
 * Parses one `Proxy-Authorization` value (RFC 9110 section 11.7.2): `Basic base64(token:vault)` (RFC 7617)
 * or `Bearer token` (RFC 6750), the scheme in any case.
 *
 * The vault is everything after the first colon. Base64 is taken in its one canonical form only: padded,
 * unused bits zero, nothing around it. Two values joined by a comma are thus no credentials.
 *
 * @param value the field value, decoded as latin1, without surrounding white space
 * @returns null if it can't be used: the answer is then 407, the same as for none
 */
export function parseProxyAuthorization(value: string): ProxyCredentials | null {
  const bearer = bearerShape.exec(value);
  if (bearer !== null) return { token: bearer[1], vault: '' };

  const encoded = basic.exec(value)?.[1];
  if (encoded === undefined) return null;
  const octets = Buffer.from(encoded, 'base64');
  // Node's decoder skips what it doesn't know; only the round trip shows that nothing was skipped.
  if (octets.toString('base64') !== encoded) return null;
  const pair = octets.toString('latin1');
  const colon = pair.indexOf(':');
  const token = colon === -1 ? pair : pair.slice(0, colon);
  const vault = colon === -1 ? '' : pair.slice(colon + 1);
  return visible.test(token) && withoutControls.test(vault) ? { token, vault } : null;
}
