import { type Command, connectionOptions, type Input, jsonOption, vaultOption } from '../cli.ts';
import { type Api, connect, Refused, route } from '../client.ts';
import { askHidden } from '../hidden-prompt.ts';
import { readText, withoutLastNewline } from '../read-text.ts';
import { confirm, failed, interactive, misused, note, printable, printJson, write } from '../terminal.ts';

/** Refuses what isn't a key without repeating it: it may be `KEY=value`. */
function keyOf(input: Input): string {
  const [key] = input.args;
  if (/^[A-Z][A-Z0-9_]{0,127}$/.test(key)) return key;
  throw misused('A key is A-Z, 0-9 and _, such as STRIPE_KEY. Its value never stands on the command line.');
}

async function readValue(input: Input, key: string): Promise<string> {
  const file = input.text('from-file');
  if (file !== undefined && input.flag('stdin')) throw misused('Give --stdin or --from-file, not both.');
  if (file === undefined && !input.flag('stdin') && !interactive()) {
    throw misused('There is no terminal to ask on. Give the value with --stdin or --from-file.');
  }
  if (file === undefined && !input.flag('stdin')) return (await askHidden([`Value of ${key} (hidden)`]))[0];
  return withoutLastNewline(await readText(file ?? '-'));
}

/** Stores a value. One that would take the place of an agent's, and go where services send that, is asked about first. */
async function store(api: Api, key: string, value: string, input: Input): Promise<void> {
  const call = (query: string) =>
    api.call('POST', `/v1/credentials${query}`, {
      body: { credentials: { [key]: value } },
      vault: api.vault,
    });
  if (input.flag('yes')) return void (await call(''));
  try {
    await call('?ask=true');
  } catch (error) {
    if (!(error instanceof Refused && error.code === 'confirmation_required')) throw error;
    if (input.flag('stdin') || !interactive())
      throw failed(`${error.message} Nothing was stored; with --yes it is.`);
    if (!(await confirm(`${error.message} Store it?`, '--yes'))) throw failed('Nothing was stored.');
    await call('');
  }
}

export const commands: readonly Command[] = [
  {
    name: 'vault credential set',
    args: '<key>',
    about:
      'Store a value under a key. It is asked for, hidden, or read; one line break at its end is dropped.',
    options: {
      '--stdin': 'Read the value from standard input',
      '--from-file <path>': 'Read the value from a file',
      '--yes': "Don't ask where the key is an agent's so far and is sent somewhere",
      ...vaultOption,
      ...connectionOptions,
    },
    examples: [
      'broker vault credential set STRIPE_KEY',
      'pass show stripe | broker vault credential set STRIPE_KEY --stdin',
    ],
    async run(input) {
      const key = keyOf(input);
      const value = await readValue(input, key);
      if (value === '') throw failed('The value is empty; nothing was stored.');
      const api = await connect(input);
      await store(api, key, value, input);
      note(`Stored ${key} in vault ${api.vault}.`);
    },
  },
  {
    name: 'vault credential list',
    about: 'List the keys. Values are never shown.',
    options: { ...vaultOption, ...jsonOption, ...connectionOptions },
    examples: ['broker vault credential list'],
    async run(input) {
      const api = await connect(input, 'agent');
      const answer = await api.call<{ keys: readonly string[] }>('GET', '/v1/credentials', {
        vault: api.vault,
      });
      if (input.flag('json')) return printJson(answer);
      write(answer.keys.map((key) => `${printable(key)}\n`).join(''));
    },
  },
  {
    name: 'vault credential delete',
    args: '<key>',
    about: 'Delete a credential. One that services use is kept, unless forced.',
    options: { '--force': 'Delete it although services use it', ...vaultOption, ...connectionOptions },
    examples: ['broker vault credential delete STRIPE_KEY'],
    async run(input) {
      const key = keyOf(input);
      const api = await connect(input);
      const path = route`/v1/credentials/${key}`;
      const query = input.flag('force') ? '?force=true' : '';
      await api.call('DELETE', path + query, { vault: api.vault }).catch((error: unknown) => {
        if (!(error instanceof Refused && error.code === 'credential_in_use')) throw error;
        const services = Array.isArray(error.body.services) ? error.body.services.join(', ') : 'services';
        throw failed(`${key} is used by ${services}. Remove them first, or delete it with --force.`);
      });
      note(`Deleted ${key} from vault ${api.vault}.`);
    },
  },
];
