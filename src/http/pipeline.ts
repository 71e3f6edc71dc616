import { randomBytes } from 'node:crypto';
import { problem, type Result, refuse } from '../actors/vault/problem.ts';
import type { By } from '../actors/vault/protocol.ts';
import { createApiRate } from './api-rate.ts';
import type { Browser } from './browser.ts';
import { actorOf, type Caller, identify, labelOf, operatorByCookie, selectVault } from './caller.ts';
import { failureFields, failureProblem } from './failure.ts';
import type { FrontOptions } from './front-options.ts';
import { createGuard, type Failed } from './guard.ts';
import { createHostCheck, framingProblem, type Incoming, maxBody, readBody } from './incoming.ts';
import { parseJson } from './json.ts';
import { type Answer, finished, isProblem, problemReply, type Reply } from './reply.ts';
import type { Call, Route } from './route.ts';
import { createRouter, type Match } from './router.ts';
import { asksForWorker, noWorker } from './service-worker.ts';
import { parseQuery } from './validate.ts';

/**
 * Turns requests into replies. What can be refused is looked at in this order: framing, `Host`, path, method, token,
 * forgery, role, vault, query, body; the rest is the handler's. It never rejects: what nobody foresaw is `internal`, and logged.
 */
export function createPipeline(
  options: FrontOptions,
  routes: readonly Route[],
  browser: Browser,
): (incoming: Incoming) => Promise<Reply> {
  const match = createRouter(routes);
  const isOurHost = createHostCheck(options.address.hostNames);
  const guard = createGuard(options);
  const rate = createApiRate(options.apiRate, options.clock);
  const nextId = createIds();

  async function answer(incoming: Incoming, requestId: string): Promise<Answer> {
    const unclear = framingProblem(incoming);
    if (unclear) return { ...problemReply(unclear, requestId), close: true };
    if (!isOurHost(incoming)) return problem('misdirected_request', otherHost);
    if (asksForWorker(incoming)) return noWorker;
    const found = match(incoming.method, incoming.path);
    if ('code' in found) return found;
    // The route's path, not the request's, which may hold a token.
    const { path } = found.route;
    try {
      const failed = guard(incoming.peer, requestId, path);
      const call = await accept(incoming, found, requestId, failed);
      return call.ok ? await found.route.handle(call.value) : call.problem;
    } catch (error) {
      const failure = failureProblem(error);
      if (failure.code === 'internal') {
        const fields = { request_id: requestId, route: path, ...failureFields(error) };
        options.log('error', 'A request could not be handled.', fields);
      }
      return failure;
    }
  }

  /** All that a route asks for before its handler is called. */
  async function accept(
    incoming: Incoming,
    { route, params }: Match,
    requestId: string,
    failed: Failed,
  ): Promise<Result<Call>> {
    let caller: Caller | null = null;
    if (route.auth !== 'none') {
      const known = await identify({ vault: options.vault, browser }, incoming, failed);
      if (!known.ok) return known;
      caller = known.value;
      const often = rate.ofCaller(caller.identity);
      if (often) return { ok: false, problem: often };
      if (caller.byCookie && !isRead(incoming)) return refuse('forbidden', cookieAlone);
    } else if (!route.unlimited) {
      const often = rate.ofAddress(incoming.peer);
      if (often && !(await isOperators(incoming))) return { ok: false, problem: often };
    }
    const allowed = checkRole(route, caller);
    if (!allowed.ok) return allowed;
    const vault = chooseVault(route, incoming, params, caller);
    if (!vault.ok) return vault;
    const query = checkQuery(route, incoming);
    if (!query.ok) return query;
    const body = await checkBody(route, incoming);
    if (!body.ok) return body;
    const call = {
      incoming,
      params,
      identity: caller?.identity ?? null,
      tokenHash: caller?.hash ?? '',
      vault: vault.value,
      query: query.value,
      body: body.value,
      by: byOf(caller, requestId),
      failed,
    };
    // Of the very types that this route's options stand for; `Route` has forgotten which these are.
    return { ok: true, value: call as Call };
  }

  /** An address that asks too often may be an agent's beside its operator: whose browser is signed in goes on. */
  async function isOperators(incoming: Incoming): Promise<boolean> {
    const operator = await operatorByCookie({ vault: options.vault, browser }, incoming);
    return operator !== null && rate.ofCaller(operator.identity) === null;
  }

  return async (incoming) => {
    const requestId = nextId();
    const given = await answer(incoming, requestId);
    const reply = isProblem(given) ? problemReply(given, requestId) : given;
    return finished(reply, requestId, options.address.tls !== null);
  };
}

/** All that a cookie is good for here: whoever listens on another port of this host has it, too. */
function isRead({ method }: Incoming): boolean {
  return method === 'GET' || method === 'HEAD';
}

const cookieAlone =
  'A cookie changes nothing here: it may be in other hands. Use the pages of the console, or send an operator token as Authorization: Bearer.';
const otherHost =
  'The Host header names another host than this broker has. Use the address that you were given, or have the operator add the name with --public-url.';

/** Ids that no other start of the broker gives, cheap enough to give one to every request. */
function createIds(): () => string {
  const prefix = `${randomBytes(5).toString('hex')}a-`;
  let last = 0;
  return () => prefix + (++last).toString(36);
}

function byOf(caller: Caller | null, request_id: string): By {
  if (caller === null) return { actor: 'anonymous', label: null, request_id };
  const { identity } = caller;
  const by = { actor: actorOf(identity), label: labelOf(identity), request_id };
  return identity.kind === 'agent' ? { ...by, agent: identity.agent } : by;
}

function checkRole({ auth }: Route, caller: Caller | null): Result<null> {
  const isOperator = caller?.identity.kind === 'operator';
  if (auth === 'operator' && !isOperator) return refuse('forbidden', 'Only an operator may do this.');
  if (auth === 'agent' && isOperator) {
    return refuse('forbidden', 'Only an agent may do this: an operator changes the vault itself.');
  }
  return { ok: true, value: null };
}

function chooseVault(
  { vault }: Route,
  incoming: Incoming,
  params: Match['params'],
  caller: Caller | null,
): Result<string | null> {
  if (vault === 'none' || caller === null) return { ok: true, value: null };
  const { identity } = caller;
  if (vault === 'path') return selectVault(identity, [params.vault], true);
  const isRequired = vault === 'header' || (vault === 'header-of-agents' && identity.kind !== 'operator');
  return selectVault(identity, incoming.values('x-vault'), isRequired);
}

function checkQuery({ query }: Route, incoming: Incoming): Result<unknown> {
  if (!query) return { ok: true, value: undefined };
  const parsed = parseQuery(incoming.query);
  return parsed.ok ? query.check(parsed.value) : parsed;
}

async function checkBody({ body, bodyLimit = maxBody }: Route, incoming: Incoming): Promise<Result<unknown>> {
  if (!body) return { ok: true, value: undefined };
  const bytes = await readBody(incoming, bodyLimit);
  if (!bytes.ok) return bytes;
  if (bytes.value.length === 0) return body.check({});
  const parsed = parseJson(bytes.value);
  return parsed.ok ? body.check(parsed.value) : parsed;
}
