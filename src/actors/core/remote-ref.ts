import type { MessagePort } from 'node:worker_threads';
import { type Clock, systemClock } from './clock.ts';
import { createDeadlines, type Expiring } from './deadlines.ts';
import { publish } from './diagnostics.ts';
import { deadlineOf, type Reply } from './envelope.ts';
import { ActorError, type ActorErrorCode } from './errors.ts';
import { isResponse, type Request, type Response } from './frames.ts';
import { type Mortal, onDeath, Watchers } from './mortal.ts';
import type { AnyRef, AskOptions, DeathReason, TellResult } from './protocol.ts';

export interface LinkOptions {
  /** Most messages sent over the port that haven't left their mailbox yet, all refs together. Default 256. */
  credits?: number;
  /** Deadline of asks that bring none, ms. Default 5000. */
  askTimeoutMs?: number;
  clock?: Clock;
}

/** An ask that the other side has yet to answer. */
interface Pending extends Expiring, Reply {
  readonly id: number;
  readonly path: string;
  readonly message: string;
}

/** The sending half of a link; `connect` gives it its types. */
export function connectPort(
  port: MessagePort,
  names: readonly string[],
  { credits = 256, askTimeoutMs = 5_000, clock = systemClock }: LinkOptions,
): Record<string, AnyRef> & Disposable {
  const pending = new Map<number, Pending>();
  const deadlines = createDeadlines<Pending>(clock, (ask) => refuse(ask.id, 'ask_timeout'));
  const watchers = new Map(names.map((name) => [name, new Watchers()]));
  const paths = names.map(pathOf);
  let lastId = 0;
  let open = true;

  function settle(id: number): Pending | undefined {
    const ask = pending.get(id);
    if (!ask) return undefined; // answered after its deadline
    pending.delete(id);
    deadlines.remove(ask);
    return ask;
  }

  function refuse(id: number, code: ActorErrorCode): void {
    const ask = settle(id);
    if (!ask) return;
    if (code === 'ask_timeout') publish('expired', { path: ask.path, message: ask.message });
    ask.reject(new ActorError(code, ask.path));
  }

  /** `unsent`: the body can't be cloned. Credits come back from the other side, for expired asks too. */
  function send(request: Request): TellResult | 'unsent' {
    const dead = watchers.get(request.to)?.dead;
    const result = dead ? 'dead' : credits > 0 ? 'sent' : 'full';
    if (result !== 'sent') {
      publish('refused', { path: pathOf(request.to), message: request.message, result });
      return result;
    }
    try {
      port.postMessage(request);
    } catch {
      publish('refused', { path: pathOf(request.to), message: request.message, result: 'dead' });
      return 'unsent';
    }
    credits--;
    return 'sent';
  }

  function createRef(to: string): AnyRef & Mortal {
    const path = pathOf(to);
    return {
      path,
      tell(message: string, body: unknown): TellResult {
        const result = send({ link: 'tell', to, message, body });
        return result === 'unsent' ? 'dead' : result;
      },
      ask(message: string, body: unknown, options?: AskOptions) {
        return new Promise((resolve, reject) => {
          const id = ++lastId;
          const deadline = deadlineOf(clock, options, askTimeoutMs);
          const ask: Pending = { id, path, message, deadline, slot: -1, resolve, reject };
          pending.set(id, ask);
          const ms = deadline - clock.monotonic();
          if (ms <= 0) return refuse(id, 'ask_timeout');
          const sent = systemClock.monotonic();
          const result = send({ link: 'ask', id, to, message, body, ms, sent });
          if (result === 'sent') deadlines.add(ask);
          else refuse(id, refusals[result]);
        });
      },
      [onDeath]: (onDead) => (watchers.get(to) as Watchers).add(onDead),
    };
  }

  function onMessage(data: unknown): void {
    if (isResponse(data)) onResponse(data);
  }

  function onResponse(response: Response): void {
    if (response.link === 'dead') {
      died(response.to, response.reason);
      return;
    }
    credits += response.credits;
    if (response.link === 'answer') settle(response.id)?.resolve(response.value);
    else if (response.link === 'refusal') refuse(response.id, response.code);
  }

  function died(name: string, reason: DeathReason): void {
    watchers.get(name)?.died(pathOf(name), reason);
  }

  function closed(): void {
    if (!open) return;
    open = false;
    port.off('message', onMessage);
    for (const id of [...pending.keys()]) refuse(id, 'actor_dead');
    deadlines.close();
    for (const name of names) died(name, 'thread');
    publish('unlinked', { paths });
  }

  port.on('message', onMessage);
  port.on('close', closed);
  publish('linked', { paths });

  const refs = Object.fromEntries(names.map((name) => [name, createRef(name)]));
  return Object.assign(refs, {
    [Symbol.dispose]() {
      closed();
      port.close();
    },
  });
}

const refusals = { full: 'mailbox_full', dead: 'actor_dead', unsent: 'actor_failed' } as const;

/** Where the actor lives isn't known on this side, only under which name it is served. */
function pathOf(name: string): string {
  return `//${name}`;
}
