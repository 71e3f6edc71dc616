import type { Results } from './report.ts';
import type { Scenario } from './scenarios.ts';
import { shown } from './statistics.ts';

const panelWidth = 480;
const labelWidth = 140;
const valueWidth = 60;
const barWidth = panelWidth - labelWidth - valueWidth;
const barHeight = 16;
const barStep = 21;
const gap = 30;
/** A bar that is longer than so many times the broker's longest is cut, else the others can't be told apart. */
const cutAt = 4;

interface Bar {
  readonly label: string;
  readonly value: number;
  readonly own: boolean;
}

/** A small SVG: one panel a scenario, one bar a way of a proxy, each panel from zero in its own unit. */
export function chart(results: Results, scenarios: readonly Scenario[]): string {
  const panels = scenarios
    .map((scenario) => ({ scenario, bars: barsOf(results, scenario) }))
    .filter(({ bars }) => bars.length > 0);
  const drawn: string[] = [];
  // Each panel goes to the shorter of the two columns.
  const bottoms = [60, 60];
  for (const { scenario, bars } of panels) {
    const column = bottoms[0] <= bottoms[1] ? 0 : 1;
    const left = gap + column * (panelWidth + gap);
    drawn.push(`<g transform="translate(${left},${bottoms[column]})">${panel(scenario, bars)}</g>`);
    bottoms[column] += 26 + bars.length * barStep + gap;
  }
  const width = 3 * gap + 2 * panelWidth;
  const height = Math.max(...bottoms);
  const { machine, rounds, date } = results;
  const about = `${machine.cpu}, ${machine.cores} cores · medians of ${rounds} · ${date.slice(0, 10)} · less is better`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="Benchmark of the broker and other proxies">
<style>
  .page { fill: #ffffff } .text { fill: #1f2328 } .faint { fill: #59636e } .own { fill: #0969da } .peer { fill: #afb8c1 } .cut { stroke: #ffffff }
  @media (prefers-color-scheme: dark) { .page { fill: #0d1117 } .text { fill: #f0f6fc } .faint { fill: #9198a1 } .own { fill: #4493f8 } .peer { fill: #545d68 } .cut { stroke: #0d1117 } }
</style>
<rect class="page" width="100%" height="100%"/>
<text class="text" x="${gap}" y="28" font-size="16" font-weight="600">Broker and other proxies</text>
<text class="faint" x="${gap}" y="46">${escaped(about)}</text>
${drawn.join('\n')}
</svg>
`;
}

function barsOf({ rows }: Results, { name, metric }: Scenario): Bar[] {
  return rows.flatMap(({ scenario, subject, leg, median }) => {
    const value = median[metric];
    if (scenario !== name || value === undefined) return [];
    return [{ label: `${subject}, ${leg}`, value: Math.max(0, value), own: subject === 'broker' }];
  });
}

function panel({ title, unit }: Scenario, bars: readonly Bar[]): string {
  const longest = Math.max(...bars.map(({ value }) => value));
  const broker = Math.max(...bars.filter(({ own }) => own).map(({ value }) => value));
  const limit = broker > 0 ? Math.min(longest, broker * cutAt) : longest;
  const heading = `<text y="12"><tspan class="text" font-weight="600">${escaped(title)}</tspan><tspan class="faint" dx="8">${escaped(unit)}</tspan></text>`;
  const lines = bars.map(({ label, value, own }, i) => {
    const y = 26 + i * barStep;
    const length = Math.max(1, (Math.min(value, limit) / (limit || 1)) * barWidth);
    const end = labelWidth + length;
    const middle = y + barHeight - 4;
    const slash = `<path class="cut" d="M${end - 16} ${y + barHeight + 2} l8 -${barHeight + 4}" stroke-width="4"/>`;
    return [
      `<text class="faint" x="${labelWidth - 8}" y="${middle}" text-anchor="end">${escaped(label)}</text>`,
      `<rect class="${own ? 'own' : 'peer'}" x="${labelWidth}" y="${y}" width="${length.toFixed(1)}" height="${barHeight}" rx="2"/>`,
      value > limit ? slash : '',
      `<text class="text" x="${end + 6}" y="${middle}">${escaped(shown(value))}</text>`,
    ].join('');
  });
  return [heading, ...lines].join('\n');
}

function escaped(text: string): string {
  return text.replace(/[&<>]/g, (c) => `&#${c.charCodeAt(0)};`);
}
