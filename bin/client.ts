import type { Dispatcher } from 'undici';
import { tokenKind } from '../src/actors/vault/token.ts';
import type { Input } from './cli.ts';
import { connectorTo } from './connector.ts';
import { brokerAddress, type Credentials, credentials, dataDirectory } from './target.ts';
import { Failure, failed, misused, printable } from './terminal.ts';

/** A refusal by the broker, with its code and the body's other fields. */
export class Refused extends Failure {
  readonly status: number;
  readonly code: string;
  readonly body: Readonly<Record<string, unknown>>;

  constructor(message: string, status: number, code: string, body: Readonly<Record<string, unknown>>) {
    super(message, 1);
    this.status = status;
    this.code = code;
    this.body = body;
  }
}

interface CallOptions {
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Names the vault by `X-Vault`, where the path doesn't. */
  readonly vault?: string;
}

/** The broker's API, spoken to by one command. */
export interface Api {
  readonly address: string;
  /** For `X-Vault`: `--vault`, else `default`; undefined where the token itself names the vault. */
  readonly vault: string | undefined;
  /** The same for what has a number of its own: only where the user, or the kind of token, asks for it. */
  readonly vaultIfNamed: string | undefined;
  /** One exchange; the JSON answer, null where there is none. Throws `Refused`, or a `Failure` where nothing answers. */
  call<T = unknown>(method: Dispatcher.HttpMethod, path: string, options?: CallOptions): Promise<T>;
  /** An answer that isn't JSON. */
  text(path: string): Promise<{ text: string; header(name: string): string | undefined }>;
  /** NDJSON as it arrives, line by line. */
  lines(path: string): AsyncIterable<string>;
  /** An answer as it arrives; it rejects as it is read where the answer breaks off. */
  bytes(method: Dispatcher.HttpMethod, path: string): Promise<AsyncIterable<Uint8Array>>;
}

/** Builds a path; each value is percent-encoded, so that none can change which route is called. */
export function route(parts: TemplateStringsArray, ...values: readonly (string | number)[]): string {
  return String.raw({ raw: parts }, ...values.map((value) => encodeURIComponent(value)));
}

/** The broker that is meant, and where its data directory would be if it is the local one. */
interface Place {
  readonly address: string;
  readonly directory: string;
}

const connectTimeout = 5_000;
const answerTimeout = 60_000;

/**
 * Prepares to speak to the broker that the command's options and the environment name. `as` says what the
 * command needs: an operator's token, one that an agent may hold too, or none. Nothing is sent yet, unless
 * no token is found: then a broker that isn't running is the likelier news.
 */
export async function connect(input: Input, as: 'operator' | 'agent' | 'anyone' = 'operator'): Promise<Api> {
  const address = brokerAddress(process.env, input.text('address'));
  const place = { address, directory: dataDirectory(process.env, input.text('data-dir')) };
  if (as === 'anyone') return client(place, null);
  let who: Credentials;
  try {
    who = credentials(process.env, address, { agent: as === 'agent', dataDir: input.text('data-dir') });
  } catch (error) {
    await client(place, null).text('/health');
    throw error;
  }
  const named = input.text('vault');
  const vault = vaultName(named ?? 'default');
  const kind = named === undefined ? tokenKind(who.token.reveal()) : null;
  return client(place, who, {
    vault: kind === 'session' ? undefined : vault,
    vaultIfNamed: named === undefined && kind !== 'agent' ? undefined : vault,
  });
}

/** Checks a name before it becomes a header. Throws a misuse. */
export function vaultName(text: string): string {
  if (!/^[a-z0-9-]{1,64}$/.test(text)) throw misused('A vault name is 1 to 64 of a-z, 0-9 and hyphen.');
  return text;
}

function client(
  { address, directory }: Place,
  who: Credentials | null,
  vaults: Partial<Pick<Api, 'vault' | 'vaultIfNamed'>> = {},
): Api {
  async function send(method: Dispatcher.HttpMethod, path: string, options: CallOptions = {}) {
    // Loaded on the first call: help and usage errors don't wait for it. A dispatcher of our own, so that
    // proxy variables (we may run below `vault run`) don't apply.
    const { Agent } = await import('undici');
    const agent = new Agent({
      connect: connectorTo({ address, directory, token: who?.token ?? null }) ?? { timeout: connectTimeout },
      headersTimeout: answerTimeout,
      pipelining: 0,
    });
    const headers: Record<string, string> = { accept: 'application/json' };
    if (who !== null) headers.authorization = `Bearer ${who.token.reveal()}`;
    if (options.vault !== undefined) headers['x-vault'] = options.vault;
    if (options.body !== undefined) headers['content-type'] = 'application/json';
    const body = options.body === undefined ? null : JSON.stringify(options.body);
    try {
      const answer = await agent.request({ origin: address, path, method, headers, body });
      if (answer.statusCode >= 200 && answer.statusCode < 300) return answer;
      throw refusal(answer.statusCode, await answer.body.text(), address, who);
    } catch (error) {
      throw error instanceof Failure ? error : unreachable(error, address);
    }
  }

  const read = (answer: Dispatcher.ResponseData) =>
    answer.body.text().catch((error: unknown) => {
      throw unreachable(error, address);
    });

  return {
    address,
    vault: vaults.vault,
    vaultIfNamed: vaults.vaultIfNamed,
    async call<T>(method: Dispatcher.HttpMethod, path: string, options?: CallOptions) {
      const answer = await send(method, path, options);
      const text = await read(answer);
      return (text === '' ? null : parse(text, address)) as T;
    },
    async text(path) {
      const answer = await send('GET', path);
      const text = await read(answer);
      return { text, header: (name) => [answer.headers[name]].flat()[0] };
    },
    async bytes(method, path) {
      const { body } = await send(method, path);
      return (async function* () {
        try {
          yield* body;
        } catch (error) {
          throw unreachable(error, address);
        }
      })();
    },
    async *lines(path) {
      const answer = await send('GET', path);
      answer.body.setEncoding('utf8');
      let tail = '';
      try {
        for await (const chunk of answer.body) {
          const parts = (tail + chunk).split('\n');
          tail = parts.pop() ?? '';
          yield* parts.filter((line) => line !== '');
        }
      } catch (error) {
        throw unreachable(error, address);
      }
      if (tail !== '') yield tail;
    },
  };
}

function parse(text: string, address: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw failed(`What answers at ${address} is not a broker. Check --address and BROKER_ADDR.`);
  }
}

function refusal(status: number, text: string, address: string, who: Credentials | null): Failure {
  const body = parse(text, address);
  if (typeof body !== 'object' || body === null || !('error' in body) || !('message' in body)) {
    return failed(
      `${address} answered ${status}, and not as a broker does. Check --address and BROKER_ADDR.`,
    );
  }
  const fields = body as Record<string, unknown>;
  const code = String(fields.error);
  if (status === 401) {
    const message =
      who === null
        ? `${address} asks for a token here.`
        : `${address} does not accept the token from ${who.source}. Is it of this broker, and still valid?`;
    return new Refused(message, status, code, fields);
  }
  const message = String(fields.message);
  // Most messages begin with the field's path; where one doesn't, it is told all the same.
  const named = typeof fields.field !== 'string' || message.startsWith(fields.field);
  return new Refused(printable(named ? message : `${fields.field}: ${message}`), status, code, fields);
}

function unreachable(error: unknown, address: string): Failure {
  if (error instanceof Error && error.name === 'HTTPParserError') {
    return failed(
      `${address} answered, and not as HTTP/1.1 has it: it is not a broker, or something on the way damages answers. Check --address and BROKER_ADDR.`,
    );
  }
  const { code = 'unknown error' } = Object(error) as { code?: string };
  if (code === 'ECONNREFUSED') {
    return failed(
      `No broker answers at ${address}. Start one with \`broker server\`, or name another by --address or BROKER_ADDR.`,
    );
  }
  if (/CERT|SELF_SIGNED|ISSUER|ALTNAME|LEAF_SIGNATURE/.test(code)) {
    return failed(
      `The certificate of ${address} is not trusted (${code}). Name its root by NODE_EXTRA_CA_CERTS.`,
    );
  }
  return failed(
    `${address} can't be reached (${code}). Check that \`broker server\` runs there, and the address.`,
  );
}
