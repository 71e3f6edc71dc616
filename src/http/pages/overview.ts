import type { ProposalView, VaultView } from '../../actors/vault/protocol.ts';
import { vaultsOf } from '../caller.ts';
import type { Stats } from '../front-options.ts';
import { type Html, html } from '../html.ts';
import type { Route } from '../route.ts';
import type { FrontParts } from '../routes.ts';
import { barChart } from './chart.ts';
import { counted, figures, type Panel, panels } from './figures.ts';
import { consolePage, vaultsFor } from './layout.ts';
import type { PageRoutes } from './page-route.ts';
import { proposalRows } from './proposal-list.ts';

/** `/`: how the broker is, what waits for somebody, and what to do first. */
export function overviewRoutes(front: FrontParts, { page }: PageRoutes): Route[] {
  return [
    page('/', async ({ signedIn, api }) => {
      const own = vaultsOf(signedIn.identity);
      const [vaults, pending, sessions, found] = await Promise.all([
        vaultsFor(front, signedIn),
        front.vault.ask('proposal.list', { vaults: own, status: 'pending' }),
        front.vault.ask('session.list', { vaults: own }),
        api('GET', '/v1/agents'),
      ]);
      if (!pending.ok) return pending.problem;
      if (!found.ok) return found.problem;
      const { agents } = found.value as { agents: readonly unknown[] };
      const content = html`${firstSteps(vaults, agents.length + sessions.length > 0)}
${pendingHtml(pending.value.proposals)}
${trafficHtml(panels(front.history.minutes()))}
${healthHtml(front)}
${vaultsHtml(vaults)}`;
      return consolePage(front, signedIn, { title: 'Overview', section: '/', content });
    }),
  ];
}

/** What is still to be done before the first agent works; null: it does. */
function firstSteps(vaults: readonly VaultView[], isUsed: boolean): Html | null {
  const hasService = vaults.some(({ counters }) => counters.services > 0);
  if (hasService && isUsed) return null;
  const name = vaults[0]?.name;
  if (name === undefined) {
    return html`<div class="empty"><p><strong>You don’t administer a vault yet.</strong> Ask an owner for one.</p></div>`;
  }
  const isOpen = vaults[0]?.unmatched_host_policy === 'passthrough';
  const closing = isOpen
    ? html` Hosts without a service go through without a credential: <a href="/vaults/${name}/settings">have them refused</a>, and agents ask for each.`
    : null;
  return html`<section class="empty" aria-labelledby="first"><h2 id="first">Start here</h2>
<ol><li>${step(hasService, html`<a href="/vaults/${name}/new-service">Add a service</a>: a host, and the credential that requests to it carry. Or let the agent propose it.`)}</li>
<li>${step(isUsed, html`<a href="/agents">Invite an agent</a>, or run one on this machine with <code>broker vault run -- COMMAND</code>.`)}</li>
<li>When the agent needs another host it proposes it. The proposal shows here, and you decide.${closing}</li></ol></section>`;
}

function step(isDone: boolean, words: Html): Html {
  return isDone ? html`<span class="tag good">Done</span> ${words}` : words;
}

function pendingHtml(proposals: readonly ProposalView[]): Html {
  const shown = [...proposals].reverse().slice(0, 5);
  const newest = Math.max(0, ...proposals.map(({ id }) => id));
  const notice = html`<p class="notice" data-live="proposals" data-newest="${newest}" role="status" hidden>A new proposal has come. <a href="/">Load this page again</a>.</p>`;
  if (shown.length === 0) {
    return html`<h2>Waiting for you</h2>${notice}<p class="muted">Nothing. When an agent needs a host or a credential, its proposal shows here.</p>`;
  }
  const more = proposals.length - shown.length;
  return html`<h2>Waiting for you</h2>${notice}${proposalRows(shown)}
${more > 0 ? html`<p><a href="/proposals">${more} more</a></p>` : null}`;
}

function trafficHtml(all: readonly Panel[]): Html {
  const tiles = all.map(
    ({ id, title, figure, note, values }) => html`<figure class="card">
<figcaption>${title}<span class="figure" data-figure="${id}">${figure}</span></figcaption>
${barChart(id, values)}
<p class="hint line" data-note="${id}">${note}</p></figure>`,
  );
  return html`<h2>The last hour</h2><div class="tiles charts" data-live="stats">${tiles}</div>`;
}

function healthHtml({ health }: FrontParts): Html {
  const stats = health.stats();
  const lines = [
    [
      'Serving',
      health.draining()
        ? bad('stopping')
        : health.ready()
          ? good('yes')
          : bad('not yet: a proxy thread is missing'),
    ],
    ...statsLines(stats),
  ] as const;
  return html`<h2>Health</h2><dl class="facts">${lines.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
${stats.refusals.length > 0 ? refusalsHtml(stats) : null}`;
}

function statsLines({ lanes, auditHealthy, openConnections }: Stats): [string, Html][] {
  const threads = `${lanes.up} of ${lanes.all} up`;
  return [
    ['Proxy threads', lanes.up === lanes.all ? good(threads) : bad(threads)],
    ['Audit log', auditHealthy ? good('is being written') : bad('can’t be written: make room on its disk')],
    ['Open connections', html`${figures(openConnections)}`],
  ];
}

function refusalsHtml({ refusals }: Stats): Html {
  const most = [...refusals].sort((a, b) => b.count - a.count).slice(0, 5);
  return html`<p>Refused since the start: ${most.map(
    ({ code, count }, i) =>
      html`${i > 0 ? ', ' : ''}<a href="/requests?outcome=${code}"><code>${code}</code></a> ${figures(count)}`,
  )}.</p>`;
}

const good = (text: string) => html`<span class="good">${text}</span>`;
const bad = (text: string) => html`<strong class="bad">${text}</strong>`;

function vaultsHtml(vaults: readonly VaultView[]): Html {
  const shown = vaults.slice(0, 12).map(
    ({ name, counters }) => html`<li class="card"><h3><a href="/vaults/${name}">${name}</a></h3>
<p class="muted">${counted(counters.services, 'service')}, ${counted(counters.credentials, 'credential')}</p></li>`,
  );
  return html`<h2>Vaults</h2><ul class="tiles">${shown}</ul>
${vaults.length > shown.length ? html`<p><a href="/vaults">All ${vaults.length} vaults</a></p>` : null}`;
}
