import { keyProblem } from './credential-rules.ts';
import { at, type Fields, invalid, isFields, unknownField } from './fields.ts';
import { isHeaderName, isHeaderValue, isReservedHeader } from './header-rules.ts';
import { type AuthConfig, authTypes } from './model.ts';
import type { Problem } from './problem.ts';
import { parseTemplate } from './template.ts';

const maxHeaders = 32;
const maxHeaderName = 256;
/** Characters of a prefix or template: far above any real one, far below the largest head that is sent. */
const maxHeaderText = 8192;
/** Placeholders of one template. */
const maxPlaceholders = 16;

const fieldsOf: Readonly<Record<AuthConfig['type'], readonly string[]>> = {
  bearer: ['token'],
  basic: ['username', 'password'],
  'api-key': ['key', 'header', 'prefix'],
  custom: ['headers'],
  passthrough: [],
};
const credentialFields = Object.values(fieldsOf).flat();

/**
 * What is wrong with an auth config (protocol, "Auth config"), or null: then it is an {@link AuthConfig}.
 *
 * @param path of the config itself, such as `services[2].auth`
 */
export function authProblem(auth: unknown, path: string): Problem | null {
  if (!isFields(auth)) return invalid(path, `must be an object with a type: ${authTypes.join(', ')}.`);
  const type = authTypes.find((known) => known === auth.type);
  if (type === undefined) return invalid(at(path, 'type'), `must be one of ${authTypes.join(', ')}.`);
  if (type === 'passthrough') {
    const surplus = credentialFields.find((name) => Object.hasOwn(auth, name));
    if (surplus !== undefined) {
      return invalid(
        at(path, surplus),
        'passthrough injects nothing. Remove this field, or choose another type.',
      );
    }
  }
  return unknownField(auth, path, ['type', ...fieldsOf[type]]) ?? contentProblem(type, auth, path);
}

function contentProblem(type: AuthConfig['type'], auth: Fields, path: string): Problem | null {
  switch (type) {
    case 'bearer':
      return keyProblem(auth.token, at(path, 'token'));
    case 'basic':
      return (
        keyProblem(auth.username, at(path, 'username')) ??
        optional(keyProblem, auth.password, at(path, 'password'))
      );
    case 'api-key':
      return (
        keyProblem(auth.key, at(path, 'key')) ??
        optional(headerProblem, auth.header, at(path, 'header')) ??
        optional(headerTextProblem, auth.prefix, at(path, 'prefix'))
      );
    case 'custom':
      return headersProblem(auth.headers, at(path, 'headers'));
    case 'passthrough':
      return null;
  }
}

function optional(
  check: (value: unknown, field: string) => Problem | null,
  value: unknown,
  field: string,
): Problem | null {
  return value === undefined ? null : check(value, field);
}

function headersProblem(headers: unknown, path: string): Problem | null {
  if (!isFields(headers))
    return invalid(path, 'must map header names to templates, as in {"X-Key": "{{ KEY }}"}.');
  const entries = Object.entries(headers);
  if (entries.length === 0) return invalid(path, 'is empty. Name at least one header, or use passthrough.');
  if (entries.length > maxHeaders) return invalid(path, `has more than ${maxHeaders} headers. Remove some.`);
  const seen = new Set<string>();
  for (const [name, template] of entries) {
    const field = at(path, name);
    const wrong = headerProblem(name, field) ?? templateProblem(template, field);
    if (wrong !== null) return wrong;
    const lower = name.toLowerCase();
    if (seen.has(lower))
      return invalid(field, 'this header is there already; case does not matter. Remove one.');
    seen.add(lower);
  }
  return null;
}

function headerProblem(name: unknown, field: string): Problem | null {
  if (typeof name !== 'string' || !isHeaderName(name) || name.length > maxHeaderName) {
    return invalid(
      field,
      `must be a legal header name of at most ${maxHeaderName} characters, such as X-Api-Key.`,
    );
  }
  if (isReservedHeader(name))
    return invalid(field, 'this header belongs to the connection or to the broker. Choose another one.');
  return null;
}

function headerTextProblem(value: unknown, field: string): Problem | null {
  if (typeof value !== 'string') return invalid(field, 'must be a string.');
  if (value.length > maxHeaderText)
    return invalid(field, `is longer than ${maxHeaderText} characters. Shorten it.`);
  if (isHeaderValue(value)) return null;
  return invalid(field, 'holds a character that no header can carry, such as a line break. Remove it.');
}

function templateProblem(value: unknown, field: string): Problem | null {
  const wrong = headerTextProblem(value, field);
  if (wrong !== null) return wrong;
  const parsed = parseTemplate(value as string);
  if (!('error' in parsed)) {
    const count = parsed.parts.filter((part) => typeof part !== 'string').length;
    return count <= maxPlaceholders
      ? null
      : invalid(field, `has more than ${maxPlaceholders} placeholders. Remove some.`);
  }
  return invalid(field, `${parsed.error}. A key is A to Z, 0 to 9 and _, a letter first.`);
}
