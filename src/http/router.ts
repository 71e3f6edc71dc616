import { type Problem, problem } from '../actors/vault/problem.ts';
import type { Route } from './route.ts';

/**
 * What each path parameter may look like, undecoded: there is one way to write a path, and the others are not found.
 * Only a host is decoded, since a wildcard or an IPv6 address has to be percent-encoded by some clients.
 */
export const parameterShapes: Readonly<Record<string, string>> = {
  id: '[1-9]\\d{0,15}',
  vault: '[a-z0-9-]{1,64}',
  host: '[^/]{1,800}',
  key: '[A-Z][A-Z0-9_]{0,127}',
  session: '[A-Za-z0-9]{1,64}',
  agent: '[A-Za-z0-9][A-Za-z0-9._-]{0,63}',
  operator: '[A-Za-z0-9][A-Za-z0-9._-]{0,63}',
  token: '[A-Za-z0-9_]{1,128}',
};

interface Resource {
  readonly pattern: RegExp;
  readonly methods: Map<string, Route>;
}

export interface Match {
  readonly route: Route;
  readonly params: Readonly<Record<string, string>>;
}

/**
 * Finds the route of a request, else says `not_found`, or `method_not_allowed` with the methods of the resource. `HEAD`
 * goes where `GET` goes (RFC 9110 section 9.3.2).
 */
export function createRouter(routes: readonly Route[]): (method: string, path: string) => Match | Problem {
  const resources = new Map<string, Resource>();
  for (const route of routes) {
    const resource = resources.get(route.path) ?? { pattern: patternOf(route.path), methods: new Map() };
    resources.set(route.path, resource);
    resource.methods.set(route.method, route);
  }
  const all = [...resources.values()];

  return (method, path) => {
    let refusal = problem('not_found');
    for (const resource of all) {
      const found = resource.pattern.exec(path);
      const params = found && decoded({ ...found.groups });
      if (!params) continue;
      const chosen = choose(resource, method, params);
      if ('route' in chosen) return chosen;
      // Another resource may have the method: `/v1/agents/invites` is also the agent `invites`.
      if (refusal.code === 'not_found') refusal = chosen;
    }
    return refusal;
  };
}

function patternOf(path: string): RegExp {
  const source = path
    .split(/\{(\w+)\}/)
    .map((part, index) =>
      index % 2 === 0 ? part.replaceAll('.', '\\.') : `(?<${part}>${parameterShapes[part]})`,
    )
    .join('');
  return new RegExp(`^${source}$`);
}

/** null where a parameter is none after all. */
function decoded(params: Record<string, string>): Record<string, string> | null {
  if (params.id !== undefined && !Number.isSafeInteger(Number(params.id))) return null;
  try {
    if (params.host !== undefined) params.host = decodeURIComponent(params.host);
    return params;
  } catch {
    return null;
  }
}

function choose({ methods }: Resource, method: string, params: Record<string, string>): Match | Problem {
  const route = methods.get(method === 'HEAD' ? 'GET' : method);
  if (route) return { route, params };
  const allow = [...methods.keys()].flatMap((name) => (name === 'GET' ? ['GET', 'HEAD'] : name));
  return problem('method_not_allowed', `This method is not allowed here. Use ${allow.join(' or ')}.`, {
    allow,
  });
}
