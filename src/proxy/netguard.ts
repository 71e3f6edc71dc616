import { formatIpv6, isIpv4Mapped, parseIp } from '../actors/vault/authority.ts';

export interface NetguardOptions {
  /**
   * Opens loopback, RFC 1918, CGNAT (100.64.0.0/10) and unique-local addresses: what development machines,
   * clusters and overlay networks use. Link-local, metadata and everything else stay refused.
   */
  readonly allowPrivateRanges: boolean;
  /**
   * CIDR ranges (a bare address is a range of one) that are open whatever their kind. An IPv4 range covers
   * the IPv4-mapped form too, since a socket makes no difference; no other embedding.
   */
  readonly allow: readonly string[];
  /** The ports of the API and the proxy, refused on every address of this machine, whatever is allowed. */
  readonly ownPorts: readonly number[];
  /** This machine's addresses as text; asked only about own ports, loopback need not be among them. */
  readonly ownAddresses: () => Iterable<string>;
}

export interface Netguard {
  /** Whether one bare IP address (no brackets) may be dialled on `port`: null, or why not. */
  vet(address: string, port: number): BlockReason | null;
  /** The same for all addresses of a name: the first reason found refuses them all, and none is refused too. */
  vetAll(addresses: readonly string[], port: number): BlockReason | null;
}

interface Range {
  readonly ip: Uint8Array;
  readonly bits: number;
}

/** Where cloud platforms hand out credentials and host secrets. Refused always, in every embedding. */
const metadata = [
  '169.254.169.254', // AWS, Google Cloud, Azure, OpenStack and most others
  '169.254.170.2', // AWS ECS task credentials
  '169.254.170.23', // AWS EKS pod identity
  '169.254.169.250', // Rancher
  '169.254.169.252', // GKE node-local server
  '169.254.0.23', // Tencent Cloud
  '169.254.10.10', // Tencent Cloud
  '169.254.42.42', // Scaleway
  '100.96.0.96', // Volcengine
  '100.100.100.200', // Alibaba Cloud
  '192.0.0.192', // Oracle Cloud Classic
  '168.63.129.16', // Azure WireServer
  'fd00:ec2::254', // AWS
  'fd00:ec2::23', // AWS EKS pod identity
  'fd20:ce::254', // Google Cloud
  'fd00:c1::a9fe:a9fe', // Oracle Cloud
  'fd00:42::42', // Scaleway
  'fd00:a9fe:a9fe::1', // Akamai (Linode)
  'fd00:100::100:200', // Alibaba Cloud
  'fe80::a9fe:a9fe', // OpenStack
].map(knownRange);

/** The IANA special-purpose registries (RFC 6890). The first match decides, so exceptions come first. */
const specialTable = [
  ['0.0.0.0/8', 'unspecified'],
  ['10.0.0.0/8', 'private'],
  ['100.64.0.0/10', 'cgnat'],
  ['127.0.0.0/8', 'loopback'],
  ['169.254.0.0/16', 'link-local'],
  ['172.16.0.0/12', 'private'],
  ['192.0.0.0/24', 'reserved'],
  ['192.0.2.0/24', 'documentation'],
  ['192.88.99.0/24', '6to4'],
  ['192.168.0.0/16', 'private'],
  ['198.18.0.0/15', 'benchmarking'],
  ['198.51.100.0/24', 'documentation'],
  ['203.0.113.0/24', 'documentation'],
  ['224.0.0.0/4', 'multicast'],
  ['255.255.255.255/32', 'broadcast'],
  ['240.0.0.0/4', 'reserved'],
  ['::/128', 'unspecified'],
  ['::1/128', 'loopback'],
  // DNS64 gives every IPv4-only name such an address (RFC 6052): judged by the IPv4 address it carries.
  ['64:ff9b::/96', null],
  ['64:ff9b:1::/48', 'nat64'],
  ['100::/64', 'discard'],
  ['2001::/32', 'teredo'],
  ['2001:2::/48', 'benchmarking'],
  ['2001:10::/28', 'orchid'],
  ['2001:20::/28', 'orchid'],
  ['2001::/23', 'reserved'],
  ['2001:db8::/32', 'documentation'],
  // Deprecated with its relays (RFC 7526); nothing that an agent needs lives here.
  ['2002::/16', '6to4'],
  ['3fff::/20', 'documentation'],
  ['fc00::/7', 'unique-local'],
  ['fe80::/10', 'link-local'],
  ['fec0::/10', 'site-local'],
  ['ff00::/8', 'multicast'],
  // Global unicast is 2000::/3 (RFC 4291 section 2.4). All else, IPv4-compatible and -translated too, is not.
  ['::/3', 'reserved'],
  ['4000::/2', 'reserved'],
  ['8000::/1', 'reserved'],
] as const;

/** Why an address is refused: a word for the audit and for the message of the refusal. */
type BlockReason =
  | NonNullable<(typeof specialTable)[number][1]>
  | 'metadata'
  | 'own-port'
  | 'embedded' // An IPv6 address that carries a refused IPv4 address.
  | 'not-an-address'
  | 'no-address';

const specialRanges = specialTable.map(([cidr, reason]) => ({ ...knownRange(cidr), reason }));

const openedByPrivate: ReadonlySet<BlockReason | null> = new Set([
  'loopback',
  'private',
  'cgnat',
  'unique-local',
]);

/** Prefixes whose addresses carry an IPv4 address, and in which octets. Teredo inverts its client's. */
const embeddings = (
  [
    ['::/96', [12, 13, 14, 15]],
    ['::ffff:0:0:0/96', [12, 13, 14, 15]],
    ['64:ff9b::/96', [12, 13, 14, 15]],
    // RFC 8215 leaves the length to the network: each of RFC 6052 section 2.2, octet 8 skipped.
    ['64:ff9b:1::/48', [6, 7, 9, 10]],
    ['64:ff9b:1::/48', [7, 9, 10, 11]],
    ['64:ff9b:1::/48', [9, 10, 11, 12]],
    ['64:ff9b:1::/48', [12, 13, 14, 15]],
    ['2002::/16', [2, 3, 4, 5]],
    ['2001::/32', [4, 5, 6, 7]],
    ['2001::/32', [12, 13, 14, 15], 0xff],
  ] as [cidr: string, at: number[], mask?: number][]
).map(([cidr, at, mask = 0]) => ({ ...knownRange(cidr), at, mask }));

/**
 * Decides which addresses the proxy may dial. Pure: it neither resolves nor connects; what it is handed must
 * be exactly what is dialled.
 *
 * Refused are all ranges that aren't globally reachable, IPv6 addresses that carry such an IPv4 address,
 * cloud metadata services, and the broker's own ports. The last two are refused whatever the options allow.
 *
 * @throws Error if a range in `allow` is malformed, naming it and how to write it
 */
export function createNetguard(options: NetguardOptions): Netguard {
  const allow = options.allow.map(allowedRange);
  const ownPorts = new Set(options.ownPorts);

  const isOwn = (ip: Uint8Array) => {
    const reason = classify(ip);
    if (reason === 'loopback' || reason === 'unspecified') return true;
    for (const address of options.ownAddresses()) {
      const own = parseIp(address);
      if (own !== null && covers({ ip: unmapped(own), bits: 8 * ip.length }, ip)) return true;
    }
    return false;
  };

  const vet = (address: string, port: number): BlockReason | null => {
    const parsed = parseIp(address);
    if (parsed === null) return 'not-an-address';
    const ip = unmapped(parsed);
    const carried = embeddedIpv4(ip);
    if (isMetadata(ip) || carried.some(isMetadata)) return 'metadata';
    if (ownPorts.has(port) && (isOwn(ip) || carried.some(isOwn))) return 'own-port';
    if (allow.some((range) => covers(range, ip))) return null;
    const reason = classify(ip);
    if (options.allowPrivateRanges && openedByPrivate.has(reason)) return null;
    return reason ?? (carried.some((inner) => classify(inner) !== null) ? 'embedded' : null);
  };

  const vetAll = (addresses: readonly string[], port: number): BlockReason | null => {
    if (addresses.length === 0) return 'no-address';
    for (const address of addresses) {
      const reason = vet(address, port);
      if (reason !== null) return reason;
    }
    return null;
  };

  return { vet, vetAll };
}

function isMetadata(ip: Uint8Array): boolean {
  return metadata.some((range) => covers(range, ip));
}

function classify(ip: Uint8Array): BlockReason | null {
  return specialRanges.find((range) => covers(range, ip))?.reason ?? null;
}

function embeddedIpv4(ip: Uint8Array): Uint8Array[] {
  if (ip.length === 4) return [];
  const found: Uint8Array[] = embeddings
    .filter((range) => covers(range, ip))
    .map(({ at, mask }) => Uint8Array.from(at, (i) => ip[i] ^ mask));
  // ISATAP (RFC 5214 section 6.1) works below any prefix: interface identifier [02]00:5efe:IPv4.
  if ((ip[8] & 0xfd) === 0 && ip[9] === 0 && ip[10] === 0x5e && ip[11] === 0xfe) found.push(ip.subarray(12));
  return found;
}

function unmapped(ip: Uint8Array): Uint8Array {
  return isIpv4Mapped(ip) ? ip.subarray(12) : ip;
}

function covers(range: Range, ip: Uint8Array): boolean {
  return range.ip.length === ip.length && sameBits(range.ip, ip, range.bits);
}

function sameBits(a: Uint8Array, b: Uint8Array, bits: number): boolean {
  const whole = bits >> 3;
  for (let i = 0; i < whole; i++) if (a[i] !== b[i]) return false;
  return (bits & 7) === 0 || (a[whole] ^ b[whole]) >> (8 - (bits & 7)) === 0;
}

function parseRange(text: string): Range | null {
  const slash = text.indexOf('/');
  const ip = parseIp(slash === -1 ? text : text.slice(0, slash));
  if (ip === null) return null;
  const length = slash === -1 ? String(8 * ip.length) : text.slice(slash + 1);
  const bits = /^(?:0|[1-9][0-9]{0,2})$/.test(length) ? Number(length) : Number.NaN;
  if (!(bits <= 8 * ip.length)) return null;
  return isIpv4Mapped(ip) && bits >= 96 ? { ip: ip.subarray(12), bits: bits - 96 } : { ip, bits };
}

function knownRange(text: string): Range {
  const range = parseRange(text);
  if (range === null) throw new Error(`not a range: ${text}`);
  return range;
}

// A range with host bits set is more often a slip that would open 16 million addresses than meant.
function allowedRange(text: string): Range {
  const range = parseRange(text);
  if (range === null) {
    throw new Error(`"${text}" is not an address range: write it as 10.1.0.0/16, 10.1.2.3 or fd12:3456::/32`);
  }
  const { ip, bits } = range;
  const base = ip.map((byte, i) => byte & (0xff << Math.min(8, Math.max(0, 8 * (i + 1) - bits))));
  if (!sameBits(base, ip, 8 * ip.length)) {
    const write = (it: Uint8Array) => (it.length === 4 ? it.join('.') : formatIpv6(it));
    throw new Error(
      `"${text}" has bits set beyond its prefix: write ${write(base)}/${bits} for the range or ${write(ip)} for the one address`,
    );
  }
  return range;
}
