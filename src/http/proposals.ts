import { setImmediate as nextTurn } from 'node:timers/promises';
import { problem, type Result } from '../actors/vault/problem.ts';
import type { ProposalView } from '../actors/vault/protocol.ts';
import type { Review } from '../actors/vault/review-rules.ts';
import { administers, vaultsOf } from './caller.ts';
import { risksOf } from './pages/risks.ts';
import { surroundingsOf } from './pages/surroundings.ts';
import { type Answer, json, replyTo, stream } from './reply.ts';
import { type Call, type Route, route } from './route.ts';
import type { FrontParts } from './routes.ts';
import { proposalBody, statusQuery, waitQuery } from './schemas.ts';
import { createUnderWay } from './under-way.ts';
import { wordsText } from './words.ts';

/** A list is written in pieces of about this many characters; one that is no longer is sent whole. */
const pieceLength = 64 * 1024;
/** Longer lists that one caller is sent at a time. */
const maxLists = 4;
const tooManyLists = `You are being sent ${maxLists} lists already. Read them to their end first, or ask for one status.`;

type AnyCall = Call<'any', 'header-of-agents'>;

/** What an agent does with proposals, and what everyone looks at. */
export function proposalRoutes(front: FrontParts): Route[] {
  const { vault, baseUrl } = front;
  /** Long lists that are being sent, by their caller. */
  const lists = createUnderWay();

  /** A proposal of the caller's vault, or of a vault that the operator administers. */
  async function look({ params, identity, vault: name }: AnyCall): Promise<Result<ProposalView>> {
    const found = await vault.ask('proposal.get', {
      id: Number(params.id),
      vault: name ?? undefined,
      reviewed: identity.kind === 'operator',
    });
    const isForeign = found.ok && identity.kind === 'operator' && !administers(identity, found.value.vault);
    if (isForeign) return { ok: false, problem: noProposal() };
    return found.ok && found.value.review ? withRisks(found.value, found.value.review) : found;
  }

  /** With what the approval page says to look at twice. */
  async function withRisks(view: ProposalView, review: Review): Promise<Result<ProposalView>> {
    const [shown, around] = await Promise.all([
      vault.ask('proposal.review', { id: view.id, approvalHash: null }),
      surroundingsOf(vault, view.vault),
    ]);
    if (!shown.ok) return shown;
    if (!around.ok) return around;
    const risks = risksOf(shown.value, around.value).map(({ kind, grave, words }) => ({
      kind,
      grave,
      text: wordsText(words),
    }));
    const reviewed = { ...view, review: { ...review, risks } };
    return { ok: true, value: reviewed };
  }

  /** Looks again when the proposal is decided, or the seconds are over, or the request has to end. */
  async function lookWhenDecided(call: AnyCall, seconds: number): Promise<Answer> {
    const held = front.held.hold(call);
    if (!held.ok) return held.problem;
    const { over, release } = held.value;
    const change = untilDecided(front, Number(call.params.id), seconds, over);
    try {
      // Listening has begun: a decision from here on isn't missed.
      const first = await look(call);
      if (!first.ok || first.value.status !== 'pending') return replyTo(first);
      await change.happened;
      return over.reason === 'revoked' ? problem('unauthorized') : replyTo(await look(call));
    } finally {
      change.forget();
      release();
    }
  }

  return [
    route(
      'POST',
      '/v1/proposals',
      { auth: 'agent', vault: 'header', body: proposalBody },
      async ({ vault: name, body, by }) =>
        replyTo(await vault.ask('proposal.create', { vault: name, body, by }), (made) => {
          const { id, status, expires_at } = made.proposal;
          const approval_url = `${baseUrl}/approve/${id}?token=${made.approvalToken.reveal()}`;
          const message = `Ask the user to review this proposal and to approve it: ${approval_url}`;
          return json({ id, status, vault: name, approval_url, message, expires_at }, 201);
        }),
    ),

    route(
      'GET',
      '/v1/proposals',
      { auth: 'any', vault: 'header-of-agents', query: statusQuery },
      async ({ identity, vault: name, query, by, incoming }) => {
        const own =
          identity.kind === 'operator' ? { vaults: vaultsOf(identity), reviewed: true } : { own: by };
        const found = await vault.ask('proposal.list', {
          vault: name ?? undefined,
          status: query.status,
          ...own,
        });
        return replyTo(found, ({ proposals }) => {
          const pieces = listed(proposals);
          const { value, done } = pieces.next();
          if (done) return { ...json(null), body: value };
          if (lists.of(by.actor) >= maxLists) return problem('rate_limited', tooManyLists, undefined, 1);
          lists.add(by.actor, 1, incoming.over);
          return stream(inTurns(value, pieces), 'application/json');
        });
      },
    ),

    route(
      'GET',
      '/v1/proposals/{id}',
      { auth: 'any', vault: 'header-of-agents', query: waitQuery },
      async (call) => {
        const { wait } = call.query;
        return wait === undefined ? replyTo(await look(call)) : lookWhenDecided(call, wait);
      },
    ),

    route(
      'DELETE',
      '/v1/proposals/{id}',
      { auth: 'agent', vault: 'header' },
      async ({ params, vault: name, by }) =>
        replyTo(await vault.ask('proposal.cancel', { id: Number(params.id), vault: name, by })),
    ),
  ];
}

/** The list as JSON, each piece made when it is asked for; the last one is returned. */
function* listed(proposals: readonly ProposalView[]): Generator<string, string> {
  let piece = '{"proposals":[';
  for (const [i, proposal] of proposals.entries()) {
    piece += (i === 0 ? '' : ',') + JSON.stringify(proposal);
    if (piece.length < pieceLength) continue;
    yield piece;
    piece = '';
  }
  return `${piece}]}`;
}

/** One piece a turn: others come between. */
async function* inTurns(first: string, pieces: Generator<string, string>): AsyncGenerator<string> {
  yield first;
  for (;;) {
    await nextTurn();
    const { value, done } = pieces.next();
    yield value;
    if (done) return;
  }
}

export function noProposal() {
  return problem('not_found', 'There is no such proposal. Check its number.');
}

/** Resolves with the first event that ends a proposal's being pending, after `seconds`, or when it is over. */
function untilDecided(front: FrontParts, id: number, seconds: number, over: AbortSignal) {
  const { promise, resolve } = Promise.withResolvers<void>();
  const cancelTimer = front.clock.setTimer(seconds * 1000, resolve);
  const unsubscribe = front.events.subscribe(({ type, data }) => {
    if (data.id === id && type.startsWith('proposal.') && type !== 'proposal.created') resolve();
  });
  over.addEventListener('abort', () => resolve(), { once: true });
  if (over.aborted) resolve();
  return {
    happened: promise,
    forget() {
      cancelTimer();
      unsubscribe();
    },
  };
}
