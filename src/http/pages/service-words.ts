import {
  type AuthConfig,
  type Places,
  type Reflection,
  reflectionOf,
  type Service,
  type Substitution,
  surfacesOf,
} from '../../actors/vault/model.ts';
import type { VaultView } from '../../actors/vault/protocol.ts';
import { parseTemplate } from '../../actors/vault/template.ts';
import { type Html, html } from '../html.ts';

/** What becomes of requests to hosts without a service. */
export type Unmatched = Pick<VaultView, 'cleared' | 'unmatched_host_policy'>;

/**
 * What becomes of the requests to a service's host, now or as it would be, in plain language: a sentence each.
 * @param fixedText whether to show the fixed text of headers: an operator may have put there what is no agent's to read
 */
export function serviceWords(
  service: Service,
  when: 'now' | 'then' = 'now',
  fixedText: 'shown' | 'hidden' = 'shown',
): Html[] {
  const { auth, substitutions = [], enabled } = service;
  const host = hostWords(service.host);
  const words = [
    authWords(fixedText === 'shown' ? auth : withoutFixedText(auth), host, when === 'then' ? 'will ' : ''),
    ...substitutions.map(substitutionWords),
    ...reflectionWords(service),
  ];
  if (enabled !== false) return words;
  return [html`Disabled: requests to ${host} are refused. If it is enabled:`, ...words];
}

/** What becomes of them where there is no service for a host. */
export function noServiceWords(host: string, { cleared, unmatched_host_policy }: Unmatched): Html {
  const which = html`Requests to ${hostWords(host)}`;
  if (cleared || unmatched_host_policy === 'deny') {
    return html`No service. ${which} are refused, unless another service matches.`;
  }
  return html`No service. ${which} go through without a credential, unless another service matches.`;
}

/** A host that somebody reads who has never seen a pattern. */
function hostWords(pattern: string): Html {
  if (!pattern.startsWith('*.')) return html`<code>${pattern}</code>`;
  return html`every name right under <code>${pattern.slice(2)}</code>`;
}

/** `A, B and C`. */
function listWords(items: readonly Html[]): Html {
  if (items.length === 0) return html``;
  const [last, ...others] = [...items].reverse();
  if (others.length === 0) return last;
  return html`${others.reverse().map((item, i) => (i === 0 ? item : html`, ${item}`))} and ${last}`;
}

/** The same of texts, the first few of them. */
export function listOf(texts: readonly string[], most = 3): Html {
  const shown = texts.slice(0, most).map((text) => html`<code>${text}</code>`);
  const more = texts.length - shown.length;
  return listWords(more > 0 ? [...shown, html`${more} more`] : shown);
}

function withoutFixedText(auth: AuthConfig): AuthConfig {
  if (auth.type === 'api-key') return { ...auth, prefix: auth.prefix && '…' };
  if (auth.type !== 'custom') return auth;
  const headers = Object.entries(auth.headers).map(([name, template]) => [name, keysAlone(template)]);
  return { ...auth, headers: Object.fromEntries(headers) };
}

/** A template with an ellipsis for what isn't a key. */
function keysAlone(template: string): string {
  const parsed = parseTemplate(template);
  if ('error' in parsed) return '…';
  return parsed.parts
    .map((part) => (typeof part !== 'string' ? `{{ ${part.key} }}` : part.trim() === '' ? part : '…'))
    .join('');
}

function authWords(auth: AuthConfig, host: Html, will: string): Html {
  const carry = html`Requests to ${host} ${will}carry`;
  switch (auth.type) {
    case 'bearer':
      return html`${carry} <code>${auth.token}</code> as a bearer token.`;
    case 'basic':
      return html`${carry} <code>${auth.username}</code> as user name and ${
        auth.password ? html`<code>${auth.password}</code> as password` : html`an empty password`
      } (Basic).`;
    case 'api-key':
      return html`${carry} <code>${auth.key}</code> in the header <code>${auth.header ?? 'Authorization'}</code>${
        auth.prefix ? html`, after “<code>${auth.prefix}</code>”` : null
      }.`;
    case 'custom':
      return html`${carry} ${listWords(
        Object.entries(auth.headers).map(
          ([name, template]) => html`<code>${template}</code> in the header <code>${name}</code>`,
        ),
      )}.`;
    case 'passthrough':
      return html`Requests to ${host} ${will}go through as the agent sends them. The broker adds no credential.`;
  }
}

const surfaceWords = { path: 'path', query: 'query', header: 'headers' } as const;

function substitutionWords(substitution: Substitution): Html {
  const { key, placeholder, at } = substitution;
  const where = at
    ? placeWords(at)
    : html`anywhere in the ${listWords(surfacesOf(substitution).map((surface) => html`${surfaceWords[surface]}`))}`;
  return html`Where the agent writes <code>${placeholder}</code> ${where}, <code>${key}</code> is put in its place.`;
}

/** `in the path /bot__t__/*`, `as the query parameter key`, `in the header X-Key`. */
function placeWords({ path, query, header }: Places): Html {
  const places: Html[] = [];
  if (path !== undefined) places.push(html`in a path of the form <code>${path}</code>`);
  if (query) places.push(html`in the query parameter ${listOf(query, query.length)}`);
  if (header) places.push(html`in the header ${listOf(header, header.length)}`);
  return listWords(places);
}

const reflected: Readonly<Record<Reflection, string>> = {
  pass: 'Answers aren’t looked at: where one repeats a credential, the agent reads it.',
  audit: 'Where an answer repeats a credential, its record says so; the agent reads it.',
  redact: 'Where an answer repeats a credential, the agent gets asterisks.',
};

/** What becomes of answers; nothing where nothing is put in, or where it is as usual. */
function reflectionWords(service: Service): Html[] {
  const { auth, substitutions = [], reflection } = service;
  if (auth.type === 'passthrough' && substitutions.length === 0) return [];
  const effective = reflectionOf(service);
  return reflection === undefined && effective === 'audit' ? [] : [html`${reflected[effective]}`];
}
