import type { Agent, Invite, Operator, OperatorSession, Proposal, Service, Session, Vault } from './model.ts';
import type { Sealed } from './seal.ts';

/** A service and its place in the vault's list; places grow but need not be consecutive. */
export interface ServiceRow {
  readonly place: number;
  readonly service: Service;
}

export interface CredentialRow extends Sealed {
  /** Who gave the value: `operator:NAME`, `session:ID` or `agent:NAME`. */
  readonly added_by: string;
  /** Which agent of that name. */
  readonly agent_id?: string;
  /** Where an operator allowed a value that an agent brought: that agent or session. */
  readonly brought_by?: string;
  readonly created_at: string;
  readonly updated_at: string;
}

/** A record that the audit log may not have yet, as a line of it; in `last` the last number that was given. */
export interface OutboxRow {
  readonly line: string;
}

/**
 * What lies in each table. Keys: `vaults` vault id · `services` `VAULT_ID/host` · `credentials` `VAULT_ID/KEY` ·
 * `proposals` id · `slot_values` `PROPOSAL_ID/KEY` · `sessions`, `invites`, `operator_sessions` token hash ·
 * `agents`, `operators` name · `outbox` number of a change, or `last` · `meta` `schema`, `revision`, `counters`, `kek`, `key/VAULT_ID`, `blob/NAME`.
 */
interface Rows {
  meta: object;
  vaults: Vault;
  services: ServiceRow;
  credentials: CredentialRow;
  proposals: Proposal;
  slot_values: Sealed;
  sessions: Session;
  agents: Agent;
  invites: Invite;
  operators: Operator;
  operator_sessions: OperatorSession;
  outbox: OutboxRow;
}

export type Table = keyof Rows;

type Entry<T extends Table> = { readonly table: T; readonly key: string; readonly value: Rows[T] | null };

/** A row to be: null removes it. */
export type Change = { [T in Table]: Entry<T> }[Table];

/**
 * A row that is. Its value is null where the bytes are damaged, or are those of another row; that is for the reader to
 * survive. Where the key itself is damaged, the table may be none of these.
 */
export type Row = Change;

/**
 * Where the vault is kept: rows of JSON, changed by one writer in atomic commits. It knows nothing of what they mean,
 * so that another kind of store needs no more than these four functions.
 */
export interface Store {
  /** Every row, or those of one table, in no order that means anything. */
  load(table?: Table): Iterable<Row> | AsyncIterable<Row>;
  /**
   * Does all of the changes or none of them, in their order. Resolves once they would survive a power cut.
   *
   * @throws {StoreError} (as a rejection) `store_failed`: nothing was changed, and the next commit may work;
   * `store_lost`: nobody can say, and the rows have to be loaded anew.
   */
  commit(changes: readonly Change[]): Promise<void>;
  /** Writes a consistent copy into the directory `path`, which must exist and hold no store, while commits go on. */
  backup(path: string): Promise<void>;
  close(): Promise<void>;
}

/**
 * Why the data can't be used. The message says what to do and names files, never what is in them.
 *
 * `store_unreadable` not a store, or a damaged one · `store_newer` written by a later version · `store_failed` a commit
 * that didn't happen · `store_lost` closed, or gone after an I/O error · `directory_in_use` another server has it ·
 * `directory_refused` wrong kind, owner or mode of a directory or file · `key_missing`, `key_wrong` the master key.
 */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly code: StoreErrorCode;

  constructor(code: StoreErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export type StoreErrorCode =
  | 'store_unreadable'
  | 'store_newer'
  | 'store_failed'
  | 'store_lost'
  | 'directory_in_use'
  | 'directory_refused'
  | 'key_missing'
  | 'key_wrong';
