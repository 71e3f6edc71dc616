import { type ProposalStatus, proposalStatuses } from '../../actors/vault/model.ts';
import type { ProposalView } from '../../actors/vault/protocol.ts';
import { administers, foreignVault, vaultsOf } from '../caller.ts';
import { type Html, html } from '../html.ts';
import type { Route } from '../route.ts';
import type { FrontParts } from '../routes.ts';
import { selectField } from './controls.ts';
import { consolePage, vaultsFor } from './layout.ts';
import type { PageRoutes } from './page-route.ts';
import { listOf } from './service-words.ts';
import { pager, slice, table } from './table.ts';
import { timeHtml } from './time.ts';

/** `/proposals`: what agents have asked for. */
export function proposalListRoutes(front: FrontParts, { page }: PageRoutes): Route[] {
  return [
    page('/proposals', async ({ signedIn, query }) => {
      const { identity } = signedIn;
      if (query.vault !== undefined && !administers(identity, query.vault)) return foreignVault();
      const status = proposalStatuses.find((known) => known === query.status);
      const filter = { vaults: vaultsOf(identity), vault: query.vault, status };
      const [found, vaults] = await Promise.all([
        front.vault.ask('proposal.list', filter),
        vaultsFor(front, signedIn),
      ]);
      if (!found.ok) return found.problem;
      const newestFirst = [...found.value.proposals].reverse();
      // What waits comes before what is over.
      const all = [...newestFirst.filter(isPending), ...newestFirst.filter((each) => !isPending(each))];
      const shown = slice(all, query.page);
      const newest = Math.max(0, ...all.map(({ id }) => id));
      const content = html`<form method="get" action="/proposals" class="row">
${selectField({ name: 'status', label: 'Status', value: status ?? '' }, [['', 'All'], ...proposalStatuses.map((each) => [each, statusNames[each]] as const)])}
${selectField({ name: 'vault', label: 'Vault', value: query.vault ?? '' }, [['', 'All'], ...vaults.map(({ name }) => [name, name] as const)])}
<p class="actions"><button>Show</button></p></form>
<p class="notice" data-live="proposals" data-newest="${newest}" role="status" hidden>A new proposal has come. <a href="/proposals">Load this page again</a>.</p>
${shown.total === 0 ? emptyHtml(status !== undefined || query.vault !== undefined) : proposalRows(shown.items)}
${pager(shown, '/proposals', { status, vault: query.vault })}`;
      return consolePage(front, signedIn, { title: 'Proposals', section: '/proposals', content });
    }),
  ];
}

const isPending = ({ status }: ProposalView) => status === 'pending';

function emptyHtml(isFiltered: boolean): Html {
  if (isFiltered)
    return html`<div class="empty"><p>No proposal is like that. <a href="/proposals">Show all of them</a>.</p></div>`;
  return html`<div class="empty"><p><strong>No proposals yet.</strong> An agent that needs a host or a credential proposes it, and gives you a link.
You decide here or by that link. How an agent does it is told in <a href="/v1/skill.md">what agents read</a>.</p></div>`;
}

export function proposalRows(proposals: readonly ProposalView[]): Html {
  return table(
    'Proposals',
    { Proposal: 4, 'Asks for': 9, Vault: 3, Asked: 5, Status: 3 },
    proposals.map((proposal) => [
      html`<a href="/approve/${proposal.id}">Proposal ${proposal.id}</a>`,
      subject(proposal),
      html`<a href="/vaults/${proposal.vault}">${proposal.vault}</a>`,
      timeHtml(proposal.created_at),
      statusTag(proposal.status),
    ]),
  );
}

function subject({ services, credentials }: ProposalView): Html {
  const set = services.filter(({ action }) => action === 'set').map(({ host }) => host);
  const gone = services.filter(({ action }) => action === 'delete').map(({ host }) => host);
  const keys = credentials.map(({ key }) => key);
  const parts = [
    set.length > 0 ? html`access to ${listOf(set)}` : null,
    gone.length > 0 ? html`removal of ${listOf(gone)}` : null,
    keys.length > 0 ? html`credentials ${listOf(keys)}` : null,
  ].filter((part) => part !== null);
  return html`${parts.map((part, i) => html`${i > 0 ? html`<br>` : null}${part}`)}`;
}

const statusNames: Readonly<Record<ProposalStatus, string>> = {
  pending: 'Waiting',
  applied: 'Allowed',
  rejected: 'Denied',
  expired: 'Expired',
  cancelled: 'Withdrawn',
};
const tones: Readonly<Record<ProposalStatus, string>> = {
  pending: 'warn',
  applied: 'good',
  rejected: 'bad',
  expired: '',
  cancelled: '',
};

function statusTag(status: ProposalStatus): Html {
  return html`<span class="tag ${tones[status]}">${statusNames[status]}</span>`;
}
