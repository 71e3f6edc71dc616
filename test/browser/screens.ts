/**
 * Takes the pictures in `docs/screens`: every page in every state, wide and narrow, light and dark, of a broker in the
 * middle of its work. The same date and the same address are on them wherever they are taken.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { busy, furnish } from './furnish.ts';
import { withPalette } from './palette.ts';
import { startChromium, startStage } from './stage.ts';
import { createProfiles, type View, viewsOf, windows } from './views.ts';

const folder = fileURLToPath(new URL('../../docs/screens/', import.meta.url));
// Mobile, so that no room is left for a scroll bar that a picture hasn't.
const wide = { ...windows.wide, isMobile: true };
const looks = [
  { name: 'wide-light', look: { ...wide, colorScheme: 'light' } },
  { name: 'wide-dark', look: { ...wide, colorScheme: 'dark' } },
  { name: 'narrow-light', look: { ...windows.narrow, colorScheme: 'light' } },
  { name: 'narrow-dark', look: { ...windows.narrow, colorScheme: 'dark' } },
] as const;
/** What is shown of a page that is longer than its window, in heights of the window. */
const most = 2;
const startsAt = Date.UTC(2026, 2, 3, 9, 30);

const ends: (() => unknown)[] = [];
const lasting = { teardown: (end: () => unknown) => void ends.unshift(end) };

try {
  const browser = await startChromium(lasting);
  const settings = { 'public-url': 'https://broker.example.com' };
  const stage = await startStage(lasting, { ...busy(), settings }, startsAt);
  const bare = await startStage(lasting, { settings }, startsAt);
  const views = viewsOf(stage, await furnish(stage), bare);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const profileOf = createProfiles(lasting, browser);
  for (const { name, look } of looks) {
    for (const view of views) {
      const page = await (await profileOf(look, view)).newPage();
      await take(page, view, join(folder, `${view.name}-${name}.png`));
      await page.close();
    }
  }
  writeFileSync(join(folder, 'README.md'), list(views));
} finally {
  for (const end of ends) await end();
}

async function take(page: Page, view: View, file: string): Promise<void> {
  await page.goto(view.stage.baseUrl + view.path);
  await view.act?.(page);
  await page.waitForLoadState('load');
  const { width, height } = page.viewportSize() ?? { width: 0, height: 0 };
  const whole = await page.evaluate<number>('document.documentElement.scrollHeight');
  const clip = { x: 0, y: 0, width, height: Math.min(Math.max(whole, height), most * height) };
  writeFileSync(file, withPalette(await page.screenshot({ clip, fullPage: true })));
}

/** What there is, as Markdown. */
function list(views: readonly View[]): string {
  const rows = views.map(({ name, shows }) => {
    const links = looks.map((each) => `[${each.name.replace('-', ', ')}](${name}-${each.name}.png)`);
    return `| ${shows} | ${links.join(' · ')} |`;
  });
  return `# Screens

Every page in every state, 1280 and 390 pixels wide, light and dark. Made by \`npm run screens\`.

| | |
|---|---|
${rows.join('\n')}
`;
}
