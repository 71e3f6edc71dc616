import { invalid } from './fields.ts';
import type { Problem } from './problem.ts';

/** Most bytes of UTF-8 that a credential value may have. */
const maxValueBytes = 64 * 1024;

const keyPattern = /^[A-Z][A-Z0-9_]{0,127}$/;

export function isCredentialKey(text: string): boolean {
  return keyPattern.test(text);
}

/** Refuses what isn't a credential key: upper case letters, digits and `_`, a letter first, at most 128. */
export function keyProblem(value: unknown, field: string): Problem | null {
  if (value === undefined) return invalid(field, 'is missing. Name a credential key, such as GITHUB_TOKEN.');
  if (typeof value === 'string' && isCredentialKey(value)) return null;
  return invalid(
    field,
    'must be a credential key, never the value: A to Z, 0 to 9 and _, a letter first, at most 128 characters, such as GITHUB_TOKEN.',
  );
}

/** Refuses what isn't a credential value: 1 byte to 64 KiB of UTF-8, kept exactly as given. */
export function valueProblem(value: unknown, field: string): Problem | null {
  if (typeof value !== 'string') return invalid(field, 'must be a string.');
  if (!value.isWellFormed()) return invalid(field, 'holds half a surrogate pair. Send well-formed Unicode.');
  if (value === '') return invalid(field, 'is empty. Give the value.');
  if (Buffer.byteLength(value) > maxValueBytes) return invalid(field, 'is larger than 64 KiB. Shorten it.');
  return null;
}
