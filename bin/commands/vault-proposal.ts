import { type Command, connectionOptions, type Input, jsonOption, vaultOption } from '../cli.ts';
import { type Api, connect, Refused, route } from '../client.ts';
import { askHidden } from '../hidden-prompt.ts';
import { readText } from '../read-text.ts';
import { checkComplete, neededKeys, type Slot, slotValues } from '../slot-values.ts';
import {
  confirm,
  failed,
  interactive,
  misused,
  note,
  printable,
  printJson,
  table,
  write,
} from '../terminal.ts';
import { formatYaml, show } from '../yaml.ts';

interface Proposal {
  readonly id: number;
  readonly status: string;
  readonly vault: string;
  readonly services: readonly { readonly host: string }[];
  readonly credentials: readonly Slot[];
  readonly message: string;
  readonly created_at: string;
}

function idOf(input: Input): string {
  const [id] = input.args;
  if (!/^[1-9]\d{0,15}$/.test(id))
    throw misused('A proposal is named by its number. See `broker vault proposal list`.');
  return id;
}

async function valuesFor(proposal: Proposal, input: Input): Promise<Map<string, string>> {
  const keys = proposal.status === 'pending' ? neededKeys(proposal.credentials) : [];
  if (input.flag('stdin')) return slotValues(await readText('-'), keys);
  if (keys.length === 0) return new Map();
  if (!interactive()) {
    throw misused(
      `This proposal needs values for ${keys.join(', ')}, and there is no terminal to ask on. Add --stdin.`,
    );
  }
  const { id, vault, message, services, credentials } = proposal;
  note(formatYaml({ id, vault, message, services, credentials }));
  const answers = await askHidden(keys.map((key) => `Value of ${key} (hidden)`));
  const values = new Map(keys.map((key, index) => [key, answers[index]]));
  checkComplete(values, keys);
  return values;
}

interface Approval {
  readonly credentials: Readonly<Record<string, string>>;
  readonly confirm_existing: readonly string[];
}

/** Approves; where existing credentials would go to a new host, a human at a terminal is asked, others are told. */
async function approve(api: Api, id: string, body: Approval): Promise<unknown> {
  const path = route`/v1/proposals/${id}/approve`;
  try {
    return await api.call('POST', path, { body, vault: api.vaultIfNamed });
  } catch (error) {
    if (!(error instanceof Refused && Array.isArray(error.body.confirm))) throw error;
    const keys = error.body.confirm.map((key) => printable(String(key)));
    note(`This sends existing credentials to a host they were never sent to: ${keys.join(', ')}.`);
    const allowed = interactive() && (await confirm('Is that what you want?', '--confirm-existing'));
    if (!allowed)
      throw failed(`Nothing was approved. To allow it, add --confirm-existing ${keys.join(',')}.`);
    const confirmed = { ...body, confirm_existing: [...body.confirm_existing, ...keys] };
    return await api.call('POST', path, { body: confirmed, vault: api.vaultIfNamed });
  }
}

export const commands: readonly Command[] = [
  {
    name: 'vault proposal list',
    about: 'List what agents ask for.',
    options: {
      '--status <pending|applied|rejected|expired|cancelled>': 'Only those of this status',
      ...vaultOption,
      ...jsonOption,
      ...connectionOptions,
    },
    examples: ['broker vault proposal list --status pending'],
    async run(input) {
      const status = input.text('status');
      const query = status === undefined ? '' : `?${new URLSearchParams({ status })}`;
      const api = await connect(input, 'agent');
      const answer = await api.call<{ proposals: readonly Proposal[] }>('GET', `/v1/proposals${query}`, {
        vault: api.vault,
      });
      if (input.flag('json')) return printJson(answer);
      const rows = answer.proposals.map((one) => [
        String(one.id),
        one.status,
        one.created_at,
        one.services.map((service) => service.host).join(','),
        one.credentials.map((slot) => slot.key).join(','),
        one.message.length > 60 ? `${one.message.slice(0, 59)}…` : one.message,
      ]);
      write(table(['ID', 'STATUS', 'CREATED', 'HOSTS', 'KEYS', 'MESSAGE'], rows));
    },
  },
  {
    name: 'vault proposal show',
    args: '<id>',
    about: 'Show one proposal.',
    options: { ...vaultOption, ...jsonOption, ...connectionOptions },
    examples: ['broker vault proposal show 12'],
    async run(input) {
      const id = idOf(input);
      const api = await connect(input, 'agent');
      show(
        await api.call('GET', route`/v1/proposals/${id}`, { vault: api.vaultIfNamed }),
        input.flag('json'),
      );
    },
  },
  {
    name: 'vault proposal approve',
    args: '<id>',
    about: 'Approve a proposal. The values that it needs are asked for, hidden, or read from standard input.',
    options: {
      '--stdin': 'Read KEY=VALUE lines; the value alone where one is needed',
      '--confirm-existing <keys>': 'Existing credentials that may go to the new host: KEY,KEY',
      ...vaultOption,
      ...jsonOption,
      ...connectionOptions,
    },
    examples: [
      'broker vault proposal approve 12',
      'pass show stripe | broker vault proposal approve 12 --stdin',
    ],
    async run(input) {
      const id = idOf(input);
      const api = await connect(input);
      const proposal = await api.call<Proposal>('GET', route`/v1/proposals/${id}`, {
        vault: api.vaultIfNamed,
      });
      const credentials = Object.fromEntries(await valuesFor(proposal, input));
      const confirmed = (input.text('confirm-existing') ?? '').split(',').filter((key) => key !== '');
      const answer = await approve(api, id, { credentials, confirm_existing: confirmed });
      if (input.flag('json')) printJson(answer);
      else note(`Proposal ${id} is applied to vault ${proposal.vault}.`);
    },
  },
  {
    name: 'vault proposal reject',
    args: '<id>',
    about: 'Reject a proposal.',
    options: {
      '--reason <text>': 'What the agent is told',
      ...vaultOption,
      ...jsonOption,
      ...connectionOptions,
    },
    examples: ['broker vault proposal reject 12 --reason "Use the sandbox host"'],
    async run(input) {
      const id = idOf(input);
      const api = await connect(input);
      const body = { reason: input.text('reason') ?? '' };
      const answer = await api.call('POST', route`/v1/proposals/${id}/reject`, {
        body,
        vault: api.vaultIfNamed,
      });
      if (input.flag('json')) printJson(answer);
      else note(`Proposal ${id} is rejected.`);
    },
  },
];
