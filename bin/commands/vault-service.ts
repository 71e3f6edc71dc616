import { isatty } from 'node:tty';
import { isDeepStrictEqual } from 'node:util';
import type { Service } from '../../src/actors/vault/model.ts';
import { type Command, connectionOptions, type Input, jsonOption, vaultOption } from '../cli.ts';
import { type Api, connect, route, vaultName } from '../client.ts';
import { readText } from '../read-text.ts';
import { confirm, failed, interactive, misused, note, printJson, write } from '../terminal.ts';
import { formatYaml, parseYaml } from '../yaml.ts';

interface Services {
  readonly services: readonly unknown[];
}

function vaultOf(input: Input): string {
  return vaultName(input.text('vault') ?? 'default');
}

/**
 * Checks the shape of a service file: `services:`, a list, and nothing beside it. What stands in the list is
 * the server's to check. An empty file is refused: it is more often a broken pipe than the wish to remove all.
 */
export function serviceFile(text: string, name: string): Services {
  const file = parseYaml(text, name);
  if (file === null) throw failed(`${name} is empty. To remove all services, write \`services: []\`.`);
  if (typeof file !== 'object' || Array.isArray(file))
    throw failed(`${name} has to begin with \`services:\`, a list.`);
  const other = Object.keys(file).find((key) => key !== 'services');
  if (other !== undefined)
    throw failed(`${name}: \`${other}\` is unknown. Only \`services:\` may stand at the top.`);
  if (!('services' in file) || !Array.isArray(file.services))
    throw failed(`${name}: \`services\` has to be a list.`);
  return { services: file.services };
}

async function replaceAll(api: Api, vault: string, body: Services): Promise<void> {
  await api.call('PUT', route`/v1/vaults/${vault}/services`, { body });
  note(`Vault ${vault} now has ${body.services.length} service${body.services.length === 1 ? '' : 's'}.`);
}

/** The dialogue. Nothing is sent before the user has seen all of it and said yes. */
async function build(input: Input, vault: string): Promise<void> {
  if (!interactive() || !isatty(2)) {
    throw misused(
      'The dialogue needs a terminal. Name a file of services instead: -f services.yaml, or -f - for standard input.',
    );
  }
  const api = await connect(input);
  const path = route`/v1/vaults/${vault}/services`;
  const [before, { keys }] = await Promise.all([
    api.call<{ services: readonly Service[] }>('GET', path),
    api.call<{ keys: readonly string[] }>('GET', '/v1/credentials', { vault }),
  ]);
  const { buildServices } = await import('../service-builder.ts');
  const services = await buildServices({ vault, services: before.services, keys });
  if (services === null) return note('Nothing was changed.');
  // What someone else set meanwhile must not be lost unseen.
  const now = await api.call<Services>('GET', path);
  if (!isDeepStrictEqual(now, before)) {
    throw failed(`The services of vault ${vault} were changed meanwhile. Nothing was saved: start again.`);
  }
  await replaceAll(api, vault, { services });
}

async function setEnabled(input: Input, enabled: boolean): Promise<void> {
  const vault = vaultOf(input);
  const [host] = input.args;
  const api: Api = await connect(input);
  await api.call('PATCH', route`/v1/vaults/${vault}/services/${host}`, { body: { enabled } });
  note(`${enabled ? 'Enabled' : 'Disabled'} ${host} in vault ${vault}.`);
}

export const commands: readonly Command[] = [
  {
    name: 'vault service set',
    about: 'Replace all services of a vault by those in a YAML file, or build them in a dialogue.',
    options: {
      '-f, --file <path>': 'The file, or - for standard input; without it, a dialogue on the terminal',
      ...vaultOption,
      ...connectionOptions,
    },
    examples: [
      'broker vault service set',
      'broker vault service set -f services.yaml',
      'broker vault service set -f - --vault staging',
    ],
    async run(input) {
      const vault = vaultOf(input);
      const file = input.text('file');
      if (file === undefined) return build(input, vault);
      const body = serviceFile(await readText(file), file === '-' ? 'standard input' : file);
      await replaceAll(await connect(input), vault, body);
    },
  },
  {
    name: 'vault service list',
    about: 'Print the services as YAML that `set -f` takes back; nothing where there are none.',
    options: { ...vaultOption, ...jsonOption, ...connectionOptions },
    examples: ['broker vault service list > services.yaml'],
    async run(input) {
      const vault = vaultOf(input);
      const api = await connect(input);
      const { services } = await api.call<Services>('GET', route`/v1/vaults/${vault}/services`);
      if (input.flag('json')) printJson({ services });
      else if (services.length > 0) write(formatYaml({ services }));
    },
  },
  {
    name: 'vault service enable',
    args: '<host>',
    about: 'Let requests to a disabled service through again.',
    options: { ...vaultOption, ...connectionOptions },
    examples: ['broker vault service enable api.example.com'],
    run: (input) => setEnabled(input, true),
  },
  {
    name: 'vault service disable',
    args: '<host>',
    about: 'Refuse requests to a service, and keep its configuration.',
    options: { ...vaultOption, ...connectionOptions },
    examples: ["broker vault service disable '*.example.com'"],
    run: (input) => setEnabled(input, false),
  },
  {
    name: 'vault service remove',
    args: '<host>',
    about: 'Remove one service.',
    options: { ...vaultOption, ...connectionOptions },
    examples: ['broker vault service remove api.example.com'],
    async run(input) {
      const vault = vaultOf(input);
      const [host] = input.args;
      const api = await connect(input);
      await api.call('DELETE', route`/v1/vaults/${vault}/services/${host}`);
      note(`Removed ${host} from vault ${vault}.`);
    },
  },
  {
    name: 'vault service clear',
    about: 'Remove all services. Until one is set again, every request through this vault is refused.',
    options: { '--yes': "Don't ask", ...vaultOption, ...connectionOptions },
    examples: ['broker vault service clear --vault staging --yes'],
    async run(input) {
      const vault = vaultOf(input);
      const question = `Remove all services of vault ${vault}, and refuse its agents every request until one is set?`;
      if (!input.flag('yes') && !(await confirm(question, '--yes'))) throw failed('Nothing was removed.');
      const api = await connect(input);
      await api.call('DELETE', route`/v1/vaults/${vault}/services`);
      note(`Removed all services of vault ${vault}.`);
    },
  },
];
