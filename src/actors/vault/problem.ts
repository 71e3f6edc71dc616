/**
 * Every refusal that a client of the broker can see: its code, its HTTP status, and what it says to do when
 * the place that refuses has nothing better to say. One table, for the API and the proxy alike.
 */
export const problems = {
  invalid_request: {
    status: 400,
    message: 'The request is not valid. Mend the named field and send it again.',
  },
  invalid_json: { status: 400, message: 'The body is not valid JSON. Mend it and send it again.' },
  unresolved_credential: {
    status: 400,
    message: 'A credential key resolves to nothing. Add a credential slot for it, or use an existing key.',
  },
  unauthorized: {
    status: 401,
    message:
      'The token is missing, invalid or expired. Check BROKER_SESSION_TOKEN, or ask the operator for a new one.',
  },
  forbidden: { status: 403, message: 'This is not allowed.' },
  service_disabled: {
    status: 403,
    message: 'This host is configured but disabled. Tell the user; another proposal does not enable it.',
  },
  network_blocked: {
    status: 403,
    message:
      'The address of this host is refused by the network guard. The operator can allow it with --network-allow.',
  },
  tls_required: {
    status: 403,
    message: 'This vault injects credentials only over https://. Use an https:// URL.',
  },
  not_found: { status: 404, message: 'There is nothing here. Check the address.' },
  method_not_allowed: { status: 405, message: 'This method is not allowed here.' },
  proxy_auth_required: {
    status: 407,
    message:
      'Send Proxy-Authorization with a session token and a vault: use the proxy URL https://TOKEN:VAULT@HOST:PORT.',
  },
  request_timeout: { status: 408, message: 'The request took too long to arrive. Send it again.' },
  conflict: { status: 409, message: 'This conflicts with the present state. Look at it and try again.' },
  credential_exists: {
    status: 409,
    message: 'This key exists and was not added by you. Choose another key, or propose the change.',
  },
  credential_in_use: {
    status: 409,
    message: 'This credential is used by services. Remove them first, or force the deletion.',
  },
  confirmation_required: {
    status: 409,
    message: 'This widens what credentials reach. Look at the review, and confirm its fingerprint.',
  },
  already_decided: { status: 409, message: 'This proposal was decided already.' },
  gone: { status: 410, message: 'This was used or has expired. Ask for a new one.' },
  quota_exceeded: {
    status: 413,
    message: 'There is no room for more of this. Use what is there, or have the operator raise the quota.',
  },
  payload_too_large: { status: 413, message: 'The body is larger than 1 MiB. Send less.' },
  unsupported_media_type: { status: 415, message: 'Send Content-Type: application/json.' },
  expectation_failed: { status: 417, message: 'Only Expect: 100-continue is supported.' },
  misdirected_request: {
    status: 421,
    message:
      'The Host header names another host than this connection is for. Open a connection to that host.',
  },
  rate_limited: { status: 429, message: 'Too many requests. Wait as Retry-After says.' },
  too_many_pending_proposals: {
    status: 429,
    message: 'Too many proposals wait already. Wait until some are decided, or cancel your own.',
  },
  headers_too_large: {
    status: 431,
    message: 'The request head is too large. Send fewer or shorter headers.',
  },
  internal: { status: 500, message: 'The broker failed. Look at its log for this request id.' },
  credential_not_found: {
    status: 502,
    message: 'The service needs a credential that is missing. Tell the user which key has to be added.',
  },
  upstream_unreachable: { status: 502, message: 'The upstream host could not be reached. Try again later.' },
  upstream_tls: {
    status: 502,
    message: 'The TLS connection to the upstream host could not be verified; nothing was sent.',
  },
  upstream_protocol: {
    status: 502,
    message:
      'The upstream host broke the HTTP protocol; its answer was dropped. Whether it acted on the request is not known.',
  },
  substitution_error: {
    status: 502,
    message: 'A credential value cannot stand where this request puts it; nothing was sent. Tell the user.',
  },
  overloaded: { status: 503, message: 'The broker is busy. Try again shortly.' },
  audit_unavailable: {
    status: 503,
    message: 'The audit log cannot be written, so nothing is forwarded. The operator has to make room.',
  },
  store_unavailable: {
    status: 503,
    message:
      'The store cannot be written, so nothing was changed. Try again; the operator has to look at its disk.',
  },
  upstream_timeout: { status: 504, message: 'The upstream host did not answer in time.' },
  http_version: { status: 505, message: 'Only HTTP/1.0 and HTTP/1.1 are supported here.' },
} as const satisfies Record<string, { status: number; message: string }>;

export type ProblemCode = keyof typeof problems;

/** A refusal as a value: expected, answered to the client, never thrown. */
export interface Problem {
  readonly code: ProblemCode;
  /** What happened and what to do; free of secrets. */
  readonly message: string;
  /** Fields that stand beside `error`, `message` and `request_id` in the body, such as `field` or `key`. */
  readonly extra?: Readonly<Record<string, unknown>>;
  /** Whole seconds for `Retry-After`. */
  readonly retryAfterSeconds?: number;
}

export type Result<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problem: Problem };

/** Makes a problem; without `message` the table's own stands. */
export function problem(
  code: ProblemCode,
  message?: string,
  extra?: Readonly<Record<string, unknown>>,
  retryAfterSeconds?: number,
): Problem {
  return { code, message: message ?? problems[code].message, extra, retryAfterSeconds };
}

export function refuse<T>(
  code: ProblemCode,
  message?: string,
  extra?: Readonly<Record<string, unknown>>,
  retryAfterSeconds?: number,
): Result<T> {
  return { ok: false, problem: problem(code, message, extra, retryAfterSeconds) };
}

export function accept<T>(value: T): Result<T> {
  return { ok: true, value };
}

export function statusOf(code: ProblemCode): number {
  return problems[code].status;
}

/** The one body shape of every error: protocol, "Errors". */
export function problemBody(p: Problem, requestId: string): string {
  return JSON.stringify({ error: p.code, message: p.message, request_id: requestId, ...p.extra });
}
