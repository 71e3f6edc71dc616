import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import { at, invalid } from '../actors/vault/fields.ts';
import type { Problem, Result } from '../actors/vault/problem.ts';

/** A JSON Schema, and what checks a value against it. */
export interface Check<T> {
  readonly schema: object;
  /** The value in the form that handlers work with, or `invalid_request` with the path of the field at fault. */
  check(value: unknown): Result<T>;
}

const bodies = new Ajv();
/** Everything in a query is text, until its schema says that it is a number. */
const queries = new Ajv({ coerceTypes: true });

/**
 * A check of JSON bodies.
 * @param convert makes what handlers work with, for instance wraps secrets; the value has passed the schema
 */
export function bodyCheck<Raw, T = Raw>(schema: object, convert?: (raw: Raw) => T): Check<T> {
  return compile(bodies, schema, convert);
}

/**
 * A check of JSON bodies that rules check too, and more closely.
 * @param explain says what is wrong with a value that the schema refuses, in the words of the rules; null: they
 * find nothing
 */
export function ruledCheck<T>(schema: object, explain: (value: unknown) => Problem | null): Check<T> {
  return compile<T, T>(bodies, schema, undefined, explain);
}

/** A check of queries: each parameter once; `?a=` counts as absent. Values become what the schema says. */
export function queryCheck<T>(schema: object): Check<T> {
  return compile<T, T>(queries, schema);
}

function compile<Raw, T>(
  ajv: Ajv,
  schema: object,
  convert?: (raw: Raw) => T,
  explain?: (value: unknown) => Problem | null,
): Check<T> {
  // Made at its first use: a start has no time for all of them.
  let validate: ValidateFunction | undefined;
  return {
    schema,
    check(value) {
      validate ??= ajv.compile(schema);
      if (!validate(value)) {
        const [error] = validate.errors ?? [];
        return { ok: false, problem: explain?.(value) ?? schemaProblem(error) };
      }
      return { ok: true, value: convert ? convert(value as Raw) : (value as T) };
    },
  };
}

/** The parameters of a query as an object; one that is there twice is refused. */
export function parseQuery(query: string): Result<Record<string, string>> {
  const values: Record<string, string> = Object.create(null);
  for (const [name, value] of new URLSearchParams(query)) {
    if (name in values) {
      return { ok: false, problem: invalid(at('', name), 'this parameter is there twice. Send it once.') };
    }
    if (value !== '') values[name] = value;
  }
  return { ok: true, value: values };
}

function schemaProblem(error: ErrorObject | undefined): Problem {
  if (error === undefined) return invalid('body', 'is not valid.');
  const path = fieldOf(error.instancePath);
  const { params } = error;
  switch (error.keyword) {
    case 'required':
      return invalid(at(path, params.missingProperty), 'is missing.');
    case 'additionalProperties':
      return invalid(at(path, params.additionalProperty), 'this field is not known here. Remove it.');
    case 'enum':
      return invalid(path || 'body', `must be one of ${params.allowedValues.join(', ')}.`);
    case 'type':
      return invalid(path || 'body', `must be of type ${[params.type].flat().join(' or ')}.`);
    default:
      // ajv's own words tell of the schema only, never of the value.
      return invalid(path || 'body', `${error.message}.`);
  }
}

/** From a JSON pointer (RFC 6901) to the form that the rules use: `/services/2/auth/token` to `services[2].auth.token`. */
function fieldOf(pointer: string): string {
  let path = '';
  for (const part of pointer.split('/').slice(1)) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
    path = path !== '' && /^\d+$/.test(name) ? `${path}[${name}]` : at(path, name);
  }
  return path;
}
