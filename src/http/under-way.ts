/** Amounts of what is under way, by whose it is, for bounds on it. */
export interface UnderWay {
  of(whose: string): number;
  /** Counts `amount` until the signal aborts. */
  add(whose: string, amount: number, over: AbortSignal): void;
}

export function createUnderWay(): UnderWay {
  const amounts = new Map<string, number>();
  const of = (whose: string): number => amounts.get(whose) ?? 0;
  return {
    of,
    add(whose, amount, over) {
      if (over.aborted) return;
      amounts.set(whose, of(whose) + amount);
      const end = (): void => {
        const left = of(whose) - amount;
        if (left > 0) amounts.set(whose, left);
        else amounts.delete(whose);
      };
      over.addEventListener('abort', end, { once: true });
    },
  };
}
