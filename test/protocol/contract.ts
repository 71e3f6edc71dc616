import { Ajv2020 } from 'ajv/dist/2020.js';
import type { Test } from 'tap';
import { type Broker, type BrokerOptions, startBroker } from '../support/broker.ts';
import { type Answered, type Asked, send } from './send.ts';

// biome-ignore lint/suspicious/noExplicitAny: a document of JSON, walked by hand
type Json = any;

interface Operation {
  readonly method: string;
  /** As it stands in the document: `/v1/proposals/{id}`. */
  readonly path: string;
  readonly described: Json;
}

/** A broker whose every answer is held against its own description. */
export interface Contract {
  readonly broker: Broker;
  readonly document: Json;
  readonly operations: readonly Operation[];
  readonly owner: string;
  /** Asks as nobody unless there is a token; throws where the answer is not as the description says. */
  ask(method: string, path: string, asked?: Asked): Promise<Answered>;
  /** The same as the owner. */
  own(method: string, path: string, body?: unknown, vault?: string): Promise<Answered>;
  /** Successes that the description promises and that nothing has shown, as `GET /discover 200`. */
  unseen(): string[];
}

/** Starts a broker and reads its description. */
export async function startContract(t: Test, options?: BrokerOptions): Promise<Contract> {
  const broker = await startBroker(t, options);
  const { readFileSync } = await import('node:fs');
  const owner = readFileSync(`${broker.directory}/owner.token`, 'utf8').trim();
  const port = Number(broker.address.split(':')[2]);
  const document = (await send(port, 'GET', '/v1/openapi.json')).json;
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  ajv.addSchema(document, 'api');
  const operations: Operation[] = Object.entries(document.paths as Json).flatMap(([path, item]) =>
    Object.entries(item as Json)
      .filter(([name]) => name !== 'parameters')
      .map(([method, described]) => ({ method: method.toUpperCase(), path, described })),
  );
  const seen = new Set<string>();

  function check(operation: Operation, { status, headers, text, json }: Answered): void {
    const name = `${operation.method} ${operation.path} ${status}`;
    const response = operation.described.responses[status];
    if (response === undefined) throw new Error(`${name} is not described: ${text.slice(0, 300)}`);
    seen.add(name);
    for (const [header, { required }] of Object.entries<Json>(response.headers ?? {})) {
      const isDue = required || status === 429 || json?.error === 'overloaded';
      if (isDue && headers[header.toLowerCase()] === undefined) throw new Error(`${name} lacks ${header}`);
    }
    const type = headers['content-type']?.split(';')[0];
    if (response.content === undefined) {
      if (text !== '') throw new Error(`${name} has a body: ${text.slice(0, 300)}`);
      return;
    }
    if (type === undefined || response.content[type] === undefined)
      throw new Error(`${name} is ${type}, not ${Object.keys(response.content)}`);
    if (type !== 'application/json') return;
    const pointer = ['paths', operation.path, operation.method.toLowerCase(), 'responses', status]
      .concat(['content', type, 'schema'])
      .map((part) => encodeURIComponent(String(part).replaceAll('~', '~0').replaceAll('/', '~1')));
    const validate = ajv.getSchema(`api#/${pointer.join('/')}`);
    if (validate === undefined) throw new Error(`${name} has no schema`);
    if (!validate(json))
      throw new Error(`${name}: ${ajv.errorsText(validate.errors)} in ${text.slice(0, 500)}`);
  }

  async function ask(method: string, path: string, asked?: Asked): Promise<Answered> {
    const answered = await send(port, method, path, asked);
    const operation = operations.find(
      (each) => each.method === method && patternOf(each.path).test(path.split('?')[0]),
    );
    if (operation) check(operation, answered);
    return answered;
  }

  return {
    broker,
    document,
    operations,
    owner,
    ask,
    own: (method, path, body, vault) => ask(method, path, { token: owner, body, vault }),
    unseen: () =>
      operations.flatMap(({ method, path, described }) =>
        Object.keys(described.responses)
          .filter((status) => status < '300')
          .map((status) => `${method} ${path} ${status}`)
          .filter((name) => !seen.has(name)),
      ),
  };
}

/** Literal paths before those with parameters: `/v1/agents/invites` is no agent. */
function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}$`);
}
