import { type Problem, problem } from '../../actors/vault/problem.ts';
import type { ProposalReview } from '../../actors/vault/protocol.ts';
import { Secret } from '../../actors/vault/secret.ts';
import { administers } from '../caller.ts';
import { maxBody } from '../incoming.ts';
import { noProposal } from '../proposals.ts';
import { type Answer, redirect } from '../reply.ts';
import type { Call } from '../route.ts';
import type { FrontParts } from '../routes.ts';
import { type SignedForm, signedForm, toLogin } from '../sign-in.ts';
import { approvalReply } from './approval-reply.ts';
import { ownTicks, tickName } from './increases.ts';

/** Those that are being decided: of two answers at the same moment one is told that it came late. */
const deciding = new Set<number>();

/** What an operator answers on the page of a proposal. */
export async function decidePost(front: FrontParts, call: Call): Promise<Answer> {
  const signed = await signedForm(front, call, maxBody);
  if (!signed.ok) {
    // Signed out meanwhile: to sign in, and back to the page.
    if (signed.problem.code === 'unauthorized') return toLogin({ ...call.incoming, query: '' });
    return signed.page ?? signed.problem;
  }
  const id = Number(call.params.id);
  const found = await front.vault.ask('proposal.review', { id, approvalHash: null });
  const { signedIn, form } = signed.value;
  if (!found.ok || !administers(signedIn.identity, found.value.vault)) return noProposal();
  const here = `/approve/${id}`;
  if (found.value.status !== 'pending' || deciding.has(id)) return redirect(`${here}?late=yes`);
  deciding.add(id);
  try {
    const refusal = await decide(front, found.value, signed.value);
    if (refusal === null) return redirect(here);
    if (refusal.code === 'already_decided') return redirect(`${here}?late=yes`);
    const given = {
      problem: refusal,
      ticked: new Set([...form.keys()].filter((name) => name.startsWith('tick.'))),
      reason: form.get('reason') ?? '',
    };
    const now = await front.vault.ask('proposal.review', { id, approvalHash: null });
    if (!now.ok) return now.problem;
    const viewer = { kind: 'operator', signedIn } as const;
    return await approvalReply(front, {
      proposal: now.value,
      viewer,
      incoming: call.incoming,
      query: {},
      given,
    });
  } finally {
    deciding.delete(id);
  }
}

/** null: it is done. */
async function decide(
  { vault }: FrontParts,
  proposal: ProposalReview,
  { form, by }: SignedForm,
): Promise<Problem | null> {
  const { id } = proposal;
  if (form.get('decision') === 'deny') {
    const denied = await vault.ask('proposal.reject', {
      id,
      reason: (form.get('reason') ?? '').replaceAll('\r\n', '\n'),
      by,
    });
    return denied.ok ? null : denied.problem;
  }
  if (form.get('decision') !== 'allow')
    return { code: 'invalid_request', message: 'Choose to allow or to deny it.' };
  const { review } = proposal;
  const seen = form.get('seen') ?? '';
  if (review === undefined || seen !== review.fingerprint) return problem('confirmation_required', changed);
  if (!ownTicks(review).every(([place]) => form.get(tickName(place)) === 'yes'))
    return problem('confirmation_required', notTicked);
  const credentials = new Map(
    proposal.needs_value.flatMap((key) => {
      // A browser sends the line breaks of a text as CR LF, whatever they were.
      const value = form.get(`value.${key}`)?.replaceAll('\r\n', '\n') ?? '';
      return value === '' ? [] : [[key, new Secret(value)] as const];
    }),
  );
  const allowed = await vault.ask('proposal.approve', {
    id,
    credentials,
    // The vault compares it with what is so at the moment that it applies it.
    confirm: seen,
    by,
  });
  return allowed.ok ? null : allowed.problem;
}

const changed = 'The vault has changed since you loaded this page. Look at the proposal again, then decide.';
const notTicked =
  'What widens the reach of a credential needs a tick of its own. Look at each, tick those that you mean, or deny it.';
