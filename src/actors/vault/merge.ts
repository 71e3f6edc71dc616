import { invalid, refused } from './fields.ts';
import type { Service, ServiceChange, ServiceInput } from './model.ts';
import { accept, type Problem, type Result } from './problem.ts';
import { referencedKeys } from './service-rules.ts';

export interface Merged {
  /** All services of the vault afterwards, by host; a service that is replaced keeps its place. */
  readonly services: Map<string, Service>;
  /** Hosts that were set and are there afterwards, whether or not anything differs. */
  readonly changed: string[];
  /** Hosts that were there and are no longer. */
  readonly removed: string[];
}

/**
 * Applies changes to the services of a vault, in the order given; neither argument is changed.
 *
 * `set` upserts by host. What it leaves out stays as it is: `enabled` (so a proposal can't silently enable what
 * an operator disabled), `description`, `auth`, `reflection`, and substitutions (an empty list leaves them too: they are
 * cleared by deleting the service and making it anew). A `delete` of a host that isn't there does nothing.
 * Refused with `invalid_request` where a new service has no `auth`.
 */
export function merge(
  existing: ReadonlyMap<string, Service>,
  changes: readonly ServiceChange[],
): Result<Merged> {
  const services = new Map(existing);
  for (const [index, change] of changes.entries()) {
    if (change.action === 'delete') {
      services.delete(change.host);
      continue;
    }
    const before = services.get(change.host);
    const auth = change.auth ?? before?.auth;
    if (auth === undefined) return refused(noAuth(index));
    const substitutions = change.substitutions?.length ? change.substitutions : before?.substitutions;
    const description = change.description ?? before?.description;
    const reflection = change.reflection ?? before?.reflection;
    services.set(change.host, build({ ...change, auth, substitutions, description, reflection }, before));
  }
  const touched = [...new Set(changes.map((change) => change.host))];
  return accept({
    services,
    changed: touched.filter((host) => services.has(host)),
    removed: touched.filter((host) => existing.has(host) && !services.has(host)),
  });
}

/**
 * The services of a vault after a `PUT` or a file: exactly these, in their order. Only `enabled`, where it is
 * left out, stays as it is for a host that is there already.
 */
export function replaceAll(
  existing: ReadonlyMap<string, Service>,
  inputs: readonly ServiceInput[],
): Result<Merged> {
  const services = new Map<string, Service>();
  for (const [index, input] of inputs.entries()) {
    if (input.auth === undefined) return refused(noAuth(index));
    services.set(input.host, build({ ...input, auth: input.auth }, existing.get(input.host)));
  }
  const removed = [...existing.keys()].filter((host) => !services.has(host));
  return accept({ services, changed: [...services.keys()], removed });
}

/** For each credential key, the hosts whose services refer to it, disabled ones included. */
export function hostsByKey(services: Iterable<Service>): Map<string, Set<string>> {
  const hosts = new Map<string, Set<string>>();
  for (const service of services) {
    for (const { key } of referencedKeys(service.auth, service.substitutions)) {
      const known = hosts.get(key);
      if (known === undefined) hosts.set(key, new Set([service.host]));
      else known.add(service.host);
    }
  }
  return hosts;
}

// Absent fields are left out altogether, so that what is stored reads as it was written.
function build(input: ServiceInput & Pick<Service, 'auth'>, before: Service | undefined): Service {
  const { host, description, auth, substitutions, reflection } = input;
  const enabled = input.enabled ?? before?.enabled ?? true;
  return {
    host,
    ...(description !== undefined && { description }),
    auth,
    ...(substitutions?.length && { substitutions }),
    ...(reflection !== undefined && { reflection }),
    ...(!enabled && { enabled }),
  };
}

function noAuth(index: number): Problem {
  return invalid(
    `services[${index}].auth`,
    'is missing, and there is no service for this host yet. Say how to authenticate.',
  );
}
