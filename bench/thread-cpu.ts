import { readdirSync, readFileSync } from 'node:fs';

/** CPU of one thread so far, in seconds. */
export interface ThreadCpu {
  readonly name: string;
  readonly user: number;
  readonly system: number;
}

/** Of /proc on Linux, whatever the kernel's own rate. */
const ticksPerSecond = 100;

/** Each thread of a process by its id. */
export function threadCpu(pid: number): Map<number, ThreadCpu> {
  const found = new Map<number, ThreadCpu>();
  for (const id of readdirSync(`/proc/${pid}/task`)) {
    try {
      const text = readFileSync(`/proc/${pid}/task/${id}/stat`, 'utf8');
      // The name is in parentheses, and may hold anything.
      const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
      const program = text.slice(text.indexOf('(') + 1, text.lastIndexOf(')'));
      const name = Number(id) === pid ? 'main thread' : program;
      const seconds = (i: number) => Number(fields[i]) / ticksPerSecond;
      found.set(Number(id), { name, user: seconds(11), system: seconds(12) });
    } catch {
      // It has ended since.
    }
  }
  return found;
}

/** What each thread used between two readings, the most first. */
export function cpuBetween(before: Map<number, ThreadCpu>, after: Map<number, ThreadCpu>): ThreadCpu[] {
  const used = [...after].map(([id, { name, user, system }]) => {
    const start = before.get(id);
    return { name, user: user - (start?.user ?? 0), system: system - (start?.system ?? 0) };
  });
  return used.sort((a, b) => b.user + b.system - (a.user + a.system));
}
