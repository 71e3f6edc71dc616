import { type Command, connectionOptions, durationSeconds, jsonOption } from '../cli.ts';
import { connect, route, vaultName } from '../client.ts';
import { note, printable, printJson, table, write } from '../terminal.ts';

interface Agent {
  readonly name: string;
  readonly vaults: readonly string[];
  readonly created_at: string;
  readonly expires_at: string | null;
}

export const commands: readonly Command[] = [
  {
    name: 'agent invite',
    args: '[name]',
    about: 'Print a link by which one agent joins, with access to the vaults named. It works once.',
    options: {
      '--vault <name>': 'A vault it may use; repeat it for more (default)',
      '--ttl <time>': 'How long the invite is valid (7d)',
      '--token-ttl <time>': 'How long the token is valid that the agent gets, or never (90d)',
      ...jsonOption,
      ...connectionOptions,
    },
    repeatable: ['vault'],
    examples: ['broker agent invite builder --vault default --vault staging --ttl 1h'],
    async run(input) {
      const vaults = input.texts('vault').map(vaultName);
      const [name] = input.args;
      const ttl = input.text('ttl');
      const tokenTtl = input.text('token-ttl');
      const body = {
        name,
        vaults: vaults.length > 0 ? vaults : ['default'],
        ttl_seconds: ttl === undefined ? undefined : durationSeconds(ttl, '--ttl'),
        token_ttl_seconds: tokenTtl === undefined ? undefined : tokenSeconds(tokenTtl),
      };
      const api = await connect(input);
      const invite = await api.call<{ invite_url: string; expires_at: string }>(
        'POST',
        '/v1/agents/invites',
        { body },
      );
      if (input.flag('json')) return printJson(invite);
      note(`The agent joins by a POST to this address, once, until ${invite.expires_at}:`);
      write(`${printable(invite.invite_url)}\n`);
    },
  },
  {
    name: 'agent list',
    about: 'List the agents, their vaults, and when their tokens end.',
    options: { ...jsonOption, ...connectionOptions },
    examples: ['broker agent list'],
    async run(input) {
      const api = await connect(input);
      const answer = await api.call<{ agents: readonly Agent[] }>('GET', '/v1/agents');
      if (input.flag('json')) return printJson(answer);
      const rows = answer.agents.map((one) => [
        one.name,
        one.vaults.join(','),
        one.created_at,
        one.expires_at ?? 'never',
      ]);
      write(table(['NAME', 'VAULTS', 'CREATED', 'EXPIRES'], rows));
    },
  },
  {
    name: 'agent rotate',
    args: '<name>',
    about: 'Print a new token for an agent. The old one stays valid for a while where you say so.',
    options: {
      '--overlap <time>': 'How long the old token stays valid (0s)',
      ...jsonOption,
      ...connectionOptions,
    },
    examples: ['broker agent rotate builder --overlap 10m'],
    async run(input) {
      const overlap = durationSeconds(input.text('overlap') ?? '0s', '--overlap');
      const api = await connect(input);
      const path = route`/v1/agents/${input.args[0]}/rotate`;
      const answer = await api.call<{ token: string }>('POST', path, { body: { overlap_seconds: overlap } });
      if (input.flag('json')) return printJson(answer);
      note('The new token; it is not shown again. Deliver it to the agent as BROKER_SESSION_TOKEN:');
      write(`${printable(answer.token)}\n`);
    },
  },
  {
    name: 'agent remove',
    args: '<name>',
    about: 'Remove an agent. Its tokens end at once, and with them its open connections.',
    options: connectionOptions,
    examples: ['broker agent remove builder'],
    async run(input) {
      const api = await connect(input);
      await api.call('DELETE', route`/v1/agents/${input.args[0]}`);
      note(`Removed agent ${input.args[0]}.`);
    },
  },
];

/** null stands for "never". */
function tokenSeconds(text: string): number | null {
  return text === 'never' ? null : durationSeconds(text, '--token-ttl');
}
