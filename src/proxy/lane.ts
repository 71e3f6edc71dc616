import type { SecureContext } from 'node:tls';
import type { RateLimit } from '../actors/vault/model.ts';
import type { Outcome, RequestFacts } from './audit-line.ts';
import type { AuditSink } from './audit-sink.ts';
import type { LaneState } from './lane-state.ts';
import type { Limits } from './limits.ts';
import type { Meters } from './meters.ts';
import type { Shares } from './shares.ts';
import type { Sweeper } from './sweep.ts';
import type { Turns } from './turns.ts';
import type { Upstreams } from './upstreams.ts';

/** Time-outs of the proxy's phases, in ms; the operator can set each. */
export interface Timeouts {
  /** TLS handshake of a client, outer or inner, ClientHello included. */
  readonly clientTls: number;
  /** From the first byte of a request head to its last. */
  readonly head: number;
  /** Between two requests on a connection, and before the first one in a tunnel. */
  readonly keepAlive: number;
  readonly connect: number;
  readonly upstreamTls: number;
  /** From the request's end to the response head. */
  readonly responseHead: number;
  /** Between two pieces of a body, either way. */
  readonly body: number;
  /** Without a byte on an upgraded connection or a blind tunnel. */
  readonly relay: number;
}

/** Whether a plain (not TLS-wrapped) proxy connection is answered. */
export type PlainPolicy = 'loopback' | 'always' | 'never';

/** What all parts of a lane share. One object a lane, made at boot. */
export interface Lane {
  readonly state: LaneState;
  /** Takes in what the vault has published; false: this lane is behind and must not answer. */
  gate(): boolean;
  readonly sweeper: Sweeper;
  readonly turns: Turns;
  readonly shares: Shares;
  readonly upstreams: Upstreams;
  readonly limits: Limits;
  readonly defaultLimit: RateLimit;
  readonly audit: AuditSink;
  readonly meters: Meters;
  /** Puts one finished request into the audit and the metrics. `slot`: what `audit.begin` gave for it, if it began. */
  record(facts: RequestFacts, outcome: Outcome, slot?: number): void;
  /** Says so in the log where something of ours threw; never throws itself. */
  failed(error: unknown, requestId: string | null): void;
  readonly timeouts: Timeouts;
  readonly plain: PlainPolicy;
  readonly baseUrl: string;
  /** The certificate of the proxy listener itself. */
  readonly listenerContext: SecureContext;
  /** The context with the leaf for a host (canonical, without brackets); asks the ca actor on a miss. */
  leaf(host: string): Promise<SecureContext>;
  /** A new request id. */
  requestId(): string;
  /** µs of the machine's monotonic clock, the same on all lanes. */
  micros(): number;
  /** Stop taking new work; connections end as they become idle. */
  draining: boolean;
  /** Something operators want to hear of, such as a denied host. Rate-limited by the receiver. */
  notice(type: 'host.denied' | 'credential.missing', vault: string, data: Record<string, unknown>): void;
}
