import type { ProposalStatus } from '../actors/vault/model.ts';
import { statusOf } from '../actors/vault/problem.ts';
import type { ProposalReview } from '../actors/vault/protocol.ts';
import { hashToken, tokenKind } from '../actors/vault/token.ts';
import { cookieOf } from './browser.ts';
import { administers } from './caller.ts';
import { html } from './html.ts';
import type { Incoming } from './incoming.ts';
import { pageReply } from './page-frame.ts';
import { decidePost } from './pages/approval-decision.ts';
import { approvalReply } from './pages/approval-reply.ts';
import type { Viewer } from './pages/approval-view.ts';
import { asPage } from './pages/page-route.ts';
import { signInForm } from './pages/sign-in-form.ts';
import { noProposal } from './proposals.ts';
import type { Answer, Reply } from './reply.ts';
import { type Call, type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';
import { currentOperator } from './sign-in.ts';
import { parseQuery } from './validate.ts';

const linkCookie = 'broker_approval';

/**
 * The page that an approval link leads to. The agent holds the link too, so it shows and decides nothing: a request for
 * it changes nothing, however often a mail scanner follows it, and to decide takes an operator who is signed in.
 *
 * The address goes on without the link's token, by a cookie for this one path: not the token itself, since whoever listens on
 * another port of this host is sent the cookie too, but a ticket to see this page until the broker starts anew.
 */
export function approvePageRoutes(front: FrontParts): Route[] {
  const { vault, browser } = front;
  const open = { auth: 'none', vault: 'none' } as const;

  /** `wrong`: it never was this proposal's link; `over`: it was, while the proposal was pending. */
  async function byLink(id: number, token: string): Promise<ProposalReview | 'wrong' | 'over'> {
    if (tokenKind(token) !== 'approval') return 'wrong';
    const found = await vault.ask('proposal.review', { id, approvalHash: hashToken(token) });
    if (found.ok) return found.value;
    return found.problem.code === 'gone' ? 'over' : 'wrong';
  }

  /** The same by the cookie that the link has left. */
  async function byTicket(id: number, incoming: Incoming): Promise<ProposalReview | 'wrong' | 'over'> {
    if (!browser.isTicket(ticketFor(id), cookieOf(incoming, linkCookie))) return 'wrong';
    const found = await vault.ask('proposal.review', { id, approvalHash: null });
    if (!found.ok) return 'wrong';
    return found.value.status === 'pending' ? found.value : 'over';
  }

  const ticketFor = (id: number) => `approval ${id}`;

  async function show({ incoming, params, failed }: Call): Promise<Answer> {
    const id = Number(params.id);
    const query = parseQuery(incoming.query);
    if (!query.ok) return query.problem;
    const { token } = query.value;
    const linked = token === undefined ? await byTicket(id, incoming) : await byLink(id, token);
    if (linked === 'wrong' && token !== undefined) return failed(noProposal());

    const signedIn = await currentOperator(front, incoming);
    const found = signedIn && (await vault.ask('proposal.review', { id, approvalHash: null }));
    const isOwn = signedIn && found?.ok && administers(signedIn.identity, found.value.vault);
    if (linked === 'wrong' && !isOwn) return signedIn ? noProposal() : partOfLink(id);
    if (linked === 'over' && !isOwn) return over(front, id, signedIn !== null);

    const proposal = isOwn ? found.value : (linked as ProposalReview);
    const viewer: Viewer = !signedIn
      ? { kind: 'visitor' }
      : isOwn
        ? { kind: 'operator', signedIn }
        : { kind: 'other-operator', name: signedIn.identity.name };
    const reply = await approvalReply(front, { proposal, viewer, incoming, query: query.value, given: null });
    if (token === undefined) return reply;
    const cookie = browser.setCookie(incoming, browser.ticket(ticketFor(id)), {
      name: linkCookie,
      path: `/approve/${id}`,
    });
    return { ...reply, headers: { ...reply.headers, 'set-cookie': cookie } };
  }

  return [
    route('GET', '/approve/{id}', open, (call) => asPage(() => show(call))),
    route('POST', '/approve/{id}', open, (call) => asPage(() => decidePost(front, call))),
  ];
}

const endings: Partial<Record<ProposalStatus, string>> = {
  applied: 'it was allowed',
  rejected: 'it was denied',
  cancelled: 'the agent has withdrawn it',
};

/** What a link says that was right once. */
async function over({ vault }: FrontParts, id: number, isSignedIn: boolean): Promise<Reply> {
  const found = await vault.ask('proposal.get', { id });
  const status = found.ok ? found.value.status : null;
  const ending = status === null ? 'it is gone' : endings[status];
  const more = isSignedIn
    ? null
    : html`<p class="actions"><a class="button" href="/login?next=/approve/${id}">Sign in to see more</a></p>`;
  // Pending, and yet over: its time ran out this very moment.
  if (ending === undefined) {
    const words = html`<p>This proposal has expired. Ask the agent for a new one.</p>`;
    return pageReply('Expired', html`${words}${more}`, statusOf('gone'));
  }
  const words = html`<p>This proposal is no longer pending: ${ending}. There is nothing left to do here.</p>`;
  const title = status === 'cancelled' ? 'Withdrawn' : 'Already decided';
  return pageReply(title, html`${words}${more}`, statusOf('not_found'));
}

/** Says the same whether or not there is such a proposal. */
function partOfLink(id: number): Reply {
  return pageReply(
    'Nothing to see yet',
    html`<p>This is only a part of a link. Open the whole link that the agent has given you, or sign in as an operator.</p>
${signInForm(`/approve/${id}`)}`,
    404,
  );
}
