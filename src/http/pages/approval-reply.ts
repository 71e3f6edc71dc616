import { statusOf } from '../../actors/vault/problem.ts';
import type { ProposalReview } from '../../actors/vault/protocol.ts';
import { type Html, html } from '../html.ts';
import type { Incoming } from '../incoming.ts';
import { framed } from '../page-frame.ts';
import type { Reply } from '../reply.ts';
import type { FrontParts } from '../routes.ts';
import { decidedHtml, type Given, pendingHtml, type Viewer } from './approval-view.ts';
import { consolePage } from './layout.ts';
import { problemPage } from './page-route.ts';
import { surroundingsOf } from './surroundings.ts';

/** What is shown of a proposal, to whom. */
export interface Showing {
  readonly proposal: ProposalReview;
  readonly viewer: Viewer;
  readonly incoming: Incoming;
  readonly query: Readonly<Record<string, string>>;
  readonly given: Given | null;
}

/** The page of a proposal as it is now: to be decided, or what became of it. */
export async function approvalReply(front: FrontParts, showing: Showing): Promise<Reply> {
  const { proposal, viewer, incoming, query, given } = showing;
  const around = await surroundingsOf(front.vault, proposal.vault);
  const head = query.token === undefined ? undefined : leaveAddress(proposal.id, viewer, incoming);
  if (proposal.status !== 'pending') {
    const content = decidedHtml(proposal, around.ok ? around.value : null, query.late !== undefined);
    return withFrame(front, viewer, { title: `Proposal ${proposal.id}`, content, head });
  }
  if (!around.ok) return problemPage(around.problem);
  const multiline = new Set(query.lines?.split(',').filter((key) => proposal.needs_value.includes(key)));
  return withFrame(front, viewer, {
    title: `Proposal ${proposal.id}: an agent asks for access`,
    content: pendingHtml({
      proposal,
      around: around.value,
      viewer,
      ownNames: ownNames(front),
      multiline,
      given,
    }),
    status: given ? statusOf(given.problem.code) : 200,
    head,
  });
}

/** The names by which a browser comes to the broker: its cookies go to every port of these. */
function ownNames({ address, baseUrl }: FrontParts): string[] {
  return [...address.hostNames, address.host, new URL(baseUrl).hostname];
}

function withFrame(
  front: FrontParts,
  viewer: Viewer,
  frame: { title: string; content: Html; status?: number; head?: Html },
): Reply | Promise<Reply> {
  if (viewer.kind !== 'operator') return framed({ ...frame, narrow: true });
  return consolePage(front, viewer.signedIn, { ...frame, narrow: true, section: '/proposals' });
}

/**
 * Goes on to the address without the token. The script does it without loading anything; without it the browser loads
 * the page again, and tells it nothing of where it comes from. So it does, too, where another site's link led here: it
 * then held our strict cookies back, and sends them with what comes from this page.
 */
function leaveAddress(id: number, viewer: Viewer, incoming: Incoming): Html {
  const again = html`<meta http-equiv="refresh" content="0; url=/approve/${id}"><meta name="referrer" content="no-referrer">`;
  const [site] = incoming.values('sec-fetch-site');
  if (viewer.kind === 'visitor' && site === 'cross-site') return again;
  return html`<noscript>${again}</noscript>`;
}
