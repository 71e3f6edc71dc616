import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import type { Input } from '../cli.ts';
import { dataDirectory } from '../target.ts';
import { misused } from '../terminal.ts';
import { parseYaml } from '../yaml.ts';

type Kind = 'text' | 'port' | 'count' | 'bytes' | 'size' | 'seconds' | 'flag' | 'list' | readonly string[];

interface Setting {
  readonly kind: Kind;
  readonly default: unknown;
  readonly about: string;
}

/**
 * Every setting of the server, once: its flag (`--name`), its environment variable (`BROKER_NAME`), its key in
 * the file, its default and unit. A flag wins over the environment, that over the file, that over the default.
 */
const settings = {
  host: { kind: 'text', default: '127.0.0.1', about: 'Address that the API and the proxy listen on' },
  port: { kind: 'port', default: 14321, about: 'Port of the API and its pages; 0 takes a free one' },
  'proxy-port': { kind: 'port', default: 14322, about: 'Port of the proxy; 0 takes a free one' },
  'data-dir': { kind: 'text', default: null, about: 'Data directory ($XDG_DATA_HOME/broker)' },
  'master-password-file': {
    kind: 'text',
    default: null,
    about:
      'File with the password that opens the stored credentials (or BROKER_MASTER_PASSWORD, or a prompt)',
  },
  workers: { kind: 'count', default: null, about: 'Proxy threads (one per core)' },
  'public-url': {
    kind: 'text',
    default: null,
    about: 'Base URL of the API in links, when it is not http://HOST:PORT',
  },
  'public-host': {
    kind: 'list',
    default: [],
    about: "Names in the proxy listener's certificate, beside localhost and the host name",
  },
  'tls-cert': { kind: 'text', default: null, about: 'Certificate chain for the API (PEM file)' },
  'tls-key': { kind: 'text', default: null, about: 'Its private key (PEM file)' },
  'insecure-http': { kind: 'flag', default: false, about: 'Serve the API without TLS beyond loopback' },
  'proxy-plain': {
    kind: ['loopback', 'always', 'never'],
    default: 'loopback',
    about: 'From whom plain (not TLS-wrapped) proxy connections are taken',
  },
  'upstream-ca': {
    kind: 'list',
    default: [],
    about: 'PEM files that upstream certificates are verified against too',
  },
  'allow-private-ranges': {
    kind: 'flag',
    default: false,
    about: 'Let the proxy reach private and loopback addresses',
  },
  'network-allow': {
    kind: 'list',
    default: [],
    about: 'CIDR ranges that the proxy may reach although they are refused by default',
  },
  'auth-failures': {
    kind: 'count',
    default: 50,
    about: 'Wrong tokens, and wrong passwords, a network may show in 5 minutes; 0: any number',
  },
  'rate-limit': {
    kind: 'count',
    default: 100,
    about: 'Requests a second, per session and vault; 0: no limit',
  },
  'rate-burst': { kind: 'count', default: 500, about: 'Requests at once above the rate' },
  'rate-inflight': {
    kind: 'count',
    default: 256,
    about: 'Requests under way, per session and vault; 0: no limit',
  },
  'api-rate': {
    kind: 'count',
    default: 50,
    about: 'API requests a second, per session or agent; operators ten times as many; 0: no limit',
  },
  'api-burst': { kind: 'count', default: 200, about: 'API requests at once above the rate' },
  'quota-agent-keys': {
    kind: 'count',
    default: 1000,
    about: 'Credential keys that an agent may add, over all its vaults; 0: any number',
  },
  'quota-agent-bytes': {
    kind: 'size',
    default: 32 * 2 ** 20,
    about: 'Octets of values and waiting proposals that an agent may keep; 0: any number',
  },
  'quota-agent-proposals': {
    kind: 'count',
    default: 20,
    about: 'Proposals of an agent that may wait; 0: any number',
  },
  'quota-vault-keys': { kind: 'count', default: 10_000, about: 'Credential keys in a vault; 0: any number' },
  'quota-vault-bytes': {
    kind: 'size',
    default: 128 * 2 ** 20,
    about: 'Octets of values and waiting proposals in a vault; 0: any number',
  },
  'quota-vault-proposals': {
    kind: 'count',
    default: 100,
    about: 'Proposals that may wait in a vault; 0: any number',
  },
  'audit-on-error': {
    kind: ['close', 'open'],
    default: 'close',
    about: 'Whether proxying stops (close) or goes on (open) while the audit log cannot be written',
  },
  'audit-refusal-rate': {
    kind: 'count',
    default: 10,
    about: 'Refusals a second of one caller with a record each; more are summed up; 0: none is',
  },
  'audit-retain-days': {
    kind: 'count',
    default: null,
    about: 'Days that audit records are kept (for ever)',
  },
  'audit-retain-bytes': {
    kind: 'bytes',
    default: null,
    about: 'Most octets that the audit log takes, such as 10G; the oldest records go (no bound)',
  },
  'metrics-public': {
    kind: 'flag',
    default: false,
    about: 'Answer GET /metrics to anyone, not to operators alone',
  },
  'head-timeout': { kind: 'seconds', default: 10, about: 'For a request head to arrive' },
  'client-tls-timeout': { kind: 'seconds', default: 9, about: "For a client's TLS handshake" },
  'idle-timeout': { kind: 'seconds', default: 600, about: 'Between two requests of a client connection' },
  'connect-timeout': { kind: 'seconds', default: 10, about: 'For a TCP connection to an upstream' },
  'tls-timeout': { kind: 'seconds', default: 10, about: 'For the TLS handshake with an upstream' },
  'response-timeout': { kind: 'seconds', default: 300, about: "For an upstream's response head" },
  'body-timeout': { kind: 'seconds', default: 300, about: 'Between two pieces of a body, either way' },
  'relay-timeout': {
    kind: 'seconds',
    default: 3600,
    about: 'Without a byte on a WebSocket or an undecrypted tunnel',
  },
  'drain-timeout': { kind: 'seconds', default: 30, about: 'For requests in flight when the server stops' },
} as const satisfies Record<string, Setting>;

type Name = keyof typeof settings;
type ValueOf<K extends Kind> = K extends 'flag'
  ? boolean
  : K extends 'port' | 'count' | 'bytes' | 'size' | 'seconds'
    ? number
    : K extends 'list'
      ? readonly string[]
      : K extends readonly (infer U)[]
        ? U
        : string;
/** Filled in by `readSettings` where nothing was given: their defaults depend on the machine. */
type Found = 'data-dir' | 'workers';
type Nullable<N extends Name> = N extends Found
  ? never
  : (typeof settings)[N]['default'] extends null
    ? null
    : never;

/** The effective settings, by name. */
export type ServerSettings = { readonly [N in Name]: ValueOf<(typeof settings)[N]['kind']> | Nullable<N> };

/** For the command's help: `--name <value>` to what it does. */
export function serverFlags(): Record<string, string> {
  const flags: Record<string, string> = {
    '--config <path>': 'YAML file with settings, by the names of these options',
    '--print-config': 'Print the effective settings and exit',
  };
  for (const [name, { kind, about, default: value }] of Object.entries(settings) as [Name, Setting][]) {
    const shown =
      value === null || value === false || (Array.isArray(value) && value.length === 0) ? '' : ` (${value})`;
    const unit =
      kind === 'flag'
        ? ''
        : ` <${kind === 'list' ? 'a,b' : typeof kind === 'string' ? kind : kind.join('|')}>`;
    flags[`--${name}${unit}`] = about + shown;
  }
  return flags;
}

/** Which flags may be given more than once. */
export const listFlags: readonly string[] = Object.entries(settings)
  .filter(([, { kind }]) => kind === 'list')
  .map(([name]) => name);

/**
 * Reads the settings from flags, environment and file.
 * @throws Failure (exit code 2) for a value that is none, naming where it stands
 */
export function readSettings(
  input: Input,
  env: Readonly<Record<string, string | undefined>>,
): ServerSettings {
  const path = input.text('config') ?? env.BROKER_CONFIG;
  const file = path === undefined ? {} : readFile(path);
  const found: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries(settings) as [Name, Setting][]) {
    const variable = `BROKER_${name.replaceAll('-', '_').toUpperCase()}`;
    const fromFlag =
      setting.kind === 'list'
        ? input.texts(name)
        : setting.kind === 'flag'
          ? input.flag(name)
          : input.text(name);
    const given =
      fromFlag !== undefined && fromFlag !== false && !(Array.isArray(fromFlag) && fromFlag.length === 0);
    if (given) found[name] = convert(setting.kind, fromFlag, `--${name}`);
    else if (env[variable] !== undefined && env[variable] !== '')
      found[name] = convert(setting.kind, env[variable], variable);
    else if (file[name] !== undefined && file[name] !== null)
      found[name] = convert(setting.kind, file[name], `${name} in ${path}`);
    else found[name] = setting.default;
  }
  found['data-dir'] = dataDirectory(
    { ...env, BROKER_DATA_DIR: undefined },
    (found['data-dir'] as string | null) ?? undefined,
  );
  found.workers = (found.workers as number | null) ?? availableParallelism();
  return found as ServerSettings;
}

function readFile(path: string): Record<string, unknown> {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw misused(
      `The configuration file ${path} can't be read (${(error as NodeJS.ErrnoException).code}). Check its path.`,
    );
  }
  const data = parseYaml(text, path) ?? {};
  if (typeof data !== 'object' || Array.isArray(data))
    throw misused(`${path} has to hold settings, such as \`port: 14321\`.`);
  for (const key of Object.keys(data)) {
    if (!Object.hasOwn(settings, key))
      throw misused(`${path}: there is no setting ${key}. See \`broker server --help\`.`);
  }
  return data as Record<string, unknown>;
}

function convert(kind: Kind, value: unknown, where: string): unknown {
  if (kind === 'list') {
    const items = Array.isArray(value) ? value : [value];
    if (items.some((item) => typeof item !== 'string')) throw misused(`${where} has to be a list of texts.`);
    return items
      .flatMap((item: string) => item.split(','))
      .map((item) => item.trim())
      .filter((item) => item !== '');
  }
  if (kind === 'flag') {
    if (value === true || value === 'true' || value === '1') return true;
    if (value === false || value === 'false' || value === '0') return false;
    throw misused(`${where} is true or false.`);
  }
  if (typeof kind !== 'string') {
    if (!kind.includes(String(value))) throw misused(`${where} is one of ${kind.join(', ')}.`);
    return value;
  }
  if (kind === 'text') {
    if (typeof value !== 'string' || value === '') throw misused(`${where} has to be a text.`);
    return value;
  }
  const text = String(value);
  if (kind === 'bytes' || kind === 'size') {
    const [, count, unit] = /^(0|[1-9][0-9]{0,11})([KMGT]?)$/.exec(text) ?? [];
    if (count === undefined || (count === '0' && kind === 'bytes'))
      throw misused(`${where} has to be a number of octets, such as 500M or 10G.`);
    return Number(count) * 1024 ** ' KMGT'.indexOf(unit || ' ');
  }
  const number = Number(text);
  const whole = kind !== 'seconds';
  if (
    !/^[0-9]+(\.[0-9]+)?$/.test(text) ||
    (whole && !Number.isInteger(number)) ||
    number > (kind === 'port' ? 65535 : 1e9)
  ) {
    throw misused(
      `${where} has to be ${kind === 'port' ? 'a port, 0 to 65535' : whole ? 'a whole number' : 'a number of seconds'}.`,
    );
  }
  return number;
}
