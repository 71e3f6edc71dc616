/**
 * One request against a rate (GCRA): a 64-bit word a slot holds the theoretical arrival time, in µs of the machine's
 * monotonic clock, shared by all lanes. 0: taken; else the whole seconds to wait.
 */
export function takeRate(
  arrivals: BigInt64Array,
  slot: number,
  { rps, burst }: { readonly rps: number; readonly burst: number },
  nowMicros: number,
): number {
  const step = 1e6 / rps;
  const room = step * Math.max(1, burst);
  for (;;) {
    const seen = Atomics.load(arrivals, slot);
    const next = Math.max(Number(seen), nowMicros) + step;
    if (next - nowMicros > room) return Math.max(1, Math.ceil((next - room - nowMicros) / 1e6));
    if (Atomics.compareExchange(arrivals, slot, seen, BigInt(Math.round(next))) === seen) return 0;
  }
}
