import type { RateLimit, VaultSettings } from '../actors/vault/model.ts';
import { networkOf } from '../actors/vault/network.ts';
import { type Problem, problem } from '../actors/vault/problem.ts';
import type { SignInFailures } from '../actors/vault/sign-in-failures.ts';
import { hashToken, tokenKind } from '../actors/vault/token.ts';
import { parseProxyAuthorization } from './authenticate.ts';
import type { RequestHead } from './head.ts';
import { Access, type LaneState, type VaultEntry } from './lane-state.ts';
import type { Shares } from './shares.ts';

/** Why a proxy client is turned away. */
export interface Unknown {
  readonly problem: Problem;
  /** It showed something that was wrong, as opposed to nothing: that is worth a record. */
  readonly audited: boolean;
}

/** Tokens that were looked up lately: an absolute-form client sends its own with each request. */
const cacheLimit = 1024;

/** Finds out who a proxy client is and which vault it means (protocol, "Proxy credentials"). */
export class Caller {
  readonly #state: LaneState;
  readonly #failures: SignInFailures;
  readonly #shares: Shares;
  readonly #micros: () => number;
  readonly #hashes = new Map<string, string>();

  /** @param micros as of the lane */
  constructor(state: LaneState, failures: SignInFailures, shares: Shares, micros: () => number) {
    this.#shares = shares;
    this.#micros = micros;
    this.#state = state;
    this.#failures = failures;
  }

  /** @param address the peer's, for counting failures */
  authenticate(head: RequestHead, address: string): Access | Unknown {
    if (head.proxyAuthorization === null) {
      const wait = this.#shares.asked(networkOf(address), this.#micros());
      if (wait === 0) return { problem: problem('proxy_auth_required'), audited: false };
      return { problem: problem('rate_limited', undefined, undefined, wait), audited: true };
    }
    const given = parseProxyAuthorization(head.proxyAuthorization);
    const session = given === null ? undefined : this.#state.sessions.get(this.#hash(given.token));
    if (given === null || session === undefined || !session.valid(Date.now())) {
      const wait = this.#failures.count(address, Date.now());
      if (wait > 0) return { problem: problem('rate_limited', undefined, undefined, wait), audited: true };
      return {
        problem: problem(
          'proxy_auth_required',
          'The session token is invalid or has expired. Get a new one from the operator.',
        ),
        audited: true,
      };
    }
    const name = given.vault !== '' ? given.vault : head.vault;
    let vault: VaultEntry | undefined;
    if (name !== null) vault = this.#state.byName.get(name);
    else if (session.kind === 'session') vault = this.#state.vaults.get(session.vaults[0]?.id ?? '');
    else {
      return {
        problem: problem(
          'proxy_auth_required',
          'An agent token needs the vault: use the proxy URL https://TOKEN:VAULT@HOST:PORT.',
        ),
        audited: true,
      };
    }
    const slot = vault === undefined ? undefined : session.vaults.find(({ id }) => id === vault.id)?.slot;
    if (vault === undefined || slot === undefined) {
      return {
        problem: problem('forbidden', 'This token is not for that vault. Use the vault it was made for.'),
        audited: true,
      };
    }
    return new Access(session, vault, slot);
  }

  #hash(token: string): string {
    const known = this.#hashes.get(token);
    if (known !== undefined) return known;
    // A token of another kind, or with a wrong checksum, is nobody's: no need to hash it.
    const kind = tokenKind(token);
    if (kind !== 'session' && kind !== 'agent') return '';
    const hash = hashToken(token);
    if (this.#state.sessions.has(hash)) {
      if (this.#hashes.size >= cacheLimit) this.#hashes.clear();
      this.#hashes.set(token, hash);
    }
    return hash;
  }
}

/** The limits of a vault: its own where set, else the server's. */
export function limitOf(server: RateLimit, settings: VaultSettings): RateLimit {
  const own = settings.rate_limit;
  if (own === null) return server;
  return {
    rps: own.rps ?? server.rps,
    burst: own.burst ?? server.burst,
    inflight: own.inflight ?? server.inflight,
  };
}
