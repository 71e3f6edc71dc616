import type { VaultView } from '../../actors/vault/protocol.ts';
import { administers } from '../caller.ts';
import { type Html, html } from '../html.ts';
import { type Frame, framed } from '../page-frame.ts';
import type { Reply } from '../reply.ts';
import type { FrontParts } from '../routes.ts';
import { csrfField, type SignedIn } from '../sign-in.ts';

const sections = [
  ['/', 'Overview'],
  ['/vaults', 'Vaults'],
  ['/proposals', 'Proposals'],
  ['/requests', 'Requests'],
  ['/agents', 'Agents'],
  ['/audit', 'Audit'],
] as const;

export interface ConsolePage extends Omit<Frame, 'navigation'> {
  /** The part of the console that the page belongs to. */
  readonly section: (typeof sections)[number][0];
}

/** A page of the console, for somebody who is signed in. */
export async function consolePage(front: FrontParts, signedIn: SignedIn, page: ConsolePage): Promise<Reply> {
  const vaults = await vaultsFor(front, signedIn);
  const pending = vaults.reduce((sum, { counters }) => sum + counters.pending_proposals, 0);
  return framed({ ...page, navigation: navigation(signedIn, page.section, pending) });
}

/** The vaults that an operator administers, by name. */
export async function vaultsFor(
  { vault }: Pick<FrontParts, 'vault'>,
  { identity }: SignedIn,
): Promise<readonly VaultView[]> {
  const all = await vault.ask('vault.list', {});
  return all.filter(({ name }) => administers(identity, name)).sort((a, b) => (a.name < b.name ? -1 : 1));
}

function navigation(signedIn: SignedIn, current: string, pending: number): Html {
  const links = sections.map(([path, name]) => {
    const here = path === current ? html` aria-current="page"` : null;
    const count = path === '/proposals' ? pendingCount(pending) : null;
    return html`<li><a href="${path}"${here}>${name}${count}</a></li>`;
  });
  return html`<header class="bar"><div>
<a class="brand" href="/">broker</a>
<nav aria-label="Console"><ul class="links">${links}</ul></nav>
<form class="who" method="post" action="/logout">${csrfField(signedIn)}<span class="muted">${signedIn.identity.name}</span>
<button class="quiet">Sign out</button></form>
</div></header>`;
}

/** There even where it is 0, so that a live page can count up. */
function pendingCount(pending: number): Html {
  return html` <span class="count" data-pending="${pending}"${pending === 0 ? html` hidden` : null}>${pending}<span class="hidden"> pending</span></span>`;
}

/** The pages of one vault. */
export function vaultTabs(vault: string, current: 'services' | 'credentials' | 'settings'): Html {
  const base = `/vaults/${vault}`;
  const tabs = [
    ['services', base, 'Services'],
    ['credentials', `${base}/credentials`, 'Credentials'],
    ['proposals', `/proposals?vault=${vault}`, 'Proposals'],
    ['requests', `/requests?vault=${vault}`, 'Requests'],
    ['settings', `${base}/settings`, 'Settings'],
  ];
  const links = tabs.map(
    ([id, path, name]) =>
      html`<li><a href="${path}"${id === current ? html` aria-current="page"` : null}>${name}</a></li>`,
  );
  return html`<nav class="tabs" aria-label="Vault ${vault}"><ul class="links">${links}</ul></nav>`;
}
