import { canonicalHost } from '../../src/actors/vault/authority.ts';
import { parseHostPattern } from '../../src/actors/vault/host-pattern.ts';
import { defaultSettings } from '../../src/actors/vault/model.ts';
import { VaultEntry } from '../../src/proxy/lane-state.ts';

/** Which of these services a lane chooses for a target, as it is written here; undefined: none, or the host is none. */
export function chosen(hosts: Iterable<string>, host: string, port = 443): string | undefined {
  const vault = new VaultEntry('v', 'v', defaultSettings);
  const written = new Map<string | undefined, string>();
  for (const text of hosts) {
    const parsed = parseHostPattern(text);
    if ('error' in parsed) continue;
    vault.setService({ host: parsed.pattern, auth: { type: 'passthrough' } });
    written.set(parsed.pattern, text);
  }
  const canonical = canonicalHost(host);
  if (canonical === null) return undefined;
  return written.get(vault.match(canonical.host, port, canonical.literal !== 0)?.service.host);
}
