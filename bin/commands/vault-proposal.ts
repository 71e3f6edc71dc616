import { wantsTick } from '../../src/http/pages/increases.ts';
import { type Command, connectionOptions, type Input, jsonOption, vaultOption } from '../cli.ts';
import { type Api, connect, Refused, route } from '../client.ts';
import { askHidden } from '../hidden-prompt.ts';
import { increaseText, type Proposal, proposalText, requester, type Service } from '../proposal-text.ts';
import { readText } from '../read-text.ts';
import { checkComplete, neededKeys, slotValues } from '../slot-values.ts';
import { confirm, failed, interactive, misused, note, printJson, table, write } from '../terminal.ts';
import { show } from '../yaml.ts';

function idOf(input: Input): string {
  const [id] = input.args;
  if (!/^[1-9]\d{0,15}$/.test(id))
    throw misused('A proposal is named by its number. See `broker vault proposal list`.');
  return id;
}

/** What approves a proposal without a question: the fingerprint of the review that somebody has looked at. */
function confirmedBy(input: Input, id: string): string | null {
  const fingerprint = input.text('confirm') ?? null;
  if (input.flag('yes') === (fingerprint !== null)) return fingerprint;
  const look = `\`broker vault proposal show ${id}\` prints it.`;
  throw misused(
    fingerprint === null
      ? `--yes needs --confirm and the fingerprint of what you have looked at. ${look}`
      : '--confirm goes with --yes: together they approve what has this fingerprint without a question.',
  );
}

/** Refuses what neither a human nor a flag can answer, before anything is asked. */
function checkAnswers(proposal: Proposal, input: Input, confirmed: string | null): void {
  const { id, review } = proposal;
  const keys = neededKeys(proposal.credentials);
  const open = review?.increases.filter(({ ticked_by }) => ticked_by === 'confirm') ?? [];
  const flags = `Look at it with \`broker vault proposal show ${id}\`, then add --yes --confirm FINGERPRINT.`;
  if (confirmed !== null) {
    if (keys.length === 0 || input.flag('stdin') || interactive()) return;
    throw misused(`This proposal needs values for ${keys.join(', ')}. Add --stdin.`);
  }
  if (input.flag('stdin')) {
    if (open.length === 0) return;
    throw misused(
      `This proposal widens what credentials reach, which --stdin can't answer for: ${open.map(increaseText).join(' ')} ${flags}`,
    );
  }
  if (!interactive()) throw misused(`There is no terminal to ask on. ${flags}`);
}

/** Asks for each increase that no value answers for, and for the whole. false: no. */
async function agreed({ id, review }: Proposal): Promise<boolean> {
  for (const increase of review?.increases ?? []) {
    if (!wantsTick(increase)) continue;
    if (!(await confirm(`${increaseText(increase)} Is that what you want?`, '--yes'))) return false;
  }
  return await confirm(`Allow proposal ${id}?`, '--yes');
}

async function valuesFor(proposal: Proposal, input: Input): Promise<Map<string, string>> {
  const keys = neededKeys(proposal.credentials);
  if (input.flag('stdin')) return slotValues(await readText('-'), keys);
  if (keys.length === 0) return new Map();
  const answers = await askHidden(keys.map((key) => `Value of ${key} (hidden)`));
  const values = new Map(keys.map((key, index) => [key, answers[index]]));
  checkComplete(values, keys);
  return values;
}

/** Shows a proposal, asks, and applies it; where something has changed meanwhile, once more from the start. */
async function approve(api: Api, id: string, input: Input): Promise<{ answer: unknown; vault: string }> {
  const confirmed = confirmedBy(input, id);
  const vault = api.vaultIfNamed;
  const path = route`/v1/proposals/${id}`;
  const send = async (proposal: Proposal, body: object) => ({
    answer: await api.call('POST', `${path}/approve`, { body, vault }),
    vault: proposal.vault,
  });
  for (;;) {
    const proposal = await api.call<Proposal>('GET', path, { vault });
    // What is decided gets its own answer.
    if (proposal.status !== 'pending') return await send(proposal, {});
    checkAnswers(proposal, input, confirmed);
    const services = route`/v1/vaults/${proposal.vault}/services`;
    const present = await api.call<{ services: readonly Service[] }>('GET', services);
    note(proposalText(proposal, present.services));
    const asks = confirmed === null && !input.flag('stdin');
    if (asks && !(await agreed(proposal))) throw failed('Nothing was approved.');
    const credentials = Object.fromEntries(await valuesFor(proposal, input));
    const body = { credentials, confirm: confirmed ?? proposal.review?.fingerprint };
    try {
      return await send(proposal, body);
    } catch (error) {
      if (!(error instanceof Refused && error.code === 'confirmation_required')) throw error;
      const changed = 'What it would do has changed since it was shown; nothing was approved.';
      if (!asks) throw failed(`${changed} Look again with \`broker vault proposal show ${id}\`.`);
      note(`\n${changed} This is how it is now.\n`);
    }
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
        requester(one),
        one.services.map((service) => service.host).join(','),
        one.credentials.map((slot) => slot.key).join(','),
        one.message.length > 60 ? `${one.message.slice(0, 59)}…` : one.message,
      ]);
      write(table(['ID', 'STATUS', 'CREATED', 'ASKED BY', 'HOSTS', 'KEYS', 'MESSAGE'], rows));
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
    about:
      'Approve a proposal. It is shown, each thing that a credential would newly reach is asked for by itself, and values are asked for, hidden, or read from standard input.',
    options: {
      '--stdin': 'Read KEY=VALUE lines; the value alone where one is needed',
      '--yes': 'Ask nothing: needs --confirm',
      '--confirm <fingerprint>':
        'The fingerprint that `vault proposal show` printed: exactly that is approved',
      ...vaultOption,
      ...jsonOption,
      ...connectionOptions,
    },
    examples: [
      'broker vault proposal approve 12',
      'pass show stripe | broker vault proposal approve 12 --stdin',
      'broker vault proposal approve 12 --yes --confirm 3q2u8cXb1kS0vVnq1dPz4w',
    ],
    async run(input) {
      const id = idOf(input);
      const { answer, vault } = await approve(await connect(input), id, input);
      if (input.flag('json')) printJson(answer);
      else note(`Proposal ${id} is applied to vault ${vault}.`);
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
