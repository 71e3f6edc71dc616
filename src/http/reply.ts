import { type Problem, problemBody, type Result, statusOf } from '../actors/vault/problem.ts';

/** What goes back to a client. */
export interface Reply {
  readonly status: number;
  /** Names in lower case. Those of every reply are added later: see `finished`. */
  readonly headers: Readonly<Record<string, string>>;
  /** Text is sent as UTF-8; pieces as they come, as fast as the client takes them. */
  readonly body: string | Uint8Array | AsyncIterable<string | Uint8Array>;
  /** The connection can't be used for another request. */
  readonly close?: boolean;
}

/** A handler may refuse with a problem anywhere that it may reply. */
export type Answer = Reply | Problem;

export function isProblem(answer: Answer): answer is Problem {
  return 'code' in answer;
}

export function json(value: unknown, status = 200): Reply {
  return { status, headers: { 'content-type': 'application/json' }, body: JSON.stringify(value) };
}

export function text(body: string, type: string, headers?: Readonly<Record<string, string>>): Reply {
  return { status: 200, headers: { 'content-type': type, ...headers }, body };
}

/** A body of pieces, without an end that is known before. */
export function stream(body: AsyncIterable<string>, type: string): Reply {
  // The last one keeps a reverse proxy from collecting the pieces.
  return { status: 200, headers: { 'content-type': type, 'x-accel-buffering': 'no' }, body };
}

/** Goes on to a page by GET (RFC 9110 section 15.4.4). */
export function redirect(location: string, headers: Readonly<Record<string, string>> = {}): Reply {
  return { status: 303, headers: { ...headers, location }, body: '' };
}

export function noContent(): Reply {
  return { status: 204, headers: {}, body: '' };
}

/** The reply to a result of the vault: what `show` makes of its value, else its problem. Default: 200, as JSON. */
export function replyTo<T>(result: Result<T>, show: (value: T) => Answer = (value) => json(value)): Answer {
  return result.ok ? show(result.value) : result.problem;
}

/** An error reply (protocol, "Errors"), with the header that RFC 9110 asks for with its status. */
export function problemReply(problem: Problem, requestId: string): Reply {
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (problem.code === 'unauthorized') headers['www-authenticate'] = 'Bearer realm="broker"';
  if (problem.retryAfterSeconds !== undefined) headers['retry-after'] = String(problem.retryAfterSeconds);
  if (Array.isArray(problem.extra?.allow)) headers.allow = problem.extra.allow.join(', ');
  return { status: statusOf(problem.code), headers, body: problemBody(problem, requestId) };
}

/**
 * Headers of every reply. Nothing here is meant to be framed, cached, indexed, sniffed, or to load anything; the
 * pages that need more say so in their own `content-security-policy`.
 */
const always: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy':
    "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'x-robots-tag': 'noindex, nofollow',
};

/** A reply as it is sent. */
export function finished(reply: Reply, requestId: string, isTls: boolean): Reply {
  const headers: Record<string, string> = { ...always, ...reply.headers, 'x-request-id': requestId };
  // RFC 6797: to be said over TLS only.
  if (isTls) headers['strict-transport-security'] = 'max-age=31536000';
  return { ...reply, headers };
}
