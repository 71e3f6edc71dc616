import { keyProblem } from './credential-rules.ts';
import { at, invalid, isFields, unknownField } from './fields.ts';
import { type Surface, surfaces } from './model.ts';
import { placesProblem } from './place-rules.ts';
import type { Problem } from './problem.ts';

const maxSubstitutions = 16;
const minPlaceholder = 4;
const maxPlaceholder = 128;

/**
 * What is wrong with the substitutions of a service (protocol, "Substitution"), or null. Placeholders that
 * contain each other are fine, the longest matches first; two that are equal are not.
 *
 * @param path of the list, such as `services[2].substitutions`
 */
export function substitutionsProblem(list: unknown, path: string): Problem | null {
  if (!Array.isArray(list)) return invalid(path, 'must be a list of {key, placeholder, at}.');
  if (list.length > maxSubstitutions) {
    return invalid(path, `has more than ${maxSubstitutions} substitutions. Remove some.`);
  }
  const seen = new Set<unknown>();
  for (const [index, item] of list.entries()) {
    const field = `${path}[${index}]`;
    const wrong = substitutionProblem(item, field);
    if (wrong !== null) return wrong;
    if (seen.has(item.placeholder)) {
      return invalid(
        at(field, 'placeholder'),
        'another substitution has this placeholder. Choose a different one.',
      );
    }
    seen.add(item.placeholder);
  }
  return null;
}

function substitutionProblem(item: unknown, field: string): Problem | null {
  if (!isFields(item)) return invalid(field, 'must be an object with key and placeholder.');
  return (
    unknownField(item, field, ['key', 'placeholder', 'in', 'at']) ??
    keyProblem(item.key, at(field, 'key')) ??
    placeholderProblem(item.placeholder, at(field, 'placeholder')) ??
    surfacesProblem(item.in, at(field, 'in')) ??
    placesProblem(item.at, item.placeholder as string, item.in as Surface[] | undefined, at(field, 'at'))
  );
}

/**
 * What is wrong with a placeholder, or null. Its rules keep it from standing in a request by chance, and let
 * it pass a URL without being escaped (RFC 3986 section 2.3).
 */
function placeholderProblem(value: unknown, field: string): Problem | null {
  if (typeof value !== 'string') return invalid(field, 'must be a string, such as __account_sid__.');
  if (value.length < minPlaceholder || value.length > maxPlaceholder) {
    return invalid(
      field,
      `must have ${minPlaceholder} to ${maxPlaceholder} characters, as in __account_sid__.`,
    );
  }
  if (!/^[\w.~-]+$/.test(value))
    return invalid(field, 'may hold only letters, digits, _, -, . and ~. Remove the rest.');
  if (!/[A-Za-z0-9]/.test(value)) return invalid(field, 'needs a letter or digit, as in __account_sid__.');
  if (!/__|[.~-]/.test(value)) {
    return invalid(field, 'could be an ordinary word. Mark it with __, -, . or ~, as in __account_sid__.');
  }
  return null;
}

function surfacesProblem(value: unknown, field: string): Problem | null {
  if (value === undefined) return null;
  const known = surfaces.join(', ');
  if (!Array.isArray(value) || value.length === 0) {
    return invalid(field, `must be a list of ${known}, or be left out for path and query.`);
  }
  if (value.includes('body')) return invalid(field, `body is reserved for a later version. Use ${known}.`);
  if (!value.every((surface) => surfaces.includes(surface))) return invalid(field, `may hold only ${known}.`);
  if (new Set(value).size !== value.length) return invalid(field, 'names a surface twice. Remove one.');
  return null;
}
