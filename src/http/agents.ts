import { type Problem, problem } from '../actors/vault/problem.ts';
import type { AgentView } from '../actors/vault/protocol.ts';
import { administers, foreignVault } from './caller.ts';
import { json, noContent, replyTo } from './reply.ts';
import { type OperatorIdentity, type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';
import { inviteBody, rotateBody } from './schemas.ts';

const inviteTtlSeconds = 7 * 86_400;
const tokenTtlSeconds = 90 * 86_400;

/** Instance-level agents, and the invites by which they come. */
export function agentRoutes({ vault, baseUrl }: FrontParts): Route[] {
  /** Of an agent, an operator sees the vaults that they administer; one with none of these isn't there for them. */
  async function visibleAgents(identity: OperatorIdentity): Promise<AgentView[]> {
    const agents = await vault.ask('agent.list', {});
    if (identity.role === 'owner') return [...agents];
    return agents
      .map((agent) => ({ ...agent, vaults: agent.vaults.filter((name) => administers(identity, name)) }))
      .filter(({ vaults }) => vaults.length > 0);
  }

  /** Who administers some of an agent's vaults may see it, but not end its work in the others. */
  async function agentProblem(identity: OperatorIdentity, name: string): Promise<Problem | null> {
    if (identity.role === 'owner') return null;
    const agents = await vault.ask('agent.list', {});
    const { vaults } = agents.find((each) => each.name === name) ?? { vaults: [] };
    if (!vaults.some((each) => administers(identity, each))) {
      return problem('not_found', 'There is no agent of this name. List the agents.');
    }
    if (administers(identity, ...vaults)) return null;
    return problem('forbidden', 'This agent also has vaults that you do not administer. Ask an owner.');
  }

  return [
    route(
      'POST',
      '/v1/agents/invites',
      { auth: 'operator', vault: 'none', body: inviteBody },
      async ({ identity, body, by }) => {
        if (!administers(identity, ...body.vaults)) return foreignVault();
        const { name = null, vaults, ttl_seconds = inviteTtlSeconds } = body;
        const { token_ttl_seconds: said = tokenTtlSeconds } = body;
        const ttl = said === 'never' ? null : said;
        const request = { name, vaults, ttlSeconds: ttl_seconds, tokenTtlSeconds: ttl, by };
        return replyTo(await vault.ask('invite.create', request), ({ token, expires_at }) =>
          json({ invite_url: `${baseUrl}/invite/${token.reveal()}`, expires_at }, 201),
        );
      },
    ),

    route('GET', '/v1/agents', { auth: 'operator', vault: 'none' }, async ({ identity }) =>
      json({ agents: await visibleAgents(identity) }),
    ),

    route(
      'DELETE',
      '/v1/agents/{agent}',
      { auth: 'operator', vault: 'none' },
      async ({ identity, params: { agent: name }, by }) =>
        (await agentProblem(identity, name)) ??
        replyTo(await vault.ask('agent.remove', { name, by }), noContent),
    ),

    route(
      'POST',
      '/v1/agents/{agent}/rotate',
      { auth: 'operator', vault: 'none', body: rotateBody },
      async ({ identity, params: { agent: name }, body, by }) => {
        const refusal = await agentProblem(identity, name);
        if (refusal) return refusal;
        const { overlap_seconds: overlapSeconds = 0 } = body;
        return replyTo(await vault.ask('agent.rotate', { name, overlapSeconds, by }), (made) =>
          json({ agent: name, token: made.token.reveal(), expires_at: made.expires_at }),
        );
      },
    ),
  ];
}
