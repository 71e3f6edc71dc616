import type { Broker } from '../support/broker.ts';
import { services, vaultsOf } from './values.ts';

/** One of the four. */
export interface Member {
  readonly token: string;
  readonly vault: string;
  /** As the audit names it. */
  readonly actor: string;
}

/** The vaults with their values and services, a session or agent for each of the four. */
export async function furnish(broker: Broker, seed: number): Promise<readonly Member[]> {
  const expect = async (method: string, path: string, body: unknown, vault?: string) => {
    const answer = await broker.api<Record<string, unknown>>(method, path, { body, vault });
    if (answer.status >= 300)
      throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  for (const { name, values } of vaultsOf(seed)) {
    await expect('POST', '/v1/vaults', { name });
    await expect('POST', '/v1/credentials', { credentials: values }, name);
    await expect('PUT', `/v1/vaults/${name}/services`, { services });
  }
  const session = async (vault: string) => {
    const { id, token } = await expect('POST', '/v1/sessions', { vault });
    return { vault, token: `${token}`, actor: `session:${id}` };
  };
  const invite = await expect('POST', '/v1/agents/invites', { name: 'hostile', vaults: ['blue'] });
  const joined = await expect('POST', new URL(`${invite.invite_url}`).pathname, undefined);
  const { agents } = (await expect('GET', '/v1/agents', undefined)) as { agents: { name: string }[] };
  const agent = { vault: 'blue', token: `${joined.BROKER_SESSION_TOKEN}`, actor: `agent:${agents[0].name}` };
  return [await session('red'), await session('red'), agent, await session('blue')];
}
