import type { MessagePort } from 'node:worker_threads';
import type { Cell } from './cell.ts';
import { systemClock } from './clock.ts';
import { coreOf } from './core.ts';
import { report } from './diagnostics.ts';
import { askEnvelope, type Reply, tellEnvelope } from './envelope.ts';
import { isRequest, type Request, type Response } from './frames.ts';
import { cellOf } from './local-ref.ts';
import type { AnyRef } from './protocol.ts';
import { connectPort, type LinkOptions } from './remote-ref.ts';
import type { ActorSystem } from './system.ts';

/**
 * Lets the other side of `port` talk to actors of this thread, by the names given here; `connect` is the other side.
 * Closes with the system. Listen to everything that shares the port in one synchronous block, since the port starts
 * with its first listener.
 *
 * @throws {TypeError} for a ref whose actor doesn't live in this thread.
 */
export function serve(
  system: ActorSystem,
  port: MessagePort,
  refs: Record<string, AnyRef>,
): { close(): void } {
  const core = coreOf(system);
  const cells = new Map<string, Cell>();
  for (const [name, ref] of Object.entries(refs)) {
    const cell = cellOf(ref);
    if (!cell) throw new TypeError(`${name} can't be served: ${ref.path} lives in another thread`);
    cells.set(name, cell);
  }
  const paths = Object.values(refs).map((ref) => ref.path);
  const post = (response: Response) => port.postMessage(response);
  let owed = 0;
  let open = true;

  /** Gives credits back in batches: with the next answer, or once the turns that run now are over. */
  function taken(): void {
    if (owed++ > 0) return;
    queueMicrotask(() => {
      if (owed > 0) post({ link: 'credits', credits: collect() });
    });
  }

  function collect(): number {
    const credits = owed;
    owed = 0;
    return credits;
  }

  function replyTo(id: number, path: string): Reply {
    return {
      resolve(value) {
        const credits = collect();
        try {
          post({ link: 'answer', id, value, credits });
        } catch (error) {
          // The answer holds something that can't leave the thread.
          report(core.counters, 'failed', { path, message: undefined, error });
          post({ link: 'refusal', id, code: 'actor_failed', credits });
        }
      },
      reject: ({ code }) => post({ link: 'refusal', id, code, credits: collect() }),
    };
  }

  function deliver(request: Request): boolean {
    const { to, message, body } = request;
    const cell = cells.get(to);
    if (!cell) return false;
    if (request.link === 'tell') return cell.deliver({ ...tellEnvelope(cell.path, message, body), taken });
    const transit = Math.max(0, systemClock.monotonic() - request.sent);
    const deadline = core.clock.monotonic() + request.ms - transit;
    return cell.deliver({
      ...askEnvelope(cell.path, message, body, deadline, replyTo(request.id, cell.path)),
      taken,
    });
  }

  function onMessage(data: unknown): void {
    if (!isRequest(data) || deliver(data)) return;
    taken();
    if (!cells.has(data.to)) post({ link: 'dead', to: data.to, reason: 'stopped' });
    if (data.link === 'ask') post({ link: 'refusal', id: data.id, code: 'actor_dead', credits: collect() });
  }

  const unwatch = [...cells].map(([to, cell]) =>
    cell.watchers.add((_path, reason) => post({ link: 'dead', to, reason })),
  );
  port.on('message', onMessage);
  port.on('close', closed);
  core.onStopped.add(close);
  report(core.counters, 'linked', { paths });

  function closed(): void {
    if (!open) return;
    open = false;
    port.off('message', onMessage);
    core.onStopped.delete(close);
    for (const stop of unwatch) stop();
    report(core.counters, 'unlinked', { paths });
  }

  function close(): void {
    closed();
    port.close();
  }

  return { close };
}

/**
 * Refs to the actors that the other side of `port` serves under `names`. They are like local ones, except that
 * a body must be cloneable (`tell` answers `dead` for one that isn't, `ask` rejects with `actor_failed`), that the
 * path is `//name`, and that the port's end is their death, with the reason `thread`. Order is kept per port.
 * Disposing of the result closes the port.
 */
export function connect<T extends Record<string, AnyRef>>(
  port: MessagePort,
  names: readonly (keyof T & string)[],
  options: LinkOptions = {},
): T & Disposable {
  return connectPort(port, names, options) as T & Disposable;
}
