/**
 * The nouns of the vault: what is stored, listed and merged. Plain data, validated before it gets here
 * (see `service-rules.ts`); the proxy, the API and the store all speak of these shapes.
 */

/** How the broker authenticates to an upstream. Every reference is a credential key, never a value. */
export type AuthConfig =
  | { readonly type: 'bearer'; readonly token: string }
  | { readonly type: 'basic'; readonly username: string; readonly password?: string }
  | { readonly type: 'api-key'; readonly key: string; readonly header?: string; readonly prefix?: string }
  | { readonly type: 'custom'; readonly headers: Readonly<Record<string, string>> }
  | { readonly type: 'passthrough' };

export const authTypes = ['bearer', 'basic', 'api-key', 'custom', 'passthrough'] as const;

export const surfaces = ['path', 'query', 'header'] as const;
export type Surface = (typeof surfaces)[number];
export const defaultSurfaces: readonly Surface[] = ['path', 'query'];

/** The only places where a placeholder is replaced; elsewhere it goes as it is. At least one of them is there. */
export interface Places {
  /** Compared with the raw path, byte for byte; a `*` at its end is the rest. Holds the placeholder. */
  readonly path?: string;
  /** Names of query parameters, as they are written in the URL. */
  readonly query?: readonly string[];
  /** Names of headers, in any case. */
  readonly header?: readonly string[];
}

export interface Substitution {
  readonly key: string;
  readonly placeholder: string;
  /** Absent: the surfaces of `at`, or path and query. */
  readonly in?: readonly Surface[];
  /** Absent: anywhere in the surfaces of `in`. */
  readonly at?: Places;
}

/** The surfaces that a substitution is for, in the order of {@link surfaces} where `at` tells them. */
export function surfacesOf({ in: declared, at }: Pick<Substitution, 'in' | 'at'>): readonly Surface[] {
  return declared ?? (at === undefined ? defaultSurfaces : surfaces.filter((surface) => at[surface]));
}

export const reflections = ['pass', 'audit', 'redact'] as const;
/** What becomes of an answer that holds a value that was put in: nothing, a word in its record, or asterisks for it. */
export type Reflection = (typeof reflections)[number];

export interface Service {
  /** Canonical: lower case, no trailing dot, `*.` for one label, `:port` only where it binds to that port. */
  readonly host: string;
  readonly description?: string;
  readonly auth: AuthConfig;
  readonly substitutions?: readonly Substitution[];
  /** Absent: see {@link reflectionOf}. */
  readonly reflection?: Reflection;
  /** Absent means enabled. */
  readonly enabled?: false;
}

/** What a service does about answers that hold what it put in: where it doesn't say, a placeholder without a place redacts. */
export function reflectionOf({
  reflection,
  substitutions,
}: Pick<Service, 'reflection' | 'substitutions'>): Reflection {
  return reflection ?? (substitutions?.some(({ at }) => at === undefined) ? 'redact' : 'audit');
}

/** A service as it comes in: `enabled` absent keeps the present state, as do substitutions and `reflection`. */
export interface ServiceInput {
  readonly host: string;
  readonly description?: string;
  readonly auth?: AuthConfig;
  readonly substitutions?: readonly Substitution[];
  readonly reflection?: Reflection;
  readonly enabled?: boolean;
}

export type ServiceChange =
  | ({ readonly action: 'set' } & ServiceInput)
  | { readonly action: 'delete'; readonly host: string };

export interface RateLimit {
  /** Requests a second; 0 switches it off. */
  readonly rps: number;
  readonly burst: number;
  readonly inflight: number;
}

export interface VaultSettings {
  readonly unmatched_host_policy: 'passthrough' | 'deny';
  readonly unmatched_tls: 'intercept' | 'tunnel';
  readonly require_tls: boolean;
  /** null: the server's own limits. */
  readonly rate_limit: Partial<RateLimit> | null;
}

export const defaultSettings: VaultSettings = {
  unmatched_host_policy: 'passthrough',
  unmatched_tls: 'intercept',
  require_tls: false,
  rate_limit: null,
};

export interface Vault {
  /** Never reused, unlike the name: what sealed values and sessions are bound to. */
  readonly id: string;
  readonly name: string;
  readonly settings: VaultSettings;
  /** Set by `service clear`, unset by the next service: every proxied request is refused meanwhile. */
  readonly cleared: boolean;
  /** ISO 8601. */
  readonly created_at: string;
}

/** What a slot of a proposal asks the human for. */
export type CredentialSlot =
  | {
      readonly action: 'set';
      readonly key: string;
      readonly description?: string;
      readonly obtain?: string;
      readonly obtain_instructions?: string;
      /** The agent gave the value itself; it is kept sealed, apart from this record. */
      readonly has_value?: true;
    }
  | { readonly action: 'delete'; readonly key: string };

export const proposalStatuses = ['pending', 'applied', 'rejected', 'expired', 'cancelled'] as const;
export type ProposalStatus = (typeof proposalStatuses)[number];

export interface Proposal {
  readonly id: number;
  readonly status: ProposalStatus;
  readonly vault_id: string;
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
  /** Who asks: `session:ID` or `agent:NAME`, and the label a human gave it. */
  readonly created_by: string;
  readonly created_by_label: string | null;
  /** Which agent of that name. */
  readonly agent_id?: string;
  /** SHA-256 of the approval token, hex. */
  readonly approval_hash: string;
}

export interface Session {
  readonly id: string;
  /** SHA-256 of the token, hex. */
  readonly hash: string;
  readonly vault_id: string;
  readonly label: string | null;
  readonly created_at: string;
  readonly created_by: string;
  /** Wall clock, ms since the epoch. */
  readonly expires_at_ms: number;
}

export interface Agent {
  readonly name: string;
  /** Never used again, unlike the name. Absent in rows of before. */
  readonly id?: string;
  readonly vault_ids: readonly string[];
  /** The present token, and the one before it while a rotation overlaps. `expires_at_ms` null: never. */
  readonly tokens: readonly { readonly hash: string; readonly expires_at_ms: number | null }[];
  readonly token_ttl_seconds: number | null;
  readonly created_at: string;
}

export interface Invite {
  readonly hash: string;
  readonly name: string | null;
  readonly vault_ids: readonly string[];
  readonly token_ttl_seconds: number | null;
  readonly created_at: string;
  readonly created_by: string;
  readonly expires_at_ms: number;
  readonly used_at: string | null;
}

export interface Operator {
  readonly name: string;
  readonly role: 'owner' | 'admin';
  /** Vaults an `admin` administers; an `owner` administers all. */
  readonly vault_ids: readonly string[];
  /** `scrypt$N$r$p$salt$hash`, base64; null: no password set. */
  readonly password: string | null;
  readonly created_at: string;
}

/** One signed-in operator: a CLI token or a browser cookie; or what is about to sign in or to prove one. */
export interface OperatorSession {
  /** SHA-256 of the token, hex; of a code: see `vault-login-codes.ts`. */
  readonly hash: string;
  readonly operator: string;
  readonly kind: 'token' | 'cookie' | 'login-link' | 'login-code' | 'file';
  /**
   * Of a cookie: the public key (base64url of an uncompressed P-256 point) whose private half lies in the storage of
   * the browser's origin, and signs changes. Bound at sign-in, and to one session. Absent: each change is proved anew.
   */
  readonly origin_key?: string;
  /** Sliding, except for the owner's token file (null). */
  readonly expires_at_ms: number | null;
}
