import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type Broker, until } from '../support/broker.ts';

export type Line = Readonly<Record<string, unknown>>;

/** Rejects where it isn't settled in time: what stalls fails, and says what it was. */
export async function within<T>(what: string, promise: Promise<T>, seconds = 60): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end in ${seconds} s: ${what}`)), seconds * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** The whole log, by the command that reads all of it. */
export async function exported(broker: Broker): Promise<Line[]> {
  const file = join(broker.directory, `export-${process.hrtime.bigint()}`);
  const { code, stderr } = await broker.command(['audit', 'export', '-o', file]);
  if (code !== 0) throw new Error(stderr);
  const lines: Line[] = [];
  for await (const line of createInterface({ input: createReadStream(file) })) lines.push(JSON.parse(line));
  return lines;
}

/** How many there are of each value that `of` finds. */
export function countBy(lines: readonly Line[], of: (line: Line) => unknown): Map<unknown, number> {
  const count = new Map<unknown, number>();
  for (const line of lines) count.set(of(line), (count.get(of(line)) ?? 0) + 1);
  return count;
}

/** Has a lane end by a sabotage in `folder`, after `before` of them have, and waits until all lanes serve again. */
export async function endLane(broker: Broker, before: number, sabotage: () => void): Promise<void> {
  const ended = () => broker.printed().stderr.split('a lane ended').length - 1;
  sabotage();
  await until(() => ended() > before, `lane ${before} to end`);
  await until(async () => (await fetch(`${broker.address}/ready`)).status === 200, 'all lanes to serve');
}
