import { authProblem } from './auth-rules.ts';
import { at, type Fields, invalid, isFields, refused, textProblem, unknownField } from './fields.ts';
import { parseHostPattern } from './host-pattern.ts';
import {
  type AuthConfig,
  reflections,
  type ServiceChange,
  type ServiceInput,
  type Substitution,
} from './model.ts';
import { accept, type Problem, problem, type Result } from './problem.ts';
import { substitutionsProblem } from './substitution-rules.ts';
import { parseTemplate, templateKeys } from './template.ts';

const maxDescription = 500;

/** A credential key that a service refers to, and where: `auth.token`, `substitutions[0].key`. */
interface KeyReference {
  readonly key: string;
  readonly field: string;
}

/**
 * Checks one service as it comes in (protocol, "Service") and gives it back with its host in canonical form.
 * Nothing is looked up: see {@link unresolved} for the keys. Without `requireAuth` the auth config may be
 * missing where `enabled` is all that is said, to enable or disable a service that is there.
 *
 * @param path that refusals name it by, such as `services[2]`
 */
export function checkService(
  input: unknown,
  path: string,
  options: { readonly requireAuth?: boolean } = {},
): Result<ServiceInput> {
  if (!isFields(input)) return refused(invalid(path, 'must be an object with host and auth.'));
  const unknown = unknownField(input, path, [
    'host',
    'description',
    'auth',
    'substitutions',
    'reflection',
    'enabled',
  ]);
  if (unknown !== null) return refused(unknown);
  const host = checkHost(input.host, at(path, 'host'));
  if (!host.ok) return host;
  const wrong =
    textProblem(input.description, at(path, 'description'), maxDescription) ??
    enabledProblem(input.enabled, at(path, 'enabled')) ??
    reflectionProblem(input.reflection, at(path, 'reflection')) ??
    (input.auth === undefined
      ? missingAuth(input, at(path, 'auth'), options.requireAuth === true)
      : authProblem(input.auth, at(path, 'auth'))) ??
    (input.substitutions === undefined
      ? null
      : substitutionsProblem(input.substitutions, at(path, 'substitutions')));
  if (wrong !== null) return refused(wrong);
  return accept({ ...(input as unknown as ServiceInput), host: host.value });
}

/** Checks a list of services, as a file or a `PUT` holds it; the same host twice is refused. */
export function checkServices(
  list: unknown,
  path: string,
  options: { readonly requireAuth: boolean },
): Result<ServiceInput[]> {
  if (!Array.isArray(list)) return refused(invalid(path, 'must be a list of services.'));
  const services: ServiceInput[] = [];
  for (const [index, item] of list.entries()) {
    const checked = checkService(item, `${path}[${index}]`, options);
    if (!checked.ok) return checked;
    services.push(checked.value);
  }
  const twice = repeatedHost(services, path);
  return twice === null ? accept(services) : refused(twice);
}

/** Checks a service's host and gives its canonical form. */
export function checkHost(value: unknown, field: string): Result<string> {
  if (value === undefined)
    return refused(invalid(field, 'is missing. Name the host, such as api.example.com.'));
  if (typeof value !== 'string') return refused(invalid(field, 'must be a string, such as api.example.com.'));
  const parsed = parseHostPattern(value);
  return 'error' in parsed ? refused(invalid(field, `${parsed.error}.`)) : accept(parsed.pattern);
}

/** Refuses the second entry with one host. Hosts are canonical. */
export function repeatedHost(entries: readonly { readonly host: string }[], path: string): Problem | null {
  const seen = new Set<string>();
  for (const [index, { host }] of entries.entries()) {
    if (seen.has(host))
      return invalid(`${path}[${index}].host`, 'this host stands in the list twice. Remove one.');
    seen.add(host);
  }
  return null;
}

/** Every credential key that a service refers to, with the place of each. Both arguments are checked ones. */
export function referencedKeys(
  auth: AuthConfig | undefined,
  substitutions: readonly Substitution[] | undefined,
): KeyReference[] {
  const inSubstitutions = (substitutions ?? []).map(({ key }, index) => ({
    key,
    field: `substitutions[${index}].key`,
  }));
  return auth === undefined ? inSubstitutions : [...keysOfAuth(auth), ...inSubstitutions];
}

/**
 * The first key that is neither an existing credential nor a `set` slot of the same proposal (protocol,
 * "Auth config", rule 2), as a problem with `key` and `field`; null where all resolve.
 */
export function unresolved(
  services: readonly (ServiceInput | ServiceChange)[],
  existingKeys: ReadonlySet<string>,
  slots: ReadonlySet<string>,
  path = 'services',
): Problem | null {
  for (const [index, service] of services.entries()) {
    if ('action' in service && service.action === 'delete') continue;
    for (const { key, field } of referencedKeys(service.auth, service.substitutions)) {
      if (existingKeys.has(key) || slots.has(key)) continue;
      const where = `${path}[${index}].${field}`;
      const message = `${where}: there is no credential ${key}. Add it (in a proposal: a slot for it), or use an existing key.`;
      return problem('unresolved_credential', message, { key, field: where });
    }
  }
  return null;
}

function keysOfAuth(auth: AuthConfig): KeyReference[] {
  switch (auth.type) {
    case 'bearer':
      return [{ key: auth.token, field: 'auth.token' }];
    case 'basic': {
      const username = { key: auth.username, field: 'auth.username' };
      return auth.password === undefined
        ? [username]
        : [username, { key: auth.password, field: 'auth.password' }];
    }
    case 'api-key':
      return [{ key: auth.key, field: 'auth.key' }];
    case 'custom':
      return Object.entries(auth.headers).flatMap(([name, template]) => {
        const parsed = parseTemplate(template);
        const keys = 'error' in parsed ? [] : templateKeys(parsed);
        return keys.map((key) => ({ key, field: at('auth.headers', name) }));
      });
    case 'passthrough':
      return [];
  }
}

// Substitutions or reflection without auth are refused, so that whoever reviews a change sees both together.
function missingAuth(input: Fields, field: string, required: boolean): Problem | null {
  const { enabled, description, substitutions, reflection } = input;
  const onlyEnabled =
    enabled !== undefined && [description, substitutions, reflection].every((each) => each === undefined);
  if (onlyEnabled && !required) return null;
  return invalid(
    field,
    'is missing. Say how to authenticate, such as {"type":"bearer","token":"GITHUB_TOKEN"}.',
  );
}

function enabledProblem(value: unknown, field: string): Problem | null {
  return value === undefined || typeof value === 'boolean' ? null : invalid(field, 'must be true or false.');
}

function reflectionProblem(value: unknown, field: string): Problem | null {
  const known: readonly unknown[] = reflections;
  return value === undefined || known.includes(value)
    ? null
    : invalid(field, `must be one of ${reflections.join(', ')}.`);
}
