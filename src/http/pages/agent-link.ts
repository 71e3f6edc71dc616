import { BlockList, isIPv4, isIPv6 } from 'node:net';

/*
 * Addresses that an agent writes and a human may follow. Cookies know no port: a page on another port of this machine is
 * sent those that the broker set there. So nothing leads to this machine, to the networks around it, or to the broker.
 */

const internal = new BlockList();
for (const [net, prefix] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['224.0.0.0', 3],
] as const) {
  internal.addSubnet(net, prefix, 'ipv4');
}

/** IPv6 that is global unicast, without what holds an IPv4 address or is for documents and tests (RFC 6890). */
const global = new BlockList();
global.addSubnet('2000::', 3, 'ipv6');
const notGlobal = new BlockList();
for (const [net, prefix] of [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const) {
  notGlobal.addSubnet(net, prefix, 'ipv6');
}

/** Names that stand for this machine or this network, with all that is under them (RFC 6761, RFC 6762, RFC 8375). */
const localNames = [
  'localhost',
  'local',
  'internal',
  'localdomain',
  'home.arpa',
  'lan',
  'intranet',
  'private',
  'corp',
  'home',
];
/** Services whose names lead to whatever address stands in them, or to this machine. */
const anyAddress = [
  'nip.io',
  'sslip.io',
  'xip.io',
  'localtest.me',
  'lvh.me',
  'vcap.me',
  'lacolhost.com',
  'traefik.me',
];

/**
 * Why an agent's address must not be a link, or null. Pure: nothing is looked up.
 * @param url a whole address
 * @param own names of the broker, without port, in any case
 */
export function notLinked(url: string, own: Iterable<string>): string | null {
  const parsed = URL.parse(url);
  if (parsed === null) return 'it is no address that a browser could follow';
  // WHATWG URL section 3.5: IPv4 in any base is dotted decimal by now.
  const host = parsed.hostname.toLowerCase().replace(/\.$/, '');
  if ([...own].some((name) => bare(name) === bare(host))) return 'it leads to the broker itself';
  if (isIPv4(host)) return internal.check(host, 'ipv4') ? internalAddress : null;
  if (host.startsWith('[')) {
    const address = bare(host);
    const isGlobal = isIPv6(address) && global.check(address, 'ipv6') && !notGlobal.check(address, 'ipv6');
    return isGlobal ? null : internalAddress;
  }
  const isUnder = (suffix: string) => host === suffix || host.endsWith(`.${suffix}`);
  if (!host.includes('.') || localNames.some(isUnder))
    return 'it is a name of this machine or of your own network';
  return anyAddress.some(isUnder) ? 'its name can lead to any address, this machine’s too' : null;
}

const internalAddress = 'it leads to this machine or into your own network';

function bare(host: string): string {
  return host
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '');
}
