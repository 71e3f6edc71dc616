/** Something that a client did. Times are of one clock, in ms. */
export interface Event<Op> {
  readonly op: Op;
  readonly from: number;
  /** When the answer was there; for one without an answer, when it can't happen any more. */
  readonly to: number;
  /** What was answered; null: nobody knows whether it was done at all. */
  readonly result: string | null;
}

/** What a single-threaded thing would do. States are values that JSON tells apart. */
export interface Model<State, Op> {
  apply(state: State, op: Op): { readonly state: State; readonly result: string };
}

/** One way in which things may be: the state, and which of the operations under way have been done in it. */
interface Possible<State> {
  readonly state: State;
  readonly done: ReadonlySet<number>;
}

export type Verdict<State, Op> =
  | { readonly ok: true; readonly states: readonly State[] }
  | { readonly ok: false; readonly event: Event<Op>; readonly states: readonly State[] };

/**
 * Whether a history is linearizable (Herlihy and Wing, 1990): each operation can be thought to have been done at one
 * moment between its call and its answer, so that a single thread would have given the same answers.
 *
 * Goes through calls and answers in the order of time and keeps every possibility that the answers so far allow. An
 * operation without an answer may have been done at any moment up to its end, or never.
 *
 * @param starts the states that it may have begun in
 * @returns the states that it may have ended in; or the first answer that nothing allows, and the states before it
 */
export function linearize<State, Op>(
  model: Model<State, Op>,
  events: readonly Event<Op>[],
  starts: readonly State[],
): Verdict<State, Op> {
  const points = events
    .flatMap(({ from, to }, index) => [
      { index, at: from, isCall: true },
      { index, at: to, isCall: false },
    ])
    // Of two at one moment the call comes first: they may have overlapped.
    .sort((a, b) => a.at - b.at || Number(b.isCall) - Number(a.isCall));
  const under = new Set<number>();
  let possible: Possible<State>[] = starts.map((state) => ({ state, done: new Set() }));
  for (const { index, isCall } of points) {
    if (isCall) {
      under.add(index);
      continue;
    }
    const isKnown = events[index].result !== null;
    const before = possible;
    const all = expand(model, events, possible, under, isKnown ? index : null);
    possible = distinct(all.map(({ state, done }) => ({ state, done: without(done, index) })));
    under.delete(index);
    if (possible.length === 0) {
      return { ok: false, event: events[index], states: before.map(({ state }) => state) };
    }
  }
  return { ok: true, states: possible.map(({ state }) => state) };
}

/**
 * Every possibility that can be reached by doing operations that are under way. With `until`, those in which that one
 * has been done; each is taken no further than to there.
 */
function expand<State, Op>(
  model: Model<State, Op>,
  events: readonly Event<Op>[],
  from: readonly Possible<State>[],
  under: ReadonlySet<number>,
  until: number | null,
): Possible<State>[] {
  const found: Possible<State>[] = [];
  const seen = new Set<string>();
  const open = [...from];
  for (let one = open.pop(); one !== undefined; one = open.pop()) {
    const key = keyOf(one);
    if (seen.has(key)) continue;
    seen.add(key);
    if (until === null || one.done.has(until)) {
      found.push(one);
      if (until !== null) continue;
    }
    for (const index of under) {
      if (one.done.has(index)) continue;
      const { op, result } = events[index];
      const next = model.apply(one.state, op);
      if (result === null || next.result === result)
        open.push({ state: next.state, done: new Set(one.done).add(index) });
    }
  }
  return found;
}

function without(set: ReadonlySet<number>, index: number): ReadonlySet<number> {
  return new Set([...set].filter((each) => each !== index));
}

function distinct<State>(all: readonly Possible<State>[]): Possible<State>[] {
  return [...new Map(all.map((one) => [keyOf(one), one])).values()];
}

function keyOf<State>({ state, done }: Possible<State>): string {
  return `${JSON.stringify(state)} ${[...done].sort((a, b) => a - b)}`;
}
