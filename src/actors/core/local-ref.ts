import type { Cell } from './cell.ts';
import { askEnvelope, deadlineOf, refuse, tellEnvelope } from './envelope.ts';
import { type Mortal, onDeath } from './mortal.ts';
import type { AnyRef, AskOptions } from './protocol.ts';

const cells = new WeakMap<object, Cell>();

/** The actor behind a local ref, `undefined` for any other. */
export function cellOf(ref: object): Cell | undefined {
  return cells.get(ref);
}

/** The address of an actor of this thread. */
export function createLocalRef(cell: Cell): AnyRef {
  const { core, path } = cell;
  const askTimeoutMs = cell.spec.askTimeoutMs ?? 5_000;
  const ref: AnyRef & Mortal = {
    path,
    tell: (message: string, body: unknown) => cell.offer(tellEnvelope(path, message, body)),
    ask(message: string, body: unknown, options?: AskOptions) {
      return new Promise((resolve, reject) => {
        const deadline = deadlineOf(core.clock, options, askTimeoutMs);
        const envelope = askEnvelope(path, message, body, deadline, {
          resolve,
          reject,
        });
        if (deadline <= core.clock.monotonic()) return refuse(core, envelope, 'ask_timeout');
        const result = cell.offer(envelope);
        if (result !== 'sent') refuse(core, envelope, result === 'full' ? 'mailbox_full' : 'actor_dead');
      });
    },
    [onDeath]: (onDead) => cell.watchers.add(onDead),
  };
  cells.set(ref, cell);
  return ref;
}
