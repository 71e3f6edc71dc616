import type { Ref } from '../../src/actors/core/protocol.ts';
import { parseAbsolute } from '../../src/actors/vault/authority.ts';
import { type Service, surfacesOf } from '../../src/actors/vault/model.ts';
import { type Problem, type Result, refuse, statusOf } from '../../src/actors/vault/problem.ts';
import type { Discovery, VaultProtocol } from '../../src/actors/vault/protocol.ts';
import { referencedKeys } from '../../src/actors/vault/service-rules.ts';
import { VaultEntry } from '../../src/proxy/lane-state.ts';
import type { Netguard } from '../../src/proxy/netguard.ts';
import { admit } from '../../src/proxy/plan.ts';

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

/** Answers `POST /v1/explain` by the very functions that decide requests. */
export function createExplain({ vault, baseUrl, netguard }: ExplainOptions) {
  return async (question: { vault: string; method: string; url: string }): Promise<Result<Explanation>> => {
    const target = parseAbsolute(question.url);
    if (target === null) {
      return refuse('invalid_request', 'url has to be a full http:// or https:// URL.', { field: 'url' });
    }
    const [view, services, credentials] = await Promise.all([
      vault.ask('vault.get', { vault: question.vault }),
      vault.ask('service.list', { vault: question.vault }),
      vault.ask('credential.list', { vault: question.vault }),
    ]);
    if (!view.ok) return view;
    if (!services.ok) return services;
    if (!credentials.ok) return credentials;

    const entry = new VaultEntry('', view.value.name, view.value);
    entry.cleared = view.value.cleared;
    for (const service of services.value.services) entry.setService(service);
    const { authority } = target;
    const matched = entry.match(authority.host, authority.port, authority.literal !== 0);
    const service = matched?.service ?? null;
    const refused =
      admit(entry, target, matched, { baseUrl }) ??
      blocked(netguard, authority) ??
      missing(service, new Set(credentials.value.keys)) ??
      traced(service, question.method);
    return {
      ok: true,
      value: {
        vault: view.value.name,
        method: question.method,
        host: authority.host,
        port: authority.port,
        decision: refused !== null ? 'refuse' : injects(service) ? 'inject' : 'passthrough',
        service: service?.host ?? null,
        auth_type: service?.auth.type ?? null,
        headers: service === null ? [] : headersOf(service),
        keys:
          service === null
            ? []
            : [...new Set(referencedKeys(service.auth, service.substitutions).map(({ key }) => key))],
        substitutions: (service?.substitutions ?? []).map((s) => ({
          placeholder: s.placeholder,
          in: surfacesOf(s),
          ...(s.at !== undefined && { at: s.at }),
        })),
        error: refused?.code ?? null,
        status: refused === null ? null : statusOf(refused.code),
        reason: refused?.message ?? reasonOf(service),
      },
    };
  };
}

type Refused = Pick<Problem, 'code' | 'message'> | null;

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

/** Only literals can be judged here: a name is looked up when it is dialled, and not before. */
function blocked(netguard: Netguard, authority: { host: string; literal: number; port: number }): Refused {
  if (authority.literal === 0) return null;
  const reason = netguard.vet(authority.host.replace(/^\[|\]$/g, ''), authority.port);
  return reason === null
    ? null
    : { code: 'network_blocked', message: `The network guard refuses ${authority.host} (${reason}).` };
}

function missing(service: Service | null, keys: ReadonlySet<string>): Refused {
  if (service === null) return null;
  const lacking = referencedKeys(service.auth, []).find(({ key }) => !keys.has(key));
  if (lacking === undefined) return null;
  return {
    code: 'credential_not_found',
    message: `The credential ${lacking.key} is missing. Add it, or have it proposed.`,
  };
}

function traced(service: Service | null, method: string): Refused {
  if (method !== 'TRACE' || service === null || service.auth.type === 'passthrough') return null;
  return { code: 'method_not_allowed', message: 'TRACE would show the credential; it is refused.' };
}

function reasonOf(service: Service | null): string {
  if (service === null)
    return 'No service matches; the vault lets unmatched hosts through, and nothing is added.';
  if (!injects(service)) return `The service ${service.host} lets the request through as it is.`;
  return `The service ${service.host} matches.`;
}
