import { parse } from 'tldts';
import { canonicalHost } from './authority.ts';

const lists = { allowPrivateDomains: true, extractHostname: false, validateHostname: false, detectIp: false };

const malformed =
  'must be a host name or an IP address (IPv6 in [brackets]), with or without :port, and no https:// or path';

/**
 * Reads the host of a service and gives it in canonical form: `host`, `host:port`, `*.rest` or `*.rest:port`.
 *
 * `*` stands for exactly one label, and only for the whole first one. It is refused before an IP address, and
 * right above a public suffix, private ones included (`*.com`, `*.co.uk`, `*.github.io`): what it matched
 * there would belong to many owners.
 */
export function parseHostPattern(text: string): { readonly pattern: string } | { readonly error: string } {
  const colon = text.indexOf(':', text.indexOf(']') + 1);
  const name = colon === -1 ? text : text.slice(0, colon);
  const port = colon === -1 ? '' : text.slice(colon);
  if (port !== '' && !isPort(port.slice(1))) return { error: malformed };
  const wildcard = name.startsWith('*.');
  const rest = wildcard ? name.slice(2) : name;
  if (rest.includes('*')) return { error: 'a * may only be the whole first label, as in *.example.com' };
  const found = canonicalHost(rest);
  if (found === null) return { error: malformed };
  if (wildcard && found.literal !== 0) return { error: 'a * can not stand before an IP address' };
  if (wildcard && isPublicSuffix(found.host)) {
    return { error: 'a * right above a public suffix would match hosts of many owners; name the domain' };
  }
  return { pattern: (wildcard ? '*.' : '') + found.host + port };
}

/**
 * The patterns that match a target, best first: exact with port, exact, wildcard with port, wildcard.
 * An IP address and a single label have no wildcard.
 *
 * @param host in canonical form, as {@link canonicalHost} gives it
 */
export function patternCandidates(host: string, port: number): string[] {
  const dot = host.indexOf('.');
  if (dot === -1 || isAddress(host)) return [`${host}:${port}`, host];
  const wildcard = `*${host.slice(dot)}`;
  return [`${host}:${port}`, host, `${wildcard}:${port}`, wildcard];
}

/** Who a name belongs to. */
export interface Registration {
  /** What its owner registered: `example.co.uk` of `api.example.co.uk`; null for addresses and single labels. */
  readonly domain: string | null;
  /** The suffix under which it was registered, where that is a company's and names under it are given to anyone. */
  readonly sharedSuffix: string | null;
}

/** Looks a canonical host up in the list of public suffixes. */
export function registrationOf(host: string): Registration {
  const { domain, publicSuffix, isPrivate } = isAddress(host) ? noRegistration : parse(host, lists);
  return { domain, sharedSuffix: isPrivate === true ? publicSuffix : null };
}

const noRegistration = { domain: null, publicSuffix: null, isPrivate: false };

function isPort(text: string): boolean {
  return /^[1-9][0-9]{0,4}$/.test(text) && Number(text) <= 65535;
}

// A canonical name never ends in a label of digits only, so this tells IPv4 addresses from names.
function isAddress(host: string): boolean {
  return host.startsWith('[') || /\.[0-9]+$/.test(host);
}

// A suffix that is on no list (`example`, `test`, a company's own) is nobody's registry.
function isPublicSuffix(host: string): boolean {
  const found = parse(host, lists);
  return found.publicSuffix === host && (found.isIcann === true || found.isPrivate === true);
}
