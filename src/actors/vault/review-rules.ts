import { createHash } from 'node:crypto';
import { covers, surfaceWords, usesOf } from './key-uses.ts';
import { merge } from './merge.ts';
import {
  type Proposal,
  reflectionOf,
  reflections,
  type Service,
  type ServiceChange,
  type Vault,
} from './model.ts';
import { type Growth, type Reach, reachOf, type Services } from './reach.ts';

/** A credential would go where, or how, it doesn't go now. */
export interface Increase {
  readonly key: string;
  /** Patterns of hosts; the most specific one of these and of `except` that matches a target decides. */
  readonly hosts: readonly string[];
  readonly except?: readonly string[];
  /** Such as `auth header Authorization`, `path`, `path /bot{TOKEN}/*`, `query key`, `header X-Key`. */
  readonly surface: string;
  readonly scheme: 'https' | 'http+https';
  /** `value`: by the value for the key's slot, since the proposal names this use itself; `confirm`: only by itself. */
  readonly ticked_by: 'value' | 'confirm';
}

/** What a human has to have seen before a proposal is applied. */
export interface Review {
  /** Of the proposal, its increases, and what of the vault they come from: another one means that something changed. */
  readonly fingerprint: string;
  readonly increases: readonly Increase[];
}

interface Keys {
  has(key: string): boolean;
}

/** A vault as a review looks at it. */
export interface Reviewed {
  readonly vault: Vault;
  readonly services: Services;
  readonly credentials: Keys;
}

export interface Looked {
  readonly review: Review;
  /** The increases that want a tick of their own, as long as no values but these are typed in. */
  open(typed: Keys): readonly Increase[];
}

/** Reviews proposals of one vault, as it is at this moment. What they have in common is done once. */
export function reviewer(entry: Reviewed): (proposal: Proposal) => Looked {
  let reach: Reach | null = null;
  return (proposal) => {
    reach ??= reachOf(entry.vault.cleared ? new Map() : entry.services);
    const growth = growthBy(entry, reach, proposal);
    const scheme = entry.vault.settings.require_tls ? 'https' : 'http+https';
    const increases = growth.map((each): Increase => {
      const { hosts, except } = each.targets;
      return {
        key: each.use.key,
        hosts,
        ...(except.length > 0 && { except }),
        surface: surfaceWords(each.use),
        scheme,
        ticked_by: isTicked(each, proposal, byValue(proposal, entry)) ? 'value' : 'confirm',
      };
    });
    return {
      review: { fingerprint: fingerprint(entry, proposal, increases), increases },
      open: (typed) =>
        increases.filter(
          (increase, i) => increase.ticked_by === 'confirm' && !isTicked(growth[i], proposal, typed),
        ),
    };
  };
}

function growthBy({ vault, services }: Reviewed, reach: Reach, proposal: Proposal): Growth[] {
  const hosts = proposal.services.map(({ host }) => host);
  const present = new Map(
    hosts.flatMap((host): [string, Service][] => {
      const service = services.get(host);
      return service ? [[host, service]] : [];
    }),
  );
  // The merge of a host looks at no other.
  const merged = merge(present, proposal.services);
  // What can't be merged changes nothing.
  if (!merged.ok) return [];
  const staysCleared = vault.cleared && !proposal.services.some(({ action }) => action === 'set');
  if (staysCleared) return [];
  const changed = new Map(hosts.map((host) => [host, merged.value.services.get(host) ?? null]));
  const renewed = new Set(setSlots(proposal).map(({ key }) => key));
  return [
    ...reach.growth(changed, renewed),
    ...hosts.flatMap((host) => shownBy(present.get(host), changed.get(host))),
  ];
}

/** Keys of which the agent reads more in answers than it does now, since less of these is looked into or covered. */
function shownBy(before: Service | undefined, after: Service | null | undefined): Growth[] {
  if (!before || !after || after.enabled === false) return [];
  if (reflections.indexOf(reflectionOf(after)) >= reflections.indexOf(reflectionOf(before))) return [];
  const keys = new Set(usesOf(after).map(({ key }) => key));
  return [...keys].map((key) => ({
    service: after.host,
    use: { key, by: 'answers', place: null },
    targets: { hosts: [after.host], except: [] },
  }));
}

/** Keys whose value is consent: a human has to type it for this proposal, or the agent gives that of a new key. */
function byValue(proposal: Proposal, { credentials }: Reviewed): Keys {
  const slots = setSlots(proposal).filter(({ key, has_value }) => !has_value || !credentials.has(key));
  return new Set(slots.map(({ key }) => key));
}

/** Whether giving a value to these keys is consent to this: the proposal itself says that this host gets it so. */
function isTicked({ service, use }: Growth, { services }: Proposal, given: Keys): boolean {
  const names = (change: ServiceChange) =>
    change.action === 'set' && change.host === service && usesOf(change).some((named) => covers(named, use));
  return given.has(use.key) && services.some(names);
}

function setSlots({ credentials }: Proposal) {
  return credentials.filter((slot) => slot.action === 'set');
}

function fingerprint(
  { vault, services, credentials: stored }: Reviewed,
  { id, services: changes, credentials, message, user_message }: Proposal,
  increases: readonly Increase[],
): string {
  const { unmatched_host_policy, require_tls } = vault.settings;
  const seen = [
    [vault.id, vault.cleared, unmatched_host_policy, require_tls],
    [id, changes, credentials, message, user_message],
    changes.map(({ host }) => services.get(host) ?? null),
    credentials.map(({ key }) => stored.has(key)),
    increases,
  ];
  return createHash('sha256').update(JSON.stringify(seen)).digest('base64url').slice(0, 22);
}
