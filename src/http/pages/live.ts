import { administers, foreignVault, vaultsOf } from '../caller.ts';
import { type Channel, createChannel } from '../channel.ts';
import { type Answer, json, stream } from '../reply.ts';
import { type Call, type Route, route } from '../route.ts';
import type { FrontParts } from '../routes.ts';
import { parseQuery } from '../validate.ts';
import { panelUpdates } from './figures.ts';
import { newestRequests } from './newest-requests.ts';
import { cellsOf, isWanted, type RequestRecord, requestOf } from './request-record.ts';

/** UTF-16 units. */
const maxBehind = 256 * 1024;
const beatMs = 5000;

/** What the script of our pages asks for, beside the API: server-sent events, and a list of numbers. */
export function liveRoutes({ vault, held, clock, history, audit }: FrontParts): Route[] {
  const asked = { auth: 'operator', vault: 'none' } as const;
  type LiveCall = Call<'operator', 'none'>;

  /** A stream that `begin` feeds until one of both sides has enough; `beat` is called all few seconds. */
  function events(
    call: LiveCall,
    begin: (channel: Channel) => () => void,
    beat: (channel: Channel) => void,
  ): Answer {
    const holding = held.hold(call);
    if (!holding.ok) return holding.problem;
    const { over, release } = holding.value;
    const channel = createChannel(maxBehind);
    channel.push('retry: 3000\n\n');
    const stop = begin(channel);
    let cancelTimer = clock.setTimer(beatMs, function again() {
      beat(channel);
      cancelTimer = clock.setTimer(beatMs, again);
    });
    function end(): void {
      channel.end();
      cancelTimer();
      stop();
      release();
    }
    over.addEventListener('abort', end, { once: true });
    if (over.aborted) end();
    return stream(channel, 'text/event-stream');
  }

  return [
    route('GET', '/live/proposals', asked, async ({ identity }) => {
      const found = await vault.ask('proposal.list', { vaults: vaultsOf(identity), status: 'pending' });
      return found.ok ? json({ pending: found.value.proposals.map(({ id }) => id) }) : found.problem;
    }),

    route('GET', '/live/requests', asked, (call) => {
      const query = parseQuery(call.incoming.query);
      if (!query.ok) return query.problem;
      const { vault: name, host, outcome } = query.value;
      const { identity } = call;
      if (name !== undefined && !administers(identity, name)) return foreignVault();
      const filter = { vault: name, host, outcome };
      const follow = (channel: Channel) => {
        const push = (record: RequestRecord) =>
          channel.push(`event: request\ndata: ${JSON.stringify(cellsOf(record))}\n\n`);
        // First all that is there: since the page was made there may be more. Reading begins in the turn in which
        // following does, so no record is between the two, and none is in both.
        let waiting: RequestRecord[] | null = [];
        const stop = audit.follow({ vault: name }, (line) => {
          const record = requestOf(line);
          if (!record || !isWanted(record, filter, identity)) return;
          if (waiting === null) push(record);
          else waiting.push(record);
        });
        newestRequests(audit, filter, identity).then(
          (found) => {
            channel.push(`event: requests\ndata: ${JSON.stringify(found.map(cellsOf))}\n\n`);
            for (const record of waiting ?? []) push(record);
            waiting = null;
          },
          () => channel.end(),
        );
        return stop;
      };
      return events(call, follow, (channel) => channel.push(': still here\n\n'));
    }),

    route('GET', '/live/stats', asked, (call) =>
      events(
        call,
        () => () => {},
        (channel) =>
          channel.push(`event: stats\ndata: ${JSON.stringify(panelUpdates(history.minutes()))}\n\n`),
      ),
    ),
  ];
}
