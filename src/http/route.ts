import type { By, Identity } from '../actors/vault/protocol.ts';
import type { Failed } from './guard.ts';
import type { Incoming } from './incoming.ts';
import type { Answer } from './reply.ts';
import type { Check } from './validate.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** Who may call a route: `agent` is a session or an instance-level agent, `any` these and operators. */
export type Auth = 'none' | 'agent' | 'operator' | 'any';

/**
 * Where a route's vault is named: in its path; in `X-Vault` (where the token doesn't imply it), required of everyone,
 * of agents alone, or of nobody.
 */
export type VaultFrom = 'none' | 'path' | 'header' | 'header-of-agents' | 'header-if-any';

export type OperatorIdentity = Extract<Identity, { kind: 'operator' }>;

type IdentityOf<A extends Auth> = {
  none: null;
  agent: Exclude<Identity, OperatorIdentity>;
  operator: OperatorIdentity;
  any: Identity;
}[A];

type VaultOf<V extends VaultFrom> = {
  none: null;
  path: string;
  header: string;
  'header-of-agents': string | null;
  'header-if-any': string | null;
}[V];

/** A request that may be handled: its caller, vault, parameters and body have been found good. */
export interface Call<A extends Auth = Auth, V extends VaultFrom = VaultFrom, B = unknown, Q = unknown> {
  readonly incoming: Incoming;
  /** By the names in the route's path. */
  readonly params: Readonly<Record<string, string>>;
  readonly identity: IdentityOf<A>;
  /** Hash of the caller's token; empty where nobody is asked for one. */
  readonly tokenHash: string;
  readonly vault: VaultOf<V>;
  readonly query: Q;
  readonly body: B;
  readonly by: By;
  /** Counts a wrong token or link of this client's; gives what to answer in place of the refusal. */
  readonly failed: Failed;
}

export interface RouteOptions<A extends Auth, V extends VaultFrom, B, Q> {
  readonly auth: A;
  readonly vault: V;
  /** An empty body counts as `{}`. Without it a body is ignored. */
  readonly body?: Check<B>;
  /** Octets. Default: `maxBody`. */
  readonly bodyLimit?: number;
  /** Probes: answered however often they come. Only for `auth: 'none'`. */
  readonly unlimited?: true;
  /** Without it a query is ignored. */
  readonly query?: Check<Q>;
}

/** One method of one resource, as the pipeline takes it; also what a description of the API is made from. */
export interface Route extends RouteOptions<Auth, VaultFrom, unknown, unknown> {
  readonly method: Method;
  /** Such as `/v1/proposals/{id}`; what a parameter may look like follows from its name, see `router.ts`. */
  readonly path: string;
  handle(call: Call): Promise<Answer> | Answer;
}

/**
 * Describes a route. The handler may rely on what the options promise: `identity` is one of `auth`, `vault` was named
 * and is the caller's to name, `body` and `query` have passed their checks.
 */
export function route<A extends Auth, V extends VaultFrom, B = undefined, Q = undefined>(
  method: Method,
  path: string,
  options: RouteOptions<A, V, B, Q>,
  handle: (call: Call<A, V, B, Q>) => Promise<Answer> | Answer,
): Route {
  // The pipeline keeps the promise; TypeScript can't see that.
  return { ...options, method, path, handle: handle as Route['handle'] };
}
