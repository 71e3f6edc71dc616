import type { Proposal } from './model.ts';
import { makerKey } from './ownership.ts';
import { type Problem, problem } from './problem.ts';
import type { Change } from './store.ts';

/** What one may keep; 0: any amount. Of values the bytes count, of a waiting proposal its text and its values. */
export interface Quota {
  readonly keys: number;
  readonly bytes: number;
  /** Proposals that wait for a human. */
  readonly proposals: number;
}

export interface Quotas {
  /** Of a session or an instance-level agent, over all its vaults. Operators are bound by their vaults' only. */
  readonly agent: Quota;
  readonly vault: Quota;
}

interface Amount {
  keys: number;
  bytes: number;
}

/** One row that counts: whose it is, where it lies, and how much. */
interface Item extends Readonly<Amount> {
  readonly owner: string;
  readonly vault: string;
}

/** Where the proposals are that values belong to. */
type Proposals = Pick<ReadonlyMap<number, Proposal>, 'get'>;

/** How much each agent and each vault keeps. Follows the rows: `take` is told of every change that is applied. */
export class Usage {
  readonly #items = new Map<string, Item>();
  readonly #owners = new Map<string, Amount>();
  readonly #vaults = new Map<string, Amount>();

  take(change: Change, proposals: Proposals): void {
    const id = `${change.table} ${change.key}`;
    const before = this.#items.get(id);
    const after = itemOf(change, proposals);
    if (before) this.#count(before, -1);
    if (after) {
      this.#count(after, 1);
      this.#items.set(id, after);
    } else if (before) this.#items.delete(id);
  }

  #count({ owner, vault, keys, bytes }: Item, sign: 1 | -1): void {
    grow(this.#owners, owner, sign * keys, sign * bytes);
    grow(this.#vaults, vault, sign * keys, sign * bytes);
  }

  /** `quota_exceeded` where these changes add to what is more than enough with them; null: they may be made. */
  problem(changes: readonly Change[], proposals: Proposals, quotas: Quotas): Problem | null {
    const made = new Map<number, Proposal>();
    for (const { table, value } of changes) if (table === 'proposals' && value) made.set(value.id, value);
    const all = { get: (id: number) => made.get(id) ?? proposals.get(id) };
    const owners = new Map<string, Amount>();
    const vaults = new Map<string, Amount>();
    for (const change of changes) {
      const before = this.#items.get(`${change.table} ${change.key}`);
      const after = itemOf(change, all);
      for (const [item, sign] of [[before, -1] as const, [after, 1] as const]) {
        if (!item) continue;
        grow(owners, item.owner, sign * item.keys, sign * item.bytes);
        grow(vaults, item.vault, sign * item.keys, sign * item.bytes);
      }
    }
    for (const [owner, more] of owners) {
      const over = isAgent(owner) ? exceeded(this.#owners.get(owner), more, quotas.agent) : null;
      if (over) return refusal('agent', over, quotas.agent[over]);
    }
    for (const [vault, more] of vaults) {
      const over = exceeded(this.#vaults.get(vault), more, quotas.vault);
      if (over) return refusal('vault', over, quotas.vault[over]);
    }
    return null;
  }
}

function grow(amounts: Map<string, Amount>, whose: string, keys: number, bytes: number): void {
  const amount = amounts.get(whose) ?? { keys: 0, bytes: 0 };
  amount.keys += keys;
  amount.bytes += bytes;
  if (amount.keys === 0 && amount.bytes === 0) amounts.delete(whose);
  else amounts.set(whose, amount);
}

/** What takes less than before is never refused, so that one who is over a quota can come down. */
function exceeded(present: Amount | undefined, more: Amount, quota: Quota): 'keys' | 'bytes' | null {
  for (const what of ['keys', 'bytes'] as const) {
    if (more[what] > 0 && quota[what] > 0 && (present?.[what] ?? 0) + more[what] > quota[what]) return what;
  }
  return null;
}

function refusal(who: 'agent' | 'vault', what: 'keys' | 'bytes', limit: number): Problem {
  const whose = who === 'agent' ? 'What this agent keeps' : 'What this vault keeps';
  const unit = what === 'keys' ? 'credential keys' : 'octets of values and waiting proposals';
  return problem(
    'quota_exceeded',
    `${whose} would be more than ${limit} ${unit}. Nothing was stored. Use keys that are there, withdraw proposals, or have the operator delete some or raise --quota-${who}-${what}.`,
    { quota: `${who}_${what}`, limit },
  );
}

/** Whether rows of this actor count against an agent's quota. */
function isAgent(owner: string): boolean {
  return owner.startsWith('session:') || owner.startsWith('agent:');
}

function itemOf(change: Change, proposals: Proposals): Item | null {
  if (change.value === null) return null;
  if (change.table === 'credentials') {
    const vault = change.key.slice(0, change.key.indexOf('/'));
    const { added_by: actor, agent_id } = change.value;
    return { owner: makerKey({ actor, agent_id }), vault, keys: 1, bytes: octets(change.value.ct) };
  }
  if (change.table === 'slot_values') {
    const proposal = proposals.get(Number.parseInt(change.key, 10));
    if (!proposal) return null;
    const { created_by: actor, agent_id, vault_id: vault } = proposal;
    return { owner: makerKey({ actor, agent_id }), vault, keys: 1, bytes: octets(change.value.ct) };
  }
  if (change.table === 'proposals' && change.value.status === 'pending') {
    const { created_by: actor, agent_id, vault_id: vault } = change.value;
    return {
      owner: makerKey({ actor, agent_id }),
      vault,
      keys: 0,
      bytes: JSON.stringify(change.value).length,
    };
  }
  return null;
}

/** How many octets a base64 text stands for; of a sealed value as many as the value has. */
function octets(base64: string): number {
  const padding = base64.endsWith('==') ? 2 : base64.endsWith('=') ? 1 : 0;
  return (base64.length / 4) * 3 - padding;
}
