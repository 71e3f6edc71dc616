import type { Result } from '../../actors/vault/problem.ts';
import { selectVault } from '../caller.ts';
import { isProblem } from '../reply.ts';
import type { Call, Method, Route } from '../route.ts';
import type { SignedIn } from '../sign-in.ts';

interface Asked {
  /** Of the route's path. */
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, unknown>>;
  /** As a client would send it. */
  readonly body?: unknown;
}

type Caller = Pick<Call, 'incoming' | 'failed' | 'by'> & { readonly signedIn: SignedIn };

/**
 * Asks a route of the API in the name of a signed-in operator, and gives what its JSON says. The console makes its
 * changes in this way, so that what may be done, by whom, and in which words it is refused is said in one place.
 */
export type Api = (
  caller: Caller,
) => (method: Method, path: string, asked?: Asked) => Promise<Result<unknown>>;

/** @throws Error where there is no such route: a page was made for an API that isn't there */
export function createApi(routes: readonly Route[]): Api {
  const byName = new Map(routes.map((each) => [`${each.method} ${each.path}`, each]));

  return ({ incoming, failed, by, signedIn: { identity, hash } }) =>
    async (method, path, { params = {}, query = {}, body = {} } = {}) => {
      const route = byName.get(`${method} ${path}`);
      if (!route) throw new Error(`There is no route ${method} ${path}.`);
      const vault = selectVault(identity, params.vault === undefined ? [] : [params.vault], false);
      if (!vault.ok) return vault;
      const checkedQuery = route.query?.check({ ...query });
      if (checkedQuery && !checkedQuery.ok) return checkedQuery;
      const checkedBody = route.body?.check(body);
      if (checkedBody && !checkedBody.ok) return checkedBody;
      const call = {
        ...{ incoming, params, identity, tokenHash: hash, vault: vault.value, by, failed },
        ...{ query: checkedQuery?.value, body: checkedBody?.value },
      };
      const answer = await route.handle(call as Call);
      if (isProblem(answer)) return { ok: false, problem: answer };
      return {
        ok: true,
        value: typeof answer.body === 'string' && answer.body !== '' ? JSON.parse(answer.body) : null,
      };
    };
}
