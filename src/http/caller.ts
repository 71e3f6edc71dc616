import type { Ref } from '../actors/core/protocol.ts';
import { type Problem, problem, type Result, refuse } from '../actors/vault/problem.ts';
import type { Identity, VaultProtocol } from '../actors/vault/protocol.ts';
import { hashToken, tokenKind } from '../actors/vault/token.ts';
import type { Browser } from './browser.ts';
import type { Failed } from './guard.ts';
import type { Incoming } from './incoming.ts';

/** Who sends a request, proved by a valid token. */
export interface Caller {
  readonly identity: Identity;
  /** Of the token. */
  readonly hash: string;
  /** A browser sent it by itself: that the operator wants the change has to be shown otherwise. */
  readonly byCookie: boolean;
}

/**
 * Finds out who sends a request, from `Authorization: Bearer` (RFC 6750 section 2.1): one header, never the query;
 * without it, from an operator's cookie. Wrong tokens are counted by address; a valid one is never refused for that.
 *
 * @throws {ActorError} (as a rejection) where the vault doesn't answer
 */
export async function identify(
  { vault, browser }: Parts,
  incoming: Incoming,
  failed: Failed,
): Promise<Result<Caller>> {
  const given = incoming.values('authorization');
  if (given.length === 0) return identifyByCookie({ vault, browser }, incoming);
  const token = given.length === 1 ? /^bearer +([!-~]+)$/i.exec(given[0])?.[1] : undefined;
  // A mistyped or foreign token is nobody's by its checksum alone.
  if (token !== undefined && tokenKind(token) !== null) {
    const hash = hashToken(token);
    const identity = await vault.ask('identify', { hash });
    // A cookie has the form of a token, and every port of the host is sent it: by itself it must not open the API.
    const isCookie = identity?.kind === 'operator' && identity.via === 'cookie';
    if (identity !== null && !isCookie) return { ok: true, value: { identity, hash, byCookie: false } };
  }
  return { ok: false, problem: failed(problem('unauthorized')) };
}

interface Parts {
  readonly vault: Ref<VaultProtocol>;
  readonly browser: Browser;
}

/** A cookie that has expired isn't counted: a page that is left open would shut its operator out. */
async function identifyByCookie(parts: Parts, incoming: Incoming): Promise<Result<Caller>> {
  if (parts.browser.sessionCookies(incoming).length === 0) return refuse('unauthorized');
  const found = await operatorByCookie(parts, incoming);
  if (found === null) return refuse('unauthorized', 'You are signed out. Sign in again.');
  return { ok: true, value: { ...found, byCookie: true } };
}

/**
 * The operator whose browser sends a request, and the hash of the cookie; null: nobody is signed in. What isn't a session
 * beside the one that is doesn't count; of two that are none does, since somebody else has put one of them there.
 *
 * @throws {ActorError} (as a rejection) where the vault doesn't answer
 */
export async function operatorByCookie(
  { vault, browser }: Parts,
  incoming: Incoming,
): Promise<{ readonly identity: Identity & { kind: 'operator' }; readonly hash: string } | null> {
  const tokens = browser.sessionCookies(incoming).filter((each) => tokenKind(each) === 'operator');
  const found = await Promise.all(
    [...new Set(tokens)].map(async (token) => {
      const hash = hashToken(token);
      const identity = await vault.ask('identify', { hash });
      return identity?.kind === 'operator' && identity.via === 'cookie' ? [{ identity, hash }] : [];
    }),
  );
  const [one, ...others] = found.flat();
  return one !== undefined && others.length === 0 ? one : null;
}

/** As changes and events name whom they are of. */
export function actorOf(identity: Identity): string {
  return identity.kind === 'session' ? `session:${identity.id}` : `${identity.kind}:${identity.name}`;
}

/** Which of the agents that have had its name; undefined for others. */
export function agentIdOf(identity: Identity): string | undefined {
  return identity.kind === 'agent' ? identity.agent.id : undefined;
}

/** What a human recognises the caller by. */
export function labelOf(identity: Identity): string | null {
  return identity.kind === 'session' ? identity.label : identity.name;
}

/** Refuses what is for owners alone. */
export function ownerProblem({ role }: Identity & { kind: 'operator' }): Problem | null {
  return role === 'owner' ? null : problem('forbidden', 'Only an owner may do this.');
}

/** The vaults that an operator administers; undefined: all of them. */
export function vaultsOf(identity: Identity & { kind: 'operator' }): readonly string[] | undefined {
  return identity.role === 'owner' ? undefined : identity.vaults;
}

/** Whether these are among the vaults that an operator administers. */
export function administers(
  identity: Identity & { kind: 'operator' },
  ...vaults: readonly string[]
): boolean {
  const own = vaultsOf(identity);
  return own === undefined || vaults.every((vault) => own.includes(vault));
}

/** The same for a vault that isn't there and one that isn't the caller's: who may not see it learns nothing. */
export function foreignVault(): Problem {
  return problem('forbidden', 'This token is not for that vault. Name one that it was given.');
}

/**
 * The vault that a request is about: protocol, "Who may do what". A session has its own; an agent names one that it was
 * given; an operator one that they administer (for an owner an unknown one is for the vault to refuse).
 *
 * @param named every `X-Vault` of the request, or the name in its path
 * @param isRequired whether it has to be named at all, where the token doesn't imply it
 */
export function selectVault(
  identity: Identity,
  named: readonly string[],
  isRequired: boolean,
): Result<string | null> {
  if (named.length > 1) return refuse('invalid_request', 'X-Vault: send it once.', { field: 'X-Vault' });
  const name = named[0] || null;
  if (identity.kind === 'session') {
    if (name === null || name === identity.vault) return { ok: true, value: identity.vault };
    return { ok: false, problem: foreignVault() };
  }
  if (name === null) {
    if (!isRequired) return { ok: true, value: null };
    return refuse('invalid_request', 'X-Vault: is missing. Name the vault in this header.', {
      field: 'X-Vault',
    });
  }
  const isGranted = identity.kind === 'agent' ? identity.vaults.includes(name) : administers(identity, name);
  return isGranted ? { ok: true, value: name } : { ok: false, problem: foreignVault() };
}
