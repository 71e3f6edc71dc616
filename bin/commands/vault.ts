import { type Command, connectionOptions, jsonOption } from '../cli.ts';
import { connect, route, vaultName } from '../client.ts';
import { confirm, failed, misused, note, printJson, table, write } from '../terminal.ts';
import { show } from '../yaml.ts';

interface Vault {
  readonly name: string;
  readonly unmatched_host_policy: string;
  readonly cleared: boolean;
  readonly counters: {
    readonly services: number;
    readonly credentials: number;
    readonly pending_proposals: number;
  };
}

const word = (text: string) => text;

function truth(text: string, name: string): boolean {
  if (text !== 'true' && text !== 'false') throw misused(`${name} is true or false.`);
  return text === 'true';
}

function count(text: string, name: string): number {
  if (!/^\d{1,9}$/.test(text)) throw misused(`${name} is a whole number; 0 switches that limit off.`);
  return Number(text);
}

/** How each setting is read; which values it may have is the server's to say. */
const settings: Readonly<Record<string, (text: string, name: string) => unknown>> = {
  unmatched_host_policy: word,
  unmatched_tls: word,
  require_tls: truth,
  'rate_limit.rps': count,
  'rate_limit.burst': count,
  'rate_limit.inflight': count,
};

/**
 * The PATCH body for `name=value` arguments. Limits given together make one `rate_limit`; `rate_limit=default`
 * goes back to the server's own. Throws a misuse.
 */
export function vaultPatch(pairs: readonly string[]): Record<string, unknown> {
  const patch: Record<string, unknown> = {};
  const limits: Record<string, unknown> = {};
  for (const pair of pairs) {
    const at = pair.indexOf('=');
    const name = pair.slice(0, at);
    const value = pair.slice(at + 1);
    if (at < 1 || value === '') throw misused('A setting is written NAME=VALUE: unmatched_host_policy=deny.');
    if (name === 'rate_limit' && value === 'default') patch.rate_limit = null;
    else if (!Object.hasOwn(settings, name)) {
      throw misused(
        `There is no such setting. There are: ${Object.keys(settings).join(', ')}, rate_limit=default.`,
      );
    } else if (name.startsWith('rate_limit.'))
      limits[name.slice('rate_limit.'.length)] = settings[name](value, name);
    else patch[name] = settings[name](value, name);
  }
  return Object.keys(limits).length > 0 ? { ...patch, rate_limit: limits } : patch;
}

export const commands: readonly Command[] = [
  {
    name: 'vault create',
    args: '<name>',
    about: 'Create a vault.',
    options: { ...jsonOption, ...connectionOptions },
    examples: ['broker vault create staging'],
    async run(input) {
      const name = vaultName(input.args[0]);
      const api = await connect(input);
      const vault = await api.call('POST', '/v1/vaults', { body: { name } });
      if (input.flag('json')) printJson(vault);
      else note(`Created vault ${name}.`);
    },
  },
  {
    name: 'vault list',
    about: 'List the vaults.',
    options: { ...jsonOption, ...connectionOptions },
    examples: ['broker vault list', 'broker vault list --json'],
    async run(input) {
      const api = await connect(input);
      const answer = await api.call<{ vaults: readonly Vault[] }>('GET', '/v1/vaults');
      if (input.flag('json')) return printJson(answer);
      const rows = answer.vaults.map(({ name, unmatched_host_policy, cleared, counters }) => [
        name,
        cleared ? 'cleared' : unmatched_host_policy,
        String(counters.services),
        String(counters.credentials),
        String(counters.pending_proposals),
      ]);
      write(table(['NAME', 'UNMATCHED HOSTS', 'SERVICES', 'CREDENTIALS', 'PENDING'], rows));
    },
  },
  {
    name: 'vault show',
    args: '[name]',
    about: 'Show a vault and its settings.',
    options: { ...jsonOption, ...connectionOptions },
    examples: ['broker vault show default'],
    async run(input) {
      const name = vaultName(input.args[0] ?? 'default');
      const api = await connect(input);
      show(await api.call('GET', route`/v1/vaults/${name}`), input.flag('json'));
    },
  },
  {
    name: 'vault set',
    args: '<name> <...settings>',
    about: 'Change settings of a vault: unmatched_host_policy, unmatched_tls, require_tls, rate_limit.',
    options: { ...jsonOption, ...connectionOptions },
    examples: [
      'broker vault set default unmatched_host_policy=deny',
      'broker vault set default rate_limit.rps=20 rate_limit.burst=50',
      'broker vault set default rate_limit=default',
    ],
    async run(input) {
      const [name, ...pairs] = input.args;
      const path = route`/v1/vaults/${vaultName(name)}`;
      const body = vaultPatch(pairs);
      const api = await connect(input);
      show(await api.call('PATCH', path, { body }), input.flag('json'));
    },
  },
  {
    name: 'vault delete',
    args: '<name>',
    about: 'Delete a vault with its services, credentials and sessions.',
    options: { '--yes': "Don't ask", ...connectionOptions },
    examples: ['broker vault delete staging --yes'],
    async run(input) {
      const name = vaultName(input.args[0]);
      const question = `Delete vault ${name} with all its services, credentials and sessions?`;
      if (!input.flag('yes') && !(await confirm(question, '--yes'))) throw failed('Nothing was deleted.');
      const api = await connect(input);
      await api.call('DELETE', route`/v1/vaults/${name}?confirm=${name}`);
      note(`Deleted vault ${name}.`);
    },
  },
];
