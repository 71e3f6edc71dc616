/**
 * Which slot of the shared rate-limit table each pair of session (or agent) and vault counts in. An agent has one slot
 * a vault, whatever number of tokens it has. A freed slot is given out last, so that requests of its former owner that
 * are still in flight have long left it.
 */
export interface RateSlots {
  readonly available: number;
  /** Slots for exactly these vaults, each named once; those that the subject has already stay, others are freed. Throws if none is left. */
  assign(subject: string, vaultIds: readonly string[]): readonly { id: string; slot: number }[];
  release(subject: string): void;
}

export function createRateSlots(capacity: number): RateSlots {
  // Lists, since most subjects have one vault, and there may be a hundred thousand of them.
  const bySubject = new Map<string, { id: string; slot: number }[]>();
  /** Freed ones, oldest first; `next` is the first that was never used. */
  const freed: number[] = [];
  let next = 0;

  function take(): number {
    if (next < capacity) return next++;
    const slot = freed.shift();
    if (slot === undefined) throw new Error(`all ${capacity} rate-limit slots are taken`);
    return slot;
  }

  function assign(subject: string, vaultIds: readonly string[]) {
    const before = bySubject.get(subject) ?? [];
    if (before.length === vaultIds.length && before.every(({ id }, i) => id === vaultIds[i])) return before;
    const after = vaultIds.map((id) => before.find((each) => each.id === id) ?? { id, slot: take() });
    for (const { id, slot } of before) if (!vaultIds.includes(id)) freed.push(slot);
    bySubject.set(subject, after);
    return after;
  }

  return {
    get available() {
      return capacity - next + freed.length;
    },
    assign,
    release(subject) {
      for (const { slot } of bySubject.get(subject) ?? []) freed.push(slot);
      bySubject.delete(subject);
    },
  };
}
