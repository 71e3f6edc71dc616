// Lower case. RFC 7230 section 6.1 and what else belongs to one connection; what frames or routes a message: a
// service that set one could split or redirect a request; what authenticates the client to the broker.
const reserved: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  'host',
  'content-length',
  'expect',
  'x-vault',
]);

const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const fieldContent = /^[\t\x20-\x7e\x80-\xff]*$/;

/** RFC 9110 section 5.1: a token. */
export function isHeaderName(text: string): boolean {
  return token.test(text);
}

/**
 * RFC 9110 section 5.5, each character standing for one octet: no CR, LF, NUL or other control but tab, and
 * nothing above 0xFF. May be empty.
 */
export function isHeaderValue(text: string): boolean {
  return fieldContent.test(text);
}

/**
 * Hop-by-hop, broker-scoped and framing headers, where a service may not put a credential. Any case, and with
 * `_` for `-` too, since CGI-like servers take the two for the same.
 */
export function isReservedHeader(name: string): boolean {
  const plain = name.toLowerCase().replaceAll('_', '-');
  return plain.startsWith('proxy-') || reserved.has(plain);
}
