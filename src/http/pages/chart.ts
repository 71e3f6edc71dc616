import { type Html, html } from '../html.ts';

const height = 56;
const step = 5;

/** Heights of bars from 0 to the chart's own; what is there at all is seen. */
export function barHeights(values: readonly number[]): number[] {
  const most = Math.max(...values, 1);
  return values.map((value) => (value <= 0 ? 0 : Math.max(2, Math.round((value / most) * height))));
}

/** A small bar chart. What it shows stands beside it in words, so it is hidden from who doesn't see it. */
export function barChart(id: string, values: readonly number[]): Html {
  const bars = barHeights(values).map(
    (bar, i) => html`<rect x="${i * step}" y="${height - bar}" width="${step - 1}" height="${bar}"/>`,
  );
  return html`<svg class="chart" data-chart="${id}" viewBox="0 0 ${values.length * step} ${height + 1}" preserveAspectRatio="none" aria-hidden="true" focusable="false"><rect class="base" x="0" y="${height}" width="${values.length * step}" height="1"/><g>${bars}</g></svg>`;
}
