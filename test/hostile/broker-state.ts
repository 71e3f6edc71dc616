import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import type { Broker } from '../support/broker.ts';

/** Descriptors of its process. */
export const openFiles = ({ process: { pid } }: Broker): number => readdirSync(`/proc/${pid}/fd`).length;
export const threads = ({ process: { pid } }: Broker): number => readdirSync(`/proc/${pid}/task`).length;
/** What its process has in memory, in MiB. */
export const residentMiB = ({ process: { pid } }: Broker): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

/** The whole audit, read as it streams. */
export async function auditOf(broker: Broker): Promise<Record<string, unknown>[]> {
  const owner = readFileSync(join(broker.directory, 'owner.token'), 'utf8').trim();
  const answer = await fetch(`${broker.address}/v1/audit?limit=1000000`, {
    headers: { authorization: `Bearer ${owner}` },
  });
  const records: Record<string, unknown>[] = [];
  const input = Readable.fromWeb(answer.body as Parameters<typeof Readable.fromWeb>[0]);
  for await (const line of createInterface({ input })) if (line !== '') records.push(JSON.parse(line));
  return records;
}

/** A value of its metrics that has no labels. */
export async function metric(broker: Broker, name: string): Promise<number> {
  const owner = readFileSync(join(broker.directory, 'owner.token'), 'utf8').trim();
  const answer = await fetch(`${broker.address}/metrics`, { headers: { authorization: `Bearer ${owner}` } });
  return Number(new RegExp(`^${name} (\\S+)`, 'm').exec(await answer.text())?.[1]);
}
