import { formatIpv6, isIpv4Mapped, parseIp } from './authority.ts';

/**
 * The network that a peer's address is counted by: one machine or site has it, however many addresses it can send from.
 * All of loopback is one, an IPv6 network is a /64 (what a single customer is given, RFC 6177), an IPv4 address stands
 * for itself. What is no address is counted as it is.
 *
 * @param address as node:net writes it
 */
export function networkOf(address: string): string {
  const ip = parseIp(address.replace(/%.*$/, ''));
  if (ip === null) return address;
  const octets = isIpv4Mapped(ip) ? ip.subarray(12) : ip;
  if (octets.length === 4) return octets[0] === 127 ? loopback : octets.join('.');
  if (octets.every((octet, i) => octet === (i === 15 ? 1 : 0))) return loopback;
  return `${formatIpv6(octets.map((octet, i) => (i < 8 ? octet : 0)))}/64`;
}

/** The slot of a text in a table of counters that is shared by whoever falls into one (FNV-1a, 32 bits). */
export function slotOf(text: string, slots: number): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return (h >>> 0) % slots;
}

const loopback = 'loopback';
