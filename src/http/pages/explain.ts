import { administers, foreignVault } from '../caller.ts';
import { type Html, html } from '../html.ts';
import type { Route } from '../route.ts';
import type { FrontParts } from '../routes.ts';
import { refusalHtml, selectField, textField } from './controls.ts';
import { consolePage, vaultsFor } from './layout.ts';
import type { PageRoutes } from './page-route.ts';
import { listOf } from './service-words.ts';
import { servicePath } from './vault-services.ts';

/** What `ProxyPort.explain` answers, as far as it is shown. */
interface Explanation {
  readonly host: string;
  readonly decision: 'inject' | 'passthrough' | 'refuse';
  readonly service: string | null;
  readonly auth_type: string | null;
  readonly headers: readonly string[];
  readonly keys: readonly string[];
  readonly substitutions: readonly { readonly placeholder: string; readonly in: readonly string[] }[];
  readonly error: string | null;
  readonly status: number | null;
  readonly reason: string;
}

/** `/explain`: why a request is refused, or goes without a credential. Nothing is sent. */
export function explainRoutes(front: FrontParts, { page }: PageRoutes): Route[] {
  return [
    page('/explain', async ({ signedIn, query }) => {
      const vaults = await vaultsFor(front, signedIn);
      const { vault = vaults[0]?.name ?? 'default', method = 'GET', url = '' } = query;
      if (!administers(signedIn.identity, vault)) return foreignVault();
      const found = url === '' ? null : await front.proxy.explain({ vault, method, url });
      const content = html`${found?.ok === false ? refusalHtml(found.problem) : null}
<p>Tells what would happen to a request now. Nothing is sent.</p>
<form method="get" action="/explain" class="row">
${selectField(
  { name: 'vault', label: 'Vault', value: vault, small: true },
  vaults.map(({ name }) => [name, name] as const),
)}
${selectField({ name: 'method', label: 'Method', value: method, small: true }, methodsWith(method))}
${textField({ name: 'url', label: 'Address', value: url, type: 'url', required: true, placeholder: 'https://api.example.com/v1/items' })}
<p class="actions"><button class="primary">Explain</button></p></form>
${found?.ok ? answerHtml(vault, found.value as Explanation) : null}`;
      return consolePage(front, signedIn, { title: 'Explain a request', section: '/requests', content });
    }),
  ];
}

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'];

function methodsWith(method: string): (readonly [string, string])[] {
  return [...new Set([...methods, method])].map((each) => [each, each] as const);
}

function answerHtml(vault: string, found: Explanation): Html {
  const { decision, service, host } = found;
  const titles = {
    inject: 'It would carry a credential',
    passthrough: 'It would go through as it is',
    refuse: 'It would be refused',
  };
  const tones = { inject: 'good', passthrough: 'warn', refuse: 'bad' };
  const way =
    service === null
      ? html`<a class="button" href="/vaults/${vault}/new-service?host=${encodeURIComponent(host)}">Add a service for this host</a>`
      : html`<a class="button" href="${servicePath(vault, service)}">Look at the service</a>`;
  return html`<section class="card" aria-labelledby="answer"><h2 id="answer" class="${tones[decision]}">${titles[decision]}</h2>
<p>${reasonWords(found)}</p>
<dl class="facts">${facts(found).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
<p class="actions">${way}</p></section>`;
}

/** Refused hosts are told to agents with how they propose them: here it is an operator who reads. */
function reasonWords({ reason, service, error, host }: Explanation): Html {
  if (error !== 'forbidden' || service !== null) return html`${reason}`;
  return html`No service of this vault is for <code>${host}</code>, and other hosts are refused. Add one, or wait for an agent to propose it.`;
}

function facts({ service, headers, keys, substitutions, error, status }: Explanation): [string, Html][] {
  const found: [string, Html][] = [
    ['Service', service === null ? html`none matches` : html`<code>${service}</code>`],
  ];
  if (error !== null) found.push(['Answer', html`${status ?? 0} <code>${error}</code>`]);
  if (headers.length > 0) found.push(['Headers set', listOf(headers, 20)]);
  if (keys.length > 0) found.push(['Credentials', listOf(keys, 20)]);
  if (substitutions.length > 0) {
    const placeholders = substitutions.map(({ placeholder }) => placeholder);
    found.push(['Placeholders', listOf(placeholders, 20)]);
  }
  return found;
}
