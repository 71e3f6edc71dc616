import { type Command, connectionOptions, jsonOption, vaultOption } from '../cli.ts';
import { connect } from '../client.ts';
import { show } from '../yaml.ts';

export const commands: readonly Command[] = [
  {
    name: 'vault explain',
    args: '<url>',
    about: 'Say which service a request would match and what would be injected. Nothing is sent.',
    options: {
      '--method <method>': 'Of the request (GET)',
      ...vaultOption,
      ...jsonOption,
      ...connectionOptions,
    },
    examples: ['broker vault explain https://api.example.com/v1/items --method POST'],
    async run(input) {
      const body = { method: input.text('method') ?? 'GET', url: input.args[0] };
      const api = await connect(input, 'agent');
      const answer = await api.call('POST', '/v1/explain', { body, vault: api.vault });
      show(answer, input.flag('json'));
    },
  },
  {
    name: 'vault discover',
    about: 'Print what an agent finds: the hosts it reaches, and which credential keys exist.',
    options: { ...vaultOption, ...jsonOption, ...connectionOptions },
    examples: ['broker vault discover', 'broker vault discover --vault staging --json'],
    async run(input) {
      const api = await connect(input, 'agent');
      show(await api.call('GET', '/discover', { vault: api.vault }), input.flag('json'));
    },
  },
];
