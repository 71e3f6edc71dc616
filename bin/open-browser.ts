import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** How long the browser has to read the page, in ms. */
const patience = 5_000;

/** The desktop's own way to open an address; null where nobody sits before a screen. */
function opener(env: NodeJS.ProcessEnv): string | null {
  if (!process.stdout.isTTY) return null;
  if (process.platform === 'darwin') return env.SSH_CONNECTION === undefined ? 'open' : null;
  return env.DISPLAY || env.WAYLAND_DISPLAY ? 'xdg-open' : null;
}

/**
 * Opens a secret link in the browser, where there is one: best effort, nothing is said where it fails. By way of a page
 * that only its owner can read and that goes again, since every user of the machine sees a program's arguments.
 */
export async function openInBrowser(url: string): Promise<void> {
  const program = opener(process.env);
  if (program === null) return;
  const folder = mkdtempSync(join(tmpdir(), 'broker-login-'));
  try {
    const page = join(folder, 'sign-in.html');
    // An address that URL has made holds no quotes, spaces or angle brackets.
    const target = new URL(url).href.replaceAll('&', '&amp;');
    writeFileSync(
      page,
      `<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>broker</title>` +
        `<meta http-equiv="refresh" content="0;url=${target}">`,
      { mode: 0o600 },
    );
    const child = spawn(program, [pathToFileURL(page).href], { stdio: 'ignore', detached: true });
    const failed = new Promise<void>((resolve) => child.once('error', () => resolve()));
    child.unref();
    const waited = new Promise<void>((resolve) => setTimeout(resolve, patience));
    await Promise.race([failed, waited]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
