import { type Authority, hostHeader } from '../actors/vault/authority.ts';
import { authTypes } from '../actors/vault/model.ts';
import { type Problem, problem } from '../actors/vault/problem.ts';
import { type FieldName, isReserved, role } from './fields.ts';
import type { Fields, RequestHead } from './head.ts';
import { maxHeadBytes } from './head.ts';
import { isFieldValue, isRenderedFrom, type Rendered, render } from './inject.ts';
import type { ServiceEntry, VaultEntry } from './lane-state.ts';
import { showsRequest } from './methods.ts';
import type { Substituted, Substituter } from './substitute.ts';
import type { Watch } from './watch.ts';

/** Where a request goes. The authority of the CONNECT, or of the absolute form, is the only target. */
export interface Target {
  readonly scheme: 'http' | 'https';
  readonly authority: Authority;
}

/** What is sent upstream for one request, decided in one step from one state. */
export interface Plan {
  /** Host pattern of the service that matched, or null: plain proxy traffic. */
  readonly service: string | null;
  /** Request line, Host, the client's own fields that pass, and the auth slot; latin1. Without the framing fields. */
  readonly head: string;
  /** Lower-case names of the auth slot: kept out of the trailers too. */
  readonly slots: ReadonlySet<string>;
  /** Names of the credentials that were put in, for the audit. */
  readonly keys: readonly string[];
  /** What the answer is looked through for; null: nothing is. */
  readonly watch: Watch | null;
}

export interface Refused {
  readonly refusal: Problem;
  readonly service: string | null;
}

/** Base URL of the API, and what of a server's setup a decision needs. */
export interface PlanOptions {
  readonly baseUrl: string;
}

const noSlots: ReadonlySet<string> = new Set();
const noKeys: readonly string[] = [];

/**
 * The refusals that need no look at the request's head: cleared vault, disabled service, policy, `require_tls`
 * (protocol, "Order of refusals"). null: goes on; the service, where one matched, is in `matched`.
 */
export function admit(
  vault: VaultEntry,
  target: Target,
  matched: ServiceEntry | undefined,
  options: PlanOptions,
): Problem | null {
  if (vault.cleared) return denied(target, options, 'All services of this vault were cleared');
  if (matched === undefined) {
    if (vault.settings.unmatched_host_policy !== 'deny') return null;
    return denied(target, options, `${target.authority.host} is not among the services of this vault`);
  }
  if (matched.service.enabled === false) {
    return problem(
      'service_disabled',
      `${matched.service.host} is configured but disabled. Tell the user; another proposal does not enable it.`,
    );
  }
  if (target.scheme === 'http' && vault.settings.require_tls && injects(matched)) {
    return problem('tls_required');
  }
  return null;
}

/** Whether a credential can be in a request to it: as a header, or in place of a placeholder. */
function injects({ service }: ServiceEntry): boolean {
  return service.auth.type !== 'passthrough' || (service.substitutions?.length ?? 0) > 0;
}

function denied(target: Target, options: PlanOptions, why: string): Problem {
  const endpoint = `POST ${options.baseUrl}/v1/proposals`;
  return problem('forbidden', `${why}. Create a proposal for it: ${endpoint}.`, {
    proposal_hint: {
      host: target.authority.host,
      port: target.authority.port,
      endpoint,
      supported_auth_types: authTypes,
    },
    help: `Propose access and wait for a human to allow it; how: ${options.baseUrl}/v1/skill.md`,
  });
}

/**
 * The service's injection under the vault's present credentials. It is made anew only when one of its own changed:
 * what answers are looked through for takes a lane up to a quarter of a second, and agents replace keys of theirs.
 */
function renderedOf(vault: VaultEntry, entry: ServiceEntry): Rendered {
  let { rendered } = entry;
  if (rendered !== null && entry.renderedVersion === vault.credentialVersion) return rendered;
  if (rendered === null || !isRenderedFrom(rendered, vault.credentials)) {
    rendered = render(entry.service, vault.credentials);
    entry.rendered = rendered;
  }
  entry.renderedVersion = vault.credentialVersion;
  return rendered;
}

/**
 * Decides what goes upstream (protocol, "Precedence in one request"): strips what is hop-by-hop or the
 * broker's own, substitutes in one pass, then sets the auth slot, so that a placeholder can't occupy it.
 * Pure: reads the vault and the head, touches nothing.
 *
 * @param path origin-form: path and query as the client wrote them
 */
export function plan(
  vault: VaultEntry,
  target: Target,
  matched: ServiceEntry | undefined,
  path: string,
  head: RequestHead,
): Plan | Refused {
  const hostLine = hostHeader(target.scheme, target.authority);
  if (matched === undefined) {
    const text = `${head.method} ${path} HTTP/1.1\r\nHost: ${hostLine}\r\n${passing(head, noSlots)}`;
    return { service: null, head: text, slots: noSlots, keys: noKeys, watch: null };
  }
  const service = matched.service.host;
  const rendered = renderedOf(vault, matched);
  if (rendered.problem !== null) return { refusal: rendered.problem, service };
  if (showsRequest(head.method) && injects(matched)) {
    return {
      refusal: problem('method_not_allowed', `${head.method} would show the credential; it is refused here.`),
      service,
    };
  }
  let keys = rendered.keys;
  let wirePath = path;
  let fields: string;
  const substituter = rendered.substituter;
  if (substituter === null) fields = passing(head, rendered.slots);
  else {
    const used = new Set(keys);
    const room = maxHeadBytes - rendered.lines.length;
    const done = substituteTarget(substituter, path, used, room);
    if (typeof done !== 'string') return { refusal: refusalOf(done, service), service };
    wirePath = done;
    const scanned = substituter.scansHeaders
      ? passingSubstituted(substituter, head, rendered.slots, used, room - done.length)
      : null;
    if (scanned !== null && typeof scanned !== 'string')
      return { refusal: refusalOf(scanned, service), service };
    fields = scanned ?? passing(head, rendered.slots);
    keys = [...used];
  }
  const text = `${head.method} ${wirePath} HTTP/1.1\r\nHost: ${hostLine}\r\n${fields}${rendered.lines}`;
  if (text.length > maxHeadBytes) return { refusal: tooLong(), service };
  return { service, head: text, slots: rendered.slots, keys, watch: rendered.watch };
}

/** Whether a client's field goes upstream as it is. Framing, Host and Expect are written anew by the exchange. */
function passes(name: FieldName, nominated: readonly string[] | null, slots: ReadonlySet<string>): boolean {
  if (name.role !== role.endToEnd && name.role !== role.authorization) return false;
  if (slots.size > 0 && slots.has(name.lower)) return false;
  if (nominated?.includes(name.lower)) return false;
  // `X_Api_Key` is `X-Api-Key` to a CGI-like server: neither a slot nor a framing field may be aliased.
  return name.alias === null || !(slots.has(name.alias) || isReserved(name.alias));
}

function passing(head: RequestHead, slots: ReadonlySet<string>): string {
  let text = '';
  for (let i = 0; i < head.names.length; i++) {
    const name = head.names[i];
    if (passes(name, head.nominated, slots)) text += `${name.name}: ${head.values[i]}\r\n`;
  }
  return text;
}

/** @param room characters that the head may still have */
function substituteTarget(
  substituter: Substituter,
  target: string,
  used: Set<string>,
  room: number,
): string | Substituted {
  const mark = target.indexOf('?');
  const rawPath = mark < 0 ? target : target.slice(0, mark);
  const path = substituter.path(rawPath, room);
  if (path !== null && 'failed' in path) return path;
  const query =
    mark < 0 ? null : substituter.query(target.slice(mark + 1), room - (path?.text ?? rawPath).length);
  if (query !== null && 'failed' in query) return query;
  for (const key of path?.keys ?? []) used.add(key);
  for (const key of query?.keys ?? []) used.add(key);
  return (path?.text ?? rawPath) + (mark < 0 ? '' : `?${query?.text ?? target.slice(mark + 1)}`);
}

/** The passing fields, each value scanned for placeholders. */
function passingSubstituted(
  substituter: Substituter,
  head: RequestHead,
  slots: ReadonlySet<string>,
  used: Set<string>,
  room: number,
): string | Substituted {
  let text = '';
  for (let i = 0; i < head.names.length; i++) {
    const name = head.names[i];
    if (!passes(name, head.nominated, slots)) continue;
    const done = substituter.header(name.lower, head.values[i], room - text.length);
    if (done !== null && 'failed' in done) return done;
    if (done !== null) {
      if (!isFieldValue(done.text)) return { failed: 'illegal', key: done.keys[0] };
      for (const key of done.keys) used.add(key);
    }
    text += `${name.name}: ${done?.text ?? head.values[i]}\r\n`;
  }
  return text;
}

function tooLong(): Problem {
  return problem(
    'substitution_error',
    'With its credentials the request head is over 64 KiB; nothing was sent.',
  );
}

function refusalOf(failure: Substituted, service: string): Problem {
  if (!('failed' in failure)) return problem('internal');
  const { key } = failure;
  if (failure.failed === 'size') return tooLong();
  if (failure.failed !== 'illegal') {
    return problem(
      'credential_not_found',
      `The credential ${key} of the service for ${service} is ${failure.failed}. Tell the user that ${key} has to be added.`,
      { key },
    );
  }
  return problem(
    'substitution_error',
    `The value of ${key} cannot stand where this request puts it; nothing was sent. Tell the user.`,
  );
}

/**
 * Trailer fields that may go on (protocol, "Trailers"): not what frames, routes or authenticates, in either
 * direction, nor what the head's Connection field nominates (RFC 9110 7.6.1). For a response `slots` holds
 * what only the broker says.
 */
export function passingTrailers(
  trailers: Fields,
  nominated: readonly string[] | null,
  slots: ReadonlySet<string>,
): string {
  let text = '';
  for (let i = 0; i < trailers.names.length; i++) {
    const name = trailers.names[i];
    if (name.role === role.endToEnd && passes(name, nominated, slots))
      text += `${name.name}: ${trailers.values[i]}\r\n`;
  }
  return text;
}
