import { type Problem, statusOf } from '../../actors/vault/problem.ts';
import type { VaultView } from '../../actors/vault/protocol.ts';
import { administers, foreignVault } from '../caller.ts';
import type { Form } from '../form.ts';
import { type Html, html } from '../html.ts';
import { type Answer, redirect } from '../reply.ts';
import type { Route } from '../route.ts';
import type { FrontParts } from '../routes.ts';
import type { SignedIn } from '../sign-in.ts';
import { confirmed, doneHtml, formHtml, refusalHtml, selectField, textField, tickField } from './controls.ts';
import { consolePage, vaultTabs } from './layout.ts';
import type { PageCall, PageRoutes } from './page-route.ts';

const limits = [
  ['rps', 'Requests a second'],
  ['burst', 'In a burst'],
  ['inflight', 'At the same time'],
] as const;

/** `/vaults/{vault}/settings`: what becomes of hosts without a service, limits, and the end of the vault. */
export function vaultSettingsRoutes(front: FrontParts, { page, action }: PageRoutes): Route[] {
  const path = '/vaults/{vault}/settings';

  async function show(call: PageCall, problem: Problem | null = null): Promise<Answer> {
    const { signedIn, params, query } = call;
    const name = params.vault;
    if (!administers(signedIn.identity, name)) return foreignVault();
    const found = await front.vault.ask('vault.get', { vault: name });
    if (!found.ok) return found.problem;
    const content = html`${vaultTabs(name, 'settings')}${doneHtml(query)}${refusalHtml(problem)}
${settingsForm(signedIn, found.value)}
${endForms(signedIn, found.value)}`;
    const status = problem ? statusOf(problem.code) : 200;
    return consolePage(front, signedIn, { title: `Vault ${name}`, section: '/vaults', content, status });
  }

  return [
    page(path, (call) => show(call)),

    action(path, async (call) => {
      const { params, form, api } = call;
      const saved = await api('PATCH', '/v1/vaults/{vault}', { params, body: settingsOf(form) });
      return saved.ok
        ? redirect(`/vaults/${params.vault}/settings?done=settings-saved`)
        : show(call, saved.problem);
    }),

    action(`${path}/clearing`, async (call) => {
      const cleared = await call.api('DELETE', '/v1/vaults/{vault}/services', { params: call.params });
      return cleared.ok
        ? redirect(`/vaults/${call.params.vault}?done=services-cleared`)
        : show(call, cleared.problem);
    }),

    action(`${path}/deletion`, async (call) => {
      const { params, form, api } = call;
      const query = { confirm: form.get('confirm')?.trim() };
      const deleted = await api('DELETE', '/v1/vaults/{vault}', { params, query });
      return deleted.ok ? redirect('/vaults?done=vault-deleted') : show(call, deleted.problem);
    }),
  ];
}

/** As the API takes them. What isn't a number stays text, for the API to refuse. */
function settingsOf(form: Form): object {
  const given = limits.flatMap(([name]) => {
    const text = form.get(name)?.trim() ?? '';
    return text === '' ? [] : [[name, /^\d+$/.test(text) ? Number(text) : text]];
  });
  return {
    unmatched_host_policy: form.get('unmatched_host_policy'),
    unmatched_tls: form.get('unmatched_tls'),
    require_tls: form.get('require_tls') === 'yes',
    rate_limit: given.length === 0 ? null : Object.fromEntries(given),
  };
}

function settingsForm(signedIn: SignedIn, vault: VaultView): Html {
  return formHtml(
    signedIn,
    `/vaults/${vault.name}/settings`,
    html`${selectField(
      {
        name: 'unmatched_host_policy',
        label: 'Requests to hosts without a service',
        value: vault.unmatched_host_policy,
      },
      [
        ['passthrough', 'go through without a credential'],
        ['deny', 'are refused'],
      ],
    )}
${selectField(
  {
    name: 'unmatched_tls',
    label: 'TLS to hosts without a service',
    value: vault.unmatched_tls,
    hint: 'What isn’t decrypted isn’t seen: the audit then has the host alone.',
  },
  [
    ['intercept', 'is decrypted'],
    ['tunnel', 'is relayed as it is'],
  ],
)}
${tickField('require_tls', html`Credentials over https only <span class="hint">A request over plain http:// to a service that adds one is refused.</span>`, vault.require_tls)}
<fieldset><legend>Limits of each session and agent</legend><p class="muted">Empty: as the broker was started. 0: no limit.</p>
<div class="row">${limits.map(([name, label]) =>
      textField({ name, label, value: String(vault.rate_limit?.[name] ?? ''), type: 'number', small: true }),
    )}</div></fieldset>
<p class="actions"><button class="primary">Save</button></p>`,
  );
}

function endForms(signedIn: SignedIn, { name }: VaultView): Html {
  const clearing = formHtml(
    signedIn,
    `/vaults/${name}/settings/clearing`,
    html`<p>Every request of the vault’s agents is refused from then on, until a service is set again. Credentials stay.</p>
<button class="danger">Remove all services of ${name}</button>`,
  );
  const deletion =
    name === 'default'
      ? html`<p class="muted">The vault <code>default</code> can’t be deleted.</p>`
      : confirmed(
          'Delete the vault',
          formHtml(
            signedIn,
            `/vaults/${name}/settings/deletion`,
            html`<p>Its services, credentials, sessions and proposals are gone for good.</p>
${textField({ name: 'confirm', label: html`Its name, <code>${name}</code>, once more`, required: true })}
<button class="danger">Delete the vault</button>`,
          ),
        );
  return html`<h2>Remove or delete</h2><div class="card">${confirmed('Remove all services', clearing)}${deletion}</div>`;
}
