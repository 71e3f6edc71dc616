import type { Route } from '../../src/http/route.ts';
import { type FrontParts, frontRoutes } from '../../src/http/routes.ts';

/** Every route there is. */
export function allRoutes(): readonly Route[] {
  const parts = {
    health: {},
    baseUrl: '',
  };
  return frontRoutes(parts as unknown as FrontParts);
}

/** A path that a route matches. */
export function example({ path }: Route, given: Readonly<Record<string, string | undefined>> = {}): string {
  const values: Record<string, string | undefined> = {
    id: '1',
    vault: 'default',
    host: 'a.example.com',
    key: 'K',
    session: 's',
    agent: 'a',
    ...given,
  };
  return path.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? 'x');
}
