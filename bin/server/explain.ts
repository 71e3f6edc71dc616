import type { Ref } from '../../src/actors/core/protocol.ts';
import { parseAbsolute } from '../../src/actors/vault/authority.ts';
import { type Service, surfacesOf } from '../../src/actors/vault/model.ts';
import { type Result, refuse, statusOf } from '../../src/actors/vault/problem.ts';
import type { Discovery, VaultProtocol } from '../../src/actors/vault/protocol.ts';
import { referencedKeys } from '../../src/actors/vault/service-rules.ts';
import { vetLiteral } from '../../src/proxy/dial.ts';
import { isHeadError, parseRequestHead, type RequestHead } from '../../src/proxy/head.ts';
import { LaneState, type VaultEntry } from '../../src/proxy/lane-state.ts';
import type { Netguard } from '../../src/proxy/netguard.ts';
import { admit, plan, type Target } from '../../src/proxy/plan.ts';

/** What would happen to a request. Names only: no secret is read, nothing is sent. */
export interface Explanation {
  readonly vault: string;
  readonly method: string;
  readonly host: string;
  readonly port: number;
  readonly decision: 'inject' | 'passthrough' | 'refuse';
  /** The pattern of the service that matches, or null. */
  readonly service: string | null;
  readonly auth_type: string | null;
  /** Header names that the broker sets, in place of the client's own. */
  readonly headers: readonly string[];
  readonly keys: readonly string[];
  readonly substitutions: Discovery['services'][number]['substitutions'];
  /** Where it would be refused: the code and status that the client would see. */
  readonly error: string | null;
  readonly status: number | null;
  readonly reason: string;
}

export interface ExplainOptions {
  readonly vault: Ref<VaultProtocol>;
  readonly baseUrl: string;
  readonly netguard: Netguard;
}

/** Answers `POST /v1/explain` by the very functions that decide requests, on what the lanes know of the vault. */
export function createExplain({ vault, baseUrl, netguard }: ExplainOptions) {
  return async (question: { vault: string; method: string; url: string }): Promise<Result<Explanation>> => {
    const target = parseAbsolute(question.url);
    if (target === null) {
      return refuse('invalid_request', 'url has to be a full http:// or https:// URL.', { field: 'url' });
    }
    const { authority, path } = target;
    const head = parseRequestHead(`${question.method} ${path} HTTP/1.1\r\nHost: ${authority.host}`);
    if (isHeadError(head)) {
      return refuse('invalid_request', 'method has to be one of HTTP, such as GET.', { field: 'method' });
    }
    const known = await vault.ask('vault.state', { vault: question.vault });
    if (!known.ok) return known;
    const state = new LaneState();
    state.apply(known.value);
    const entry = state.byName.get(question.vault) as VaultEntry;
    const matched = entry.match(authority.host, authority.port, authority.literal !== 0);
    const service = matched?.service ?? null;
    const decided = decide();
    const refusal = 'refusal' in decided ? decided.refusal : null;
    return {
      ok: true,
      value: {
        vault: entry.name,
        method: question.method,
        host: authority.host,
        port: authority.port,
        decision: refusal !== null ? 'refuse' : injects(service) ? 'inject' : 'passthrough',
        service: service?.host ?? null,
        auth_type: service?.auth.type ?? null,
        headers: service === null ? [] : headersOf(service),
        keys: 'refusal' in decided ? keysOf(service) : decided.keys,
        substitutions: (service?.substitutions ?? []).map((each) => ({
          placeholder: each.placeholder,
          in: surfacesOf(each),
          ...(each.at !== undefined && { at: each.at }),
        })),
        error: refusal?.code ?? null,
        status: refusal === null ? null : statusOf(refusal.code),
        reason: refusal?.message ?? reasonOf(service),
      },
    };

    /** In the order of the exchange. A name is looked up when it is dialled, and not before. */
    function decide(): ReturnType<typeof plan> {
      const refused = admit(entry, target as Target, matched, { baseUrl });
      if (refused !== null) return { refusal: refused, service: service?.host ?? null };
      const vetted = authority.literal === 0 ? null : vetLiteral(netguard, authority);
      if (vetted !== null && 'code' in vetted) return { refusal: vetted, service: service?.host ?? null };
      return plan(entry, target as Target, matched, path, head as RequestHead);
    }
  };
}

/** All that a service names, where none of it is put in. */
function keysOf(service: Service | null): string[] {
  if (service === null) return [];
  return [...new Set(referencedKeys(service.auth, service.substitutions).map(({ key }) => key))];
}

function injects(service: Service | null): boolean {
  return (
    service !== null && (service.auth.type !== 'passthrough' || (service.substitutions?.length ?? 0) > 0)
  );
}

function headersOf({ auth }: Service): readonly string[] {
  if (auth.type === 'passthrough') return [];
  if (auth.type === 'custom') return Object.keys(auth.headers);
  return [auth.type === 'api-key' ? (auth.header ?? 'Authorization') : 'Authorization'];
}

function reasonOf(service: Service | null): string {
  if (service === null)
    return 'No service matches; the vault lets unmatched hosts through, and nothing is added.';
  if (!injects(service)) return `The service ${service.host} lets the request through as it is.`;
  return `The service ${service.host} matches.`;
}
