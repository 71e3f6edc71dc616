import { authTypes, proposalStatuses, surfaces } from '../actors/vault/model.ts';
import {
  credentialKey,
  list,
  named,
  object,
  places,
  proposalParts,
  type Schema,
  service,
  text,
  vaultSettings,
} from './model-schemas.ts';

/*
 * The shapes of what goes out. Every property of an answer is always there, unless it is said to be optional.
 */

const moment: Schema = {
  type: 'string',
  pattern: '^\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z$',
  description: 'ISO 8601, UTC.',
};
const orNull = (schema: Schema): Schema => ({ ...schema, type: [schema.type, 'null'] });
const count: Schema = { type: 'integer', minimum: 0 };
const port: Schema = { type: 'integer', minimum: 1, maximum: 65535 };
const bool: Schema = { type: 'boolean' };
const secret = (prefix: string): Schema => ({
  type: 'string',
  pattern: `^brk_${prefix}_[0-9a-f]{72}$`,
  description: 'Shown this once.',
});

/** All of these properties, but the optional ones, always. */
function whole(properties: Readonly<Record<string, Schema>>, optional: readonly string[] = []): Schema {
  return object(
    properties,
    Object.keys(properties).filter((name) => !optional.includes(name)),
  );
}

export const status = named('Status', whole({ status: { type: 'string', const: 'ok' } }));

const shownSubstitutions = list(
  whole({ placeholder: text(), in: list({ type: 'string', enum: surfaces }), at: places }, ['at']),
);

export const discovery = named(
  'Discovery',
  whole({
    vault: text(),
    services: list(
      whole({
        host: text(),
        description: text(),
        enabled: bool,
        auth_type: { type: 'string', enum: authTypes },
        substitutions: shownSubstitutions,
      }),
    ),
    available_credentials: list(credentialKey),
  }),
);

const proposalStatus = named('ProposalStatus', { type: 'string', enum: proposalStatuses });

export const proposalCreated = named(
  'ProposalCreated',
  whole({
    id: count,
    status: { type: 'string', const: 'pending' },
    vault: text(),
    approval_url: { type: 'string', description: 'For the user: shows the proposal, and decides nothing.' },
    message: text(),
    expires_at: moment,
  }),
);

/** What effective reach grows by. */
export const review = named(
  'Review',
  whole(
    {
      fingerprint: {
        type: 'string',
        description: 'Of the proposal, the increases, and what of the vault they come from.',
      },
      increases: list(
        whole(
          {
            key: credentialKey,
            hosts: {
              ...list(text()),
              description: 'Patterns; the most specific one of these and of `except` that matches decides.',
            },
            except: list(text()),
            surface: {
              type: 'string',
              description:
                'Such as `auth header Authorization`, `path`, `path /bot{TOKEN}/*`, `query key`, `header X-Key`.',
            },
            scheme: { type: 'string', enum: ['https', 'http+https'] },
            ticked_by: {
              type: 'string',
              enum: ['value', 'confirm'],
              description: "By the value for the key's slot, or only by `confirm`.",
            },
          },
          ['except'],
        ),
      ),
      risks: {
        ...list(whole({ kind: text(), grave: bool, text: text() })),
        description: 'What to look at twice, in words. With a single proposal.',
      },
    },
    ['risks'],
  ),
);

const requestedBy = whole({
  kind: { type: 'string', enum: ['session', 'agent'] },
  id: text(),
  label: orNull(text()),
});

export const proposal = named(
  'Proposal',
  whole(
    {
      id: count,
      status: proposalStatus,
      vault: text(),
      ...proposalParts,
      message: text(),
      user_message: text(),
      review_note: orNull(text()),
      reviewed_by: orNull(text()),
      created_at: moment,
      reviewed_at: orNull(moment),
      expires_at: moment,
      requested_by: requestedBy,
      review,
    },
    ['review'],
  ),
);

export const proposals = whole({ proposals: list(proposal) });
export const applied = whole({ id: count, status: { type: 'string', const: 'applied' } });
export const rejected = whole({ id: count, status: { type: 'string', const: 'rejected' } });

export const credentialKeys = whole({ keys: list(credentialKey) });
export const credentialsSet = whole(
  {
    set: list(credentialKey),
    replaced: {
      ...list(whole({ key: credentialKey, given_by: { type: 'string' }, hosts: list({ type: 'string' }) })),
      description: 'To operators: values that an agent had given, whose keys services send to these hosts.',
    },
  },
  ['replaced'],
);

export const vault = named(
  'Vault',
  whole({
    name: text(),
    ...vaultSettings,
    cleared: { type: 'boolean', description: 'Every proxied request is refused until a service is set.' },
    created_at: moment,
    counters: whole({ services: count, credentials: count, pending_proposals: count }),
  }),
);

export const vaults = whole({ vaults: list(vault) });
export { service };
export const services = whole({ services: list(service) });

const session = { id: text(), vault: text(), label: orNull(text()), expires_at: moment };

export const sessionCreated = named(
  'SessionCreated',
  whole({ ...session, token: secret('ses'), proxy_url: text() }),
);

export const sessions = whole({
  sessions: list(named('Session', whole({ ...session, created_at: moment, created_by: text() }))),
});

export const invite = named('Invite', whole({ invite_url: text(), expires_at: moment }));

export const agents = whole({
  agents: list(
    named(
      'Agent',
      whole({ name: text(), vaults: list(text()), created_at: moment, expires_at: orNull(moment) }),
    ),
  ),
});

export const rotated = whole({ agent: text(), token: secret('agt'), expires_at: orNull(moment) });

export const joined = named(
  'Joined',
  whole({
    BROKER_ADDR: text(),
    BROKER_SESSION_TOKEN: secret('agt'),
    agent: text(),
    vaults: list(text()),
    expires_at: orNull(moment),
    proxy_port: port,
    ca_url: text(),
    instructions: text(),
  }),
);

export const proof = named('Proof', whole({ proof: text() }));

export const explanation = named(
  'Explanation',
  whole({
    vault: text(),
    method: text(),
    host: text(),
    port,
    decision: { type: 'string', enum: ['inject', 'passthrough', 'refuse'] },
    service: orNull(text()),
    auth_type: { type: ['string', 'null'], enum: [...authTypes, null] },
    headers: list(text()),
    keys: list(credentialKey),
    substitutions: shownSubstitutions,
    error: orNull(text()),
    status: { type: ['integer', 'null'] },
    reason: text(),
  }),
);

export const operator = named(
  'Operator',
  whole({ name: text(), role: { type: 'string', enum: ['owner', 'admin'] }, vaults: list(text()) }),
);

export const operators = whole({ operators: list(operator), you: text() });
export const login = whole({ token: secret('opr'), expires_at: moment });
export const loginLink = whole({ url: text(), expires_at: moment });
export const loginCode = whole({ code: { type: 'string', pattern: '^[0-9]{6}$' }, expires_at: moment });
export const keySource = whole({ source: { type: 'string', enum: ['file', 'password'] } });
export const caRotation = whole({ sha256: text(), switches_at: moment });

export const auditVerdict = named(
  'AuditVerdict',
  whole(
    {
      ok: bool,
      checked: { type: 'string', enum: ['contents', 'order'], description: '`order`: without the key.' },
      anchored: {
        type: 'boolean',
        description: 'Compared with where the store knows that it begins and ends.',
      },
      segments: count,
      records: { ...count, description: 'Those before the first bad place.' },
      head: { ...whole({ seq: count, hash: text() }), type: ['object', 'null'] },
      firstBad: whole({ file: text(), line: count, reason: text() }),
      missing: list(whole({ from: count, to: count, after: orNull(moment), before: orNull(moment) })),
    },
    ['firstBad'],
  ),
);
