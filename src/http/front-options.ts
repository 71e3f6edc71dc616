import type { Clock } from '../actors/core/clock.ts';
import type { Ref } from '../actors/core/protocol.ts';
import type { Result } from '../actors/vault/problem.ts';
import type { By, VaultProtocol } from '../actors/vault/protocol.ts';
import type { Secret } from '../actors/vault/secret.ts';
import type { SignInFailures } from '../actors/vault/sign-in-failures.ts';
import type { ProofQuestion } from '../actors/vault/token-proof.ts';
import type { RateOptions } from './api-rate.ts';
import type { EventSource } from './event-hub.ts';

type Log = (
  level: 'info' | 'warn' | 'error',
  message: string,
  fields: Readonly<Record<string, unknown>>,
) => void;

/** Refused with `overloaded` where too many passwords are on their way. */
interface Passwords {
  /** As it is stored. */
  hash(password: Secret): Promise<Result<string>>;
  /** `encoded` null: false, after as long as it takes. */
  verify(password: Secret, encoded: string | null): Promise<Result<boolean>>;
}

export interface AuditQuery {
  readonly vault?: string;
  /** Milliseconds since the epoch, both: `since` is included, `until` isn't. */
  readonly since?: number;
  readonly until?: number;
  /** The newest of those that match. */
  readonly limit?: number;
  /** In which order they come. Default: last. */
  readonly newest?: 'first' | 'last';
  /** With the newest first: octets from the log's end that are looked through. Default: all of them. */
  readonly within?: number;
}

/**
 * What a check of the audit log found. `firstBad`: the first line that is wrong; `missing`: batches of which nothing is
 * left, and the times of the records on both sides of them.
 */
export interface AuditVerdict {
  readonly ok: boolean;
  /** `order`: without the key. */
  readonly checked: 'contents' | 'order';
  /** Compared with what the store knows of where the log begins and ends. */
  readonly anchored: boolean;
  readonly segments: number;
  readonly records: number;
  readonly head: { readonly seq: number; readonly hash: string } | null;
  readonly firstBad?: { readonly file: string; readonly line: number; readonly reason: string };
  readonly missing: readonly {
    readonly from: number;
    readonly to: number;
    readonly after: string | null;
    readonly before: string | null;
  }[];
}

/** Running totals of the proxy, and how it is now. */
export interface Stats {
  readonly requests: number;
  /** Requests whose answer was of class 5xx, the broker's own among them. */
  readonly failures: number;
  /** The broker's own answers, by error code. */
  readonly refusals: readonly { readonly code: string; readonly count: number }[];
  /** Requests by how long they took: each up to its bound (ms), and the last one above all. */
  readonly durations: { readonly bounds: readonly number[]; readonly counts: readonly number[] };
  readonly openConnections: number;
  readonly lanes: { readonly up: number; readonly all: number };
  readonly auditHealthy: boolean;
}

/** Where the front listens, and how it is called from outside. */
export interface FrontAddress {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  /** PEM files; null: without TLS. */
  readonly tls: { readonly certFile: string; readonly keyFile: string } | null;
  /** The Unix socket of local commands. */
  readonly socketPath: string;
  /** Connections by TCP at once. */
  readonly maxConnections: number;
  /** Whether who connected there, for that host, has reached this server and nobody else. */
  owns(way: Pick<ProofQuestion, 'host' | 'port' | 'address'>): boolean;
  /** What links begin with, without a slash at the end; null: scheme, host and port as they are. */
  readonly baseUrl: string | null;
  /** The `Host` names that are answered to, without port. */
  readonly hostNames: readonly string[];
}

/** The proxy that agents are told of. */
interface ProxyPort {
  readonly port: number;
  /** The proxy URL to hand out with a session's token. */
  url(token: string, vault: string): string;
  /** What a request would match, without sending it. */
  explain(question: {
    readonly vault: string;
    readonly method: string;
    readonly url: string;
  }): Promise<Result<unknown>>;
}

interface CaPort {
  /** The root certificates to trust, the one that signs now first. */
  pem(): Promise<string>;
  /** When the next root begins to sign, ISO 8601; null: there is none. */
  switchesAt(): Promise<string | null>;
  /** Makes the next root, which signs after the overlap. */
  rotate(rotation: { readonly overlapMs: number; readonly by: By }): Promise<Result<unknown>>;
}

export interface AuditPort {
  /** Takes records of what the vault doesn't hear of: refused tokens and links. */
  append(record: Readonly<Record<string, unknown>>): void;
  /** Resolves when what was done before is in the audit log, where it can be written. */
  settled(): Promise<void>;
  /** Records of the audit log, each without line feed. */
  read(query: AuditQuery): AsyncIterable<string>;
  /** Each record that is written from now on, until the function returned is called. */
  follow(query: AuditQuery, listener: (record: string) => void): () => void;
  /** Checks the whole audit log. */
  verify(): Promise<AuditVerdict>;
}

/** What keeps the store as a whole. */
interface KeepingPort {
  /** `forbidden`: the current one is wrong. */
  changeMasterPassword(change: {
    readonly current: Secret | null;
    readonly next: Secret | null;
    readonly by: By;
  }): Promise<Result<unknown>>;
  /** A backup, to be read to its end or until the signal aborts. */
  backup(over: AbortSignal): Promise<Result<AsyncIterable<Uint8Array>>>;
}

/** How the server is and what it has done. */
export interface HealthPort {
  /** Whether every lane serves. */
  ready(): boolean;
  draining(): boolean;
  /** What the proxy has done since the start, for the console's charts. */
  stats(): Stats;
  /** Prometheus text. */
  metrics(): Promise<string>;
  /** Metrics for everyone, not for operators alone. */
  readonly metricsPublic: boolean;
}

/** What the front is made of and who it speaks for. */
export interface FrontOptions {
  readonly address: FrontAddress;
  readonly proxy: ProxyPort;
  readonly ca: CaPort;
  readonly vault: Ref<VaultProtocol>;
  /** What the vault's `onEvent` is told. */
  readonly events: EventSource;
  readonly audit: AuditPort;
  readonly keeping: KeepingPort;
  readonly health: HealthPort;
  /** Where passwords are hashed, which takes a while. */
  readonly passwords: Passwords;
  /** Shared with the lanes. */
  readonly failures: SignInFailures;
  readonly apiRate: RateOptions;
  readonly clock: Clock;
  readonly log: Log;
}
