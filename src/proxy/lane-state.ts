import type { Service, VaultSettings } from '../actors/vault/model.ts';
import { Secret } from '../actors/vault/secret.ts';
import type { Delta } from '../actors/vault/state.ts';
import type { OpenValue } from '../actors/vault/values.ts';
import type { Active } from './active-sessions.ts';
import type { Rendered } from './inject.ts';

/**
 * What a lane knows: vaults, services, credential values and sessions, in the shapes that a request needs.
 * Entries are updated in place, so that an open tunnel that holds one sees every change; what a request is
 * decided on is read in one synchronous step (`plan`), so it can't change under it.
 */
export class LaneState {
  readonly vaults = new Map<string, VaultEntry>();
  readonly byName = new Map<string, VaultEntry>();
  readonly sessions = new Map<string, SessionEntry>();

  /** Applies the deltas of one transaction, or of the full state after `clear`. */
  apply(deltas: Iterable<Delta>): void {
    for (const delta of deltas) this.#apply(delta);
  }

  /** Forgets everything: what comes next is a full state. Entries still held elsewhere become invalid. */
  clear(): void {
    for (const vault of this.vaults.values()) vault.gone = true;
    for (const session of this.sessions.values()) session.revoked = true;
    this.vaults.clear();
    this.byName.clear();
    this.sessions.clear();
  }

  #apply(delta: Delta): void {
    switch (delta.type) {
      case 'vault': {
        const vault = this.vaults.get(delta.id) ?? new VaultEntry(delta.id, delta.name, delta.settings);
        vault.settings = delta.settings;
        vault.cleared = delta.cleared;
        this.vaults.set(delta.id, vault);
        this.byName.set(delta.name, vault);
        return;
      }
      case 'vault-gone': {
        const vault = this.vaults.get(delta.id);
        if (vault === undefined) return;
        vault.gone = true;
        this.vaults.delete(delta.id);
        if (this.byName.get(vault.name) === vault) this.byName.delete(vault.name);
        return;
      }
      case 'service':
        this.vaults.get(delta.vault)?.setService(delta.service);
        return;
      case 'service-gone':
        this.vaults.get(delta.vault)?.removeService(delta.host);
        return;
      case 'credential':
        this.vaults.get(delta.vault)?.setCredential(delta.key, delta.value);
        return;
      case 'credential-gone':
        this.vaults.get(delta.vault)?.removeCredential(delta.key);
        return;
      case 'session': {
        const session = this.sessions.get(delta.hash) ?? new SessionEntry(delta.kind, delta.id);
        session.label = delta.label;
        session.vaults = delta.vaults;
        session.expiresAt = delta.expires_at_ms ?? Number.POSITIVE_INFINITY;
        this.sessions.set(delta.hash, session);
        return;
      }
      case 'session-gone': {
        const session = this.sessions.get(delta.hash);
        if (session !== undefined) session.revoked = true;
        this.sessions.delete(delta.hash);
      }
    }
  }
}

export class VaultEntry {
  readonly id: string;
  readonly name: string;
  settings: VaultSettings;
  cleared = false;
  gone = false;
  /** By canonical pattern: `host`, `host:port`, `*.rest`, `*.rest:port`. */
  readonly services = new Map<string, ServiceEntry>();
  readonly credentials = new Map<string, Secret | null>();
  /** Raised by each change of a credential: what was rendered under another version is compared with it. */
  credentialVersion = 0;
  /** Services that name a port: while there are none, two of the four look-ups are saved. */
  #withPort = 0;

  constructor(id: string, name: string, settings: VaultSettings) {
    this.id = id;
    this.name = name;
    this.settings = settings;
  }

  setService(service: Service): void {
    const before = this.services.get(service.host);
    if (before === undefined && namesPort(service.host)) this.#withPort++;
    this.services.set(service.host, new ServiceEntry(service));
  }

  removeService(host: string): void {
    if (this.services.delete(host) && namesPort(host)) this.#withPort--;
  }

  setCredential(key: string, value: OpenValue | null): void {
    this.credentials.set(key, value === null ? null : new Secret(value));
    this.credentialVersion++;
  }

  removeCredential(key: string): void {
    this.credentials.delete(key);
    this.credentialVersion++;
  }

  /**
   * The service for a canonical host and port: exact with port, exact, wildcard with port, wildcard.
   * A wildcard stands for exactly one label, so there is one wildcard to look for, however many services there are.
   */
  match(host: string, port: number, isLiteral: boolean): ServiceEntry | undefined {
    const services = this.services;
    const ports = this.#withPort > 0;
    const exact = (ports ? services.get(`${host}:${port}`) : undefined) ?? services.get(host);
    if (exact !== undefined || isLiteral) return exact;
    const dot = host.indexOf('.');
    if (dot < 0) return undefined;
    const wildcard = `*${host.slice(dot)}`;
    return (ports ? services.get(`${wildcard}:${port}`) : undefined) ?? services.get(wildcard);
  }
}

export class ServiceEntry {
  readonly service: Service;
  /** What it injects, made at its first use and kept until one of its credentials changes. */
  rendered: Rendered | null = null;
  renderedVersion = -1;

  constructor(service: Service) {
    this.service = service;
  }
}

export class SessionEntry {
  readonly kind: 'session' | 'agent';
  readonly id: string;
  label: string | null = null;
  /** Ids, each with the index of its rate-limit slot: a list, since most have one. */
  vaults: readonly { readonly id: string; readonly slot: number }[] = [];
  /** Wall clock, ms. */
  expiresAt = 0;
  revoked = false;
  /** What the audit remembers while it has something under way. */
  active: Active | null = null;
  /** Decoders of coded answers that it has open. */
  decoders = 0;

  constructor(kind: 'session' | 'agent', id: string) {
    this.kind = kind;
    this.id = id;
  }

  /** Where what is counted of a session as a whole is counted, whatever the vault. Noted by who counts: it may change. */
  get slot(): number {
    return this.vaults[0]?.slot ?? 0;
  }

  /** `now`: wall clock, ms. */
  valid(now: number): boolean {
    return !this.revoked && now < this.expiresAt;
  }
}

/** Who uses which vault on a connection. */
export class Access {
  readonly session: SessionEntry;
  readonly vault: VaultEntry;
  /** Index of the rate limit's slot. */
  readonly slot: number;
  /** How the audit names the two, under this label: made with the first record. */
  auditNames: { readonly label: string | null; readonly text: string } | null = null;

  constructor(session: SessionEntry, vault: VaultEntry, slot: number) {
    this.session = session;
    this.vault = vault;
    this.slot = slot;
  }
}

function namesPort(pattern: string): boolean {
  // An IPv6 literal ends in `]` where it names no port.
  return !pattern.endsWith(']') && pattern.lastIndexOf(':') > pattern.lastIndexOf(']');
}
