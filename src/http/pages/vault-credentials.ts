import { keyProblem } from '../../actors/vault/credential-rules.ts';
import { hostsByKey } from '../../actors/vault/merge.ts';
import { accept, type Problem, type Result, statusOf } from '../../actors/vault/problem.ts';
import { administers, foreignVault } from '../caller.ts';
import { type Html, html } from '../html.ts';
import { type Answer, redirect } from '../reply.ts';
import type { Route } from '../route.ts';
import type { FrontParts } from '../routes.ts';
import type { SignedIn } from '../sign-in.ts';
import { confirmed, doneHtml, formHtml, refusalHtml, secretField, textField, tickField } from './controls.ts';
import { consolePage, vaultTabs } from './layout.ts';
import type { FormCall, PageCall, PageRoutes } from './page-route.ts';
import { listOf } from './service-words.ts';
import { pager, slice, table } from './table.ts';
import { servicePath } from './vault-services.ts';

/** A refusal, and what of the form may be shown again. */
interface Refused {
  readonly problem: Problem;
  readonly key: string;
}

/** `/vaults/{vault}/credentials`: keys and where they are used. Values go in, and never come out. */
export function vaultCredentialsRoutes(front: FrontParts, { page, action }: PageRoutes): Route[] {
  const path = '/vaults/{vault}/credentials';

  /** The keys of a vault, and the hosts that each is sent to. */
  async function look({ signedIn, params }: PageCall): Promise<Result<Map<string, readonly string[]>>> {
    const asked = { vault: params.vault };
    if (!administers(signedIn.identity, params.vault)) return { ok: false, problem: foreignVault() };
    const [found, services] = await Promise.all([
      front.vault.ask('credential.list', asked),
      front.vault.ask('service.list', asked),
    ]);
    if (!found.ok) return found;
    if (!services.ok) return services;
    const hosts = hostsByKey(services.value.services);
    return accept(new Map(found.value.keys.map((key) => [key, [...(hosts.get(key) ?? [])]])));
  }

  function show(call: PageCall, title: string, content: Html, refused: Refused | null): Promise<Answer> {
    const whole = html`${vaultTabs(call.params.vault, 'credentials')}${doneHtml(call.query)}${refusalHtml(refused?.problem ?? null)}${content}`;
    const status = refused ? statusOf(refused.problem.code) : 200;
    return consolePage(front, call.signedIn, { title, section: '/vaults', content: whole, status });
  }

  async function list(call: PageCall, refused: Refused | null = null): Promise<Answer> {
    const found = await look(call);
    if (!found.ok) return found.problem;
    const name = call.params.vault;
    const keys = slice([...found.value], call.query.page);
    const content = html`<p>Agents use these by name. Nobody sees a value, here or anywhere else.</p>
${keys.total === 0 ? noCredentials : keyTable(name, keys.items)}
${pager(keys, `/vaults/${name}/credentials`, {})}
${newForm(call.signedIn, name, refused?.key ?? '', call.query.lines !== undefined, meantField(refused))}`;
    return show(call, `Vault ${name}`, content, refused);
  }

  async function one(call: PageCall, refused: Refused | null = null): Promise<Answer> {
    const found = await look(call);
    if (!found.ok) return found.problem;
    const { vault, key } = call.params;
    const hosts = found.value.get(key);
    if (!hosts)
      return { code: 'not_found', message: 'This vault has no such credential. It may have been deleted.' };
    const content = html`${usedHtml(vault, hosts)}
<h2>Set a new value</h2>${rotateForm(call.signedIn, vault, key, call.query.lines !== undefined, meantField(refused))}
<h2>Delete</h2>${deleteForm(call.signedIn, vault, key, hosts)}`;
    return show(call, key, content, refused);
  }

  /** Stores a value and goes back to the list. */
  async function store(
    { params, form, api }: FormCall,
    key: string,
    field: string,
    refused: (problem: Problem) => Promise<Answer>,
  ): Promise<Answer> {
    // A browser sends the line breaks of a text as CR LF, whatever they were.
    const value = (form.get(`value.${field}`) ?? '').replaceAll('\r\n', '\n');
    // Of one key: a tick doesn't hold for what was typed in its place.
    const query = { ask: form.get('meant') !== key };
    const set = await api('POST', '/v1/credentials', {
      params,
      query,
      body: { credentials: { [key]: value } },
    });
    if (!set.ok) return refused(set.problem);
    return redirect(`/vaults/${params.vault}/credentials?done=credential-set`);
  }

  return [
    page(path, (call) => list(call)),

    action(path, async (call) => {
      const key = call.form.get('key')?.trim() ?? '';
      // The API would name the field by it, and what isn't a key may be the value, pasted into the wrong field.
      const wrong = keyProblem(key, 'Name');
      if (wrong) return list(call, { problem: wrong, key: '' });
      return store(call, key, 'new', (problem) => list(call, { problem, key }));
    }),

    page(`${path}/{key}`, (call) => one(call)),

    action(`${path}/{key}`, (call) => {
      const { key } = call.params;
      return store(call, key, key, (problem) => one(call, { problem, key }));
    }),

    action(`${path}/{key}/deletion`, async ({ params, form, api }) => {
      const query = { force: form.get('force') === 'yes' };
      const deleted = await api('DELETE', '/v1/credentials/{key}', { params, query });
      if (!deleted.ok) return deleted.problem;
      return redirect(`/vaults/${params.vault}/credentials?done=credential-deleted`);
    }),
  ];
}

const noCredentials = html`<div class="empty"><p><strong>No credentials yet.</strong> Store the first one below, or have an agent propose a slot for it.</p></div>`;
const noHost = html`<span class="muted">no host</span>`;

function keyTable(vault: string, keys: readonly (readonly [string, readonly string[]])[]): Html {
  return table(
    'Credentials',
    { Credential: 11, 'Is sent to': 11, Change: 2 },
    keys.map(([key, hosts]) => [
      html`<code>${key}</code>`,
      hosts.length > 0 ? listOf(hosts) : noHost,
      html`<a href="/vaults/${vault}/credentials/${key}">Change<span class="hidden"> ${key}</span></a>`,
    ]),
  );
}

function usedHtml(vault: string, hosts: readonly string[]): Html {
  if (hosts.length === 0) return html`<p>No service uses it: it is sent nowhere.</p>`;
  const links = hosts
    .slice(0, 100)
    .map((host) => html`<li><a href="${servicePath(vault, host)}">${host}</a></li>`);
  const more = hosts.length - links.length;
  return html`<p>It is sent to:</p><ul>${links}</ul>${more > 0 ? html`<p>and to ${more} more.</p>` : null}`;
}

function severalLines(key: string): Html {
  return html`<a href="?lines=yes" data-lines="${key}">It has several lines</a>`;
}

/** Where the key is an agent's so far, and is sent somewhere: that this is meant. */
function meantField(refused: Refused | null): Html | null {
  if (refused?.problem.code !== 'confirmation_required') return null;
  return tickField('meant', 'Store it all the same: it may go to these hosts', false, refused.key);
}

function rotateForm(
  signedIn: SignedIn,
  vault: string,
  key: string,
  multiline: boolean,
  meant: Html | null,
): Html {
  const link = multiline ? null : severalLines(key);
  return formHtml(
    signedIn,
    `/vaults/${vault}/credentials/${key}`,
    html`${secretField(key, html`New value of <code>${key}</code>`, link, multiline)}
${meant}<p class="actions"><button class="primary">Set it</button></p>`,
  );
}

function deleteForm(signedIn: SignedIn, vault: string, key: string, hosts: readonly string[]): Html {
  const warning =
    hosts.length === 0
      ? null
      : html`<p class="bad">Requests to ${listOf(hosts)} are refused without it, until it is set again.</p><input type="hidden" name="force" value="yes">`;
  return confirmed(
    'Delete this credential',
    formHtml(
      signedIn,
      `/vaults/${vault}/credentials/${key}/deletion`,
      html`${warning}<button class="danger">Delete <span class="mono">${key}</span></button>`,
    ),
  );
}

function newForm(
  signedIn: SignedIn,
  vault: string,
  key: string,
  multiline: boolean,
  meant: Html | null,
): Html {
  return html`<h2>Store a credential</h2>${formHtml(
    signedIn,
    `/vaults/${vault}/credentials`,
    html`${textField({ name: 'key', label: 'Name', value: key, required: true, placeholder: 'STRIPE_KEY', hint: 'A to Z, 0 to 9 and _, a letter first. Of one that is stored already the value is replaced.' })}
${secretField('new', 'Value', multiline ? null : severalLines('new'), multiline)}
${meant}<p class="actions"><button class="primary">Store it</button></p>`,
  )}`;
}
