import { type Problem, statusOf } from '../../actors/vault/problem.ts';
import type { AgentView, SessionView, VaultView } from '../../actors/vault/protocol.ts';
import { vaultsOf } from '../caller.ts';
import type { Form } from '../form.ts';
import { type Html, html } from '../html.ts';
import { type Answer, redirect } from '../reply.ts';
import type { Route } from '../route.ts';
import type { FrontParts } from '../routes.ts';
import type { SignedIn } from '../sign-in.ts';
import {
  confirmed,
  copyHtml,
  doneHtml,
  formHtml,
  refusalHtml,
  selectField,
  textField,
  tickField,
} from './controls.ts';
import { consolePage, vaultsFor } from './layout.ts';
import type { PageCall, PageRoutes } from './page-route.ts';
import { listOf } from './service-words.ts';
import { pager, slice, table } from './table.ts';
import { timeHtml } from './time.ts';

/** `/agents`: who may use the vaults: agents by invite, and sessions. */
export function agentPageRoutes(front: FrontParts, { page, action }: PageRoutes): Route[] {
  async function show(
    call: PageCall,
    refused: { problem: Problem; form: Form } | null = null,
  ): Promise<Answer> {
    const { signedIn, query, api } = call;
    const [found, sessions, vaults] = await Promise.all([
      api('GET', '/v1/agents'),
      front.vault.ask('session.list', { vaults: vaultsOf(signedIn.identity) }),
      vaultsFor(front, signedIn),
    ]);
    if (!found.ok) return found.problem;
    const { agents } = found.value as { agents: readonly AgentView[] };
    const content = html`${doneHtml(query)}${refusalHtml(refused?.problem ?? null)}
<h2 class="hidden">All agents</h2>${agents.length === 0 ? noAgents : agentTable(signedIn, agents)}
<h2>Invite an agent</h2>${inviteForm(signedIn, vaults, refused?.form ?? null)}
<h2>Sessions</h2>${sessionsHtml(signedIn, sessions, query)}`;
    const status = refused ? statusOf(refused.problem.code) : 200;
    return consolePage(front, signedIn, { title: 'Agents', section: '/agents', content, status });
  }

  /** Shows a secret that is there once: it is in this answer and nowhere else, least of all in an address. */
  function once(signedIn: SignedIn, title: string, content: Html): Promise<Answer> {
    const back = html`<p class="actions"><a class="button primary" href="/agents">Done</a></p>`;
    return consolePage(front, signedIn, {
      title,
      section: '/agents',
      content: html`${content}${back}`,
      narrow: true,
    });
  }

  return [
    page('/agents', (call) => show(call)),

    action('/agents', async (call) => {
      const { signedIn, form, api } = call;
      const made = await api('POST', '/v1/agents/invites', { body: inviteOf(form) });
      if (!made.ok) return show(call, { problem: made.problem, form });
      const { invite_url, expires_at } = made.value as { invite_url: string; expires_at: string };
      return once(
        signedIn,
        'Invite made',
        html`<p>Have the agent run this, once. The answer is its own token, and where it reads how to go on.</p>
${copyHtml(`curl -X POST ${invite_url}`)}
<p>Whoever posts to this address first is the agent, so give it to nobody else. It is shown here only, and ends ${timeHtml(expires_at)}.</p>`,
      );
    }),

    action('/agents/{agent}/rotation', async ({ signedIn, params, form, api }) => {
      const body = { overlap_seconds: Number(form.get('overlap')) };
      const made = await api('POST', '/v1/agents/{agent}/rotate', { params, body });
      if (!made.ok) return made.problem;
      const { token } = made.value as { token: string };
      return once(
        signedIn,
        `New token for ${params.agent}`,
        html`<p>It is shown here only. Put it where the agent reads <code>BROKER_SESSION_TOKEN</code>.</p>${copyHtml(token)}`,
      );
    }),

    action('/agents/{agent}/removal', async ({ params, api }) => {
      const removed = await api('DELETE', '/v1/agents/{agent}', { params });
      return removed.ok ? redirect('/agents?done=agent-removed') : removed.problem;
    }),

    action('/sessions/{session}/end', async ({ params, api }) => {
      const ended = await api('DELETE', '/v1/sessions/{session}', { params });
      return ended.ok ? redirect('/agents?done=session-ended') : ended.problem;
    }),
  ];
}

const noAgents = html`<div class="empty"><p><strong>No agents yet.</strong> An agent joins by an invite: make one below, and hand it on. For a single run,
<code>broker vault run -- COMMAND</code> gives a session that ends with it.</p></div>`;

function agentTable(signedIn: SignedIn, agents: readonly AgentView[]): Html {
  return table(
    'Agents',
    { Agent: 4, Vaults: 5, Joined: 5, 'Token ends': 5, Change: 5 },
    agents.map(({ name, vaults, created_at, expires_at }) => [
      html`<strong>${name}</strong>`,
      listOf(vaults, 5),
      timeHtml(created_at),
      expires_at === null ? html`never` : timeHtml(expires_at),
      html`${confirmed(
        'New token',
        formHtml(
          signedIn,
          `/agents/${name}/rotation`,
          html`<div class="field"><label for="overlap-${name}">The old one ends</label><select id="overlap-${name}" name="overlap"><option value="0">at once</option><option value="3600">in an hour</option><option value="86400">in a day</option></select></div>
<button class="quiet">Make a new token</button>`,
        ),
      )}${confirmed('Remove', formHtml(signedIn, `/agents/${name}/removal`, html`<button class="danger quiet">Remove ${name}</button>`))}`,
    ]),
  );
}

const lives = [
  ['7776000', '90 days'],
  ['2592000', '30 days'],
  ['604800', '7 days'],
  ['86400', 'a day'],
  ['never', 'until it is removed'],
] as const;

function inviteForm(signedIn: SignedIn, vaults: readonly VaultView[], given: Form | null): Html {
  const ticks = vaults.map(({ name }) =>
    tickField(`vault.${name}`, name, given?.has(`vault.${name}`) ?? vaults.length === 1),
  );
  return formHtml(
    signedIn,
    '/agents',
    html`${textField({ name: 'name', label: 'Name', value: given?.get('name'), hint: 'Letters, digits, dots, hyphens. Empty: the agent names itself.' })}
<fieldset><legend>Vaults that it may use</legend>${ticks}</fieldset>
${selectField({ name: 'life', label: 'Its token is good for', value: given?.get('life') ?? '7776000' }, lives)}
<p class="actions"><button class="primary">Make an invite</button></p>`,
  );
}

/** As the API takes it. */
function inviteOf(form: Form): object {
  const name = form.get('name')?.trim();
  const life = form.get('life');
  return {
    ...(name && { name }),
    vaults: [...form.keys()]
      .filter((field) => field.startsWith('vault.'))
      .map((field) => field.slice('vault.'.length)),
    token_ttl_seconds: life === 'never' ? null : Number(life),
  };
}

function sessionsHtml(
  signedIn: SignedIn,
  sessions: readonly SessionView[],
  query: Readonly<Record<string, string>>,
): Html {
  const shown = slice([...sessions].reverse(), query.page);
  if (shown.total === 0) {
    return html`<div class="empty"><p><strong>No sessions.</strong> <code>broker vault run -- COMMAND</code> starts a program with a session of its own, which ends with it.</p></div>`;
  }
  const rows = shown.items.map(({ id, label, vault, created_at, created_by, expires_at }) => [
    label === null ? html`<code>${id}</code>` : html`<bdi>${label}</bdi><br><code class="muted">${id}</code>`,
    html`<a href="/vaults/${vault}">${vault}</a>`,
    html`${timeHtml(created_at)}<br><span class="muted">by ${created_by.replace(/^operator:/, '')}</span>`,
    timeHtml(expires_at),
    confirmed(
      'Revoke',
      html`<button class="danger quiet" formaction="/sessions/${id}/end">Revoke <span class="mono">${label ?? id}</span></button>`,
    ),
  ]);
  const sessionTable = table('Sessions', { Session: 6, Vault: 3, Since: 5, Ends: 5, Change: 5 }, rows);
  // One form around the table serves all of its rows.
  return html`${formHtml(signedIn, '/agents', sessionTable)}${pager(shown, '/agents', {})}`;
}
