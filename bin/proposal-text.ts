import type { Increase } from '../src/actors/vault/review-rules.ts';
import { increaseWords, wantsTick, why } from '../src/http/pages/increases.ts';
import { wordsText } from '../src/http/words.ts';
import type { Slot } from './slot-values.ts';
import { printable, printableBlock } from './terminal.ts';
import { formatYaml } from './yaml.ts';

/** A proposal as the API shows it to an operator. */
export interface Proposal {
  readonly id: number;
  readonly status: string;
  readonly vault: string;
  readonly services: readonly (Service & { readonly action: 'set' | 'delete' })[];
  readonly credentials: readonly Slot[];
  readonly message: string;
  readonly user_message: string;
  readonly created_at: string;
  readonly expires_at: string;
  readonly requested_by: { readonly kind: string; readonly id: string; readonly label: string | null };
  readonly review?: {
    readonly fingerprint: string;
    readonly increases: readonly Increase[];
    readonly risks?: readonly { readonly grave: boolean; readonly text: string }[];
  };
}

/** A service as the API shows it. */
export interface Service {
  readonly host: string;
  readonly description?: string;
}

/** Code points of an agent's text that are shown at once: the rest is for who asks for it. */
const mostShown = 600;
const mostLines = 12;

export function requester({ requested_by: { kind, id, label } }: Proposal): string {
  return printable(kind === 'agent' || label === null ? `${kind} ${id}` : `${kind} ${label} (${id})`);
}

export function increaseText(increase: Increase): string {
  return printable(wordsText(increaseWords(increase)));
}

/**
 * All that the approval page shows of a pending proposal: who asks, what credentials would reach beyond now, what to look at
 * twice, what changes, and last what the agent says, each line of it marked as its own.
 *
 * @param present the vault's services as they are now
 */
export function proposalText(proposal: Proposal, present: readonly Service[]): string {
  const { id, vault, created_at, expires_at, review, services, credentials } = proposal;
  const increases = review?.increases ?? [];
  const risks = review?.risks ?? [];
  const grave = [
    ...increases.filter(wantsTick).map((each) => `${increaseText(each)} ${why(each)}`),
    ...risks.filter(({ grave }) => grave).map(({ text }) => printable(text)),
  ];
  const others = [
    ...increases.filter((each) => !wantsTick(each)).map(increaseText),
    ...risks.filter(({ grave }) => !grave).map(({ text }) => printable(text)),
  ];
  return [
    `Proposal ${id} for the vault ${vault}, asked for by the ${requester(proposal)}.`,
    `Asked ${created_at}, expires ${expires_at}. Nothing changes until you allow it.`,
    ...section(
      'Look twice:',
      grave.map((line) => `  ! ${line}`),
    ),
    ...section(
      'Good to know:',
      others.map((line) => `  - ${line}`),
    ),
    ...section('What changes:', [
      ...services.flatMap((change) => serviceLines(change, present)),
      ...credentials.map(slotLine),
    ]),
    ...section("The agent's words, which the broker has not checked:", agentLines(proposal)),
    '',
    `Fingerprint of what is shown here: ${review?.fingerprint ?? 'none'}`,
  ].join('\n');
}

function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ['', title, ...lines];
}

function serviceLines(change: Proposal['services'][number], present: readonly Service[]): string[] {
  const { action, description: _, ...service } = change;
  const now = present.find(({ host }) => host === change.host);
  if (action === 'delete') {
    return [`  remove the service ${printable(change.host)}${now ? '' : " (it isn't there)"}`, ...was(now)];
  }
  return [
    `  ${now ? 'change' : 'add'} the service ${printable(change.host)}`,
    ...indented(formatYaml(service)),
    ...was(now),
  ];
}

function was(now: Service | undefined): string[] {
  return now ? ['    until now:', ...indented(formatYaml(now), '      ')] : [];
}

function indented(text: string, by = '    '): string[] {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => by + line);
}

function slotLine({ action, key, has_value }: Slot): string {
  if (action === 'delete') return `  delete the credential ${key}: its value is gone for good`;
  return `  store the credential ${key}, with a value ${has_value ? 'that the agent has given' : 'from you'}`;
}

/** A line in pieces that fit, so that the terminal wraps none of it; its blanks as plain ones, few in a row. */
function pieces(line: string): string[] {
  const room = Math.max(20, (process.stderr.columns || 80) - 6);
  const text = [...line.replace(/\p{Zs}/gu, ' ').replace(/ {5,}/g, '    ')];
  const found: string[] = [];
  // A letter may be two columns wide.
  for (let at = 0; at < Math.max(1, text.length); at += room / 2) {
    found.push(text.slice(Math.floor(at), Math.floor(at + room / 2)).join(''));
  }
  return found;
}

/** Each line behind a bar, so that none can pass for one of ours. */
function agentLines({ id, message, user_message, services, credentials }: Proposal): string[] {
  const texts = [
    user_message,
    message,
    ...services.map(({ host, description }) => (description ? `${host}: ${description}` : '')),
    ...credentials.map(({ key, ...slot }) => {
      const said = [slot.description, slot.obtain, slot.obtain_instructions].filter((each) => each);
      return said.length > 0 ? `${key}: ${said.join('\n')}` : '';
    }),
  ];
  const said = printableBlock(texts.filter((text) => text !== '').join('\n'));
  const lines = [...said].slice(0, mostShown).join('').split('\n').slice(0, mostLines);
  const shown = lines.join('\n');
  const left = [...said].length - [...shown].length;
  return [
    ...(shown === ''
      ? []
      : shown
          .split('\n')
          .flatMap(pieces)
          .map((line) => `  | ${line}`)),
    ...(left > 0 ? [`  (${left} more characters: broker vault proposal show ${id})`] : []),
  ];
}
