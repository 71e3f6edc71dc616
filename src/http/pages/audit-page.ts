import { administers, foreignVault, ownerProblem } from '../caller.ts';
import type { AuditVerdict } from '../front-options.ts';
import { type Html, html } from '../html.ts';
import type { Answer } from '../reply.ts';
import type { Route } from '../route.ts';
import type { FrontParts } from '../routes.ts';
import type { SignedIn } from '../sign-in.ts';
import { formHtml, selectField } from './controls.ts';
import { counted } from './figures.ts';
import { consolePage, vaultsFor } from './layout.ts';
import { lookBack } from './newest-requests.ts';
import type { PageCall, PageRoutes } from './page-route.ts';
import { listOf } from './service-words.ts';
import { table } from './table.ts';
import { timeHtml } from './time.ts';

const maxRead = 5000;
const maxShown = 100;

/** A change, or something that happened, as the audit has it. */
interface ChangeRecord {
  readonly time: string;
  readonly kind?: string;
  readonly actor?: string;
  readonly action?: string;
  readonly event?: string;
  readonly vault?: string;
  readonly target?: string | number;
  readonly keys?: readonly string[];
  readonly hosts?: readonly string[];
  readonly status?: number;
  readonly error?: string;
  readonly peer?: string;
}

/** `/audit`: who changed what, and whether the log is whole. Requests are at `/requests`. */
export function auditPageRoutes(front: FrontParts, { page, action }: PageRoutes): Route[] {
  const { audit } = front;

  async function changes(vault: string | undefined, signedIn: SignedIn): Promise<ChangeRecord[]> {
    const found: ChangeRecord[] = [];
    for await (const line of audit.read({ vault, limit: maxRead, newest: 'first', within: lookBack })) {
      const record = changeOf(line);
      if (record && maySee(signedIn, record)) found.push(record);
      if (found.length === maxShown) break;
    }
    return found;
  }

  async function show({ signedIn, query }: PageCall, verdict: AuditVerdict | null = null): Promise<Answer> {
    const { vault } = query;
    if (vault !== undefined && !administers(signedIn.identity, vault)) return foreignVault();
    const [records, vaults] = await Promise.all([changes(vault, signedIn), vaultsFor(front, signedIn)]);
    const mayVerify = signedIn.identity.role === 'owner';
    const content = html`${verdict ? verdictHtml(verdict) : null}
<p>The last changes. What agents send is under <a href="/requests">Requests</a>; <code>broker audit export</code> gives all of it.</p>
<div class="row"><form method="get" action="/audit" class="row">${selectField({ name: 'vault', label: 'Vault', value: vault ?? '', small: true }, [['', 'All'], ...vaults.map(({ name }) => [name, name] as const)])}
<p class="actions"><button>Show</button></p></form>
${mayVerify ? formHtml(signedIn, '/audit', html`<p class="actions"><button>Verify the whole log</button></p>`) : null}</div>
${records.length === 0 ? html`<div class="empty"><p><strong>No changes yet</strong>, or none of late.</p></div>` : changeTable(records)}`;
    return consolePage(front, signedIn, { title: 'Audit', section: '/audit', content });
  }

  return [
    page('/audit', (call) => show(call)),

    action('/audit', async (call) => {
      const refusal = ownerProblem(call.signedIn.identity);
      if (refusal) return refusal;
      return show(call, await audit.verify());
    }),
  ];
}

function changeOf(line: string): ChangeRecord | null {
  if (line.includes('"kind":"request"')) return null;
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}

/** Of what concerns no vault, an owner sees all and an admin what they did themselves. */
function maySee({ identity }: SignedIn, { vault, actor }: ChangeRecord): boolean {
  if (identity.role === 'owner') return true;
  return vault === undefined ? actor === `operator:${identity.name}` : administers(identity, vault);
}

function changeTable(records: readonly ChangeRecord[]): Html {
  return table(
    'Changes, the newest first',
    { Time: 5, Who: 4, What: 4, Vault: 3, About: 5, Outcome: 3 },
    records.map(
      ({ time, actor, action, event, vault, target, keys = [], hosts = [], status, error, peer }) => [
        timeHtml(time),
        html`<span class="mono">${actor ?? peer ?? 'broker'}</span>`,
        html`<span class="mono">${action ?? event ?? 'record'}</span>`,
        html`${vault ?? '–'}`,
        aboutHtml(target, hosts, keys),
        error === undefined && (status === undefined || status < 400)
          ? html`<span class="good">done</span>`
          : html`<span class="bad">${error ?? `failed (${status})`}</span>`,
      ],
    ),
  );
}

function aboutHtml(
  target: string | number | undefined,
  hosts: readonly string[],
  keys: readonly string[],
): Html {
  const lists = [hosts, keys].filter((list) => list.length > 0).map((list) => listOf(list));
  const parts = target === undefined ? lists : [html`<span class="mono">${target}</span>`, ...lists];
  return parts.length === 0
    ? html`–`
    : html`${parts.map((part, i) => html`${i > 0 ? html`<br>` : null}${part}`)}`;
}

function verdictHtml({ ok, records, segments, head, firstBad, missing }: AuditVerdict): Html {
  if (ok) {
    return html`<div class="done" role="status"><p><strong>The log is whole.</strong> ${counted(records, 'record')} in ${counted(segments, 'file')}; nothing in them was changed, and nothing between them is missing.</p>
${head ? html`<p>Its head is <span class="mono">${head.seq} ${head.hash}</span>.</p>` : null}</div>`;
  }
  return html`<div class="warning grave" role="alert"><p><strong>The log is not whole.</strong> ${
    firstBad
      ? html`<span class="mono">${firstBad.file}</span>, line ${firstBad.line}: ${firstBad.reason}.`
      : null
  }</p>${missing.length === 0 ? null : html`<ul>${missing.map(missingHtml)}</ul>`}<p>What comes before it is proven good (${counted(records, 'record')}). Compare with a copy of the log, and find out who can write it.</p></div>`;
}

function missingHtml({ from, to, after, before }: AuditVerdict['missing'][number]): Html {
  const since = after === null ? 'from the beginning' : html`after ${timeHtml(after)}`;
  const until = before === null ? 'to the end' : html`before ${timeHtml(before)}`;
  return html`<li>Batches ${from} to ${to} are missing, ${since}, ${until}.</li>`;
}
