import type { Problem } from '../../actors/vault/problem.ts';
import type { ProposalReview } from '../../actors/vault/protocol.ts';
import { type Html, html } from '../html.ts';
import { agentWords, askedHtml, changesHtml, risksHtml, slotsHtml } from '../proposal-html.ts';
import { csrfField, type SignedIn } from '../sign-in.ts';
import { increasesHtml, ownTicks } from './increases.ts';
import { proofHtml } from './proof-form.ts';
import { risksOf, type Surroundings } from './risks.ts';
import { serviceWords } from './service-words.ts';
import { signInForm } from './sign-in-form.ts';
import { timeHtml } from './time.ts';

/** Who looks at a proposal: one who may decide it, one who may not, or nobody that we know. */
export type Viewer =
  | { readonly kind: 'operator'; readonly signedIn: SignedIn }
  | { readonly kind: 'other-operator'; readonly name: string }
  | { readonly kind: 'visitor' };

/** What was given with an answer that couldn't be taken. Values of credentials aren't among it. */
export interface Given {
  readonly problem: Problem;
  /** Fields that were ticked. */
  readonly ticked: ReadonlySet<string>;
  readonly reason: string;
}

export interface ApprovalView {
  readonly proposal: ProposalReview;
  readonly around: Surroundings;
  readonly viewer: Viewer;
  /** Of the broker: where no agent's link leads. */
  readonly ownNames: readonly string[];
  /** Keys whose values have several lines. */
  readonly multiline: ReadonlySet<string>;
  readonly given: Given | null;
}

const form = 'allow';

/** A proposal that waits for somebody to decide. */
export function pendingHtml(view: ApprovalView): Html {
  const { proposal, around, viewer, given } = view;
  const decides = viewer.kind === 'operator';
  const intro = html`${given ? errorHtml(given.problem, proposal) : null}
<p>${nothingYet[viewer.kind]}</p>
${askedHtml(proposal)}
${increasesHtml(proposal.review, decides ? form : null, given?.ticked ?? new Set())}
${risksHtml(risksOf(proposal, around))}
${changesHtml(proposal, around, decides)}
${agentWords(proposal)}`;
  const slots = slotsHtml(proposal, view.ownNames, decides ? (key) => valueField(view, key) : () => null);
  if (viewer.kind === 'operator')
    return html`${liveStatus(proposal)}${intro}${decideHtml(view, viewer.signedIn, slots)}`;
  return html`${intro}${slots}<h2 id="decide">Decide</h2>${visitorHtml(viewer, `/approve/${proposal.id}`)}`;
}

const nothingYet: Readonly<Record<Viewer['kind'], Html>> = {
  operator: html`Nothing changes until you allow it.`,
  'other-operator': html`Nothing changes until an operator of this vault allows it.`,
  visitor: html`Nothing changes until an operator allows it. <a href="#decide">To decide, sign in.</a>`,
};

/** Where the page says that somebody else has decided meanwhile. */
function liveStatus({ id }: ProposalReview): Html {
  return html`<div data-live="proposal" data-id="${id}" role="status"></div>`;
}

function errorHtml({ message, extra }: Problem, proposal: ProposalReview): Html {
  const key = keyOf(extra?.field, proposal);
  const link = key === null ? null : html` <a href="#value-${key}">Go to the field</a>.`;
  const again =
    proposal.needs_value.length > 0 ? html`<p>Values aren’t kept on this page: enter them again.</p>` : null;
  return html`<div class="warning grave" role="alert" tabindex="-1" autofocus><p><strong>Nothing was changed.</strong> ${message}${link}</p>${again}</div>`;
}

/** The key that a refusal's field, such as `credentials.STRIPE_KEY`, is about. */
function keyOf(field: unknown, { needs_value }: ProposalReview): string | null {
  return needs_value.find((key) => field === `credentials.${key}`) ?? null;
}

function decideHtml({ proposal, given }: ApprovalView, signedIn: SignedIn, slots: Html | null): Html {
  const { review } = proposal;
  const action = `/approve/${proposal.id}`;
  const ticks = review !== undefined && ownTicks(review).length > 0;
  return html`<form id="${form}" method="post" action="${action}" autocomplete="off" data-once>
${csrfField(signedIn)}<input type="hidden" name="decision" value="allow"><input type="hidden" name="seen" value="${review?.fingerprint ?? ''}">
${slots}
<h2 id="decide">Decide</h2>
<p>You decide as <strong>${signedIn.identity.name}</strong>. If you allow it, all of this takes effect at once.${
    ticks ? html` What is marked above needs <a href="#reach">a tick of its own</a>.` : null
  }</p>
${proofHtml(signedIn)}<p class="actions"><button class="primary">Allow</button></p>
</form>
<form class="card" method="post" action="${action}" data-once>
<div class="field"><label for="reason">Or deny it, with a reason</label>
<textarea id="reason" name="reason" maxlength="2000" rows="2" aria-describedby="reason-hint">${given?.reason ?? ''}</textarea>
<span class="hint" id="reason-hint">The agent reads it. It may be left empty.</span></div>
${csrfField(signedIn)}<input type="hidden" name="decision" value="deny">
${proofHtml(signedIn)}<p class="actions"><button class="danger">Deny</button></p>
</form>`;
}

/** Hidden while it is typed, never filled in by us or by the browser. */
function valueField({ proposal, given, multiline }: ApprovalView, key: string): Html {
  const isWrong = given !== null && keyOf(given.problem.extra?.field, proposal) === key;
  const state = html` required aria-describedby="hint-${key}"${isWrong ? html` aria-invalid="true"` : null}`;
  const lines = [...multiline, key].join(',');
  const input = multiline.has(key)
    ? html`<textarea id="value-${key}" name="value.${key}" class="secret" rows="6" autocomplete="off" autocapitalize="none" spellcheck="false" data-secret="${key}"${state}></textarea>`
    : html`<input id="value-${key}" name="value.${key}" type="password" autocomplete="off" autocapitalize="none" spellcheck="false" data-secret="${key}"${state}>`;
  const link = multiline.has(key)
    ? null
    : html`<a href="/approve/${proposal.id}?lines=${lines}#value-${key}" data-lines="${key}">It has several lines</a>`;
  return html`<div class="field"><label for="value-${key}">Value of <code>${key}</code></label>
${input}
<span class="hint" id="hint-${key}">Kept encrypted and never shown again. ${link}</span>
<span class="hint warn" data-hint="${key}" role="status"></span></div>`;
}

function visitorHtml(viewer: Exclude<Viewer, { kind: 'operator' }>, next: string): Html {
  if (viewer.kind === 'other-operator') {
    return html`<p>You are signed in as <strong>${viewer.name}</strong>, who doesn’t administer this vault. Ask somebody who does, or <a href="/login?next=${next}">sign in as somebody else</a>.</p>`;
  }
  return html`<p>The link shows this page and no more, since the agent has it too. An operator of the vault decides.</p>
${signInForm(next)}`;
}

/** What became of a proposal. `late`: whoever reads this has just tried to decide it otherwise. */
export function decidedHtml(proposal: ProposalReview, around: Surroundings | null, late: boolean): Html {
  const { status, review_note, reviewed_at } = proposal;
  const note = review_note
    ? html`<p>The reason given:</p><blockquote class="text" dir="auto">${review_note}</blockquote>`
    : null;
  const lateNotice = late
    ? html`<div class="notice" role="alert"><p><strong>It was decided before your answer came.</strong> Nothing that you entered was used.</p></div>`
    : null;
  return html`${lateNotice}
<div class="${status === 'applied' ? 'done' : 'card'}"><p><strong>${outcome(proposal)}</strong>${
    reviewed_at ? html` ${timeHtml(reviewed_at)}.` : null
  }</p>
${note}<p>${next(proposal)}</p></div>
${askedHtml(proposal)}
${agentWords(proposal)}
${status === 'applied' ? appliedHtml(proposal) : around && changesHtml(proposal, around, true)}
<p class="actions"><a class="button" href="/proposals">All proposals</a><a class="button" href="/vaults/${proposal.vault}">The vault ${proposal.vault}</a></p>`;
}

function outcome({ status, reviewed_by }: ProposalReview): Html {
  const who = reviewed_by === null ? null : html` by ${reviewed_by.replace(/^operator:/, '')}`;
  switch (status) {
    case 'applied':
      return html`Allowed${who}.`;
    case 'rejected':
      return html`Denied${who}.`;
    case 'cancelled':
      return html`Withdrawn by the agent.`;
    default:
      return html`Expired: nobody decided in time.`;
  }
}

function next({ status }: ProposalReview): Html {
  switch (status) {
    case 'applied':
      return html`The agent’s next request is served already. You can close this page.`;
    case 'rejected':
      return html`Nothing was changed. The agent sees that it was denied, and why. You can close this page.`;
    default:
      return html`Nothing was changed. The agent can ask again.`;
  }
}

/** What was done, as far as it is still so: the vault may have changed since. */
function appliedHtml({ services, before, credentials }: ProposalReview): Html {
  const lines = services.map((change, i) => {
    if (change.action === 'delete')
      return html`<li>The service for <code>${change.host}</code> was removed.</li>`;
    const now = before[i];
    const words = now
      ? html`${serviceWords(now).map((each) => html`<br>${each}`)}`
      : html`<br>It has been removed since.`;
    return html`<li>The service for <code>${change.host}</code> was set. As it is now:${words}</li>`;
  });
  const keys = credentials.map(({ action, key }) =>
    action === 'set'
      ? html`<li><code>${key}</code> was stored.</li>`
      : html`<li><code>${key}</code> was deleted.</li>`,
  );
  return html`<h2>What was done</h2><ul>${[...lines, ...keys]}</ul>`;
}
