import {
  type AuthConfig,
  defaultSurfaces,
  type ServiceInput,
  type Substitution,
  type Surface,
} from './model.ts';
import { parseTemplate, templateKeys } from './template.ts';

/** One way in which a service sends a credential. */
export interface KeyUse {
  readonly key: string;
  /**
   * `auth`: the broker sets a header by itself; `answers`: the agent reads what the upstream repeats of it; else the agent
   * writes a placeholder on that surface.
   */
  readonly by: 'auth' | 'answers' | Surface;
  /**
   * Of `auth` the header's name. Else the only place where the placeholder is replaced: a path template, with the key in
   * braces for the placeholder; the name of a query parameter or of a header; null: anywhere on that surface.
   */
  readonly place: string | null;
}

/** Every use of a credential by a service, while it is enabled. What a change leaves out, it doesn't use. */
export function usesOf({ auth, substitutions = [] }: Pick<ServiceInput, 'auth' | 'substitutions'>): KeyUse[] {
  return [...(auth === undefined ? [] : authUses(auth)), ...substitutions.flatMap(substitutionUses)];
}

function authUses(auth: AuthConfig): KeyUse[] {
  const use = (key: string, place = 'Authorization'): KeyUse => ({ key, by: 'auth', place });
  switch (auth.type) {
    case 'bearer':
      return [use(auth.token)];
    case 'basic':
      return auth.password === undefined ? [use(auth.username)] : [use(auth.username), use(auth.password)];
    case 'api-key':
      return [use(auth.key, auth.header)];
    case 'custom':
      return Object.entries(auth.headers).flatMap(([name, template]) => {
        const parsed = parseTemplate(template);
        return 'error' in parsed ? [] : templateKeys(parsed).map((key) => use(key, name));
      });
    case 'passthrough':
      return [];
  }
}

function substitutionUses(substitution: Substitution): KeyUse[] {
  const { key, placeholder, in: surfaces = defaultSurfaces, at } = substitution;
  if (at === undefined) return surfaces.map((by) => ({ key, by, place: null }));
  const { path, query = [], header = [] } = at;
  return [
    // Another placeholder for the same key at the same place is no other use.
    ...(path === undefined
      ? []
      : [{ key, by: 'path' as const, place: path.replaceAll(placeholder, `{${key}}`) }]),
    ...query.map((place) => ({ key, by: 'query' as const, place })),
    ...header.map((place) => ({ key, by: 'header' as const, place })),
  ];
}

/** Whether whoever may send a credential as `wide` says may send it as `narrow` says, too. Of one host. */
export function covers(wide: KeyUse, narrow: KeyUse): boolean {
  if (wide.key !== narrow.key || wide.by !== narrow.by) return false;
  if (wide.place === null || wide.place === narrow.place) return true;
  if (narrow.place === null) return false;
  if (wide.by === 'path') {
    const [known, key] = [wide.place.slice(0, -1), `{${wide.key}}`];
    // In the rest of a path it wasn't replaced.
    return (
      wide.place.endsWith('*') &&
      narrow.place.startsWith(known) &&
      !narrow.place.slice(known.length).includes(key)
    );
  }
  return wide.by !== 'query' && wide.place.toLowerCase() === narrow.place.toLowerCase();
}

/** A use in words: `auth header Authorization`, `path`, `path /bot{TOKEN}/*`, `query key`, `header X-Key`, `answers that repeat it`. */
export function surfaceWords({ by, place }: KeyUse): string {
  if (by === 'answers') return 'answers that repeat it';
  return [by === 'auth' ? 'auth header' : by, ...(place === null ? [] : [place])].join(' ');
}
