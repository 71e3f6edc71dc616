import { registrationOf } from '../../actors/vault/host-pattern.ts';
import { merge } from '../../actors/vault/merge.ts';
import { reflectionOf, type Service } from '../../actors/vault/model.ts';
import type { ProposalReview, VaultView } from '../../actors/vault/protocol.ts';
import { referencedKeys } from '../../actors/vault/service-rules.ts';
import { code, listWords, say, type Words } from '../words.ts';
import { lookAlike, namesAnother, unicodeForm } from './look-alike.ts';
import { isGivenAway, sharedSuffixOf } from './shared-suffix.ts';

/** What a proposal is held against. */
export interface Surroundings {
  readonly vault: Pick<VaultView, 'cleared' | 'require_tls' | 'unmatched_host_policy'>;
  /** Keys that are stored, each with the hosts that it is sent to now. */
  readonly sentTo: ReadonlyMap<string, readonly string[]>;
  /** Registered domains of hosts that one knows: well-known ones, and those of the vault. */
  readonly domains: ReadonlySet<string>;
}

export interface Risk {
  readonly kind:
    | 'look-alike'
    | 'look-alike-link'
    | 'names-another'
    | 'shared-wildcard'
    | 'reflection'
    | 'punycode'
    | 'plain-http'
    | 'wildcard'
    | 'shared-suffix'
    | 'address'
    | 'enables'
    | 'replaces'
    | 'passthrough'
    | 'value-by-agent'
    | 'http-too';
  /** What may well be an attack, or gives a key away: shown before the others. */
  readonly grave: boolean;
  readonly words: Words;
}

/** What somebody who decides about a proposal should look at twice, the worst first. Pure. */
export function risksOf(proposal: ProposalReview, around: Surroundings): Risk[] {
  const after = servicesAfter(proposal);
  const found = [
    ...after.flatMap(({ service, before }) => hostRisks(service, before, around)),
    ...slotRisks(proposal, around),
  ];
  const carries = after.some(({ service }) => keysOf(service).length > 0 && !isPort80(service.host));
  if (carries && !around.vault.require_tls) found.push(httpToo);
  return [...found.filter(({ grave }) => grave), ...found.filter(({ grave }) => !grave)];
}

/** The services as the proposal would leave them, beside what they are now. */
export function servicesAfter({ services, before }: ProposalReview): {
  readonly service: Service;
  readonly before: Service | null;
}[] {
  return services.flatMap((change, index) => {
    if (change.action === 'delete') return [];
    const present = before[index];
    const merged = merge(new Map(present ? [[present.host, present]] : []), [change]);
    const service = merged.ok ? merged.value.services.get(change.host) : undefined;
    return service ? [{ service, before: present }] : [];
  });
}

function keysOf({ auth, substitutions }: Service): string[] {
  return [...new Set(referencedKeys(auth, substitutions).map(({ key }) => key))];
}

function hostRisks(service: Service, before: Service | null, around: Surroundings): Risk[] {
  const { host } = service;
  const found: Risk[] = [];
  const add = (kind: Risk['kind'], grave: boolean, words: Words) => found.push({ kind, grave, words });
  const shown = code(host);
  const keys = keysOf(service);
  const name = host.replace(/^\*\./, '').replace(/:\d+$/, '');
  const { domain } = registrationOf(name);
  const suffix = sharedSuffixOf(name);

  const similar = before ? null : lookAlike(name, around.domains);
  if (similar !== null) {
    add('look-alike', true, say`${shown} could be taken for ${code(similar)}. It is another domain.`);
  }
  const another = before || similar !== null ? null : namesAnother(name, around.domains);
  if (another !== null && domain !== null) {
    add(
      'names-another',
      false,
      say`${shown} has the name of ${code(another)} in it, and belongs to ${code(domain)}.`,
    );
  }
  const unicode = unicodeForm(name);
  if (unicode !== null) {
    add(
      'punycode',
      true,
      say`${shown} is written in letters beyond ASCII: browsers may show it as “${{ foreign: unicode }}”.`,
    );
  }
  if (isPort80(host) && keys.length > 0 && !around.vault.require_tls) {
    add(
      'plain-http',
      true,
      say`${shown} is plain http: ${listWords(keys)} can be read by everyone on the way.`,
    );
  }
  if (host.startsWith('*.')) {
    const what = keys.length > 0 ? say` It receives ${listWords(keys)}.` : null;
    add(
      'wildcard',
      false,
      say`${shown} stands for every name right under ${code(name)}, also ones made later.${what}`,
    );
  }
  if (suffix !== null && host.startsWith('*.') && isGivenAway(name)) {
    const what = keys.length > 0 ? say`, and receive ${listWords(keys)}` : null;
    add(
      'shared-wildcard',
      true,
      say`Strangers can get names under ${code(suffix)} that ${shown} stands for${what}. Name the one host that you mean.`,
    );
  } else if (suffix !== null && name !== suffix) {
    add(
      'shared-suffix',
      false,
      say`Anyone can get a name under ${code(suffix)}. Make sure that ${shown} is the one you mean.`,
    );
  }
  if (domain === null) {
    const what = /^\[|^[\d.]+$/.test(name) ? 'an address' : 'a name of your own network';
    add('address', false, say`${shown} is ${what}: it doesn’t tell whom it belongs to.`);
  }
  if (before?.enabled === false && service.enabled !== false) {
    add('enables', true, say`${shown} was disabled by an operator. This enables it again.`);
  }
  const lessens = reflectionRank[reflectionOf(service)] < (before ? reflectionRank[reflectionOf(before)] : 1);
  if (lessens && keys.length > 0) {
    add(
      'reflection',
      true,
      say`Where an answer of ${shown} repeats ${listWords(keys)}, the agent reads it; this is looked at less than ${before ? 'now' : 'usual'}.`,
    );
  }
  if (service.auth.type === 'passthrough') {
    add(
      'passthrough',
      false,
      say`To ${shown} the agent sends what it likes, with credentials of its own if it has some.`,
    );
  }
  return found;
}

function slotRisks({ credentials, needs_value }: ProposalReview, { sentTo, domains }: Surroundings): Risk[] {
  return credentials.flatMap((slot): Risk[] => {
    if (slot.action === 'delete') return [];
    const { key, obtain } = slot;
    const hosts = sentTo.get(key);
    const risks: Risk[] = [];
    const linked = needs_value.includes(key) && obtain ? URL.parse(obtain)?.hostname : undefined;
    const similar = linked ? lookAlike(linked, domains) : null;
    if (similar !== null) {
      const words = say`The link to get ${code(key)} leads to ${code(linked ?? '')}, which could be taken for ${code(similar)}. It is another domain: make sure whose it is before you sign in there.`;
      risks.push({ kind: 'look-alike-link', grave: true, words });
    }
    if (hosts) {
      const also = hosts.length > 0 ? say`, also for ${listWords(hosts)}` : null;
      const words = say`${code(key)} is stored already. Its new value takes the place of the old one${also}.`;
      risks.push({ kind: 'replaces', grave: slot.has_value === true, words });
    }
    if (slot.has_value) {
      const words = say`The agent has given the value of ${code(key)} itself. It isn’t shown here.`;
      risks.push({ kind: 'value-by-agent', grave: false, words });
    }
    return risks;
  });
}

function isPort80(host: string): boolean {
  return host.endsWith(':80');
}

const reflectionRank = { pass: 0, audit: 1, redact: 2 } as const;

const httpToo: Risk = {
  kind: 'http-too',
  grave: false,
  words: say`If the agent asks for an http:// address, this vault sends the credential unencrypted. Its setting “Credentials over https only” refuses that.`,
};
