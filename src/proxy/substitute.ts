import { defaultSurfaces, type Substitution, type Surface } from '../actors/vault/model.ts';
import type { Secret } from '../actors/vault/secret.ts';

/** What a substitution did to one component, or why it could not. */
export type Substituted = { readonly text: string; readonly keys: readonly string[] } | SubstitutionFailure;

interface SubstitutionFailure {
  readonly failed: 'missing' | 'damaged' | 'illegal';
  readonly key: string;
}

interface Surfaced {
  readonly pattern: RegExp;
  readonly keyOf: ReadonlyMap<string, string>;
}

/**
 * The substitutions of one service (protocol, "Substitution"): literal, case-sensitive, one pass over each
 * declared surface, the longest placeholder first, so that a value that holds a placeholder is not read again.
 */
export class Substituter {
  readonly #credentials: ReadonlyMap<string, Secret | null>;
  readonly #surfaces = new Map<Surface, Surfaced>();

  constructor(substitutions: readonly Substitution[], credentials: ReadonlyMap<string, Secret | null>) {
    this.#credentials = credentials;
    for (const surface of ['path', 'query', 'header'] as const) {
      const here = substitutions.filter((s) => (s.in ?? defaultSurfaces).includes(surface));
      if (here.length === 0) continue;
      const longestFirst = here.map((s) => s.placeholder).sort((a, b) => b.length - a.length);
      const pattern = new RegExp(longestFirst.map(escapeRegExp).join('|'), 'g');
      this.#surfaces.set(surface, { pattern, keyOf: new Map(here.map((s) => [s.placeholder, s.key])) });
    }
  }

  get scansHeaders(): boolean {
    return this.#surfaces.has('header');
  }

  /** Substitutes in a raw path; null where there is nothing to do. */
  path(raw: string): Substituted | null {
    const done = this.#replace('path', raw, encodePath);
    if (done === null || 'failed' in done) return done;
    // A segment that the value turned into `.` or `..`, however encoded, would be another path upstream.
    // A value's own slashes are encoded, so segments before and after pair up.
    const before = raw.split('/');
    const illegal = done.text.split('/').some((segment, i) => segment !== before[i] && isDotSegment(segment));
    if (illegal) return { failed: 'illegal', key: done.keys[0] };
    return done;
  }

  /** Substitutes in a raw query (without `?`); null where there is nothing to do. */
  query(raw: string): Substituted | null {
    return this.#replace('query', raw, encodeQuery);
  }

  /** Substitutes in a field value, as it is; null where there is nothing to do. */
  header(value: string): Substituted | null {
    return this.#replace('header', value, (text) => text);
  }

  #replace(surface: Surface, raw: string, encode: (value: string) => string): Substituted | null {
    const surfaced = this.#surfaces.get(surface);
    if (surfaced === undefined || raw.search(surfaced.pattern) < 0) return null;
    const keys: string[] = [];
    let failure: SubstitutionFailure | null = null;
    const text = raw.replace(surfaced.pattern, (placeholder) => {
      const key = surfaced.keyOf.get(placeholder) as string;
      const value = this.#credentials.get(key);
      if (!keys.includes(key)) keys.push(key);
      if (value === undefined || value === null) {
        failure ??= { failed: value === null ? 'damaged' : 'missing', key };
        return '';
      }
      return encode(value.reveal());
    });
    return failure ?? { text, keys };
  }
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\\-/~]/g, '\\$&');
}

const percent = (byte: number): string => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;

function encode(value: string, keep: RegExp): string {
  let out = '';
  for (const char of value) {
    if (keep.test(char)) out += char;
    else for (const byte of Buffer.from(char, 'utf8')) out += percent(byte);
  }
  return out;
}

/** RFC 3986 3.3: what may stand in a segment as it is, without what could end it or split it in parameters. */
function encodePath(value: string): string {
  return encode(value, /^[A-Za-z0-9\-._~$&+=:@]$/);
}

/** Unreserved only: any other character could end the parameter, or mean something to a form decoder. */
function encodeQuery(value: string): string {
  return encode(value, /^[A-Za-z0-9\-._~]$/);
}

/** Whether a segment, decoded as often as a careless server might, holds `.` or `..` between separators. */
function isDotSegment(segment: string): boolean {
  let text = segment;
  for (let i = 0; i < 4; i++) {
    // What follows a `;` is a parameter to servers that know them, and a NUL ends the name to others.
    if (text.split(/[/\\]/).some((part) => /^\.\.?(?:[;\0]|$)/.test(part))) return true;
    const decoded = text.replace(/%([0-9a-fA-F]{2})/g, (_, hex) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    if (decoded === text) return false;
    text = decoded;
  }
  return false;
}
