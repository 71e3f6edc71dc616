import { type Html, html } from '../html.ts';
import type { Route } from '../route.ts';
import type { FrontParts } from '../routes.ts';
import { selectField, textField } from './controls.ts';
import { consolePage, vaultsFor } from './layout.ts';
import { maxShown, newestRequests } from './newest-requests.ts';
import type { PageRoutes } from './page-route.ts';
import { cellsOf, type RequestCells } from './request-record.ts';
import { table, tableRow, withQuery } from './table.ts';

/** `/requests`: what agents send, as it happens. */
export function requestRoutes(front: FrontParts, { page }: PageRoutes): Route[] {
  return [
    page('/requests', async ({ signedIn, query }) => {
      const { vault, host, outcome } = query;
      const filter = { vault, host, outcome };
      const [records, vaults] = await Promise.all([
        newestRequests(front.audit, filter, signedIn.identity),
        vaultsFor(front, signedIn),
      ]);
      const rows = records.map(cellsOf);
      const content = html`<form method="get" action="/requests" class="row" role="search">
${selectField({ name: 'vault', label: 'Vault', value: vault ?? '', small: true }, [['', 'All'], ...vaults.map(({ name }) => [name, name] as const)])}
${textField({ name: 'host', label: 'Host', value: host, type: 'search', small: true })}
${selectField({ name: 'outcome', label: 'Outcome', value: outcome ?? '', small: true }, outcomesWith(outcome))}
<p class="actions"><button>Show</button><a class="button" href="/explain">Explain a request</a></p></form>
<p class="muted" data-live="requests" data-from="${withQuery('/live/requests', filter)}" data-most="${maxShown}" role="status">Load this page again to see newer ones.</p>
${rows.length === 0 ? emptyHtml(Boolean(vault || host || outcome)) : null}
${requestTable(rows)}
<template id="request-row">${templateRow}</template>`;
      return consolePage(front, signedIn, { title: 'Requests', section: '/requests', content });
    }),
  ];
}

const outcomes: readonly (readonly [string, string])[] = [
  ['', 'All'],
  ['refused', 'Refused by the broker'],
  ['bare', 'Without a credential'],
  ['2xx', 'Answered 2xx'],
  ['4xx', 'Answered 4xx'],
  ['5xx', 'Answered 5xx'],
  ['forbidden', 'forbidden'],
  ['service_disabled', 'service_disabled'],
  ['credential_not_found', 'credential_not_found'],
  ['network_blocked', 'network_blocked'],
  ['rate_limited', 'rate_limited'],
];

/** One that a link asks for is among them. */
function outcomesWith(chosen: string | undefined): readonly (readonly [string, string])[] {
  const isKnown = !chosen || outcomes.some(([value]) => value === chosen);
  return isKnown ? outcomes : [...outcomes, [chosen, chosen]];
}

function emptyHtml(isFiltered: boolean): Html {
  return isFiltered
    ? html`<div class="empty" data-empty><p>No request of late is like that. <a href="/requests">Show all of them</a>.</p></div>`
    : html`<div class="empty" data-empty><p><strong>No requests yet.</strong> Run an agent with <code>broker vault run -- COMMAND</code>: what it sends shows here as it happens.</p></div>`;
}

const columns = { Time: 2, Who: 3, Request: 7, Credential: 5, Answer: 5, Why: 2 };

function requestTable(rows: readonly RequestCells[]): Html {
  return table('Requests, the newest first', columns, rows.map(cellsHtml), 'requests');
}

function cellsHtml(cells: RequestCells): readonly Html[] {
  const { time, clock, who, vault, target, path, credential, answer, tone, error, why } = cells;
  const line = (name: string, text: string, kind = '', more: Html | null = null) =>
    html`<div class="line ${kind}" data-cell="${name}" title="${text}"${more}>${text}</div>`;
  const toned = html` data-tone="${tone}"`;
  return [
    html`<time datetime="${time}" title="${time}" data-cell="clock">${clock}</time>`,
    html`${line('who', who, '', html` dir="auto"`)}${line('vault', vault, 'muted')}`,
    html`${line('target', target, 'mono')}${line('path', path, 'mono muted')}`,
    line('credential', credential, 'mono'),
    html`${line('answer', answer, '', toned)}${line('error', error, 'mono', toned)}`,
    html`<a href="${why}">Explain<span class="hidden"> this request</span></a>`,
  ];
}

/** What the script fills with text, a request a time. */
const templateRow = ((): Html => {
  const blank = cellsHtml({
    ...{
      time: '',
      clock: '',
      who: '',
      vault: '',
      target: '',
      path: '',
      credential: '',
      answer: '',
      tone: 'good',
      error: '',
    },
    why: '/explain',
  });
  return tableRow(columns, blank);
})();
