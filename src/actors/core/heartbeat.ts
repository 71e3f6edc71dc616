import type { MessagePort } from 'node:worker_threads';

/** What a thread's supervisor and the thread say to each other. */
export type Beat = 'up' | 'ping' | 'pong' | 'drain' | 'drained' | 'stop';

export interface HeartbeatHooks {
  /** Finish what is in flight and take nothing new; the stop comes next. */
  onDrain?(): void | Promise<void>;
  /** Let go of everything and let the task end. Not called when the thread is to be killed. */
  onStop?(): void | Promise<void>;
}

export function beatOf(data: unknown): Beat | undefined {
  return typeof data === 'object' && data !== null && 'beat' in data ? (data.beat as Beat) : undefined;
}

export function postBeat(port: MessagePort, beat: Beat): void {
  port.postMessage({ beat });
}

/**
 * The thread's side of `threadActor`: call it once the thread is ready to work. From then on it answers the
 * supervisor's beats, as long as the event loop turns, and calls the hooks. A throw in a hook ends the thread.
 * The function returned stops answering, after which the supervisor takes the thread for dead.
 */
export function heartbeat(port: MessagePort, hooks: HeartbeatHooks = {}): () => void {
  async function onMessage(data: unknown): Promise<void> {
    switch (beatOf(data)) {
      case 'ping':
        postBeat(port, 'pong');
        break;
      case 'drain':
        await hooks.onDrain?.();
        postBeat(port, 'drained');
        break;
      case 'stop':
        await hooks.onStop?.();
        break;
    }
  }
  port.on('message', onMessage);
  postBeat(port, 'up');
  return () => {
    port.off('message', onMessage);
  };
}
