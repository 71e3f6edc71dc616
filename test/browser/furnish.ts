/** A broker in the middle of its work: what the pages look like when there is something on them. */
import { type Clock, systemClock } from '../../src/actors/core/clock.ts';
import { Secret } from '../../src/actors/vault/secret.ts';
import { hashToken } from '../../src/actors/vault/token.ts';
import type { Stats } from '../../src/http/front-options.ts';
import type { Composed } from '../support/compose.ts';
import { by, done, type Stage } from './stage.ts';

/** Traffic that rises and falls, and a clock whose minutes are short, so that there is an hour of it. */
export function busy(): Required<Pick<Composed, 'alter'>> {
  const bounds = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000];
  const total = { requests: 0, failures: 0, forbidden: 0, missing: 0, counts: [...bounds, 0].map(() => 0) };
  let minute = 0;

  function pass(wave: number): void {
    const slow = minute % 11 === 0 ? 7 : 5;
    total.requests += wave;
    total.failures += minute % 9 === 0 ? 4 : 0;
    total.forbidden += minute % 6 === 0 ? 9 : 1;
    total.missing += minute % 13 === 0 ? 3 : 0;
    total.counts[3] += Math.round(wave * 0.7);
    total.counts[slow] += Math.round(wave * 0.3);
  }

  function stats(): Stats {
    // Of the minute that runs there is a little more at each look.
    total.requests += 3;
    total.counts[3] += 3;
    const { requests, failures, forbidden, missing, counts } = total;
    return {
      requests,
      failures,
      refusals: [
        { code: 'forbidden', count: forbidden },
        { code: 'credential_not_found', count: missing },
      ],
      durations: { bounds, counts: [...counts] },
      openConnections: 41,
      lanes: { up: 2, all: 2 },
      auditHealthy: true,
    };
  }
  // The hour is over before a page is looked at; from then on a minute is one.
  const setTimer: Clock['setTimer'] = (ms, fn) => {
    if (ms !== 60_000) return systemClock.setTimer(ms, fn);
    minute++;
    pass(Math.max(0, Math.round(400 + 300 * Math.sin(minute / 7))));
    return systemClock.setTimer(minute < 63 ? 1 : ms, fn);
  };
  return {
    alter: ({ health, clock }) => ({ health: { ...health, stats }, clock: { ...clock, setTimer } }),
  };
}

const set = { action: 'set' } as const;

/** Proposals by what they show. */
export type Proposals = Readonly<
  Record<'plain' | 'risky' | 'removal' | 'applied' | 'rejected' | 'expired', { id: number; url: string }>
>;

export async function furnish(stage: Stage): Promise<Proposals> {
  const { vault } = stage;
  for (const name of ['billing', 'research']) await done(vault.ask('vault.create', { name, by }));
  await done(
    vault.ask('vault.update', {
      vault: 'billing',
      patch: { unmatched_host_policy: 'deny', require_tls: true },
      by,
    }),
  );
  const keys = [
    'GITHUB_TOKEN',
    'STRIPE_KEY',
    'TWILIO_ACCOUNT_SID',
    'TWILIO_AUTH_TOKEN',
    'OPENAI_API_KEY',
    'DD_API_KEY',
    'UNUSED_KEY',
  ];
  const values = new Map(keys.map((key) => [key, new Secret(`value of ${key}`)]));
  for (const name of ['default', 'billing']) {
    await done(vault.ask('credential.set', { vault: name, values, byAgent: false, by }));
  }
  const services = [
    {
      host: 'api.github.com',
      description: 'Repositories, issues, pull requests',
      auth: { type: 'bearer', token: 'GITHUB_TOKEN' },
    },
    { host: 'api.openai.com', description: 'GPT models', auth: { type: 'bearer', token: 'OPENAI_API_KEY' } },
    { host: 'api.stripe.com', description: 'Payments', auth: { type: 'bearer', token: 'STRIPE_KEY' } },
    {
      host: 'api.twilio.com',
      description: 'Messages and calls',
      auth: { type: 'basic', username: 'TWILIO_ACCOUNT_SID', password: 'TWILIO_AUTH_TOKEN' },
      substitutions: [{ key: 'TWILIO_ACCOUNT_SID', placeholder: '__account_sid__', in: ['path'] }],
    },
    {
      host: 'api.datadoghq.com',
      auth: { type: 'custom', headers: { 'DD-API-KEY': '{{ DD_API_KEY }}', 'X-Team': 'core' } },
    },
    { host: '*.internal.example.com', description: 'Our own services', auth: { type: 'passthrough' } },
    {
      host: 'legacy.example.com',
      auth: { type: 'api-key', key: 'STRIPE_KEY', header: 'X-Api-Key' },
      enabled: false,
    },
  ] as const;
  for (const name of ['default', 'billing']) {
    await done(vault.ask('service.set', { vault: name, mode: 'upsert', services, by }));
  }

  for (const [name, vaults] of [
    ['release-bot', ['default']],
    ['ledger', ['billing', 'default']],
  ] as const) {
    const invite = { name, vaults, ttlSeconds: 3600, tokenTtlSeconds: 90 * 86_400, by };
    const { token } = await done(vault.ask('invite.create', invite));
    await done(vault.ask('invite.redeem', { hash: hashToken(token.reveal()), name: null, by }));
  }
  await done(vault.ask('service.clear', { vault: 'research', by }));
  const made = await proposals(stage);
  for (const label of ['nightly report', null]) {
    await done(vault.ask('session.create', { vault: 'default', ttlSeconds: 86_400, label, by }));
  }
  traffic(stage);
  return made;
}

async function proposals(stage: Stage): Promise<Proposals> {
  const { vault } = stage;
  const linear = {
    ...set,
    host: 'api.linear.app',
    description: 'Issues',
    auth: { type: 'api-key', key: 'LINEAR_API_KEY' },
  } as const;
  const slot = {
    ...set,
    key: 'LINEAR_API_KEY',
    description: 'A personal API key that may read issues',
    obtain: 'https://linear.app/settings/account/security',
    obtain_instructions:
      '1. Under “Personal API keys” choose “New API key”.\n2. Name it after me, and give it read access.\n3. Copy it: it is shown once.',
  } as const;
  const words = {
    message: 'Needed to close the release checklist.',
    user_message:
      'I’m preparing release 4.2 and need to read its open issues in Linear.\nI will only read them, and write the summary into the release notes.',
  };
  const applied = await stage.propose({ services: [linear], credentials: [slot], ...words });
  const given = new Map([['LINEAR_API_KEY', new Secret('lin_api_1')]]);
  await done(vault.ask('proposal.approve', { id: applied.id, credentials: given, confirm: null, by }));
  const rejected = await stage.propose({
    services: [{ ...set, host: 'paste.example.net', auth: { type: 'passthrough' } }],
    ...words,
  });
  await done(
    vault.ask('proposal.reject', { id: rejected.id, reason: 'Use the issue tracker for that.', by }),
  );
  const expired = await stage.propose({
    services: [{ ...set, host: 'old.example.net', auth: { type: 'passthrough' } }],
    ...words,
  });
  // The other ones are made after this one's end.
  stage.later(8 * 86_400_000);
  await new Promise((resolve) => setTimeout(resolve, 50));

  stage.later(-48 * 60_000);
  const plain = await stage.propose({
    services: [
      {
        ...linear,
        host: 'api.notion.com',
        description: 'Pages',
        auth: { type: 'bearer', token: 'NOTION_TOKEN' },
      },
    ],
    credentials: [
      {
        ...slot,
        key: 'NOTION_TOKEN',
        description: 'Internal integration secret',
        obtain: 'https://www.notion.com/profile/integrations',
      },
    ],
    ...words,
  });
  stage.later(31 * 60_000);
  const risky = await stage.propose({
    services: [
      {
        ...set,
        host: 'api.str1pe.com',
        description: 'Payments',
        auth: { type: 'bearer', token: 'STRIPE_KEY' },
      },
      { ...set, host: '*.my-team.github.io', auth: { type: 'passthrough' } },
      {
        ...set,
        host: 'xn--80ak6aa92e.com:80',
        auth: { type: 'custom', headers: { 'X-Key': 'k {{ OPENAI_API_KEY }}' } },
      },
      { ...set, host: 'legacy.example.com', auth: { type: 'bearer', token: 'GITHUB_TOKEN' }, enabled: true },
    ],
    credentials: [{ ...set, key: 'GITHUB_TOKEN', value: 'given by the agent' }],
    user_message: 'Urgent: security requires you to press Allow now!',
  });
  stage.later(13 * 60_000);
  const removal = await stage.propose({
    services: [{ action: 'delete', host: 'api.openai.com' }],
    credentials: [{ action: 'delete', key: 'OPENAI_API_KEY' }],
    message: 'We have moved to another model.',
  });
  stage.later(4 * 60_000);
  return { plain, risky, removal, applied, rejected, expired };
}

/** What lanes would have written. */
function traffic(stage: Stage): void {
  const request = (minutes: number, host: string, path: string, more: object = {}) => ({
    ...{
      time: new Date(stage.now() - minutes * 60_000).toISOString(),
      kind: 'request',
      request_id: `r${minutes}`,
    },
    ...{
      vault: 'default',
      actor: 'agent:release-bot',
      label: 'release-bot',
      method: 'GET',
      scheme: 'https',
      host,
      path,
    },
    ...{
      service: host,
      keys: ['GITHUB_TOKEN'],
      status: 200,
      error: null,
      bytes_in: 0,
      bytes_out: 900,
      ms: 84.2,
    },
    ...more,
  });
  const none = { service: null, keys: [] };
  stage.audit(
    request(9, 'api.github.com', '/repos/acme/site/issues'),
    request(8, 'api.stripe.com', '/v1/charges', { method: 'POST', keys: ['STRIPE_KEY'], ms: 212 }),
    request(7, 'api.unknown.example', '/v2/things', {
      ...none,
      vault: 'billing',
      label: 'ledger',
      status: 403,
      error: 'forbidden',
      ms: 1,
    }),
    request(6, 'api.twilio.com', '/2010-04-01/Accounts/__account_sid__/Messages.json', {
      method: 'POST',
      keys: ['TWILIO_ACCOUNT_SID', 'TWILIO_AUTH_TOKEN'],
      status: 201,
    }),
    request(5, 'legacy.example.com', '/', { keys: [], status: 403, error: 'service_disabled', ms: 1 }),
    request(4, 'api.openai.com', '/v1/responses', {
      method: 'POST',
      keys: ['OPENAI_API_KEY'],
      status: 429,
      ms: 40,
    }),
    request(3, 'docs.example.org', '/guide', {
      ...none,
      label: 'nightly report',
      actor: 'session:x7',
      ms: 33,
    }),
    request(2, 'api.github.com', '/repos/acme/site/pulls', {
      status: 502,
      error: 'upstream_unreachable',
      ms: 10_004,
    }),
    request(1, 'api.github.com', '/user'),
  );
}
