import { loginBody } from './operator-schemas.ts';
import { passwordProblemOf } from './password-check.ts';
import { json, noContent, replyTo } from './reply.ts';
import { type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';

/** There is nothing in it but a name and a password, and it is read before anyone has shown who they are. */
const bodyLimit = 8192;

/** How operators get tokens and links, and give them back. For a browser's own sign-in see `login-page.ts`. */
export function loginRoutes(front: FrontParts): Route[] {
  const { vault, baseUrl } = front;
  const signedIn = { auth: 'operator', vault: 'none' } as const;

  return [
    route('POST', '/v1/logout', signedIn, async ({ tokenHash, by }) =>
      replyTo(await vault.ask('operator.signOut', { hash: tokenHash, by }), noContent),
    ),

    route('POST', '/v1/login-links', signedIn, async ({ identity: { name }, by }) =>
      replyTo(await vault.ask('operator.signIn', { name, kind: 'login-link', by }), ({ token, expires_at }) =>
        json({ url: `${baseUrl}/login?token=${token.reveal()}`, expires_at }, 201),
      ),
    ),

    route('POST', '/v1/login-codes', signedIn, async ({ identity: { name }, by }) =>
      replyTo(await vault.ask('operator.code', { name, by }), ({ code, expires_at }) =>
        json({ code: code.reveal(), expires_at }, 201),
      ),
    ),

    route('POST', '/v1/login', { auth: 'none', vault: 'none', body: loginBody, bodyLimit }, async (call) => {
      const wrong = await passwordProblemOf(front, call, call.body);
      if (wrong) return wrong;
      const { name } = call.body;
      const by = { ...call.by, actor: `operator:${name}`, label: name };
      return replyTo(
        await vault.ask('operator.signIn', { name, kind: 'token', by }),
        ({ token, expires_at }) => json({ token: token.reveal(), expires_at }),
      );
    }),
  ];
}
