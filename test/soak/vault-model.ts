import type { Model } from './linearize.ts';

/** What clients do to a vault, and how they look at it. */
export type VaultOp =
  | { readonly do: 'set-credential'; readonly key: string; readonly value: string }
  | { readonly do: 'delete-credential'; readonly key: string }
  | { readonly do: 'set-service'; readonly host: string; readonly key: string }
  | { readonly do: 'enable-service'; readonly host: string; readonly enabled: boolean }
  | { readonly do: 'remove-service'; readonly host: string }
  | { readonly do: 'clear' }
  | { readonly do: 'set-policy'; readonly policy: 'passthrough' | 'deny' }
  /** A proposal of its own making: the number is part of what is known of it. */
  | { readonly do: 'propose'; readonly id: number | null }
  | {
      readonly do: 'approve';
      readonly id: number;
      readonly host: string;
      readonly key: string;
      readonly value: string;
    }
  | { readonly do: 'reject'; readonly id: number }
  | { readonly do: 'open-session'; readonly id: string | null }
  | { readonly do: 'revoke-session'; readonly id: string }
  | { readonly do: 'use-session'; readonly id: string }
  | { readonly do: 'list' }
  /** A request through the proxy: what of the vault shows in it. */
  | { readonly do: 'request'; readonly host: string };

export interface VaultState {
  readonly policy: string;
  readonly cleared: boolean;
  /** By host, in the order of the hosts' names. */
  readonly services: Readonly<Record<string, { readonly key: string; readonly enabled: boolean }>>;
  readonly credentials: Readonly<Record<string, string>>;
  readonly proposals: Readonly<Record<string, string>>;
  readonly sessions: readonly string[];
}

export const newVault: VaultState = {
  policy: 'passthrough',
  cleared: false,
  services: {},
  credentials: {},
  proposals: {},
  sessions: [],
};

/** How a listing is written down, for the model and for what the broker lists. */
export function listing(services: VaultState['services'], keys: readonly string[]): string {
  return JSON.stringify([sorted(services), [...keys].sort()]);
}

/** A vault as one thread would have it: protocol, "Vault", "Service", "Proposal", "Session". */
export const vaultModel: Model<VaultState, VaultOp> = {
  apply(state, op) {
    const { services, credentials, proposals, sessions } = state;
    const is = (result: string, change: Partial<VaultState> = {}) => ({
      state: { ...state, ...change },
      result,
    });
    switch (op.do) {
      case 'set-credential':
        return is('200', { credentials: sorted({ ...credentials, [op.key]: op.value }) });
      case 'delete-credential': {
        if (!(op.key in credentials)) return is('404');
        if (Object.values(services).some(({ key }) => key === op.key)) return is('409');
        return is('204', { credentials: omit(credentials, op.key) });
      }
      case 'set-service': {
        if (!(op.key in credentials)) return is('400');
        return is('200', withService(state, op));
      }
      case 'enable-service': {
        const service = services[op.host];
        if (service === undefined) return is('404');
        return is('200', {
          services: sorted({ ...services, [op.host]: { ...service, enabled: op.enabled } }),
        });
      }
      case 'remove-service':
        return op.host in services ? is('204', { services: omit(services, op.host) }) : is('404');
      case 'clear':
        return is('204', { services: {}, cleared: true });
      case 'set-policy':
        return is('200', { policy: op.policy });
      case 'propose':
        // Without its number nobody can do anything with it.
        return is('201', op.id === null ? {} : { proposals: withStatus(state, op.id, 'pending') });
      case 'approve': {
        if (proposals[op.id] === 'applied') return is('200');
        if (proposals[op.id] !== 'pending') return is('409');
        return is('200', {
          ...withService(state, op),
          proposals: withStatus(state, op.id, 'applied'),
          credentials: sorted({ ...credentials, [op.key]: op.value }),
        });
      }
      case 'reject': {
        if (proposals[op.id] === 'rejected') return is('200');
        if (proposals[op.id] !== 'pending') return is('409');
        return is('200', { proposals: withStatus(state, op.id, 'rejected') });
      }
      case 'open-session':
        return is('201', op.id === null ? {} : { sessions: [...sessions, op.id].sort() });
      case 'revoke-session':
        if (!sessions.includes(op.id)) return is('404');
        return is('204', { sessions: sessions.filter((id) => id !== op.id) });
      case 'use-session':
        return is(sessions.includes(op.id) ? '200' : '401');
      case 'list':
        return is(listing(services, Object.keys(credentials)));
      case 'request':
        return is(shown(state, op.host));
    }
  },
};

function shown({ policy, cleared, services, credentials }: VaultState, host: string): string {
  if (cleared) return 'forbidden';
  const service = services[host];
  if (service === undefined) return policy === 'deny' ? 'forbidden' : 'plain';
  if (!service.enabled) return 'service_disabled';
  return credentials[service.key] ?? 'credential_not_found';
}

/** A `set` keeps whether a service is enabled, and ends a vault's being cleared. */
function withService(
  { services }: VaultState,
  { host, key }: { host: string; key: string },
): Partial<VaultState> {
  const { enabled = true } = services[host] ?? {};
  return { services: sorted({ ...services, [host]: { key, enabled } }), cleared: false };
}

function withStatus({ proposals }: VaultState, id: number, status: string): Record<string, string> {
  return sorted({ ...proposals, [id]: status });
}

/** So that equal ones are written alike. */
function sorted<T>(record: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function omit<T>(record: Readonly<Record<string, T>>, key: string): Record<string, T> {
  return Object.fromEntries(Object.entries(record).filter(([name]) => name !== key));
}
