import { createHmac } from 'node:crypto';
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

/** Octets of the key that `slotOf` takes: one for all threads, another at each start. */
export const slotKeyBytes = 16;

/**
 * The slot of a text in a table of counters that is shared by whoever falls into one. Keyed, so that nobody can choose a
 * text (a name to guess at, an address of their own) for the slot that it falls into.
 */
export function slotOf(key: Uint8Array, text: string, slots: number): number {
  return createHmac('sha256', key).update(text).digest().readUInt32LE(0) % slots;
}

const loopback = 'loopback';
