import { readFileSync } from 'node:fs';

export interface Case {
  readonly id: string;
  // biome-ignore lint/suspicious/noExplicitAny: each group of cases has a shape of its own
  readonly input: any;
  // biome-ignore lint/suspicious/noExplicitAny: as above
  readonly expect: any;
  readonly note?: string;
}

/** The cases of one group of the protocol vectors; an unknown or empty group is an error, not an empty test. */
export function vectors(group: string): readonly Case[] {
  const file = new URL('../vectors/protocol.json', import.meta.url);
  const cases = JSON.parse(readFileSync(file, 'utf8')).groups[group]?.cases;
  if (!cases?.length) throw new Error(`there are no vectors of group ${group}`);
  return cases;
}
