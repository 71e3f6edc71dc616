import { type Html, html } from '../html.ts';

/**
 * A table that becomes a card a row on a phone; each row's first cell is its heading. The roles are what a style sheet
 * that takes tables apart would otherwise take from screen readers.
 * @param caption says what is in it, for those who don't see what is around it
 * @param columns with their widths: a table that is laid out by what is in it moves while it
 * is loaded
 */
export function table(
  caption: string,
  columns: Columns,
  rows: readonly (readonly Html[])[],
  id?: string,
): Html {
  const heads = Object.entries(columns).map(
    ([name, width]) => html`<th scope="col" role="columnheader" class="w${width}">${name}</th>`,
  );
  return html`<table role="table"><caption class="hidden">${caption}</caption>
<thead role="rowgroup"><tr role="row">${heads}</tr></thead>
<tbody role="rowgroup"${id === undefined ? null : html` id="${id}"`}>${rows.map((cells) => tableRow(columns, cells))}</tbody></table>`;
}

/** Twenty-fourths of the width by name, in their order. */
export type Columns = Readonly<Record<string, number>>;

export function tableRow(columns: Columns, [first, ...others]: readonly Html[]): Html {
  const names = Object.keys(columns);
  const cells = others.map((cell, i) => html`<td role="cell" data-label="${names[i + 1]}">${cell}</td>`);
  return html`<tr role="row"><th scope="row" role="rowheader">${first}</th>${cells}</tr>`;
}

const pageSize = 40;

/** One page of a list. */
export interface Slice<T> {
  readonly items: readonly T[];
  readonly total: number;
  /** From 1. */
  readonly number: number;
  readonly pages: number;
}

/** The page of a list that a query's `page` names; the first or last one where it names none. */
export function slice<T>(all: readonly T[], page: string | undefined): Slice<T> {
  const pages = Math.max(1, Math.ceil(all.length / pageSize));
  const wanted = /^\d{1,6}$/.test(page ?? '') ? Number(page) : 1;
  const number = Math.min(Math.max(wanted, 1), pages);
  return { items: all.slice((number - 1) * pageSize, number * pageSize), total: all.length, number, pages };
}

/** Links to the neighbours of a page. */
export function pager(
  { number, pages, total }: Slice<unknown>,
  path: string,
  query: Readonly<Record<string, string | undefined>>,
): Html | null {
  if (pages === 1) return null;
  const link = (to: number, name: string, rel: string) =>
    html`<a class="button quiet" rel="${rel}" href="${withQuery(path, { ...query, page: String(to) })}">${name}</a>`;
  return html`<nav class="pages" aria-label="Pages">
${number > 1 ? link(number - 1, 'Previous', 'prev') : null}<span>Page ${number} of ${pages}, ${total} in all</span>${
    number < pages ? link(number + 1, 'Next', 'next') : null
  }</nav>`;
}

/** A path of ours with the parameters that have a value. */
export function withQuery(path: string, query: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]));
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}
