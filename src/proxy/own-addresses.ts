import { networkInterfaces } from 'node:os';

/** This machine's addresses, as they are now: asked only where a target has one of the broker's ports. */
export function ownAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map(({ address }) => address));
}
