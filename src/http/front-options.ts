import type { Clock } from '../actors/core/clock.ts';
import type { Ref } from '../actors/core/protocol.ts';
import type { Result } from '../actors/vault/problem.ts';
import type { By, VaultProtocol } from '../actors/vault/protocol.ts';
import type { Secret } from '../actors/vault/secret.ts';
import type { SignInFailures } from '../actors/vault/sign-in-failures.ts';
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
  readonly limit?: number;
}

/** What a check of the audit log found; `firstBad`: the first line that is wrong. */
export interface AuditVerdict {
  readonly ok: boolean;
  readonly segments: number;
  readonly records: number;
  readonly head: { readonly seq: number; readonly hash: string } | null;
  readonly firstBad?: { readonly file: string; readonly line: number; readonly reason: string };
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

/** What the front is made of and who it speaks for. */
export interface FrontOptions {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  /** PEM files; null: without TLS. */
  readonly tls: { readonly certFile: string; readonly keyFile: string } | null;
  /** What links begin with, without a slash at the end; null: scheme, host and port as they are. */
  readonly baseUrl: string | null;
  /** The `Host` names that are answered to, without port. */
  readonly hostNames: readonly string[];
  readonly proxyPort: number;
  /** The proxy URL to hand out with a session's token. */
  proxyUrl(token: string, vault: string): string;
  /** The root certificates to trust, the one that signs now first. */
  caPem(): string | Promise<string>;
  /** When the next root begins to sign, ISO 8601; null: there is none. */
  caSwitchesAt?(): Promise<string | null>;
  readonly vault: Ref<VaultProtocol>;
  /** What the vault's `onEvent` is told. */
  readonly events: EventSource;
  /** Shared with the lanes. */
  readonly failures: SignInFailures;
  /** Whether every lane serves. */
  ready(): boolean;
  draining(): boolean;
  readonly clock: Clock;
  readonly log: Log;
  /** Takes records of what the vault doesn't hear of: refused tokens and links. */
  audit?(record: Readonly<Record<string, unknown>>): void;
  /** Resolves when what was done before is in the audit log, where it can be written. */
  auditSettled?(): Promise<void>;
  /** Records of the audit log, newest last, each without line feed. Absent: no such route. */
  auditRead?(query: AuditQuery): AsyncIterable<string>;
  /** Each record that is written from now on, until the function returned is called. Absent: nothing to follow. */
  auditFollow?(query: AuditQuery, listener: (record: string) => void): () => void;
  /** Checks the whole audit log. Absent: the console doesn't offer it. */
  auditVerify?(): Promise<AuditVerdict>;
  /** What the proxy has done since the start, for the console's charts. Absent: there are none. */
  stats?(): Stats;
  /** What a request would match, without sending it. Absent: no such route. */
  explain?(question: {
    readonly vault: string;
    readonly method: string;
    readonly url: string;
  }): Promise<Result<unknown>>;
  /** Prometheus text. Absent: no such route. */
  metrics?(): Promise<string>;
  /** Where passwords are hashed, which takes a while. Absent: no sign-in by password, and no routes for operators. */
  readonly passwords?: Passwords;
  /** Absent: no such route. `forbidden`: the current one is wrong. */
  changeMasterPassword?(change: {
    readonly current: Secret | null;
    readonly next: Secret | null;
    readonly by: By;
  }): Promise<Result<unknown>>;
  /** A backup, to be read to its end or until the signal aborts. Absent: no such route. */
  backup?(over: AbortSignal): Promise<Result<AsyncIterable<Uint8Array>>>;
  /** Makes the next root, which signs after the overlap. Absent: no such route. */
  rotateCa?(rotation: { readonly overlapMs: number; readonly by: By }): Promise<Result<unknown>>;
  /** Metrics for everyone, not for operators alone. */
  readonly metricsPublic?: boolean;
}
