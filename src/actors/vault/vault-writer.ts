import { auditLine } from '../audit.ts';
import { refused } from './fields.ts';
import type { AuditOutbox, Staged } from './outbox.ts';
import { type Problem, problem, type Result, refuse } from './problem.ts';
import type { By, VaultEvent } from './protocol.ts';
import type { Publisher } from './publisher.ts';
import type { Quotas } from './quotas.ts';
import type { Delta } from './state.ts';
import { type Change, type Store, StoreError } from './store.ts';
import { applyChanges } from './vault-apply.ts';
import type { VaultEntry, VaultState } from './vault-state.ts';
import { inverse } from './vault-undo.ts';

/** What the audit says of a change, beside time and status. Names of keys at most, never values. */
export interface Deed {
  readonly action: string;
  readonly by: By;
  readonly vault?: string;
  /** What it was done to: a host, an id, a name. */
  readonly target?: string | number;
  readonly keys?: readonly string[];
  readonly [detail: string]: unknown;
}

export interface Writer {
  readonly state: VaultState;
  readonly quotas: Quotas;
  /** Wall clock, ms. */
  now(): number;
  /** ISO 8601. */
  timestamp(): string;
  /**
   * Makes a change: store, then memory, then every lane, then the audit, then the events. null: done.
   * `store_unavailable`: the store refused, and all of these are as they were, or, with `applied: "unknown"`, nobody
   * can say. `quota_exceeded`, `audit_unavailable`: it wasn't tried.
   */
  commit(
    changes: readonly Change[],
    deeds: Deed | readonly Deed[] | null,
    events?: readonly VaultEvent[],
  ): Promise<Problem | null>;
  /**
   * Runs a handler, which must not wait before it commits, in a turn that it shares: its change is applied to the memory
   * at once, for those after it, and stored with theirs. Whatever it found fails with that commit, since it may rest on
   * what was taken back.
   */
  ahead<T>(run: () => Promise<Result<T>>): Promise<Result<T>>;
}

export interface WriterOptions {
  readonly state: VaultState;
  readonly store: Store;
  readonly publisher: Publisher;
  readonly outbox: AuditOutbox;
  readonly quotas: Quotas;
  readonly now: () => number;
  readonly onEvent: (event: VaultEvent) => void;
  /** Told of commits that failed. */
  readonly onError: (error: Error) => void;
  /** Ends this life of the actor: the store is gone, and the next life asks it what it holds. */
  readonly onLost: (error: Error) => void;
  /** Called after each try with what was committed, nothing if it failed, so that timers can be set. */
  readonly onSettled: (changes: readonly Change[]) => void;
}

/** A change on its way into the store. */
interface Made {
  readonly changes: readonly Change[];
  readonly list: readonly Deed[];
  readonly events: readonly VaultEvent[];
  readonly records: Staged;
  /** Where it was applied before its commit: what takes it back, and what the lanes are told. */
  readonly ahead?: { readonly undo: readonly Change[]; readonly deltas: readonly Delta[] };
}

/** Changes that share a commit, as long as no handler has waited. */
interface Group {
  readonly made: Made[];
  readonly outcome: Promise<Problem | null>;
}

export function createWriter(options: WriterOptions): Writer {
  const { state, store, publisher, outbox, quotas, now, onEvent, onError, onLost, onSettled } = options;
  /** The handler that runs right now may share its commit. */
  let isAhead = false;
  let group: Group | null = null;
  const timestamp = () => new Date(now()).toISOString();

  /** `change`: its number, where something was changed. */
  function lineOf({ action, by, vault, target, ...details }: Deed, status: number, change?: number): string {
    const { actor, request_id } = by;
    const time = timestamp();
    return auditLine({
      time,
      kind: 'control',
      change,
      request_id,
      actor,
      action,
      vault,
      target,
      ...details,
      status,
    });
  }

  return {
    state,
    quotas,
    now,
    timestamp,
    async commit(changes, deeds, events = []) {
      const list = deeds === null ? [] : 'action' in deeds ? [deeds] : deeds;
      if (outbox.isFull()) return problem('audit_unavailable', auditFull);
      const over = state.usage.problem(changes, state.proposals, quotas);
      if (over) return over;
      // The records are part of the commit: a change that is there is in the audit, however the process ends.
      const records = outbox.stage(list.length, (i, change) => lineOf(list[i], 200, change));
      if (!isAhead) return await settle([{ changes, list, events, records }]);
      const undo = inverse(state, changes);
      group ??= open();
      group.made.push({
        changes,
        list,
        events,
        records,
        ahead: { undo, deltas: applyChanges(state, changes) },
      });
      return await group.outcome;
    },
    async ahead(run) {
      isAhead = true;
      const answer = run();
      isAhead = false;
      const [found, failed] = await Promise.all([answer, group?.outcome]);
      return failed ? refused(failed) : found;
    },
  };

  function open(): Group {
    const made: Made[] = [];
    const close = () => {
      group = null;
      return settle(made);
    };
    return { made, outcome: Promise.resolve().then(close) };
  }

  /** One commit of all of them, and what follows from it. */
  async function settle(made: readonly Made[]): Promise<Problem | null> {
    try {
      await store.commit(made.flatMap(({ changes, records }) => [...changes, ...records.changes]));
    } catch (error) {
      for (const { ahead, records } of made.toReversed()) {
        if (ahead) applyChanges(state, ahead.undo);
        records.failed();
      }
      if (!(error instanceof StoreError)) throw error;
      onError(error);
      for (const { list } of made) for (const deed of list) outbox.add(lineOf(deed, 503));
      onSettled([]);
      if (error.code !== 'store_lost')
        return problem('store_unavailable', storeFailed, { applied: false }, 5);
      onLost(error);
      return problem('store_unavailable', storeLost, { applied: 'unknown' }, 5);
    }
    publisher.publish(made.flatMap(({ changes, ahead }) => ahead?.deltas ?? applyChanges(state, changes)));
    for (const { records } of made) records.done();
    for (const { events } of made) for (const event of events) onEvent(event);
    onSettled(made.flatMap(({ changes }) => changes));
    return null;
  }
}

const auditFull =
  'The audit log cannot be written, so nothing is changed. The operator has to make room on its disk.';
const storeLost =
  'The store is gone, so nobody can say whether this was done. Look before you try again; the operator has to look at its disk.';
const storeFailed =
  "The change could not be stored, so nothing was changed. Try again; if it stays so, the operator has to look at the broker's log and at its disk.";

/** The vault of this name, or `not_found`. */
export function findVault(state: VaultState, name: string): Result<VaultEntry> {
  const entry = state.vaults.get(state.vaultIds.get(name) ?? '');
  if (entry) return { ok: true, value: entry };
  return refuse('not_found', `There is no vault ${quoted(name)}. See 'broker vault list'.`);
}

/** A name as it was given, cut where it is no name at all. */
function quoted(name: string): string {
  return `'${name.length > 64 ? `${name.slice(0, 64)}…` : name}'`;
}
