import { type Html, html } from '../html.ts';

const format = new Intl.DateTimeFormat('en-GB', {
  dateStyle: 'medium',
  timeStyle: 'short',
  timeZone: 'UTC',
});

/** A moment (ISO 8601) for humans. In UTC: the server doesn't know where they are. */
export function timeHtml(iso: string): Html {
  const moment = Date.parse(iso);
  return html`<time datetime="${iso}">${Number.isNaN(moment) ? iso : `${format.format(moment)} UTC`}</time>`;
}
