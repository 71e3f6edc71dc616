import { type ProblemCode, problems } from '../actors/vault/problem.ts';
import { nameOf, type Schema } from './model-schemas.ts';
import { type Operation, operations } from './operations.ts';
import { json } from './reply.ts';
import { type Auth, type Route, route } from './route.ts';
import { parameterShapes } from './router.ts';

type Json = Record<string, unknown>;

/** `GET /v1/openapi.json`: these routes, and itself. Made once, at the first request. */
export function openapiRoute(routes: readonly Route[], baseUrl: string): Route {
  let document: object | undefined;
  const self = route('GET', '/v1/openapi.json', { auth: 'none', vault: 'none' }, () => {
    document ??= openapi([...routes, self], baseUrl);
    return json(document);
  });
  return self;
}

/**
 * Describes routes in OpenAPI 3.1, from the very options and schemas that the pipeline checks requests by, the table of
 * operations and that of problems. Pages are left out: what has no entry in `operations` isn't part of the API.
 */
function openapi(routes: readonly Route[], baseUrl: string): Json {
  const paths: Record<string, Json> = {};
  const schemas: Record<string, unknown> = {};
  const share = (schema: Schema) => shared(schema, schemas);
  for (const each of routes) {
    const operation = operations[`${each.method} ${each.path}`];
    if (operation === undefined) continue;
    paths[each.path] ??= parameters(each.path);
    paths[each.path][each.method.toLowerCase()] = describe(each, operation, share);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Broker',
      version: '1',
      description:
        'Credentials for software agents, which never see them. Every error has one shape: Problem.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: baseUrl }],
    paths,
    components: {
      securitySchemes: {
        agent: { type: 'http', scheme: 'bearer', bearerFormat: 'brk_ses_… or brk_agt_…' },
        operator: { type: 'http', scheme: 'bearer', bearerFormat: 'brk_opr_…' },
        browser: {
          type: 'apiKey',
          in: 'cookie',
          name: 'broker_session',
          description: 'Of a signed-in operator. It is for reading: it changes nothing.',
        },
      },
      schemas: { ...schemas, Problem: problemSchema },
    },
  };
}

function describe(from: Route, operation: Operation, share: (schema: Schema) => unknown): Json {
  const { about, answers, headers = {}, sometimes = {} } = operation;
  const shown = [...headersOf(headers, true), ...headersOf(sometimes, false)];
  const responses: Record<string, unknown> = {};
  for (const [status, content] of Object.entries(answers)) {
    responses[status] = {
      description: about,
      ...(shown.length > 0 && { headers: Object.fromEntries(shown) }),
      ...(content !== null && {
        content:
          typeof content === 'string'
            ? { [content]: { schema: { type: 'string' } } }
            : { 'application/json': { schema: share(content) } },
      }),
    };
  }
  const pages = Object.values(answers).includes('text/html');
  return {
    operationId: operationId(from),
    summary: about,
    security: securityOf(from),
    parameters: [...headerParameters(from), ...queryParameters(from, share)],
    ...(from.body && {
      requestBody: {
        required: requires(from.body.schema),
        content: { 'application/json': { schema: share(from.body.schema as Schema) } },
      },
    }),
    responses: { ...responses, ...refusalResponses(refusalsOf(from, operation), pages) },
  };
}

function headersOf(headers: Readonly<Record<string, string>>, required: boolean): [string, object][] {
  return Object.entries(headers).map(([name, description]) => [
    name,
    { description, required, schema: { type: 'string' } },
  ]);
}

const security: Readonly<Record<Auth, readonly object[]>> = {
  none: [],
  agent: [{ agent: [] }],
  operator: [{ operator: [] }],
  any: [{ agent: [] }, { operator: [] }],
};

function securityOf({ auth, method }: Route): readonly object[] {
  const isReadByOperators = method === 'GET' && (auth === 'operator' || auth === 'any');
  return isReadByOperators ? [...security[auth], { browser: [] }] : security[auth];
}

/** `POST /v1/proposals/{id}/approve` to `postProposalsIdApprove`. */
function operationId({ method, path }: Route): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== '' && word !== 'v1');
  return method.toLowerCase() + words.map((word) => word[0].toUpperCase() + word.slice(1)).join('');
}

function parameters(path: string): Json {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  if (names.length === 0) return {};
  return {
    parameters: names.map((name) => ({
      name,
      in: 'path',
      required: true,
      schema:
        name === 'id'
          ? { type: 'integer', minimum: 1 }
          : { type: 'string', pattern: `^${parameterShapes[name]}$` },
    })),
  };
}

function headerParameters({ vault }: Route): object[] {
  if (vault === 'none' || vault === 'path') return [];
  const whose = {
    header: 'The vault. Required, unless the token is of a session, which has its own.',
    'header-of-agents':
      'The vault. Required of agents whose token is not of a session; else what to look at alone.',
    'header-if-any': 'The vault to look at alone.',
  };
  const schema = { type: 'string', pattern: '^[a-z0-9-]{1,64}$' };
  return [{ name: 'X-Vault', in: 'header', required: false, description: whose[vault], schema }];
}

function queryParameters({ query }: Route, share: (schema: Schema) => unknown): object[] {
  if (!query) return [];
  const { properties = {}, required = [] } = query.schema as {
    properties?: Record<string, Schema>;
    required?: readonly string[];
  };
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema: share(schema),
  }));
}

/** An empty body counts as `{}`. */
function requires(schema: object): boolean {
  const { required = [], minProperties = 0 } = schema as {
    required?: readonly string[];
    minProperties?: number;
  };
  return required.length > 0 || minProperties > 0;
}

/** Every refusal that a route can answer with: what the pipeline looks at, and what its handler adds. */
function refusalsOf(from: Route, operation: Operation): ProblemCode[] {
  const codes: ProblemCode[] = [
    'invalid_request',
    'misdirected_request',
    'headers_too_large',
    'internal',
    'overloaded',
  ];
  // A wrong token is counted, and too many of them are refused.
  if (from.auth !== 'none') codes.push('unauthorized', 'forbidden');
  if (!from.unlimited) codes.push('rate_limited');
  if (from.vault !== 'none' || /\{(?!host)/.test(from.path)) codes.push('not_found');
  if (from.body) codes.push('invalid_json', 'payload_too_large', 'unsupported_media_type');
  if (from.method !== 'GET') codes.push('audit_unavailable', 'store_unavailable');
  return [...new Set([...codes, ...(operation.refusals ?? [])])];
}

function refusalResponses(codes: readonly ProblemCode[], asPages: boolean): Json {
  const byStatus = Object.groupBy(codes, (code) => String(problems[code].status));
  return Object.fromEntries(
    Object.entries(byStatus).map(([status, some = []]) => [
      status,
      {
        description: some.map((code) => `\`${code}\`: ${problems[code].message}`).join('\n\n'),
        ...(some.some(waits) && {
          headers: {
            'Retry-After': {
              description: 'Seconds, with `overloaded` and status 429.',
              schema: { type: 'integer', minimum: 1 },
            },
          },
        }),
        content: {
          'application/json': {
            schema: {
              allOf: [{ $ref: '#/components/schemas/Problem' }, { properties: { error: { enum: some } } }],
            },
          },
          ...(asPages && { 'text/html': { schema: { type: 'string' } } }),
        },
      },
    ]),
  );
}

function waits(code: ProblemCode): boolean {
  return problems[code].status === 429 || code === 'overloaded';
}

const problemSchema = {
  type: 'object',
  description: 'What happened and what to do; with the fields that the error names.',
  properties: {
    error: { type: 'string', enum: Object.keys(problems) },
    message: { type: 'string' },
    request_id: { type: 'string' },
    field: {
      type: 'string',
      description: 'With `invalid_request`: what to mend, such as services[2].auth.token.',
    },
    key: { type: 'string', description: 'The credential key that it is about.' },
    services: {
      type: 'array',
      items: { type: 'string' },
      description: 'With `credential_in_use`: its hosts.',
    },
    review: {
      type: 'object',
      description:
        'With `confirmation_required`: the review as it is now, of which `confirm` repeats the fingerprint.',
    },
    replaced: {
      type: 'array',
      items: { type: 'object' },
      description: 'With `confirmation_required` to `?ask=true`: as the answer would have it.',
    },
    quota: { type: 'string', description: 'With `quota_exceeded`: which one, such as agent_keys.' },
    limit: { type: 'integer', description: 'With `quota_exceeded` and `too_many_pending_proposals`.' },
    applied: {
      description: 'With `store_unavailable`: false, or "unknown" where nobody can say.',
      enum: [false, 'unknown'],
    },
    status: { type: 'string', description: 'With `already_decided`: what became of the proposal.' },
    allow: { type: 'array', items: { type: 'string' }, description: 'With `method_not_allowed`: what is.' },
  },
  required: ['error', 'message', 'request_id'],
};

/** A copy in which each named schema is a reference, and stands once among `schemas`. */
function shared(schema: unknown, schemas: Record<string, unknown>): unknown {
  if (typeof schema !== 'object' || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map((item) => shared(item, schemas));
  const name = nameOf(schema);
  if (name !== undefined && name in schemas) return { $ref: `#/components/schemas/${name}` };
  // Before what is in it, which may refer back to it.
  if (name !== undefined) schemas[name] = {};
  const copy = Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key, shared(value, schemas)]),
  );
  if (name === undefined) return copy;
  schemas[name] = copy;
  return { $ref: `#/components/schemas/${name}` };
}
