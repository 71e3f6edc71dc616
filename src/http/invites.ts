import { problem } from '../actors/vault/problem.ts';
import { hashToken, tokenKind } from '../actors/vault/token.ts';
import { json, replyTo } from './reply.ts';
import { type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';
import { redeemBody } from './schemas.ts';

/** There is nothing in it but a name, and it is read before anyone has shown who they are. */
const bodyLimit = 4096;

/** How an agent joins. The address is the secret: whoever posts to it first is the agent. */
export function inviteRoutes({ vault, baseUrl, proxy }: FrontParts): Route[] {
  return [
    route(
      'POST',
      '/invite/{token}',
      { auth: 'none', vault: 'none', body: redeemBody, bodyLimit },
      async ({ params: { token }, body, by, failed }) => {
        if (tokenKind(token) !== 'invite') return failed(noInvite());
        const hash = hashToken(token);
        const joined = await vault.ask('invite.redeem', {
          hash,
          name: body.name ?? null,
          by: { ...by, actor: 'invite' },
        });
        if (!joined.ok && joined.problem.code === 'not_found') return failed(noInvite());
        return replyTo(joined, (made) => {
          const { name, vaults } = made.agent;
          const answer = {
            BROKER_ADDR: baseUrl,
            BROKER_SESSION_TOKEN: made.token.reveal(),
            agent: name,
            vaults,
            expires_at: made.agent.expires_at,
            proxy_port: proxy.port,
            ca_url: `${baseUrl}/v1/ca.pem`,
            instructions: instructions(baseUrl, vaults),
          };
          return json(answer, 201);
        });
      },
    ),
  ];
}

function noInvite() {
  return problem(
    'not_found',
    'There is no such invite. Check the address, or ask the operator for a new one.',
  );
}

function instructions(baseUrl: string, vaults: readonly string[]): string {
  return [
    'Keep BROKER_ADDR and BROKER_SESSION_TOKEN in the environment variables of these names; the token is not shown again.',
    `Send it as "Authorization: Bearer" to ${baseUrl}, with X-Vault: one of ${vaults.join(', ')}.`,
    `Read ${baseUrl}/v1/skill.md next: it says how to discover hosts, to propose new ones, and to use the proxy.`,
  ].join(' ');
}
