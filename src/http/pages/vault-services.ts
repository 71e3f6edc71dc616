import type { Service } from '../../actors/vault/model.ts';
import type { VaultView } from '../../actors/vault/protocol.ts';
import { administers, foreignVault } from '../caller.ts';
import { type Html, html } from '../html.ts';
import { redirect } from '../reply.ts';
import type { Route } from '../route.ts';
import type { FrontParts } from '../routes.ts';
import type { SignedIn } from '../sign-in.ts';
import { confirmed, doneHtml, formHtml, textField } from './controls.ts';
import { consolePage, vaultTabs } from './layout.ts';
import type { PageRoutes } from './page-route.ts';
import { serviceWords } from './service-words.ts';
import { pager, slice, table } from './table.ts';

/** `/vaults/{vault}`: its services, which can be enabled, disabled and removed here. */
export function vaultServicesRoutes(front: FrontParts, { page, action }: PageRoutes): Route[] {
  return [
    page('/vaults/{vault}', async ({ signedIn, params, query }) => {
      const name = params.vault;
      if (!administers(signedIn.identity, name)) return foreignVault();
      const [view, found] = await Promise.all([
        front.vault.ask('vault.get', { vault: name }),
        front.vault.ask('service.list', { vault: name }),
      ]);
      if (!view.ok) return view.problem;
      if (!found.ok) return found.problem;
      const { services } = found.value;
      const wanted = query.q?.trim().toLowerCase() ?? '';
      const matching = services.filter(({ host, description = '' }) => {
        return host.includes(wanted) || description.toLowerCase().includes(wanted);
      });
      const shown = slice(
        matching.sort((a, b) => (a.host < b.host ? -1 : 1)),
        query.page,
      );
      const content = html`${vaultTabs(name, 'services')}${doneHtml(query)}
<p>${policyWords(view.value)}</p>
<div class="row">${services.length > 0 ? searchForm(name, query.q) : null}
<p class="actions"><a class="button primary" href="/vaults/${name}/new-service">Add a service</a></p></div>
${shown.total === 0 ? emptyHtml(name, wanted !== '') : formHtml(signedIn, `/vaults/${name}`, rows(name, shown.items))}
${pager(shown, `/vaults/${name}`, { q: query.q })}`;
      return consolePage(front, signedIn, { title: `Vault ${name}`, section: '/vaults', content });
    }),

    action('/vaults/{vault}/services/{host}/state', async ({ params, form, api }) => {
      const enabled = form.get('enabled') === 'yes';
      const changed = await api('PATCH', '/v1/vaults/{vault}/services/{host}', { params, body: { enabled } });
      if (!changed.ok) return changed.problem;
      return redirect(`/vaults/${params.vault}?done=service-${enabled ? 'enabled' : 'disabled'}`);
    }),

    action('/vaults/{vault}/services/{host}/removal', async ({ params, api }) => {
      const removed = await api('DELETE', '/v1/vaults/{vault}/services/{host}', { params });
      return removed.ok ? redirect(`/vaults/${params.vault}?done=service-removed`) : removed.problem;
    }),
  ];
}

function policyWords({ cleared, unmatched_host_policy, name }: VaultView): Html {
  const settings = html`<a href="/vaults/${name}/settings">Settings</a>`;
  if (cleared)
    return html`<strong class="bad">The vault was cleared:</strong> every request is refused until a service is set.`;
  return unmatched_host_policy === 'deny'
    ? html`Requests to other hosts than these are refused. ${settings}`
    : html`Requests to other hosts than these go through without a credential. ${settings}`;
}

function searchForm(vault: string, q: string | undefined): Html {
  return html`<form method="get" action="/vaults/${vault}" role="search" class="row">
${textField({ name: 'q', label: 'Host or description', value: q, type: 'search' })}<p class="actions"><button>Find</button></p></form>`;
}

function emptyHtml(vault: string, isSearch: boolean): Html {
  if (isSearch)
    return html`<div class="empty"><p>No service is like that. <a href="/vaults/${vault}">Show all of them</a>.</p></div>`;
  return html`<div class="empty"><p><strong>No services yet.</strong> A service is a host and what its requests carry.
<a href="/vaults/${vault}/new-service">Add the first one</a>, from a template of a well-known API or by yourself;
or have an agent propose it.</p></div>`;
}

function rows(vault: string, services: readonly Service[]): Html {
  return table(
    'Services',
    { Host: 7, 'What happens': 11, State: 3, Change: 3 },
    services.map((service) => {
      const path = servicePath(vault, service.host);
      return [
        html`<a href="${path}">${service.host}</a>${service.description ? html`<br><span class="muted">${service.description}</span>` : null}`,
        html`${serviceWords({ ...service, enabled: undefined }).map((words, i) => html`${i > 0 ? html`<br>` : null}${words}`)}`,
        service.enabled === false
          ? html`<span class="tag bad">Disabled</span>`
          : html`<span class="tag good">Enabled</span>`,
        stateButton(path, service),
      ];
    }),
  );
}

/** One form around the table serves all of its rows. */
function stateButton(path: string, { enabled, host }: Service): Html {
  const [value, name] = enabled === false ? ['yes', 'Enable'] : ['no', 'Disable'];
  return html`<button class="quiet" formaction="${path}/state" name="enabled" value="${value}">${name}<span class="hidden"> ${host}</span></button>`;
}

export function removalForm(signedIn: SignedIn, path: string, host: string): Html {
  return confirmed(
    'Remove',
    formHtml(
      signedIn,
      `${path}/removal`,
      html`<button class="danger quiet">Remove <span class="mono">${host}</span></button>`,
    ),
  );
}

export function servicePath(vault: string, host: string): string {
  return `/vaults/${vault}/services/${encodeURIComponent(host)}`;
}
