import type { Problem } from '../actors/vault/problem.ts';
import { administers } from './caller.ts';
import { noProposal } from './proposals.ts';
import { replyTo } from './reply.ts';
import { type Call, type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';
import { approveBody, rejectBody } from './schemas.ts';

/** An operator's decision about a proposal. The link that an agent holds is of no use here. */
export function proposalReviewRoutes({ vault }: FrontParts): Route[] {
  const asked = { auth: 'operator', vault: 'header-if-any' } as const;

  /** Refuses a proposal of a vault that isn't the one named, or isn't the operator's. */
  async function foreign(call: Call<'operator', 'header-if-any'>): Promise<Problem | null> {
    const { params, identity, vault: name } = call;
    const found = await vault.ask('proposal.get', { id: Number(params.id), vault: name ?? undefined });
    if (!found.ok) return found.problem;
    return administers(identity, found.value.vault) ? null : noProposal();
  }

  return [
    route('POST', '/v1/proposals/{id}/approve', { ...asked, body: approveBody }, async (call) => {
      const refusal = await foreign(call);
      if (refusal) return refusal;
      const id = Number(call.params.id);
      return replyTo(await vault.ask('proposal.approve', { id, ...call.body, by: call.by }));
    }),

    route('POST', '/v1/proposals/{id}/reject', { ...asked, body: rejectBody }, async (call) => {
      const refusal = await foreign(call);
      if (refusal) return refusal;
      const { reason = '' } = call.body;
      return replyTo(await vault.ask('proposal.reject', { id: Number(call.params.id), reason, by: call.by }));
    }),
  ];
}
