import type { Delta, StateMessage } from './state.ts';

type SessionDelta = Extract<Delta, { type: 'session' }>;

/** How many values of the packed list stand for one session, its vaults aside. */
const fixed = 6;

/**
 * A full state as a message. Its sessions, of which there may be a hundred thousand, go as one text: cloning that many
 * objects from thread to thread takes several times as long, on either side, and a start waits for it.
 */
export function packFull(epoch: number, full: readonly Delta[]): StateMessage {
  const deltas: Delta[] = [];
  const flat: (string | number | null)[] = [];
  for (const delta of full) {
    if (delta.type !== 'session') deltas.push(delta);
    else {
      flat.push(delta.hash, delta.kind, delta.id, delta.label, delta.expires_at_ms, delta.vaults.length);
      for (const { id, slot } of delta.vaults) flat.push(id, slot);
    }
  }
  return { epoch, full: true, deltas, sessions: JSON.stringify(flat) };
}

/** All deltas of a message, those of packed sessions last, as they were given. */
export function* unpack({ deltas, sessions }: StateMessage): Generator<Delta> {
  yield* deltas;
  if (sessions === undefined) return;
  const flat = JSON.parse(sessions);
  for (let at = 0; at < flat.length; ) {
    const [hash, kind, id, label, expires_at_ms, count] = flat.slice(at, at + fixed);
    at += fixed;
    const vaults: { id: string; slot: number }[] = [];
    for (let i = 0; i < count; i++, at += 2) vaults.push({ id: flat[at], slot: flat[at + 1] });
    yield { type: 'session', hash, kind, id, label, vaults, expires_at_ms } satisfies SessionDelta;
  }
}
