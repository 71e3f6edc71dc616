import type { Problem } from '../../actors/vault/problem.ts';
import { type Html, html } from '../html.ts';
import { csrfField, type SignedIn } from '../sign-in.ts';
import { proofHtml } from './proof-form.ts';

export interface Field {
  readonly name: string;
  readonly label: string | Html;
  readonly value?: string;
  readonly hint?: string | Html;
  readonly required?: boolean;
  readonly readonly?: boolean;
  readonly small?: boolean;
  /** Names of values to choose from. */
  readonly list?: string;
  readonly placeholder?: string;
  /** What is wrong with it. */
  readonly wrong?: boolean;
  readonly type?: 'text' | 'number' | 'search' | 'url';
}

/** A line of text in a form, with its label and hint. */
export function textField(field: Field): Html {
  const { name, label, value = '', type = 'text' } = field;
  return html`<div class="field${field.small ? ' small' : ''}"><label for="${name}">${label}</label>
<input id="${name}" name="${name}" type="${type}" value="${value}" autocomplete="off" autocapitalize="none" spellcheck="false"${attributes(field)}>
${hintOf(field)}</div>`;
}

/** Several lines of it. */
export function areaField(field: Field & { readonly rows?: number }): Html {
  const { name, label, value = '', rows = 3 } = field;
  return html`<div class="field"><label for="${name}">${label}</label>
<textarea id="${name}" name="${name}" rows="${rows}" autocomplete="off" autocapitalize="none" spellcheck="false"${attributes(field)}>
${value}</textarea>${hintOf(field)}</div>`;
}

/** A value that nobody may see: hidden while it is typed, empty whenever the page is made. */
export function secretField(
  key: string,
  label: string | Html,
  hint: Html | null = null,
  multiline = false,
  focused = false,
): Html {
  const id = `value-${key}`;
  const rest = html` id="${id}" name="value.${key}" autocomplete="off" autocapitalize="none" spellcheck="false" data-secret="${key}" aria-describedby="hint-${id}" required${focused ? html` autofocus` : null}`;
  const input = multiline
    ? html`<textarea class="secret" rows="6"${rest}></textarea>`
    : html`<input type="password"${rest}>`;
  return html`<div class="field"><label for="${id}">${label}</label>
${input}
<span class="hint" id="hint-${id}">Kept encrypted and never shown again.${hint === null ? null : html` ${hint}`}</span>
<span class="hint warn" data-hint="${key}" role="status"></span></div>`;
}

export function selectField(
  field: Pick<Field, 'name' | 'label' | 'value' | 'hint' | 'small'>,
  options: readonly (readonly [value: string, label: string])[],
): Html {
  const { name, label, value } = field;
  const choices = options.map(
    ([each, text]) =>
      html`<option value="${each}"${each === value ? html` selected` : null}>${text}</option>`,
  );
  return html`<div class="field${field.small ? ' small' : ''}"><label for="${name}">${label}</label>
<select id="${name}" name="${name}"${field.hint === undefined ? null : html` aria-describedby="hint-${name}"`}>${choices}</select>${hintOf(field)}</div>`;
}

export function tickField(name: string, label: string | Html, checked: boolean, value = 'yes'): Html {
  return html`<label class="tick"><input type="checkbox" name="${name}" value="${value}"${checked ? html` checked` : null}><span>${label}</span></label>`;
}

function attributes({ name, hint, required, readonly, list, placeholder, wrong }: Field): Html {
  return html`${required ? html` required` : null}${readonly ? html` readonly` : null}${list ? html` list="${list}"` : null}${
    placeholder ? html` placeholder="${placeholder}"` : null
  }${hint === undefined ? null : html` aria-describedby="hint-${name}"`}${wrong ? html` aria-invalid="true"` : null}`;
}

function hintOf({ name, hint }: Pick<Field, 'name' | 'hint'>): Html | null {
  return hint === undefined ? null : html`<span class="hint" id="hint-${name}">${hint}</span>`;
}

/** A form of ours that changes something. */
export function formHtml(signedIn: SignedIn, action: string, content: Html, kind = ''): Html {
  return html`<form method="post" action="${action}" autocomplete="off" class="${kind}" data-once>${csrfField(signedIn)}${proofHtml(signedIn)}${content}</form>`;
}

/** What is there to be copied as a whole, such as a secret that is shown once. */
export function copyHtml(text: string): Html {
  return html`<div class="card copy"><code id="copied">${text}</code><button type="button" class="quiet" data-copy="copied" hidden>Copy</button></div>`;
}

/** What is asked for twice: the button that does it shows when one has said that one wants it. */
export function confirmed(name: string, content: Html): Html {
  return html`<details class="inline"><summary>${name}</summary>${content}</details>`;
}

/** A refusal, where a form was sent from. */
export function refusalHtml(problem: Problem | null, link: Html | null = null): Html | null {
  if (problem === null) return null;
  return html`<div class="warning grave" role="alert" tabindex="-1" autofocus><p><strong>Nothing was changed.</strong> ${problem.message}${link}</p></div>`;
}

const done: Readonly<Record<string, string>> = {
  'vault-made': 'The vault is there. Add a service to it next.',
  'vault-deleted': 'The vault and all that was in it are gone.',
  'service-saved': 'The service is saved. The next request uses it.',
  'service-removed': 'The service is removed.',
  'service-enabled': 'The service is enabled.',
  'service-disabled': 'The service is disabled: requests to its host are refused.',
  'services-cleared':
    'All services are removed. Every request of this vault is refused until one is set again.',
  'credential-set': 'The value is stored. The next request uses it.',
  'credential-deleted': 'The credential is deleted.',
  'settings-saved': 'The settings are saved.',
  'agent-removed': 'The agent is removed. Its token ends at once.',
  'session-ended': 'The session is revoked, and its open connections with it.',
};

/** What was done by the form that led here. Words of ours only: the address is anyone's to write. */
export function doneHtml(query: Readonly<Record<string, string>>): Html | null {
  const text = Object.hasOwn(done, query.done ?? '') ? done[query.done] : undefined;
  return text === undefined ? null : html`<div class="done" role="status"><p>${text}</p></div>`;
}
