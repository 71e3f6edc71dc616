import type { MessagePort } from 'node:worker_threads';
import type { AuditAnchor } from '../audit-chain.ts';
import type { KekRow } from './keyfile.ts';
import type {
  CredentialSlot,
  Places,
  ProposalStatus,
  Service,
  ServiceChange,
  ServiceInput,
  VaultSettings,
} from './model.ts';
import type { Result } from './problem.ts';
import type { Review } from './review-rules.ts';
import type { Secret } from './secret.ts';
import type { Delta } from './state.ts';
import type { ProofQuestion } from './token-proof.ts';

/** Who a token belongs to. */
export type Identity =
  | {
      readonly kind: 'session';
      readonly id: string;
      readonly vault: string;
      readonly label: string | null;
      readonly expires_at_ms: number;
    }
  | {
      readonly kind: 'agent';
      readonly name: string;
      readonly agent: NonNullable<By['agent']>;
      readonly vaults: readonly string[];
    }
  | {
      readonly kind: 'operator';
      readonly name: string;
      readonly role: 'owner' | 'admin';
      /** Names of the vaults that an `admin` administers; an `owner` administers all. */
      readonly vaults: readonly string[];
      readonly via: 'token' | 'cookie' | 'file';
      /** Hash of the token or cookie: what signing out revokes. */
      readonly session: string;
      /** Of a cookie: see `OperatorSession`. */
      readonly originKey?: string;
    };

/** Who makes a change, for the audit: `operator:NAME`, `session:ID`, `agent:NAME` or `system`. */
export interface By {
  readonly actor: string;
  /** Label of the session, or the agent's name: what a human recognises. */
  readonly label: string | null;
  readonly request_id: string;
  /** Of an agent: which of those that have had its name (none before there were ids), and since when it is there. */
  readonly agent?: { readonly id: string | undefined; readonly since: string };
}

export interface VaultView extends VaultSettings {
  readonly name: string;
  readonly cleared: boolean;
  readonly created_at: string;
  readonly counters: {
    readonly services: number;
    readonly credentials: number;
    readonly pending_proposals: number;
  };
}

/** A proposal as the API gives it back. Never a slot's value. */
export interface ProposalView {
  readonly id: number;
  readonly status: ProposalStatus;
  readonly vault: string;
  readonly services: readonly ServiceChange[];
  readonly credentials: readonly CredentialSlot[];
  readonly message: string;
  readonly user_message: string;
  readonly review_note: string | null;
  readonly reviewed_by: string | null;
  readonly created_at: string;
  readonly reviewed_at: string | null;
  readonly expires_at: string;
  readonly requested_by: Requester;
  /** For operators, while it is pending. */
  readonly review?: Review;
}

/** Who asks for a proposal. */
export interface Requester {
  readonly kind: 'session' | 'agent';
  /** Of the session; the agent's name. */
  readonly id: string;
  /** What a human named the session by; the agent's name. */
  readonly label: string | null;
}

/** What the approval page shows beside the proposal itself. */
export interface ProposalReview extends ProposalView {
  /** For each service change, the service that stands at that host now, or null. Same order as `services`. */
  readonly before: readonly (Service | null)[];
  /** Slots that still need a value from the human. */
  readonly needs_value: readonly string[];
}

export interface SessionView {
  readonly id: string;
  readonly vault: string;
  readonly label: string | null;
  readonly created_at: string;
  readonly created_by: string;
  readonly expires_at: string;
}

export interface AgentView {
  readonly name: string;
  readonly vaults: readonly string[];
  readonly created_at: string;
  /** ISO 8601, or null: never. */
  readonly expires_at: string | null;
}

export interface OperatorView {
  readonly name: string;
  readonly role: 'owner' | 'admin';
  /** Of an `admin`; an `owner` administers all. */
  readonly vaults: readonly string[];
}

export interface Discovery {
  readonly vault: string;
  readonly services: readonly {
    readonly host: string;
    readonly description: string;
    readonly enabled: boolean;
    readonly auth_type: string;
    readonly substitutions: readonly {
      readonly placeholder: string;
      readonly in: readonly string[];
      readonly at?: Places;
    }[];
  }[];
  readonly available_credentials: readonly string[];
}

export type VaultEvent = {
  readonly type:
    | 'proposal.created'
    | 'proposal.applied'
    | 'proposal.rejected'
    | 'proposal.expired'
    | 'proposal.cancelled'
    | 'credential.missing'
    | 'host.denied';
  readonly vault: string;
  /** Who may see it beside operators: the creator of the proposal. */
  readonly actor: string | null;
  /** Which agent of that name. */
  readonly agent_id?: string;
  readonly at: string;
  readonly data: Readonly<Record<string, unknown>>;
};

/** Proposal as an agent sends it, after the schema check; rules are checked by the actor against the vault. */
export interface ProposalBody {
  readonly services?: readonly ServiceChange[];
  readonly credentials?: readonly (CredentialSlot & { readonly value?: string })[];
  readonly message?: string;
  readonly user_message?: string;
}

type In<I, O> = { in: I; out: Result<O> };

/** A value of an agent's that an operator's takes the place of, and where services send its key. */
export interface Replaced {
  readonly key: string;
  /** `session:ID` or `agent:NAME`. */
  readonly given_by: string;
  readonly hosts: readonly string[];
}

/**
 * What the vault actor answers. It is the only writer: every change is one transaction in the store, and an
 * answer means that the change is durable and that the next request on every lane sees it.
 * Refusals are values (`Result`); vaults are named by name, and an unknown one is `not_found`.
 */
export interface VaultProtocol {
  /** Whose token has this SHA-256 (hex)? null: nobody's, or expired, or revoked. Slides an operator's expiry. */
  identify: { in: { hash: string }; out: Identity | null };

  /** Proves that this broker knows a token (`token-proof.ts`); null: it knows none of that name. */
  'token.prove': { in: ProofQuestion; out: string | null };

  'vault.list': { in: Record<string, never>; out: readonly VaultView[] };
  'vault.get': In<{ vault: string }, VaultView>;
  'vault.create': In<{ name: string; by: By }, VaultView>;
  'vault.update': In<{ vault: string; patch: Partial<VaultSettings>; by: By }, VaultView>;
  'vault.delete': In<{ vault: string; by: By }, null>;
  discover: In<{ vault: string }, Discovery>;
  /** What lanes know of a vault, values included: for this process alone. */
  'vault.state': In<{ vault: string }, readonly Delta[]>;

  'service.list': In<{ vault: string }, { services: readonly Service[] }>;
  /** `replace` leaves exactly these; `upsert` merges them by host. All or nothing. */
  'service.set': In<
    { vault: string; mode: 'replace' | 'upsert'; services: readonly ServiceInput[]; by: By },
    { services: readonly Service[] }
  >;
  'service.enable': In<{ vault: string; host: string; enabled: boolean; by: By }, Service>;
  'service.remove': In<{ vault: string; host: string; by: By }, null>;
  'service.clear': In<{ vault: string; by: By }, null>;

  'credential.list': In<{ vault: string }, { keys: readonly string[] }>;
  /**
   * An agent adds, and replaces what it added itself; an operator sets any. `ask`: `confirmation_required` where that puts
   * the operator's value in the place of one that an agent gave and services send somewhere.
   */
  'credential.set': In<
    { vault: string; values: ReadonlyMap<string, Secret>; byAgent: boolean; ask?: boolean; by: By },
    { set: readonly string[]; replaced?: readonly Replaced[] }
  >;
  'credential.delete': In<{ vault: string; key: string; force: boolean; by: By }, null>;

  'proposal.create': In<
    { vault: string; body: ProposalBody; by: By },
    { proposal: ProposalView; approvalToken: Secret }
  >;
  /**
   * With `vault`, only a proposal of that vault is found; with `own`, only one that it created. `reviewed`: with the
   * review of what is pending.
   */
  'proposal.get': In<
    { id: number; vault?: string; own?: Pick<By, 'actor' | 'agent'>; reviewed?: boolean },
    ProposalView
  >;
  'proposal.list': In<
    {
      vault?: string;
      vaults?: readonly string[];
      own?: Pick<By, 'actor' | 'agent'>;
      status?: ProposalStatus;
      reviewed?: boolean;
    },
    { proposals: readonly ProposalView[] }
  >;
  /** For the approval page: by the approval token's hash, or by an operator (hash null). */
  'proposal.review': In<{ id: number; approvalHash: string | null }, ProposalReview>;
  /** `confirm`: the fingerprint of the review that a human has seen, each of its increases confirmed; null: none was. */
  'proposal.approve': In<
    { id: number; credentials: ReadonlyMap<string, Secret>; confirm: string | null; by: By },
    { id: number; status: 'applied' }
  >;
  'proposal.reject': In<{ id: number; reason: string; by: By }, { id: number; status: 'rejected' }>;
  'proposal.cancel': In<{ id: number; vault: string; by: By }, ProposalView>;

  'session.create': In<
    { vault: string; ttlSeconds: number; label: string | null; by: By },
    SessionView & { token: Secret }
  >;
  'session.list': { in: { vaults?: readonly string[] }; out: readonly SessionView[] };
  /** With `vaults`, only a session of these is found. */
  'session.revoke': In<{ id: string; vaults?: readonly string[]; by: By }, null>;

  'invite.create': In<
    {
      name: string | null;
      vaults: readonly string[];
      ttlSeconds: number;
      tokenTtlSeconds: number | null;
      by: By;
    },
    { token: Secret; expires_at: string }
  >;
  /** Burns the invite and creates the agent in one transaction. */
  'invite.redeem': In<{ hash: string; name: string | null; by: By }, { agent: AgentView; token: Secret }>;
  'agent.list': { in: Record<string, never>; out: readonly AgentView[] };
  'agent.remove': In<{ name: string; by: By }, null>;
  'agent.rotate': In<
    { name: string; overlapSeconds: number; by: By },
    { token: Secret; expires_at: string | null }
  >;

  /** A password, for `operator passwd` and sign-in, is hashed by the caller's pool: here only its encoded hash. */
  'operator.list': { in: Record<string, never>; out: readonly OperatorView[] };
  /** `encoded`: the hash of a first password; without it the operator has none yet. */
  'operator.create': In<
    { name: string; role: 'owner' | 'admin'; vaults: readonly string[]; encoded?: string; by: By },
    OperatorView
  >;
  'operator.remove': In<{ name: string; by: By }, null>;
  /** Signs the operator out everywhere but in the session of the hash `keep`: the old password may be known to others. */
  'operator.password': In<{ name: string; encoded: string; keep?: string; by: By }, null>;
  /** The encoded hash to check a password against; null where there is none (check a dummy then). */
  'operator.passwordHash': { in: { name: string }; out: string | null };
  /**
   * A signed-in operator's new token: a CLI token, a browser cookie, or a one-time login link. `originKey`: of the browser
   * that gets the cookie; it ends the session that the key had.
   */
  'operator.signIn': In<
    { name: string; kind: 'token' | 'cookie' | 'login-link'; originKey?: string; by: By },
    { token: Secret; expires_at: string }
  >;
  /** Uses up a login link and gives a cookie in its place. */
  'operator.redeemLink': In<{ hash: string; originKey?: string; by: By }, { name: string; token: Secret }>;
  /** The session that a browser's key is bound to, whatever its cookie is now; null: none. Slides its expiry. */
  'operator.byKey': { in: { originKey: string }; out: Identity | null };
  /** Gives that session another cookie in place of its own, which somebody has overwritten. */
  'operator.resume': In<{ originKey: string; by: By }, { token: Secret }>;
  /** Six digits that prove the operator once, within two minutes. They replace the ones before. */
  'operator.code': In<{ name: string; by: By }, { code: Secret; expires_at: string }>;
  /** Uses up a code. `unauthorized`: it isn't the operator's; after some of these there is none any more. */
  'operator.useCode': In<{ name: string; code: Secret; by: By }, null>;
  'operator.signOut': In<{ hash: string; by: By }, null>;

  /** How the master key is had from now on; the key itself stays. One row, one commit. */
  'kek.set': In<{ row: KekRow; action: string; by: By }, null>;
  /** Seals something of the broker's own in the store, such as the keys of its CA. `details` go into the audit. */
  'blob.set': In<
    { name: string; value: Secret; action: string; details: Readonly<Record<string, string>>; by: By },
    null
  >;
  /** Where the audit log begins and stands, for whoever checks it later. Every second while it is written. */
  'audit.anchor': In<{ anchor: AuditAnchor }, null>;

  /** A lane comes up: full state, then every delta, is posted on this port. Resolves when the state is posted. */
  'lane.attach': { in: { lane: number; port: MessagePort; epoch: SharedArrayBuffer }; out: null };
  'lane.detach': { in: { lane: number } };
  /** Something a lane noticed that operators want to hear of. Not durable. */
  notice: { in: VaultEvent };
  /** Expires what is due by now. The actor's own timer sends it. */
  expire: { in: Record<string, never> };
}
