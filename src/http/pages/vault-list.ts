import type { Problem } from '../../actors/vault/problem.ts';
import { statusOf } from '../../actors/vault/problem.ts';
import type { VaultView } from '../../actors/vault/protocol.ts';
import { type Html, html } from '../html.ts';
import { redirect } from '../reply.ts';
import type { Route } from '../route.ts';
import type { FrontParts } from '../routes.ts';
import type { SignedIn } from '../sign-in.ts';
import { doneHtml, formHtml, refusalHtml, textField } from './controls.ts';
import { figures } from './figures.ts';
import { consolePage, vaultsFor } from './layout.ts';
import type { PageRoutes } from './page-route.ts';
import { pager, slice, table } from './table.ts';

/** `/vaults`: those that the operator administers, and a form for a new one. */
export function vaultListRoutes(front: FrontParts, { page, action }: PageRoutes): Route[] {
  async function show(
    signedIn: SignedIn,
    query: Readonly<Record<string, string>>,
    refusal: { readonly problem: Problem; readonly name: string } | null = null,
  ) {
    const vaults = slice(await vaultsFor(front, signedIn), query.page);
    const content = html`${doneHtml(query)}${refusalHtml(refusal?.problem ?? null)}
${vaults.total === 0 ? html`<div class="empty"><p><strong>You don’t administer a vault.</strong> Ask an owner for one.</p></div>` : vaultRows(vaults.items)}
${pager(vaults, '/vaults', {})}
${signedIn.identity.role === 'owner' ? newVaultForm(signedIn, refusal?.name ?? '') : null}`;
    const status = refusal ? statusOf(refusal.problem.code) : 200;
    return consolePage(front, signedIn, { title: 'Vaults', section: '/vaults', content, status });
  }

  return [
    page('/vaults', ({ signedIn, query }) => show(signedIn, query)),

    action('/vaults', async ({ signedIn, form, api }) => {
      const name = form.get('name')?.trim() ?? '';
      const made = await api('POST', '/v1/vaults', { body: { name } });
      if (!made.ok) return show(signedIn, {}, { problem: made.problem, name });
      return redirect(`/vaults/${name}?done=vault-made`);
    }),
  ];
}

function vaultRows(vaults: readonly VaultView[]): Html {
  return table(
    'Vaults',
    { Vault: 8, Services: 3, Credentials: 3, 'Proposals waiting': 4, 'Hosts without a service': 6 },
    vaults.map(({ name, counters, cleared, unmatched_host_policy }) => [
      html`<a href="/vaults/${name}">${name}</a>`,
      html`${figures(counters.services)}`,
      html`${figures(counters.credentials)}`,
      counters.pending_proposals === 0
        ? html`0`
        : html`<a href="/proposals?vault=${name}&amp;status=pending">${figures(counters.pending_proposals)}</a>`,
      cleared
        ? html`<span class="tag bad">Cleared: all refused</span>`
        : html`${unmatched_host_policy === 'deny' ? 'refused' : 'go through'}`,
    ]),
  );
}

function newVaultForm(signedIn: SignedIn, name: string): Html {
  return html`<h2>New vault</h2><p>Agents of one vault use its credentials, and never those of another.</p>
${formHtml(
  signedIn,
  '/vaults',
  html`${textField({ name: 'name', label: 'Name', value: name, required: true, hint: 'Lower case letters, digits and hyphens, such as billing.' })}
<p class="actions"><button class="primary">Make the vault</button></p>`,
)}`;
}
