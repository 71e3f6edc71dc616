import { isCredentialKey } from '../../actors/vault/credential-rules.ts';
import { type AuthConfig, type Surface, surfaces } from '../../actors/vault/model.ts';
import type { Problem } from '../../actors/vault/problem.ts';
import { type Html, html } from '../html.ts';
import type { SignedIn } from '../sign-in.ts';
import {
  areaField,
  formHtml,
  refusalHtml,
  secretField,
  selectField,
  textField,
  tickField,
} from './controls.ts';
import { maxRows, type ServiceDraft, type SubstitutionDraft } from './service-input.ts';
import { listOf } from './service-words.ts';
import { type ServiceTemplate, serviceTemplates } from './templates.ts';

export interface ServiceForm {
  readonly vault: string;
  readonly draft: ServiceDraft;
  /** The host is there already: it names the service, so it stays. */
  readonly isNew: boolean;
  readonly template: ServiceTemplate | null;
  /** Keys that are stored, to choose from. */
  readonly keys: readonly string[];
  /** Keys that the service needs and that aren't stored: their values are asked for here. */
  readonly missing: readonly string[];
  /** They are all that is left to be given. */
  readonly isNextStep?: boolean;
  readonly problem: Problem | null;
}

/** The form of a service, new or there already. */
export function serviceForm(signedIn: SignedIn, action: string, form: ServiceForm): Html {
  const { draft, isNew, missing, problem, keys } = form;
  const wrong = problem === null ? null : fieldOf(problem);
  const field = (name: string) => ({ name, wrong: wrong === name });
  const link = wrong === null ? null : html` <a href="#${wrong}">Go to the field</a>.`;
  const next = form.isNextStep
    ? html`<div class="notice" role="status"><p><strong>One step is left.</strong> Give the value of ${listOf(missing)} below: nothing is saved before that.</p></div>`
    : null;
  return html`${refusalHtml(problem, link)}${next}${formHtml(
    signedIn,
    action,
    html`<datalist id="keys">${keys.slice(0, 500).map((key) => html`<option value="${key}"></option>`)}</datalist>
${textField({
  ...field('host'),
  ...{ label: 'Host', value: draft.host, required: true, readonly: !isNew, placeholder: 'api.example.com' },
  hint: isNew
    ? html`A name or an address, with a port if it is for that one alone. <code>*.example.com</code> stands for every name right under it.`
    : 'A service is known by its host. For another host add another service.',
})}
${textField({ ...field('description'), label: 'Description', value: draft.description, hint: 'Agents read it, too.' })}
${authFields(draft, field)}
${substitutionFields(draft, wrong)}
${missing.length > 0 ? missingFields(form) : null}
<p class="actions"><button class="primary">${isNew ? 'Add the service' : 'Save'}</button><a class="button" href="/vaults/${form.vault}">Cancel</a></p>`,
  )}`;
}

/** The id of the field that a refusal is about. */
function fieldOf({ extra }: Problem): string {
  const path = String(extra?.field ?? '').replace(/^services\[0\]\.?/, '');
  if (path.startsWith('auth.headers')) return 'auth.headers';
  return path.replace(/\[(\d+)\]/g, '.$1') || 'host';
}

const kinds: readonly (readonly [AuthConfig['type'], string, string])[] = [
  ['bearer', 'Bearer token', 'Authorization: Bearer …'],
  ['api-key', 'API key in a header', 'such as X-Api-Key: …'],
  ['basic', 'User name and password', 'Authorization: Basic …'],
  ['custom', 'Headers of your own', 'with {{ KEY }} in them'],
  ['passthrough', 'Nothing', 'the agent’s own credentials pass'],
];

/** What isn't a key may be the secret itself, pasted into the wrong field: it isn't shown again. */
function keyOnly(text: string): string {
  return isCredentialKey(text) ? text : '';
}

function authFields(draft: ServiceDraft, field: (name: string) => { name: string; wrong: boolean }): Html {
  const choices = kinds.map(
    ([type, name, hint]) =>
      html`<label class="tick"><input type="radio" name="type" id="auth-${type}" value="${type}"${
        draft.type === type ? html` checked` : null
      }><span>${name} <span class="muted">${hint}</span></span></label>`,
  );
  const key = (
    name: string,
    label: string,
    value: string,
    hint = 'The name of the credential, never its value: that is asked for next, if it isn’t stored yet.',
  ) =>
    textField({
      ...field(`auth.${name}`),
      label,
      value: keyOnly(value),
      hint,
      list: 'keys',
      placeholder: 'STRIPE_KEY',
    });
  return html`<fieldset><legend>What requests carry</legend>${choices}
<div class="kind bearer">${key('token', 'Credential', draft.token)}</div>
<div class="kind api-key">${key('key', 'Credential', draft.key)}
${textField({ ...field('auth.header'), label: 'Header', value: draft.header, placeholder: 'Authorization' })}
${textField({ ...field('auth.prefix'), label: 'What stands before the value', value: draft.prefix, hint: html`Such as <code>Token </code>, with the space. May be empty.` })}</div>
<div class="kind basic">${key('username', 'User name', draft.username)}
${key('password', 'Password', draft.password, 'The name of the credential. Empty: no password.')}</div>
<div class="kind custom">${areaField({ ...field('auth.headers'), label: 'Headers', value: draft.headers, rows: 4, placeholder: 'X-Key: {{ KEY }}', hint: html`One a line, <code>Name: text</code>. Each <code>{{ KEY }}</code> stands for the value of that credential.` })}</div>
</fieldset>`;
}

function substitutionFields({ substitutions, reflection }: ServiceDraft, wrong: string | null): Html {
  const spare = { key: '', placeholder: '', in: [], path: '', query: '', header: '' };
  const rows = [...substitutions, spare].slice(0, maxRows);
  // What was chosen once stays, unless another is chosen: a change that leaves it out keeps it.
  const choices = reflectionChoices.filter(([value]) => value !== '' || reflection === '');
  const isOpen = substitutions.length > 0 || reflection !== '' || wrong?.startsWith('substitutions');
  return html`<details${isOpen ? html` open` : null}><summary>Placeholders in the path, the query or other headers</summary>
<p class="muted">Where the agent writes the placeholder, the broker puts the value of the credential. To take all of them away, remove the service and add it again.</p>
${rows.map((row, i) => substitutionRow(row, i, wrong))}
${selectField({ name: 'reflection', label: 'Answers that repeat a credential', value: reflection, hint: 'By itself: asterisks where a placeholder may stand anywhere, else noted.' }, choices)}</details>`;
}

const reflectionChoices = [
  ['', 'By itself'],
  ['redact', 'Put asterisks in its place'],
  ['audit', 'Note it in the record'],
  ['pass', 'Don’t look'],
] as const;

function substitutionRow(row: SubstitutionDraft, i: number, wrong: string | null): Html {
  const { key, placeholder } = row;
  const name = (field: string) => `substitutions.${i}.${field}`;
  const labels = { path: 'Anywhere in the path', query: 'Anywhere in the query', header: 'In any header' };
  const place = (field: Surface, label: string, example: string) =>
    textField({
      ...{ name: name(`at.${field}`), label, value: row[field], placeholder: example },
      wrong: wrong === name(`at.${field}`),
    });
  return html`<fieldset><legend>Placeholder ${i + 1}</legend><div class="row">
${textField({ name: name('placeholder'), label: 'Placeholder', value: placeholder, placeholder: '__account__', wrong: wrong === name('placeholder') })}
${textField({ name: name('key'), label: 'Credential', value: keyOnly(key), list: 'keys', placeholder: 'ACCOUNT_ID', wrong: wrong === name('key') })}</div>
<p class="muted" id="${name('at')}" tabindex="-1">Where it is replaced. Elsewhere it goes as it is, so that the agent can’t have it stored or shown to it.</p><div class="row">
${place('path', 'Path', '/bot__account__/*')}
${place('query', 'Query parameters', 'key')}
${place('header', 'Headers', 'X-Key')}</div>
<details id="${name('in')}" tabindex="-1"${row.in.length > 0 ? html` open` : null}><summary>Without a place</summary>${surfaces.map((surface) => tickField(name(surface), labels[surface], row.in.includes(surface)))}</details></fieldset>`;
}

/** Values of keys that aren't stored yet: so a service and its credentials are set in one go. */
function missingFields({ missing, template, isNextStep }: ServiceForm): Html {
  const fields = missing.map((key, i) => {
    const slot = template?.credentials.find((each) => each.key === key);
    const hint = slot
      ? html`${slot.description}. ${slot.obtain_instructions} <a href="${slot.obtain}" rel="noopener noreferrer" target="_blank">Where to get it<span class="hidden"> (opens in a new tab)</span></a>`
      : null;
    return secretField(key, html`Value of <code>${key}</code>`, hint, false, isNextStep && i === 0);
  });
  return html`<fieldset><legend>Credentials that aren’t stored yet</legend>${fields}</fieldset>`;
}

/** Starts a service from what is known of an API. */
export function templatePicker(vault: string, chosen: ServiceTemplate | null): Html {
  return html`<form method="get" action="/vaults/${vault}/new-service" class="row card">
<div class="field"><label for="template">Start from a well-known API</label>
<select id="template" name="template"><option value="">None</option>${serviceTemplates.map(
    ({ id, name }) =>
      html`<option value="${id}"${id === chosen?.id ? html` selected` : null}>${name}</option>`,
  )}</select></div><p class="actions"><button>Fill in</button></p></form>`;
}
