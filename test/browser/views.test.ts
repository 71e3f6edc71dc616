/**
 * Every page in every state, wide and narrow, light and dark: without findings of axe, without a script's or a policy's
 * complaint, without a shift of its layout, within its size.
 */
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { busy, furnish } from './furnish.ts';
import { barriers, complaints, startChromium, startStage, watchShifts } from './stage.ts';
import { createProfiles, type View, viewsOf, windows } from './views.ts';

const looks = {
  'wide, light': { ...windows.wide, colorScheme: 'light' },
  'narrow, dark': { ...windows.narrow, colorScheme: 'dark' },
} as const;

const browser = await startChromium(t);
const stage = await startStage(t, busy());
const bare = await startStage(t);
const views = viewsOf(stage, await furnish(stage), bare);

const profileOf = createProfiles(t, browser);

async function check(t: Test, name: keyof typeof looks, view: View): Promise<void> {
  const page = await (await profileOf(looks[name], view)).newPage();
  const shifts = await watchShifts(page);
  const wrong = complaints(page);
  await page.goto(view.stage.baseUrl + view.path);
  await view.act?.(page);
  await page.waitForLoadState('load');
  const findings = [...(await barriers(page)), ...wrong, ...(await tooWide(page))];
  t.same(findings, [], `${view.name}, ${name}`);
  if (!view.act) t.equal(await shifts.sum(), 0, 'nothing shifts');
  await page.close();
}

t.test('every page, every look', async (t) => {
  const names = Object.keys(looks) as (keyof typeof looks)[];
  for (const view of views) await Promise.all(names.map((name) => check(t, name, view)));
});

async function tooWide(page: Page): Promise<string[]> {
  const [wide, shown] = await page.evaluate<[number, number]>(
    '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
  );
  return wide > shown ? [`${wide} px wide in ${shown}`] : [];
}
