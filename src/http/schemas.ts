import { isFields } from '../actors/vault/fields.ts';
import {
  type ProposalStatus,
  proposalStatuses,
  type ServiceInput,
  type VaultSettings,
} from '../actors/vault/model.ts';
import type { Problem, Result } from '../actors/vault/problem.ts';
import { checkProposal } from '../actors/vault/proposal-rules.ts';
import type { ProposalBody } from '../actors/vault/protocol.ts';
import { Secret } from '../actors/vault/secret.ts';
import { checkServices } from '../actors/vault/service-rules.ts';
import { type ProofQuestion, tokenNameLength } from '../actors/vault/token-proof.ts';
import {
  credentialKey,
  credentialValues,
  list,
  object,
  proposalInput,
  type Schema,
  service,
  serviceInput,
  text,
  vaultSettings,
} from './model-schemas.ts';
import { bodyCheck, queryCheck, ruledCheck } from './validate.ts';

/*
 * The shapes of what comes in: what is checked first, and what the API's description shows. What a name, a host or a
 * duration may be is for the vault's rules, which are the same wherever such a thing comes from.
 */

const string: Schema = { type: 'string' };
const seconds: Schema = { type: 'integer', minimum: 0 };
const vaultName = described('1 to 64 of a-z, 0-9 and hyphen.');
const agentName = described('1 to 64 letters, digits, dots, hyphens and underscores.');

function described(description: string): Schema {
  return { type: 'string', description };
}

type Values = Readonly<Record<string, string>>;

/** From here on a value can't be printed by accident. */
function wrap(values: Values = {}): Map<string, Secret> {
  return new Map(Object.entries(values).map(([key, value]) => [key, new Secret(value)]));
}

export const credentialsBody = bodyCheck(
  object({ credentials: credentialValues }, ['credentials']),
  ({ credentials }: { credentials: Values }) => ({ values: wrap(credentials) }),
);

export const approveBody = bodyCheck(
  object({
    credentials: credentialValues,
    confirm: {
      type: 'string',
      maxLength: 200,
      description: 'The fingerprint of the review that was looked at: each of its increases is meant.',
    },
    confirm_existing: {
      ...list(credentialKey),
      description: 'Accepted from clients of before; of no effect.',
    },
  }),
  ({
    credentials,
    confirm = null,
  }: {
    credentials?: Values;
    confirm?: string | null;
    confirm_existing?: readonly string[];
  }) => ({ credentials: wrap(credentials), confirm }),
);

export const rejectBody = bodyCheck<{ reason?: string }>(object({ reason: text(2000) }));

const problemOf = <T>(result: Result<T>): Problem | null => (result.ok ? null : result.problem);

export const proposalBody = ruledCheck<ProposalBody>(proposalInput, (body) => problemOf(checkProposal(body)));

/** Services that are all there are to be. */
export const allServicesBody = servicesCheck(service, true);

/** Services that are set beside those that are there. */
export const servicesBody = servicesCheck(serviceInput, false);

function servicesCheck(item: Schema, requireAuth: boolean) {
  return ruledCheck<{ services: readonly ServiceInput[] }>(
    object({ services: list(item) }, ['services']),
    (body) =>
      isFields(body) && Array.isArray(body.services)
        ? problemOf(checkServices(body.services, 'services', { requireAuth }))
        : null,
  );
}

export const servicePatchBody = bodyCheck<{ enabled: boolean }>(
  object({ enabled: { type: 'boolean' } }, ['enabled']),
);

export const newVaultBody = bodyCheck<{ name: string }>(object({ name: vaultName }, ['name']));

export const vaultPatchBody = bodyCheck<Partial<VaultSettings>>(object(vaultSettings));

export const sessionBody = bodyCheck<{ vault: string; ttl_seconds?: number; label?: string }>(
  object(
    {
      vault: vaultName,
      ttl_seconds: { ...seconds, description: '60 to 604800; 86400 where absent.' },
      label: text(200),
    },
    ['vault'],
  ),
);

export const inviteBody = bodyCheck<{
  name?: string;
  vaults: readonly string[];
  ttl_seconds?: number;
  token_ttl_seconds?: number | 'never' | null;
}>(
  object(
    {
      name: agentName,
      vaults: list(vaultName),
      ttl_seconds: { ...seconds, description: 'Of the invite: 1 to 2592000; 604800 where absent.' },
      token_ttl_seconds: {
        anyOf: [seconds, { type: 'string', const: 'never' }, { type: 'null' }],
        description: "Of the agent's token; never, or null: it does not end; 7776000 where absent.",
      },
    },
    ['vaults'],
  ),
);

export const rotateBody = bodyCheck<{ overlap_seconds?: number }>(
  object({
    overlap_seconds: {
      ...seconds,
      description: 'How long the old token stays valid, 604800 at most; 0 where absent.',
    },
  }),
);

export const redeemBody = bodyCheck<{ name?: string }>(object({ name: agentName }));

export const explainBody = bodyCheck<{ method?: string; url: string }>(
  object({ method: { ...string, maxLength: 64 }, url: { ...string, maxLength: 8192 } }, ['url']),
);

export const proofBody = bodyCheck<ProofQuestion>(
  object(
    {
      token: { ...string, pattern: `^[0-9a-f]{${tokenNameLength}}$` },
      nonce: { ...string, pattern: '^[0-9a-f]{64}$' },
      host: { ...string, maxLength: 255 },
      port: { type: 'integer', minimum: 1, maximum: 65_535 },
      address: { ...string, maxLength: 64 },
    },
    ['token', 'nonce', 'host', 'port', 'address'],
  ),
);

export const waitQuery = queryCheck<{ wait?: number }>(
  object({ wait: { type: 'integer', minimum: 1, maximum: 60 } }),
);

export const statusQuery = queryCheck<{ status?: ProposalStatus }>(
  object({ status: { type: 'string', enum: proposalStatuses } }),
);

export const forceQuery = queryCheck<{ force?: boolean }>(object({ force: { type: 'boolean' } }));

export const askQuery = queryCheck<{ ask?: boolean }>(
  object({
    ask: {
      type: 'boolean',
      description:
        'Of operators: refuse with `confirmation_required` where a value would take the place of one that an agent gave and services send somewhere.',
    },
  }),
);

export const confirmQuery = queryCheck<{ confirm?: string }>(object({ confirm: string }));

export const auditQuery = queryCheck<{
  vault?: string;
  since?: string;
  until?: string;
  limit?: number;
  newest?: 'first' | 'last';
  follow?: boolean;
}>(
  object({
    vault: vaultName,
    since: described('A moment, such as 2026-01-31T12:00:00Z.'),
    until: described('A moment: records before it.'),
    follow: { type: 'boolean', description: 'Goes on with what is written from then on.' },
    limit: { type: 'integer', minimum: 1, maximum: 1_000_000, description: 'The newest so many.' },
    newest: {
      type: 'string',
      enum: ['first', 'last'],
      description: 'In which order they come; `last` where it is absent.',
    },
  }),
);
