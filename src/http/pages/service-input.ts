import { invalid } from '../../actors/vault/fields.ts';
import {
  type AuthConfig,
  authTypes,
  defaultSurfaces,
  type Reflection,
  type ServiceInput,
  type Substitution,
  type Surface,
  surfaces,
} from '../../actors/vault/model.ts';
import { accept, type Result } from '../../actors/vault/problem.ts';
import type { Form } from '../form.ts';

/** What a form of a service holds: text as it was typed. */
export interface ServiceDraft {
  readonly host: string;
  readonly description: string;
  readonly type: AuthConfig['type'];
  readonly token: string;
  readonly username: string;
  readonly password: string;
  readonly key: string;
  readonly header: string;
  readonly prefix: string;
  /** A header a line, `Name: template`. */
  readonly headers: string;
  readonly substitutions: readonly SubstitutionDraft[];
  /** Empty: as it is by itself. */
  readonly reflection: string;
}

export interface SubstitutionDraft {
  readonly key: string;
  readonly placeholder: string;
  /** Surfaces where it may stand anywhere. */
  readonly in: readonly string[];
  /** Its places: a path; names of parameters and of headers, with commas or spaces between. */
  readonly path: string;
  readonly query: string;
  readonly header: string;
}

export const emptyDraft: ServiceDraft = {
  ...{ host: '', description: '', type: 'bearer', token: '', username: '', password: '' },
  ...{ key: '', header: '', prefix: '', headers: '', substitutions: [], reflection: '' },
};

/** The most rows of substitutions that a form has. */
export const maxRows = 20;

/** A service as its form shows it. */
export function draftOf(service: ServiceInput): ServiceDraft {
  const { host, description = '', auth, substitutions = [], reflection = '' } = service;
  const rows = substitutions.map(({ key, placeholder, in: declared = defaultSurfaces, at }) => ({
    ...{ key, placeholder, in: at === undefined ? declared : [], path: at?.path ?? '' },
    ...{ query: at?.query?.join(' ') ?? '', header: at?.header?.join(' ') ?? '' },
  }));
  const common = { ...emptyDraft, host, description, substitutions: rows, reflection };
  if (auth === undefined) return common;
  if (auth.type !== 'custom') return { ...common, ...auth };
  const lines = Object.entries(auth.headers).map(([name, template]) => `${name}: ${template}`);
  return { ...common, type: 'custom', headers: lines.join('\n') };
}

/** What was typed into a form of a service. */
export function draftFrom(form: Form): ServiceDraft {
  const text = (name: string) => form.get(name)?.trim() ?? '';
  const rows = Array.from({ length: maxRows }, (_, i) => ({
    key: text(`substitutions.${i}.key`),
    placeholder: text(`substitutions.${i}.placeholder`),
    in: surfaces.filter((surface) => form.has(`substitutions.${i}.${surface}`)),
    path: text(`substitutions.${i}.at.path`),
    query: text(`substitutions.${i}.at.query`),
    header: text(`substitutions.${i}.at.header`),
  }));
  return {
    host: text('host'),
    description: text('description'),
    type: authTypes.find((type) => type === form.get('type')) ?? 'bearer',
    token: text('auth.token'),
    username: text('auth.username'),
    password: text('auth.password'),
    key: text('auth.key'),
    header: text('auth.header'),
    // Its space at the end is what parts it from the value.
    prefix: form.get('auth.prefix')?.trimStart() ?? '',
    headers: form.get('auth.headers') ?? '',
    substitutions: rows.filter(({ key, placeholder }) => key !== '' || placeholder !== ''),
    reflection: text('reflection'),
  };
}

/** The service that a draft stands for, for the API to check. Refused: lines that are no headers. */
export function inputOf(draft: ServiceDraft): Result<ServiceInput> {
  const auth = authOf(draft);
  if (!auth.ok) return auth;
  const { host, description, substitutions, reflection } = draft;
  return accept({
    host,
    description,
    auth: auth.value,
    ...(substitutions.length > 0 && { substitutions: substitutions.map(substitutionOf) }),
    ...(reflection !== '' && { reflection: reflection as Reflection }),
  });
}

/** With neither a place nor a surface it has an empty `at`, and is refused there. */
function substitutionOf(draft: SubstitutionDraft): Substitution {
  const { key, placeholder, in: anywhere, path } = draft;
  const [query, header] = [draft.query, draft.header].map((names) => names.split(/[\s,]+/).filter(Boolean));
  const at = {
    ...(path && { path }),
    ...(query.length > 0 && { query }),
    ...(header.length > 0 && { header }),
  };
  const isPlaced = anywhere.length === 0 || Object.keys(at).length > 0;
  return {
    ...{ key, placeholder },
    ...(anywhere.length > 0 && { in: anywhere as readonly Surface[] }),
    ...(isPlaced && { at }),
  };
}

function authOf(draft: ServiceDraft): Result<AuthConfig> {
  const { type, token, username, password, key, header, prefix } = draft;
  switch (type) {
    case 'bearer':
      return accept({ type, token });
    case 'basic':
      return accept({ type, username, ...(password && { password }) });
    case 'api-key':
      return accept({ type, key, ...(header && { header }), ...(prefix && { prefix }) });
    case 'custom': {
      const lines = draft.headers.split(/\r?\n/).filter((line) => line.trim() !== '');
      const wrong = lines.findIndex((line) => !line.includes(':'));
      if (wrong >= 0)
        return {
          ok: false,
          problem: invalid('auth.headers', `line ${wrong + 1} has no colon. Write Name: template.`),
        };
      const headers = lines.map((line) => {
        const colon = line.indexOf(':');
        return [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
      });
      return accept({ type, headers: Object.fromEntries(headers) });
    }
    case 'passthrough':
      return accept({ type });
  }
}
