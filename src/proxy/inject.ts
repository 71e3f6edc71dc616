import { type AuthConfig, reflectionOf, type Service } from '../actors/vault/model.ts';
import { type Problem, problem } from '../actors/vault/problem.ts';
import { Secret } from '../actors/vault/secret.ts';
import { parseTemplate } from '../actors/vault/template.ts';
import { maxHeadBytes } from './head.ts';
import { Substituter } from './substitute.ts';
import { type Injected, Watch } from './watch.ts';

/** A service with its credentials put in: what each of its requests carries, ready to be written. */
export interface Rendered {
  /** A credential is missing or can't stand where it is wanted: each request is refused with this. */
  readonly problem: Problem | null;
  /** `Name: value\r\n` for each field of the auth slot, latin1. */
  readonly lines: string;
  /** Lower-case names of the auth slot: the client's own fields of these names are dropped. */
  readonly slots: ReadonlySet<string>;
  readonly substituter: Substituter | null;
  /** What its answers are looked through for; null: nothing is. */
  readonly watch: Watch | null;
  /** Credential keys that auth uses, for the audit. */
  readonly keys: readonly string[];
  /** What it was made of: each key of the service, with the value that it had then. */
  readonly values: ReadonlyMap<string, Secret | null | undefined>;
}

type Credentials = ReadonlyMap<string, Secret | null>;

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const notInField = /[\0-\x08\x0a-\x1f\x7f]|[^\0-\xff]|^[ \t]|[ \t]$/;

/** Whether a text can be a field value, byte for byte (RFC 9110 5.5): no controls, nothing above 0xFF, no outer white space. */
export function isFieldValue(text: string): boolean {
  return !notInField.test(text);
}

/** Whether the service's keys have the very values that it was rendered with, whatever became of the vault's others. */
export function isRenderedFrom({ values }: Rendered, credentials: Credentials): boolean {
  for (const [key, value] of values) if (credentials.get(key) !== value) return false;
  return true;
}

/**
 * Puts the credentials of a vault into a service (protocol, "Auth config"). Never throws: what is missing or
 * can't be a header value is in `problem`, and then nothing of it may be sent.
 */
export function render(service: Service, credentials: Credentials): Rendered {
  const keys: string[] = [];
  const values = new Map<string, Secret | null | undefined>();
  for (const { key } of service.substitutions ?? []) values.set(key, credentials.get(key));
  const slots = new Set<string>();
  let lines = '';
  let failed: Problem | null = null;
  const take = (key: string): string => {
    if (!keys.includes(key)) keys.push(key);
    const value = credentials.get(key);
    values.set(key, value);
    if (value === undefined || value === null) {
      failed ??= problem(
        'credential_not_found',
        `The credential ${key} of the service for ${service.host} is ${value === null ? 'damaged' : 'missing'}. Tell the user that ${key} has to be added.`,
        { key },
      );
      return '';
    }
    injected.set(key, { keys: [key], value });
    return value.reveal();
  };
  const injected = new Map<string, Injected>();
  // Nothing is put together that no request could carry: a template may name a long value often.
  let room = maxHeadBytes;
  const set = (name: string, parts: readonly string[]): void => {
    for (const part of parts) room -= part.length;
    if (room < 0) failed ??= problem('substitution_error', tooLong(service.host));
    const value = failed === null ? parts.join('') : '';
    const lower = name.toLowerCase();
    slots.add(lower);
    // A CGI-like server takes both for one: neither spelling of the slot is the client's.
    if (lower.includes('_')) slots.add(lower.replaceAll('_', '-'));
    if (failed === null && !isFieldValue(value)) {
      failed = problem(
        'substitution_error',
        `A credential of the service for ${service.host} cannot stand in the header ${name}; nothing was sent. Tell the user.`,
      );
    }
    lines += `${name}: ${value}\r\n`;
  };
  renderAuth(service.auth, take, set, () => {
    failed ??= problem(
      'substitution_error',
      `The user name of the service for ${service.host} holds a colon; nothing was sent. Tell the user.`,
    );
  });
  const substituter = service.substitutions?.length
    ? new Substituter(service.substitutions, credentials)
    : null;
  if (failed !== null) return { problem: failed, lines: '', slots, substituter, watch: null, keys, values };
  if (service.auth.type === 'basic') {
    injected.set('', { keys, value: new Secret(lines.slice(lines.lastIndexOf(' ') + 1, -2)) });
  }
  for (const { key } of service.substitutions ?? []) {
    const value = credentials.get(key);
    if (value) injected.set(key, { keys: [key], value });
  }
  const reflection = reflectionOf(service);
  if (reflection === 'pass' || injected.size === 0) {
    return { problem: null, lines, slots, substituter, watch: null, keys, values };
  }
  const redacts = reflection === 'redact';
  if (redacts && !slots.has('accept-encoding')) {
    // What is coded would have to be decoded to be looked into.
    slots.add('accept-encoding');
    lines += 'Accept-Encoding: identity\r\n';
  }
  return {
    ...{ problem: null, lines, slots, substituter, keys, values },
    watch: new Watch([...injected.values()], redacts),
  };
}

function tooLong(host: string): string {
  return `With the credentials of the service for ${host} the request head is over 64 KiB; nothing was sent. Tell the user.`;
}

function renderAuth(
  auth: AuthConfig,
  take: (key: string) => string,
  set: (name: string, parts: readonly string[]) => void,
  refuseColon: () => void,
): void {
  switch (auth.type) {
    case 'bearer':
      set('Authorization', ['Bearer ', take(auth.token)]);
      return;
    case 'basic': {
      const username = take(auth.username);
      // RFC 7617 2: a user name with a colon can't be told from its password.
      if (username.includes(':')) refuseColon();
      const password = auth.password === undefined ? '' : take(auth.password);
      set('Authorization', ['Basic ', Buffer.from(`${username}:${password}`, 'utf8').toString('base64')]);
      return;
    }
    case 'api-key':
      set(auth.header ?? 'Authorization', [auth.prefix ?? '', take(auth.key)]);
      return;
    case 'custom':
      for (const [name, template] of Object.entries(auth.headers)) {
        const parsed = parseTemplate(template);
        // A stored template was checked when it came in; one that isn't well-formed injects nothing.
        const parts = 'parts' in parsed ? parsed.parts : [];
        set(
          name,
          parts.map((part) => (typeof part === 'string' ? part : take(part.key))),
        );
      }
      return;
    case 'passthrough':
      return;
  }
}
