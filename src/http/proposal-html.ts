import type { CredentialSlot, Service, ServiceChange } from '../actors/vault/model.ts';
import type { ProposalReview } from '../actors/vault/protocol.ts';
import { type Html, html } from './html.ts';
import { notLinked } from './pages/agent-link.ts';
import { counted } from './pages/figures.ts';
import { type Risk, type Surroundings, servicesAfter } from './pages/risks.ts';
import { noServiceWords, serviceWords } from './pages/service-words.ts';
import { timeHtml } from './pages/time.ts';
import { wordsHtml } from './words.ts';

/** Who asks, where and when. */
export function askedHtml(proposal: ProposalReview): Html {
  return html`<dl class="facts">
<dt>Asked by</dt><dd>${askerHtml(proposal)}</dd>
<dt>Vault</dt><dd><code>${proposal.vault}</code></dd>
<dt>Asked</dt><dd>${timeHtml(proposal.created_at)}</dd>
${
  proposal.status === 'pending'
    ? html`<dt>Expires</dt><dd>${timeHtml(proposal.expires_at)}</dd>
<dt>Asks for</dt><dd>${summaryOf(proposal)}</dd>`
    : null
}
</dl>`;
}

/** What a pending proposal asks for, counted: `2 services (1 new, 1 removed); 1 credential (from you)`. */
function summaryOf({ services, before, credentials, needs_value }: ProposalReview): string {
  const isSet = services.map(({ action }) => action === 'set');
  const deleted = credentials.filter(({ action }) => action === 'delete').length;
  const counts = [
    sumOf('service', {
      new: isSet.filter((set, i) => set && before[i] === null).length,
      changed: isSet.filter((set, i) => set && before[i] !== null).length,
      removed: isSet.filter((set) => !set).length,
    }),
    sumOf('credential', {
      'from you': needs_value.length,
      'given by the agent': credentials.length - needs_value.length - deleted,
      deleted,
    }),
  ];
  return counts.filter((text) => text !== '').join('; ');
}

/** `2 services (1 new, 1 removed)`; empty where there are none. */
function sumOf(noun: string, kinds: Readonly<Record<string, number>>): string {
  const found = Object.entries(kinds).filter(([, count]) => count > 0);
  const sum = found.reduce((total, [, count]) => total + count, 0);
  if (sum === 0) return '';
  const split = found.map(([kind, count]) => (count === sum ? kind : `${count} ${kind}`));
  return `${counted(sum, noun)} (${split.join(', ')})`;
}

function askerHtml({ requested_by: { kind, id, label } }: ProposalReview): Html {
  if (kind === 'agent') return html`the agent <strong>${id}</strong>`;
  if (label === null) return html`a session without a label (<code>${id}</code>)`;
  return html`the session <strong><bdi>${label}</bdi></strong> (<code>${id}</code>)`;
}

/** What the agent says: set apart, since nothing of it is ours or was checked by us. */
export function agentWords({ message, user_message }: ProposalReview): Html | null {
  if (message === '' && user_message === '') return null;
  return html`<h2>In the agent’s words</h2>
${quote('The agent says to you. The broker has not checked it.', user_message)}
${quote('The agent’s note for the reviewer. The broker has not checked it.', message)}`;
}

function quote(label: string, text: string): Html | null {
  if (text === '') return null;
  return html`<figure class="quote"><figcaption class="label">${label}</figcaption>
<blockquote class="text" dir="auto">${clamped(text)}</blockquote></figure>`;
}

/** Code points and lines of an agent's text that are shown before somebody asks for the rest. */
const mostShown = 280;
const mostLines = 5;

/** The beginning of a text, and the whole of it to unfold, so that it can't push what matters out of sight. */
function clamped(text: string): Html {
  const shown = beginningOf(text);
  return shown === text ? html`${text}` : html`${shown}…${unfolded(text)}`;
}

/** The same of a text within a sentence. */
function clampedQuote(text: string): Html {
  const shown = beginningOf(text);
  if (shown === text) return html`<q dir="auto">${text}</q>`;
  return html`<q dir="auto">${shown}…</q>${unfolded(text)}`;
}

function beginningOf(text: string): string {
  return [...text.split('\n').slice(0, mostLines).join('\n')].slice(0, mostShown).join('');
}

function unfolded(text: string): Html {
  const length = counted([...text].length, 'character');
  return html`<details class="inline"><summary>Show all of it (${length})</summary><div class="text" dir="auto">${text}</div></details>`;
}

/** What to look at twice, and what is good to know. */
export function risksHtml(risks: readonly Risk[]): Html | null {
  const line = ({ words }: Risk) => html`<li>${wordsHtml(words)}</li>`;
  const grave = risks.filter(({ grave }) => grave).map(line);
  const others = risks.filter(({ grave }) => !grave).map(line);
  return html`${
    grave.length === 0
      ? null
      : html`<section class="warning grave" aria-labelledby="risks"><h2 id="risks">Look twice</h2>
<ul>${grave}</ul></section>`
  }
${
  others.length === 0
    ? null
    : html`<section class="warning" aria-labelledby="notes"><h2 id="notes">Good to know</h2>
<ul>${others}</ul></section>`
}`;
}

/**
 * Each change of a service as it is now and as it would be, or would have been.
 * @param forOperator whether somebody reads it who may see all of the vault's services
 */
export function changesHtml(
  proposal: ProposalReview,
  around: Surroundings,
  forOperator: boolean,
): Html | null {
  if (proposal.services.length === 0) return null;
  const isPending = proposal.status === 'pending';
  const after = new Map(servicesAfter(proposal).map(({ service }) => [service.host, service]));
  return html`<h2>${isPending ? 'What changes' : 'What was asked for'}</h2>
${proposal.services.map((change, i) => {
  const sides = { before: proposal.before[i], after: after.get(change.host) ?? null };
  return changeHtml(change, sides, around, { isPending, forOperator });
})}`;
}

function changeHtml(
  change: ServiceChange,
  { before, after }: { readonly before: Service | null; readonly after: Service | null },
  { vault }: Surroundings,
  { isPending, forOperator }: { readonly isPending: boolean; readonly forOperator: boolean },
): Html {
  const { host } = change;
  const [tone, what] = kindOf(before, after);
  const none = noServiceWords(host, vault);
  // What the agent wrote itself is no secret from it; what an operator wrote may be one.
  const fixedText = forOperator ? 'shown' : 'hidden';
  const isAgents = change.action === 'set' && change.auth !== undefined;
  const now = before ? serviceWords(before, 'now', fixedText) : [none];
  const then = after ? serviceWords(after, 'then', isAgents ? 'shown' : fixedText) : [none];
  return html`<section class="card">
<div class="head"><h3><code>${host}</code></h3><span class="tag ${tone}">${what}</span></div>
${descriptionHtml(change, before)}
<dl class="sides">
<div><dt>Now</dt><dd>${sentences(now)}</dd></div>
<div><dt>${isPending ? 'If allowed' : 'If it had been allowed'}</dt><dd>${sentences(then)}</dd></div>
</dl>
</section>`;
}

/** What a service is said to be: by the agent, where it says something, and in the vault, where that is something else. */
function descriptionHtml(change: ServiceChange, before: Service | null): Html | null {
  const said = change.action === 'set' ? change.description : undefined;
  const known = before?.description;
  if (!said) return known ? html`<div class="muted">Described as ${clampedQuote(known)}</div>` : null;
  const so = known && known !== said ? html`. Until now: ${clampedQuote(known)}` : null;
  return html`<div class="muted">The agent describes it as ${clampedQuote(said)}${so}</div>`;
}

function kindOf(before: Service | null, after: Service | null): [tone: string, what: string] {
  if (!after) return before ? ['bad', 'Removal'] : ['', 'Removal; it isn’t there'];
  if (after.enabled === false) return ['warn', before ? 'Changed; stays disabled' : 'New, disabled'];
  return before ? ['warn', 'Changed'] : ['good', 'New'];
}

function sentences(words: readonly Html[]): Html {
  return html`${words.map((each) => html`<p>${each}</p>`)}`;
}

/**
 * The credentials that a proposal asks for, gives or deletes. `field` makes the form field of one that is asked for.
 * @param own names of the broker, where no agent's link leads
 */
export function slotsHtml(
  { credentials, needs_value }: ProposalReview,
  own: readonly string[],
  field: (key: string) => Html | null,
): Html | null {
  if (credentials.length === 0) return null;
  return html`<h2>Credentials</h2>
${credentials.map((slot) => slotHtml(slot, needs_value.includes(slot.key), own, field))}`;
}

function slotHtml(
  slot: CredentialSlot,
  isAsked: boolean,
  own: readonly string[],
  field: (key: string) => Html | null,
): Html {
  const { key } = slot;
  if (slot.action === 'delete') {
    return html`<section class="card"><div class="head"><h3><code>${key}</code></h3><span class="tag bad">Deletion</span></div>
<p>If allowed, its value is gone for good.</p></section>`;
  }
  const { description, obtain, obtain_instructions } = slot;
  return html`<section class="card"><div class="head"><h3><code>${key}</code></h3>${
    isAsked
      ? html`<span class="tag warn">Needed from you</span>`
      : html`<span class="tag">Given by the agent</span>`
  }</div>
${description ? html`<div class="muted">The agent describes it as ${clampedQuote(description)}</div>` : null}
${isAsked ? obtainHtml(obtain, obtain_instructions, own) : null}
${isAsked ? field(key) : null}</section>`;
}

/** As a browser shows it when one is there: a host in letters beyond ASCII could be written like another one. */
function addressShown(address: string): string {
  return URL.parse(address)?.href ?? address;
}

/** An agent's address: a link, or a text with the reason why it is none. */
function addressHtml(address: string, reason: string | null): Html {
  if (reason !== null)
    return html`<p><code>${addressShown(address)}</code> <span class="tag warn">not a link: ${reason}</span></p>`;
  const isPlain = address.toLowerCase().startsWith('http:');
  return html`<p><a href="${address}" rel="noopener noreferrer nofollow" target="_blank">${addressShown(address)}<span class="hidden"> (opens in a new tab)</span></a>${
    isPlain ? html` <span class="tag warn">not encrypted</span>` : null
  }</p>`;
}

/** Where to get a value and how, as the agent says it. */
function obtainHtml(
  obtain: string | undefined,
  instructions: string | undefined,
  own: readonly string[],
): Html | null {
  if (!obtain && !instructions) return null;
  return html`<div class="quote"><p class="label">Where to get it, says the agent. Look at the address before you follow it.</p>
${obtain ? addressHtml(obtain, notLinked(obtain, own)) : null}
${instructions ? html`<div class="text" dir="auto">${clamped(instructions)}</div>` : null}</div>`;
}
