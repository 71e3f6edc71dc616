import {
  type AuthConfig,
  authTypes,
  defaultSurfaces,
  type Service,
  type Substitution,
  type Surface,
  surfaces,
} from '../src/actors/vault/model.ts';
import type { Problem } from '../src/actors/vault/problem.ts';
import { checkService } from '../src/actors/vault/service-rules.ts';
import type { Prompts } from './prompts.ts';

/** How each type is shown. */
const typeNames: Readonly<Record<AuthConfig['type'], string>> = {
  bearer: 'bearer       Authorization: Bearer VALUE',
  basic: 'basic        Authorization: Basic, of a user name and a password',
  'api-key': 'api-key      a header of your choice, with or without a prefix',
  custom: 'custom       several headers, made from templates',
  passthrough: "passthrough  nothing is added; the client's own headers pass",
};

const needsKey = '(needs a credential: set one first, by `broker vault credential set KEY`)';

interface Asked {
  readonly prompts: Prompts;
  /** Keys of the vault's credentials. */
  readonly keys: readonly string[];
  /** Services beside the one that is asked for. */
  readonly others: readonly Service[];
  /** The host as it is now, where there is one. */
  readonly host?: string;
}

/** Asks for one service. What is typed is checked by the rules that the server has. */
export async function askService({ prompts, keys, others, host: present }: Asked): Promise<Service> {
  const host = await prompts.type({
    message: 'Host',
    hint: 'such as api.example.com or *.example.com',
    start: present,
    read(text) {
      const { host } = checked({ host: text });
      if (others.some((each) => each.host === host)) throw new Error('is among the services already.');
      return host;
    },
  });
  const description = await prompts.type({
    message: 'Description',
    optional: true,
    read: (text) => checked({ description: text }) && text,
  });
  const auth = await askAuth(prompts, keys);
  const substitutions = keys.length === 0 ? [] : await askSubstitutions(prompts, keys);
  return {
    host,
    ...(description !== '' && { description }),
    auth,
    ...(substitutions.length > 0 && { substitutions }),
  };
}

async function askAuth(prompts: Prompts, keys: readonly string[]): Promise<AuthConfig> {
  const types = authTypes.map((value) => ({
    name: typeNames[value],
    value,
    disabled: keys.length === 0 && value !== 'custom' && value !== 'passthrough' && needsKey,
  }));
  const type = await prompts.choose('How does the broker authenticate?', types);
  const key = (message: string) => prompts.choose(message, named(keys));
  switch (type) {
    case 'bearer':
      return { type, token: await key('Credential with the token') };
    case 'basic': {
      const username = await key('Credential with the user name');
      const choices = [...named(keys), { name: '(an empty password)', value: '' }];
      const password = await prompts.choose('Credential with the password', choices);
      return { type, username, ...(password !== '' && { password }) };
    }
    case 'api-key': {
      const used = await key('Credential with the key');
      const check = (fields: object) => checked({ auth: { type, key: used, ...fields } });
      const header = await prompts.type({
        message: 'Header',
        start: 'Authorization',
        read: (text) => check({ header: text }) && text,
      });
      const prefix = await prompts.type({
        message: 'Prefix',
        optional: true,
        read: (text) => check({ prefix: text }) && text,
      });
      return { type, key: used, header, ...(prefix !== '' && { prefix }) };
    }
    case 'custom':
      return { type, headers: await askHeaders(prompts, keys) };
    case 'passthrough':
      return { type };
  }
}

async function askHeaders(prompts: Prompts, keys: readonly string[]): Promise<Record<string, string>> {
  const headers: Record<string, string> = {};
  const check = (fields: object) => checked({ auth: { type: 'custom', headers: { ...headers, ...fields } } });
  do {
    const name = await prompts.type({
      message: 'Header',
      hint: 'such as X-Api-Key',
      read: (text) => check({ [text]: '' }) && text,
    });
    headers[name] = await prompts.type({
      message: `Template of ${name}`,
      hint: `such as Key {{ ${keys[0] ?? 'KEY'} }}`,
      read(text) {
        check({ [name]: text });
        const used = [...text.matchAll(/\{\{[ \t]*(\w+)[ \t]*\}\}/g)].map(([, key]) => key);
        const unknown = used.find((key) => !keys.includes(key));
        if (unknown !== undefined) throw new Error(`there is no credential ${unknown}.`);
        return text;
      },
    });
  } while (await prompts.agree('Another header?', false));
  return headers;
}

async function askSubstitutions(prompts: Prompts, keys: readonly string[]): Promise<Substitution[]> {
  const found: Substitution[] = [];
  const question = () =>
    `Replace ${found.length === 0 ? 'a' : 'another'} placeholder in requests by a credential?`;
  while (await prompts.agree(question(), false)) {
    const key = await prompts.choose('Credential', named(keys));
    const placeholder = await prompts.type({
      message: 'Placeholder',
      hint: 'such as __account_sid__',
      read: (text) => checked({ substitutions: [...found, { key, placeholder: text }] }) && text,
    });
    const check = (fields: object) => checked({ substitutions: [...found, { key, placeholder, ...fields }] });
    found.push({ key, placeholder, ...(await askPlaces(prompts, placeholder, check)) });
  }
  return found;
}

/** Asks where a placeholder is replaced; whoever names no place is asked for surfaces, where it may stand anywhere. */
async function askPlaces(
  prompts: Prompts,
  placeholder: string,
  check: (fields: object) => unknown,
): Promise<Pick<Substitution, 'in' | 'at'>> {
  const surface = await prompts.choose<Surface | null>('Where is it replaced?', [
    { name: 'in one path', value: 'path' },
    { name: 'in query parameters that you name', value: 'query' },
    { name: 'in headers that you name', value: 'header' },
    { name: 'anywhere (the agent may get to see it)', value: null },
  ]);
  if (surface === null) return { in: await prompts.tick('Where may it stand?', surfaces, defaultSurfaces) };
  const names = (text: string) => text.split(/[\s,]+/).filter(Boolean);
  const place = (text: string) => ({ at: { [surface]: surface === 'path' ? text : names(text) } });
  const hints = { path: `such as /bot${placeholder}/*`, query: 'such as key', header: 'such as X-Key' };
  const messages = { path: 'Path', query: 'Names of the parameters', header: 'Names of the headers' };
  const text = await prompts.type({
    message: messages[surface],
    hint: hints[surface],
    read(typed) {
      check(place(typed));
      return typed;
    },
  });
  return place(text);
}

function named(keys: readonly string[]) {
  return keys.map((value) => ({ name: value, value }));
}

/** A service with these fields, as the rules take it. Throws what is wrong, as they say it. */
function checked(fields: object): { readonly host: string } {
  const result = checkService({ host: 'example', auth: { type: 'passthrough' }, ...fields }, '');
  if (result.ok) return result.value;
  throw new Error(withoutField(result.problem));
}

/** The prompt names the field already. */
function withoutField({ message, extra }: Problem): string {
  const field = `${extra?.field}: `;
  return message.startsWith(field) ? message.slice(field.length) : message;
}
