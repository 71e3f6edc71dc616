import { problem } from '../actors/vault/problem.ts';
import { json } from './reply.ts';
import { type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';
import { proofBody } from './schemas.ts';

/** A question of four short fields. */
const bodyLimit = 1024;

/** How a client finds out that it speaks to its own broker, before it sends its token over a plain connection. */
export function proofRoutes({ vault, address }: FrontParts): Route[] {
  const asked = { auth: 'none', vault: 'none', body: proofBody, bodyLimit } as const;
  return [
    route('POST', '/v1/prove', asked, async ({ body, failed }) => {
      if (!address.owns(body)) return problem('misdirected_request', elsewhere);
      const proof = await vault.ask('token.prove', body);
      return proof === null ? failed(problem('unauthorized')) : json({ proof });
    }),
  ];
}

const elsewhere =
  'This broker does not listen where your connection went. Use its own address, or have the operator name it with --public-url.';
