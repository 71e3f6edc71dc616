import { type Problem, problem, type Result } from './problem.ts';

/** An object of untrusted JSON. */
export type Fields = Readonly<Record<string, unknown>>;

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * A refusal of one field. Values never go into `message`: where a key or a template is asked for, people
 * paste the secret itself.
 */
export function invalid(field: string, message: string): Problem {
  return problem('invalid_request', `${field}: ${message}`, { field });
}

export function refused<T>(found: Problem): Result<T> {
  return { ok: false, problem: found };
}

/** The path of a field in an object: `services[2].auth` + `token`. Odd names are quoted and cut short. */
export function at(path: string, name: string): string {
  const plain = /^[\w-]{1,64}$/.test(name);
  if (path === '' && plain) return name;
  return plain ? `${path}.${name}` : `${path}[${JSON.stringify(name.slice(0, 64))}]`;
}

/** Refuses the first field that isn't `known`. */
export function unknownField(fields: Fields, path: string, known: readonly string[]): Problem | null {
  const name = Object.keys(fields).find((key) => !known.includes(key));
  if (name === undefined) return null;
  return invalid(at(path, name), `this field is not known here. Remove it; there are ${known.join(', ')}.`);
}

/** Refuses what isn't text of at most `max` Unicode code points. Absent is fine. */
export function textProblem(value: unknown, field: string, max: number): Problem | null {
  if (value === undefined) return null;
  if (typeof value !== 'string') return invalid(field, 'must be a string.');
  // A lone surrogate can't be written as UTF-8: what is stored would differ from what was sent.
  if (!value.isWellFormed()) return invalid(field, 'holds half a surrogate pair. Send well-formed Unicode.');
  if (longerThan(value, max)) return invalid(field, `is longer than ${max} characters. Shorten it.`);
  return null;
}

function longerThan(text: string, max: number): boolean {
  if (text.length <= max) return false;
  return text.length > 2 * max || [...text].length > max;
}
