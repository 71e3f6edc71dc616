import { type Channel, channel } from 'node:diagnostics_channel';
import type { DeathReason } from './protocol.ts';

/** What each channel publishes. Names and paths only, never a message body. Times are milliseconds. */
export interface ActorEvents {
  /** A life began; `restarts` counts those of this actor so far. */
  started: { path: string; restarts: number };
  stopped: { path: string; reason: DeathReason };
  /** A throw in a handler (`message` is its name), in `start`, `onStop`, a timer or a watch. */
  failed: { path: string; message: string | undefined; error: unknown };
  restarting: { path: string; delayMs: number };
  /** The failure passed to the parent; at the root it ends the process. */
  escalated: { path: string; error: unknown };
  /** A tell or ask that was not taken. */
  refused: { path: string; message: string; result: 'full' | 'dead' };
  /** An ask whose deadline passed, handled or not. */
  expired: { path: string; message: string };
  /** A message that waited when its actor died. */
  dropped: { path: string; message: string };
  /** A stop that took longer than its deadline. */
  overdue: { path: string };
  /** A beat of a thread that didn't come, `missed` in a row. */
  silent: { path: string; missed: number };
  linked: { paths: string[] };
  unlinked: { paths: string[] };
}

type Channels = {
  readonly [K in keyof ActorEvents]: Channel;
};

/** Every channel of the runtime. */
export const channels: Channels = {
  started: channel('actors:started'),
  stopped: channel('actors:stopped'),
  failed: channel('actors:failed'),
  restarting: channel('actors:restarting'),
  escalated: channel('actors:escalated'),
  refused: channel('actors:refused'),
  expired: channel('actors:expired'),
  dropped: channel('actors:dropped'),
  overdue: channel('actors:overdue'),
  silent: channel('actors:silent'),
  linked: channel('actors:linked'),
  unlinked: channel('actors:unlinked'),
};

/** One system's counts since it was made: messages taken, turns run, and how often each event came. */
export type Counters = Record<keyof ActorEvents | 'told' | 'asked' | 'turns', number>;

export function createCounters(): Counters {
  return {
    told: 0,
    asked: 0,
    turns: 0,
    started: 0,
    stopped: 0,
    failed: 0,
    restarting: 0,
    escalated: 0,
    refused: 0,
    expired: 0,
    dropped: 0,
    overdue: 0,
    silent: 0,
    linked: 0,
    unlinked: 0,
  };
}

/** Counts an event and publishes it if anyone listens. */
export function report<K extends keyof ActorEvents>(
  counters: Counters,
  name: K,
  event: ActorEvents[K],
): void {
  counters[name]++;
  publish(name, event);
}

/** The same where there is no system to count for: on the far side of a link. */
export function publish<K extends keyof ActorEvents>(name: K, event: ActorEvents[K]): void {
  const target = channels[name];
  if (target.hasSubscribers) target.publish(event);
}
