import { authTypes, reflections, surfaces } from '../actors/vault/model.ts';

/** A JSON Schema, in the words that draft-07 and OpenAPI 3.1 share. */
export type Schema = Readonly<Record<string, unknown>>;

const names = new Map<Schema, string>();

/** Names a schema, so that the description of the API shows it once and refers to it everywhere else. */
export function named(name: string, schema: Schema): Schema {
  names.set(schema, name);
  return schema;
}

/** The name that `named` gave to this very schema. */
export function nameOf(schema: object): string | undefined {
  return names.get(schema as Schema);
}

/** Nothing but these properties. */
export function object(
  properties: Readonly<Record<string, Schema>>,
  required: readonly string[] = [],
): Schema {
  return { type: 'object', properties, required, additionalProperties: false };
}

export function list(items: Schema, limits: Schema = {}): Schema {
  return { type: 'array', items, ...limits };
}

export function text(maxLength?: number): Schema {
  return maxLength === undefined ? { type: 'string' } : { type: 'string', maxLength };
}

const constant = (value: string): Schema => ({ type: 'string', const: value });

export const credentialKey = named('CredentialKey', {
  type: 'string',
  pattern: '^[A-Z][A-Z0-9_]{0,127}$',
  description: 'Names a credential; never its value.',
});

const host = named('Host', {
  type: 'string',
  minLength: 1,
  description:
    'A name, an IPv4 or [IPv6] address, with or without :port; `*.rest` stands for exactly one label. Lower case when it comes back.',
});

const header = (about: Schema = {}): Schema => ({
  type: 'string',
  minLength: 1,
  maxLength: 256,
  pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
  ...about,
});

/** Of a prefix or a template. */
const headerText: Schema = { type: 'string', maxLength: 8192 };

/** One form for each of `authTypes`. */
const authForms: Readonly<Record<(typeof authTypes)[number], Schema>> = {
  bearer: object({ type: constant('bearer'), token: credentialKey }, ['type', 'token']),
  basic: object({ type: constant('basic'), username: credentialKey, password: credentialKey }, [
    'type',
    'username',
  ]),
  'api-key': object(
    {
      type: constant('api-key'),
      key: credentialKey,
      header: header({ default: 'Authorization' }),
      prefix: headerText,
    },
    ['type', 'key'],
  ),
  custom: object(
    {
      type: constant('custom'),
      headers: {
        type: 'object',
        propertyNames: header(),
        additionalProperties: headerText,
        minProperties: 1,
        maxProperties: 32,
        description: 'Header name to template; each {{ KEY }} stands for the value of that credential.',
      },
    },
    ['type', 'headers'],
  ),
  passthrough: object({ type: constant('passthrough') }, ['type']),
};

const auth = named('Auth', {
  type: 'object',
  description: 'How the broker authenticates to an upstream.',
  oneOf: authTypes.map((type) => authForms[type]),
});

/** The only places where a placeholder is replaced. */
export const places: Schema = {
  ...object({
    path: {
      type: 'string',
      maxLength: 2048,
      pattern: '^/[^*?#]*\\*?$',
      description: 'Holds the placeholder; compared with the raw path, a * at its end is the rest.',
    },
    query: list(
      { type: 'string', minLength: 1, maxLength: 256 },
      { minItems: 1, maxItems: 16, uniqueItems: true },
    ),
    header: list(header(), { minItems: 1, maxItems: 16, uniqueItems: true }),
  }),
  minProperties: 1,
  description: 'The only places where the placeholder is replaced; elsewhere it goes as it is.',
};

const substitution = named(
  'Substitution',
  object(
    {
      key: credentialKey,
      placeholder: {
        type: 'string',
        minLength: 4,
        maxLength: 128,
        pattern: '^(?=.*[A-Za-z0-9])(?=.*(__|[.~-]))[A-Za-z0-9_.~-]+$',
      },
      in: list(
        { type: 'string', enum: surfaces },
        { minItems: 1, uniqueItems: true, description: 'Absent: the surfaces of `at`, or path and query.' },
      ),
      at: places,
    },
    ['key', 'placeholder'],
  ),
);

const description = text(500);
const enabled: Schema = {
  type: 'boolean',
  description: 'Absent in a change: as it is now, true for a new service.',
};
const substitutions = list(substitution, { maxItems: 16 });
const reflection: Schema = {
  type: 'string',
  enum: reflections,
  description:
    'What becomes of an answer that holds what was put in. Absent: redact where a placeholder has no place, else audit.',
};

/** Whole, as it is shown and as `PUT` takes it. */
export const service = named(
  'Service',
  object({ host, description, auth, substitutions, reflection, enabled }, ['host', 'auth']),
);

/** A change that says no more than whether a service is enabled needs no auth config. */
const enabling = object({ host, enabled }, ['host', 'enabled']);

export const serviceInput = named('ServiceInput', { type: 'object', oneOf: [service, enabling] });

const set = { action: constant('set') };

const serviceChange = named('ServiceChange', {
  type: 'object',
  oneOf: [
    object({ ...set, host, description, auth, substitutions, reflection, enabled }, [
      'action',
      'host',
      'auth',
    ]),
    object({ ...set, host, enabled }, ['action', 'host', 'enabled']),
    object({ action: constant('delete'), host }, ['action', 'host']),
  ],
});

const obtain = {
  description,
  obtain: { type: 'string', maxLength: 500, pattern: '^[Hh][Tt][Tt][Pp][Ss]?://' },
  obtain_instructions: text(1000),
};
const value: Schema = {
  type: 'string',
  minLength: 1,
  writeOnly: true,
  description: '1 byte to 64 KiB of UTF-8, kept exactly as given; never given back.',
};
const deleteSlot = object({ action: constant('delete'), key: credentialKey }, ['action', 'key']);

const slotInput = named('CredentialSlot', {
  type: 'object',
  oneOf: [object({ ...set, key: credentialKey, ...obtain, value }, ['action', 'key']), deleteSlot],
});

export const proposalInput = named('ProposalInput', {
  ...object({
    services: list(serviceChange, { maxItems: 10 }),
    credentials: list(slotInput, { maxItems: 10 }),
    message: text(2000),
    user_message: text(5000),
  }),
  description: 'At least one service or credential slot.',
});

/** As a proposal gives them back: with `has_value` in the place of the agent's own value. */
export const proposalParts = {
  services: list(serviceChange),
  credentials: list(
    named('ProposedCredential', {
      type: 'object',
      oneOf: [
        object({ ...set, key: credentialKey, ...obtain, has_value: { type: 'boolean', const: true } }, [
          'action',
          'key',
        ]),
        deleteSlot,
      ],
    }),
  ),
} satisfies Record<string, Schema>;

const limit: Schema = { type: 'integer', minimum: 0, maximum: 1_000_000, description: '0: no limit.' };

export const vaultSettings = {
  unmatched_host_policy: { type: 'string', enum: ['passthrough', 'deny'] },
  unmatched_tls: { type: 'string', enum: ['intercept', 'tunnel'] },
  require_tls: { type: 'boolean' },
  rate_limit: {
    type: ['object', 'null'],
    properties: { rps: limit, burst: limit, inflight: limit },
    additionalProperties: false,
    description: "What is absent, or null: the server's own.",
  },
} satisfies Record<string, Schema>;

/** Credential key to value. */
export const credentialValues: Schema = {
  type: 'object',
  additionalProperties: { type: 'string', writeOnly: true },
};
