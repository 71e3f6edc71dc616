import type { Agent } from './model.ts';
import type { By } from './protocol.ts';

/** What a row keeps of who made it. */
export interface Maker {
  /** `operator:NAME`, `session:ID` or `agent:NAME`. */
  readonly actor: string;
  /** Of an agent: which of those that have had the name. Absent in rows of before. */
  readonly agent_id?: string;
}

/**
 * Whether what was made at `at` (ISO 8601) is this caller's own. An agent has an id that is never used again, since
 * another may come to have its name; one from before ids owns what is not older than it.
 */
export function isOwn(made: Maker & { readonly at: string }, by: Pick<By, 'actor' | 'agent'>): boolean {
  if (made.actor !== by.actor || made.agent_id !== by.agent?.id) return false;
  return by.agent === undefined || by.agent.id !== undefined || made.at >= by.agent.since;
}

/** Of an agent, for `By` and `Identity`. */
export function agentMark({ id, created_at }: Agent): NonNullable<By['agent']> {
  return { id, since: created_at };
}

/** What a row of this caller's keeps beside its actor's name. */
export function markOf({ agent }: Pick<By, 'agent'>): { readonly agent_id?: string } {
  return agent?.id === undefined ? {} : { agent_id: agent.id };
}

/** One text a maker, for what is counted. */
export function makerKey({ actor, agent_id }: Maker): string {
  return agent_id === undefined ? actor : `${actor}/${agent_id}`;
}
