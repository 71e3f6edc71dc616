import { at, invalid, isFields, unknownField } from './fields.ts';
import { isHeaderName, isReservedHeader } from './header-rules.ts';
import { type Surface, surfaces } from './model.ts';
import type { Problem } from './problem.ts';

const maxPath = 2048;
const maxNames = 16;
const maxName = 256;

/** What a request target holds as it is, but for what ends a path (RFC 3986 3.3). */
const pathChars = /^\/[A-Za-z0-9\-._~:/[\]@!$&'()*+,;=%|{}^`"<>]*$/;
/** The same of a parameter's name: neither what ends it nor what begins the next. */
const queryName = /^[A-Za-z0-9\-._~:/?[\]@!$'()*+,%|{}^`"<>]+$/;

/**
 * What is wrong with the places of a substitution (protocol, "Substitution"), or null.
 *
 * @param placeholder checked already
 * @param declared its `in`, checked already: each of these needs a place, and there is none for another
 */
export function placesProblem(
  value: unknown,
  placeholder: string,
  declared: readonly Surface[] | undefined,
  field: string,
): Problem | null {
  if (value === undefined) return null;
  if (!isFields(value)) return invalid(field, 'must be an object, such as {"query": ["key"]}.');
  const unknown = unknownField(value, field, surfaces);
  if (unknown !== null) return unknown;
  const given = surfaces.filter((surface) => value[surface] !== undefined);
  if (given.length === 0)
    return invalid(field, `names no place. Give ${surfaces.join(', ')}, or leave it out.`);
  const lacking = declared?.find((surface) => !given.includes(surface));
  if (lacking !== undefined) {
    return invalid(
      at(field, lacking),
      'is missing, though it stands in `in`. Give its place, or take it out of `in`.',
    );
  }
  const surplus = declared && given.find((surface) => !declared.includes(surface));
  if (surplus !== undefined) {
    return invalid(at(field, surplus), 'does not stand in `in`. Add it there, or leave `in` out.');
  }
  return (
    pathProblem(value.path, placeholder, at(field, 'path')) ??
    namesProblem(value.query, at(field, 'query'), queryNameProblem, (name) => name) ??
    namesProblem(value.header, at(field, 'header'), headerNameProblem, (name) => name.toLowerCase())
  );
}

function pathProblem(path: unknown, placeholder: string, field: string): Problem | null {
  if (path === undefined) return null;
  if (typeof path !== 'string' || path.length > maxPath || !pathChars.test(path)) {
    return invalid(field, `must be a path of at most ${maxPath} characters, such as /bot${placeholder}/*.`);
  }
  if (path.slice(0, -1).includes('*')) return invalid(field, 'may hold a * at its end only, for the rest.');
  if (path.includes(placeholder)) return null;
  return invalid(
    field,
    `does not hold the placeholder. Write it where it is to be replaced, as in /bot${placeholder}/*.`,
  );
}

function namesProblem(
  names: unknown,
  field: string,
  check: (name: string) => string | null,
  canonical: (name: string) => string,
): Problem | null {
  if (names === undefined) return null;
  if (!Array.isArray(names) || names.length === 0)
    return invalid(field, 'must be a list of names, one at least.');
  if (names.length > maxNames) return invalid(field, `has more than ${maxNames} names. Remove some.`);
  for (const name of names) {
    if (typeof name !== 'string' || name.length > maxName) {
      return invalid(field, `may hold only names of at most ${maxName} characters.`);
    }
    const wrong = check(name);
    if (wrong !== null) return invalid(field, wrong);
  }
  if (new Set(names.map(canonical)).size === names.length) return null;
  return invalid(field, 'holds a name twice. Remove one.');
}

function queryNameProblem(name: string): string | null {
  return queryName.test(name) ? null : 'holds what is no name of a parameter as it is written in a URL.';
}

function headerNameProblem(name: string): string | null {
  if (!isHeaderName(name)) return 'holds what is no legal header name, such as X-Api-Key.';
  return isReservedHeader(name)
    ? 'holds a header of the connection or of the broker. Choose another one.'
    : null;
}
