import { patternCandidates } from './host-pattern.ts';
import { covers, type KeyUse, surfaceWords, usesOf } from './key-uses.ts';
import type { Service } from './model.ts';

/*
 * Effective reach: which credential goes to which hosts, by which surface. What a service reaches depends on all others
 * of its vault, since the most specific pattern wins: to remove `api.example.com`, even a disabled one, lets what
 * `*.example.com` carries go there.
 *
 * The targets (host and port) fall into classes that no pattern before or after can tell apart, one for each combination
 * of names and ports that occur in patterns. A class stands for all of its targets: reach is compared class by class,
 * exactly, and put into patterns again at the end.
 */

/** The services of a vault by host; disabled ones count, since they keep less specific ones from their targets. */
export type Services = ReadonlyMap<string, Service>;

/** Targets as patterns: one belongs to it where the most specific pattern of both lists that matches is in `hosts`. */
export interface Targets {
  readonly hosts: readonly string[];
  readonly except: readonly string[];
}

/** A use of a credential where it wasn't used so before. */
export interface Growth {
  /** Pattern of the service that does it afterwards. */
  readonly service: string;
  readonly use: KeyUse;
  readonly targets: Targets;
}

/** No pattern's port: stands for all ports that none names. */
const anyOther = 0;

/** Names (`host` or `*.rest`) of a vault's patterns, with the ports they name, and what lies right under each wildcard. */
interface Names {
  readonly ports: Map<string, Set<number>>;
  readonly children: Map<string, Set<string>>;
}

/** What a vault looks like now, to compare many changes with. */
export interface Reach {
  /**
   * What reach grows by where `changed` takes the place of the services of these hosts (null: removed), in an order that
   * depends on nothing else.
   * @param renewed keys whose values are exchanged: the new value has been sent nowhere yet, so each use of it counts
   */
  growth(changed: ReadonlyMap<string, Service | null>, renewed: ReadonlySet<string>): Growth[];
}

/** @param services those that requests are matched with now: none where the vault is cleared */
export function reachOf(services: Services): Reach {
  const names: Names = { ports: new Map(), children: new Map() };
  for (const host of services.keys()) addName(names, host);
  const uses = new Map<Service, readonly KeyUse[]>();

  function usesBy(service: Service | null | undefined): readonly KeyUse[] {
    if (!service || service.enabled === false) return [];
    const known = uses.get(service);
    if (known !== undefined) return known;
    const found = usesOf(service);
    uses.set(service, found);
    return found;
  }

  return {
    growth(changed, renewed) {
      for (const host of changed.keys()) addName(names, host);
      const after = (pattern: string) => {
        const change = changed.get(pattern);
        return change === undefined ? services.get(pattern) : (change ?? undefined);
      };
      const touched = new Set([...changed.keys()].map((host) => splitPort(host).name));
      if (renewed.size > 0) {
        for (const service of [...services.values(), ...changed.values()]) {
          if (usesBy(service).some(({ key }) => renewed.has(key)))
            touched.add(splitPort(service?.host ?? '').name);
        }
      }

      const groups = new Map<string, { service: string; use: KeyUse; classes: Classes }>();
      const seen = new Set<string>();
      for (const { name, port } of [...touched].flatMap((name) => classesOf(names, name, changed))) {
        const id = `${name}:${port}`;
        if (seen.has(id)) continue;
        seen.add(id);
        const patterns = candidates(name, port);
        const service = first(patterns, after);
        const present = usesBy(first(patterns, (pattern) => services.get(pattern)));
        for (const use of usesBy(service)) {
          if (!renewed.has(use.key) && present.some((known) => covers(known, use))) continue;
          const { host } = service as Service;
          const group = `${host} ${use.key} ${surfaceWords(use)}`;
          const entry = groups.get(group) ?? { service: host, use, classes: new Set() };
          entry.classes.add(id);
          groups.set(group, entry);
        }
      }
      return [...groups]
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([, { service, use, classes }]) => ({
          service,
          use,
          targets: asPatterns(names, service, classes, {
            changed,
            stands: (name) => !changed.has(name) && services.has(name),
          }),
        }));
    },
  };
}

/** Classes of targets, each `name:port`. */
type Classes = Set<string>;

function first<T>(patterns: readonly string[], find: (pattern: string) => T | undefined): T | undefined {
  for (const pattern of patterns) {
    const found = find(pattern);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The patterns that match a class, best first. */
function candidates(name: string, port: number): readonly string[] {
  return name.startsWith('*') ? [`${name}:${port}`, name] : patternCandidates(name, port);
}

function addName({ ports, children }: Names, pattern: string): void {
  const { name, port } = splitPort(pattern);
  const own = ports.get(name) ?? new Set();
  ports.set(name, own);
  if (port !== anyOther) own.add(port);
  const above = wildcardOf(name);
  if (above !== null) children.set(above, (children.get(above) ?? new Set()).add(name));
}

/**
 * The classes whose match the services of a name can decide. The ports of a wildcard make classes of a name below it only
 * where that name comes or goes: else it has them all, before and after, or leaves them all to the wildcard.
 */
function classesOf(
  { ports, children }: Names,
  name: string,
  changed: { has(name: string): boolean },
): { name: string; port: number }[] {
  const of = (each: string, above: string | null) => {
    const more = changed.has(each) ? ports.get(above ?? '') : undefined;
    return [anyOther, ...new Set([...(ports.get(each) ?? []), ...(more ?? [])])].map((port) => ({
      name: each,
      port,
    }));
  };
  const below = [...(children.get(name) ?? [])].flatMap((child) => of(child, name));
  return [...of(name, wildcardOf(name)), ...below];
}

/** The fewest patterns that say which classes of a service's targets are meant. */
function asPatterns(
  { ports, children }: Names,
  service: string,
  classes: Classes,
  { changed, stands }: { readonly changed: { has(name: string): boolean }; stands(name: string): boolean },
): Targets {
  const { name } = splitPort(service);
  const hosts: string[] = [];
  const except: string[] = [];
  const has = (each: string, port: number) => classes.has(`${each}:${port}`);
  const list = (pattern: string, isMeant: boolean) => (isMeant ? hosts : except).push(pattern);

  /** Lists a name where it isn't as what is listed above it says; `above` is that for each port of `more`, and others. */
  function listName(
    each: string,
    above: (port: number) => boolean,
    more: ReadonlySet<number>,
    mixed: boolean,
  ): void {
    const whole = has(each, anyOther);
    // What stands, before and after, has all ports for itself: it is listed as a whole where it could be taken for mixed.
    const isListed = whole !== above(anyOther) || (mixed && stands(each));
    if (isListed) list(each, whole);
    for (const port of new Set([...(ports.get(each) ?? []), ...(changed.has(each) ? more : [])])) {
      const isMeant = classes.has(`${each}:${port}`);
      if (isMeant !== (isListed ? whole : above(port))) list(`${each}:${port}`, isMeant);
    }
  }

  const own = ports.get(name) ?? none;
  const whole = has(name, anyOther);
  const mixed = [...own].some((port) => has(name, port) !== whole);
  const ofWildcard = (port: number) => has(name, own.has(port) ? port : anyOther);
  listName(name, () => false, ports.get(wildcardOf(name) ?? '') ?? none, false);
  for (const child of children.get(name) ?? []) listName(child, ofWildcard, own, mixed);
  return { hosts: hosts.sort(), except: except.sort() };
}

const none: ReadonlySet<number> = new Set();

function splitPort(pattern: string): { name: string; port: number } {
  const colon = pattern.indexOf(':', pattern.indexOf(']') + 1);
  if (colon === -1) return { name: pattern, port: anyOther };
  return { name: pattern.slice(0, colon), port: Number(pattern.slice(colon + 1)) };
}

/** The wildcard that matches a name; null for an address, a single label and a wildcard. */
function wildcardOf(name: string): string | null {
  if (name.startsWith('*')) return null;
  const [, , above = null] = patternCandidates(name, anyOther);
  return above === null ? null : splitPort(above).name;
}
