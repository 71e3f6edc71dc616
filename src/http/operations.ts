import type { ProblemCode } from '../actors/vault/problem.ts';
import * as answers from './answer-schemas.ts';
import type { Schema } from './model-schemas.ts';
import { operatorOperations } from './operator-operations.ts';

/** What a route is for and what it gives, where its checks don't say it already. */
export interface Operation {
  readonly about: string;
  /** A success by its status: the schema of its JSON, the media type of what isn't JSON, or null for no body. */
  readonly answers: Readonly<Record<number, Schema | string | null>>;
  /** Refusals beside those that follow from who may call the route and from what it takes. */
  readonly refusals?: readonly ProblemCode[];
  /** Headers of its successes, with what they say: those that are always there, and others. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly sometimes?: Readonly<Record<string, string>>;
}

/** Each by the method and path of its route. A test holds the two together. */
export type Operations = Readonly<Record<string, Operation>>;

export const operations: Operations = {
  ...operatorOperations,

  'GET /health': { about: 'Whether the process answers.', answers: { 200: answers.status } },
  'GET /ready': {
    about: 'Whether every proxy thread serves, and the broker is not stopping.',
    answers: { 200: answers.status },
  },
  'GET /metrics': { about: 'Metrics for Prometheus.', answers: { 200: 'text/plain' } },
  'GET /v1/ca.pem': {
    about: "The broker's root certificate, which clients of the proxy have to trust.",
    answers: { 200: 'application/x-pem-file' },
    headers: { 'X-Broker-Proxy-Port': 'Port of the proxy.' },
    sometimes: { 'X-Broker-CA-Switches-At': 'When the next root, which stands second, begins to sign.' },
  },
  'GET /v1/openapi.json': { about: 'This description.', answers: { 200: { type: 'object' } } },
  'GET /v1/skill.md': {
    about: 'What an agent has to know, to be read by it.',
    answers: { 200: 'text/markdown' },
  },

  'GET /discover': {
    about: 'What a vault offers: hosts and credential keys, never a value.',
    answers: { 200: answers.discovery },
  },
  'POST /v1/prove': {
    about:
      'Proof that this broker knows a token, without the token: HMAC-SHA256 by the SHA-256 of the token, over the lines `broker server proof v1`, nonce, host, port, address. `token` is the first 16 hex digits of that SHA-256.',
    answers: { 200: answers.proof },
    refusals: ['misdirected_request', 'unauthorized', 'rate_limited'],
  },

  'POST /v1/explain': {
    about:
      'What would be done with a request: which service matches, what would be injected, or why not. Nothing is sent.',
    answers: { 200: answers.explanation },
  },

  'POST /v1/proposals': {
    about: 'Ask a human for services and credentials.',
    answers: { 201: answers.proposalCreated },
    refusals: ['unresolved_credential', 'too_many_pending_proposals', 'quota_exceeded'],
  },
  'GET /v1/proposals': {
    about: "An agent's own proposals; an operator's, those of the vaults that they administer.",
    answers: { 200: answers.proposals },
  },
  'GET /v1/proposals/{id}': {
    about: 'A proposal. With `wait` the answer is held until it is decided or the seconds have passed.',
    answers: { 200: answers.proposal },
    refusals: ['rate_limited'],
  },
  'DELETE /v1/proposals/{id}': {
    about: 'Withdraw a proposal of one’s own.',
    answers: { 200: answers.proposal },
    refusals: ['already_decided'],
  },
  'POST /v1/proposals/{id}/approve': {
    about:
      'Apply a proposal, with a value for each slot, and the fingerprint of its review where that has increases that no value ticks. Again: the same answer, and nothing is applied twice.',
    answers: { 200: answers.applied },
    refusals: [
      'already_decided',
      'confirmation_required',
      'credential_in_use',
      'unresolved_credential',
      'quota_exceeded',
    ],
  },
  'POST /v1/proposals/{id}/reject': {
    about: 'Reject a proposal; the reason is for the agent.',
    answers: { 200: answers.rejected },
    refusals: ['already_decided'],
  },
  'GET /approve/{id}': {
    about: 'The page that the approval link shows to a human.',
    answers: { 200: 'text/html' },
    refusals: ['gone', 'rate_limited'],
  },

  'GET /v1/credentials': {
    about: 'Keys of the credentials in a vault.',
    answers: { 200: answers.credentialKeys },
  },
  'POST /v1/credentials': {
    about: 'Set credentials, all or none. An agent adds keys, and replaces those that it added itself.',
    answers: { 200: answers.credentialsSet },
    refusals: ['credential_exists', 'confirmation_required', 'quota_exceeded'],
  },
  'DELETE /v1/credentials/{key}': {
    about: 'Delete a credential; while services use it, only with `force`.',
    answers: { 204: null },
    refusals: ['credential_in_use'],
  },

  'GET /v1/vaults': { about: 'The vaults that the operator administers.', answers: { 200: answers.vaults } },
  'POST /v1/vaults': { about: 'Create a vault.', answers: { 201: answers.vault }, refusals: ['conflict'] },
  'GET /v1/vaults/{vault}': { about: 'A vault and its settings.', answers: { 200: answers.vault } },
  'PATCH /v1/vaults/{vault}': { about: 'Change settings of a vault.', answers: { 200: answers.vault } },
  'DELETE /v1/vaults/{vault}': {
    about: 'Delete a vault and all that is in it; `confirm` repeats its name.',
    answers: { 204: null },
    refusals: ['conflict'],
  },

  'GET /v1/vaults/{vault}/services': {
    about: 'All services of a vault.',
    answers: { 200: answers.services },
  },
  'PUT /v1/vaults/{vault}/services': {
    about: 'Replace all services of a vault by these.',
    answers: { 200: answers.services },
    refusals: ['unresolved_credential'],
  },
  'POST /v1/vaults/{vault}/services': {
    about: 'Set services by their host, beside those that are there.',
    answers: { 200: answers.services },
    refusals: ['unresolved_credential'],
  },
  'DELETE /v1/vaults/{vault}/services': {
    about: 'Remove all services. Until one is set again, every request through the vault is refused.',
    answers: { 204: null },
  },
  'PATCH /v1/vaults/{vault}/services/{host}': {
    about: 'Enable or disable a service.',
    answers: { 200: answers.service },
  },
  'DELETE /v1/vaults/{vault}/services/{host}': { about: 'Remove a service.', answers: { 204: null } },

  'POST /v1/sessions': {
    about: 'A session of one vault, for an agent.',
    answers: { 201: answers.sessionCreated },
    refusals: ['not_found'],
  },
  'GET /v1/sessions': { about: 'The sessions that are valid.', answers: { 200: answers.sessions } },
  'DELETE /v1/sessions/{session}': {
    about: 'End a session, with its open tunnels and streams.',
    answers: { 204: null },
  },

  'POST /v1/agents/invites': {
    about: 'Invite an agent. Whoever posts to the address first is the agent.',
    answers: { 201: answers.invite },
    refusals: ['conflict', 'not_found'],
  },
  'GET /v1/agents': { about: 'The agents.', answers: { 200: answers.agents } },
  'DELETE /v1/agents/{agent}': { about: 'Remove an agent; its token ends at once.', answers: { 204: null } },
  'POST /v1/agents/{agent}/rotate': {
    about: 'A new token for an agent; the old one ends after `overlap_seconds`.',
    answers: { 200: answers.rotated },
  },
  'POST /invite/{token}': {
    about: 'Become the agent that an invite is for. It can be used once.',
    answers: { 201: answers.joined },
    refusals: ['conflict', 'gone', 'rate_limited'],
  },

  'GET /v1/audit': {
    about: 'Records of the audit log, one JSON object a line, newest last.',
    answers: { 200: 'application/x-ndjson' },
  },
  'POST /v1/audit/verify': {
    about: 'Check the whole audit log, and say from where to where records are missing. Owners only.',
    answers: { 200: answers.auditVerdict },
  },
  'GET /v1/events': {
    about: 'What happens, as it happens: server-sent events. An agent hears of its own proposals.',
    answers: { 200: 'text/event-stream' },
    refusals: ['rate_limited'],
  },
};
