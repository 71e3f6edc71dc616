import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { send } from '../protocol/send.ts';
import { absolute, startUpstream, type Upstream } from '../protocol/through.ts';
import { type Broker, type BrokerOptions, startBroker, temporary } from '../support/broker.ts';
import type { Event } from './linearize.ts';
import { listing, type VaultOp } from './vault-model.ts';

export interface DriveOptions {
  readonly operations: number;
  readonly clients: number;
  readonly vaults: number;
  /** How often the broker is killed, spread over all of it. */
  readonly kills: number;
  readonly preload?: BrokerOptions['preload'];
  readonly random: () => number;
}

/** What was done between two kills, by vault. */
export type Era = ReadonlyMap<string, readonly Event<VaultOp>[]>;

const hosts = ['one.test', 'two.test'];
const keys = ['ALPHA', 'BETA'];

/**
 * Lets clients do random things to some vaults at once, through the API and the proxy, and kills the broker (SIGKILL)
 * again and again in their middle. After each start all that there is is read back.
 */
export async function drive(t: Test, options: DriveOptions): Promise<readonly Era[]> {
  const upstream = await startUpstream(t, {
    answer({ values }) {
      const body = values('authorization').join() || 'plain';
      return `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    },
  });
  const directory = join(temporary(t), 'data');
  const args = [
    '--allow-private-ranges',
    '--rate-limit',
    '0',
    '--rate-inflight',
    '0',
    '--auth-failures',
    '0',
    '--api-rate',
    '0',
  ];
  const start = () => startBroker(t, { directory, args, preload: ['names', ...(options.preload ?? [])] });
  let broker = await start();
  const owner = readFileSync(join(directory, 'owner.token'), 'utf8').trim();
  const names = Array.from({ length: options.vaults }, (_, i) => `vault-${i}`);
  for (const name of names) await broker.api('POST', '/v1/vaults', { body: { name } });
  const vaults = await Promise.all(
    names.map(async (name) =>
      createVault({ name, owner, session: await broker.session(name), upstream, ...options }),
    ),
  );

  const eras: Era[] = [];
  let left = options.operations;
  for (let era = 0; era <= options.kills; era++) {
    let killed = Number.POSITIVE_INFINITY;
    const until = Math.floor((options.operations * (options.kills - era)) / (options.kills + 1));
    const histories = new Map(names.map((name) => [name, [] as Event<VaultOp>[]]));
    const run = async (vault: Vault, op: VaultOp): Promise<void> => {
      const from = performance.now();
      const done = await vault.perform(broker, op).catch(() => null);
      // What a dead broker didn't answer can't happen after it has died.
      const to = done === null ? killed : performance.now();
      histories.get(vault.name)?.push({ op: done?.op ?? op, from, to, result: done?.result ?? null });
    };
    for (const vault of vaults) for (const op of vault.everything()) await run(vault, op);
    const isLast = era === options.kills;
    const clients = Array.from({ length: options.clients }, async () => {
      while (left > until && killed === Number.POSITIVE_INFINITY) {
        left--;
        const vault = vaults[Math.floor(options.random() * vaults.length)];
        await run(vault, vault.next());
      }
      // In the middle of what the others are at.
      if (!isLast && killed === Number.POSITIVE_INFINITY) {
        killed = performance.now() + 1000;
        broker.process.kill('SIGKILL');
        await broker.ended;
        killed = performance.now();
      }
    });
    await Promise.all(clients);
    if (!isLast) {
      broker = await start();
      await rejectOrphans(broker, vaults);
    } else for (const vault of vaults) for (const op of vault.everything()) await run(vault, op);
    eras.push(histories);
  }
  return eras;
}

/** Proposals that were made but not answered: nobody knows their numbers, and they would fill up the vault. */
async function rejectOrphans(broker: Broker, vaults: readonly Vault[]): Promise<void> {
  const known = new Set(vaults.flatMap((vault) => vault.proposals()));
  const { body } = await broker.api<{ proposals: { id: number }[] }>('GET', '/v1/proposals?status=pending');
  for (const { id } of body.proposals)
    if (!known.has(id)) await broker.api('POST', `/v1/proposals/${id}/reject`);
}

interface Vault {
  readonly name: string;
  next(): VaultOp;
  /** All there is to look at. */
  everything(): VaultOp[];
  proposals(): number[];
  /** Rejects where there is no answer. The operation comes back with what only its answer tells. */
  perform(broker: Broker, op: VaultOp): Promise<{ readonly op: VaultOp; readonly result: string }>;
}

interface VaultParts {
  readonly name: string;
  readonly owner: string;
  /** Of a session that stays. */
  readonly session: string;
  readonly upstream: Upstream;
  readonly random: () => number;
}

function createVault({ name, owner, session, upstream, random }: VaultParts): Vault {
  let written = 0;
  const proposed = new Map<number, { host: string; key: string }>();
  const tokens = new Map<string, string>();
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)];
  const services = `/v1/vaults/${name}/services`;

  async function ask(broker: Broker, method: string, path: string, body?: unknown, token = owner) {
    const answer = await send(Number(broker.address.split(':')[2]), method, path, {
      token,
      vault: name,
      body,
    });
    if (answer.status >= 500) throw new Error(`${answer.status}: ${answer.text}`);
    return answer;
  }

  /** Looks and confirms, until nothing has changed in between. */
  async function approved(broker: Broker, id: number, credentials: object) {
    for (;;) {
      const shown = await ask(broker, 'GET', `/v1/proposals/${id}`);
      const body = { credentials, confirm: shown.json.review?.fingerprint };
      const answer = await ask(broker, 'POST', `/v1/proposals/${id}/approve`, body);
      if (answer.json.error !== 'confirmation_required') return String(answer.status);
    }
  }

  return {
    name,
    next() {
      const [host, key, value] = [pick(hosts), pick(keys), `${name}-${++written}`];
      const ids = [...proposed.keys()];
      const sessions = [...tokens.keys()];
      const choices: (() => VaultOp | null)[] = [
        () => ({ do: 'set-credential', key, value }),
        () => ({ do: 'set-credential', key, value }),
        () => ({ do: 'delete-credential', key }),
        () => ({ do: 'set-service', host, key }),
        () => ({ do: 'set-service', host, key }),
        () => ({ do: 'enable-service', host, enabled: random() < 0.6 }),
        () => ({ do: 'remove-service', host }),
        () => (random() < 0.3 ? { do: 'clear' } : null),
        () => ({ do: 'set-policy', policy: random() < 0.5 ? 'deny' : 'passthrough' }),
        () => (ids.length < 4 ? { do: 'propose', id: null } : null),
        () => (ids.length > 0 ? { do: 'approve', id: pick(ids), host: '', key: '', value } : null),
        () => (ids.length > 0 ? { do: 'reject', id: pick(ids) } : null),
        () => (sessions.length < 4 ? { do: 'open-session', id: null } : null),
        () => (sessions.length > 0 ? { do: 'revoke-session', id: pick(sessions) } : null),
        () => (sessions.length > 0 ? { do: 'use-session', id: pick(sessions) } : null),
        () => ({ do: 'list' }),
        ...Array.from({ length: 8 }, () => () => ({ do: 'request', host }) as const),
      ];
      for (;;) {
        const op = pick(choices)();
        if (op === null) continue;
        return op.do === 'approve' ? { ...op, ...(proposed.get(op.id) ?? { host, key }) } : op;
      }
    },
    everything() {
      const sessions = [...tokens.keys()].map((id) => ({ do: 'use-session', id }) as const);
      return [{ do: 'list' }, ...hosts.map((host) => ({ do: 'request', host }) as const), ...sessions];
    },
    proposals: () => [...proposed.keys()],
    async perform(broker, op) {
      const status = async (method: string, path: string, body?: unknown) => {
        const answer = await ask(broker, method, path, body);
        return { op, result: String(answer.status) };
      };
      switch (op.do) {
        case 'set-credential':
          return status('POST', '/v1/credentials', { credentials: { [op.key]: op.value } });
        case 'delete-credential':
          return status('DELETE', `/v1/credentials/${op.key}`);
        case 'set-service':
          return status('POST', services, { services: [service(op.host, op.key)] });
        case 'enable-service':
          return status('PATCH', `${services}/${op.host}`, { enabled: op.enabled });
        case 'remove-service':
          return status('DELETE', `${services}/${op.host}`);
        case 'clear':
          return status('DELETE', services);
        case 'set-policy':
          return status('PATCH', `/v1/vaults/${name}`, { unmatched_host_policy: op.policy });
        case 'propose': {
          const [host, key] = [pick(hosts), pick(keys)];
          const change = {
            services: [{ action: 'set', ...service(host, key) }],
            credentials: [{ action: 'set', key }],
          };
          const answer = await ask(broker, 'POST', '/v1/proposals', change, session);
          proposed.set(answer.json.id, { host, key });
          return { op: { do: 'propose', id: answer.json.id }, result: String(answer.status) };
        }
        case 'approve': {
          const result = await approved(broker, op.id, { [op.key]: op.value });
          if (random() < 0.5) proposed.delete(op.id);
          return { op, result };
        }
        case 'reject': {
          const done = await status('POST', `/v1/proposals/${op.id}/reject`);
          if (random() < 0.5) proposed.delete(op.id);
          return done;
        }
        case 'open-session': {
          const { json, status } = await ask(broker, 'POST', '/v1/sessions', { vault: name });
          tokens.set(json.id, json.token);
          return { op: { do: 'open-session', id: json.id }, result: String(status) };
        }
        case 'revoke-session': {
          const done = await status('DELETE', `/v1/sessions/${op.id}`);
          if (random() < 0.5) tokens.delete(op.id);
          return done;
        }
        case 'use-session': {
          const answer = await ask(broker, 'GET', '/discover', undefined, tokens.get(op.id) ?? '');
          return { op, result: String(answer.status) };
        }
        case 'list': {
          // Services and keys in one answer, of one moment.
          const { json } = await ask(broker, 'GET', '/discover', undefined, session);
          return { op, result: listed(json) };
        }
        case 'request': {
          const url = `http://${op.host}:${upstream.port}/`;
          const answer = await absolute(broker, url, { token: session, vault: name });
          if (answer.status >= 500 && answer.status !== 502) throw new Error(`${answer.status}`);
          return { op, result: answer.status === 200 ? answer.body : answer.json.error };
        }
      }
    },
  };
}

/** Its description tells the key, which discovery doesn't. */
function service(host: string, key: string) {
  return { host, description: key, auth: { type: 'custom', headers: { Authorization: `{{ ${key} }}` } } };
}

interface Discovered {
  readonly services: readonly {
    readonly host: string;
    readonly enabled: boolean;
    readonly description: string;
  }[];
  readonly available_credentials: readonly string[];
}

function listed({ services, available_credentials }: Discovered): string {
  const byHost = services.map(
    ({ host, enabled, description }) => [host, { key: description, enabled }] as const,
  );
  return listing(Object.fromEntries(byHost), available_credentials);
}
