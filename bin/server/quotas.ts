import type { Quotas } from '../../src/actors/vault/quotas.ts';
import type { ServerSettings } from './options.ts';

/** What the settings let agents and vaults keep. */
export function quotasOf(settings: ServerSettings): Quotas {
  const of = (who: 'agent' | 'vault') => ({
    keys: settings[`quota-${who}-keys`],
    bytes: settings[`quota-${who}-bytes`],
    proposals: settings[`quota-${who}-proposals`],
  });
  return { agent: of('agent'), vault: of('vault') };
}
