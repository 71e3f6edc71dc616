import type { Clock } from './clock.ts';

/** Whether `work` settles before `deadline` (monotonic ms). Past it, work that settles by itself at once still counts. */
export async function within(clock: Clock, work: Promise<unknown>, deadline: number): Promise<boolean> {
  let cancel = () => {};
  const late = new Promise<boolean>((resolve) => {
    cancel = clock.setTimer(Math.max(0, deadline - clock.monotonic()), () => resolve(false));
  });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    cancel();
  }
}
