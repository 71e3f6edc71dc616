import type { MessagePort } from 'node:worker_threads';
import type { CaProtocol } from '../actors/ca.ts';
import type { Ref } from '../actors/core/protocol.ts';
import type { RateLimit } from '../actors/vault/model.ts';
import type { VaultEvent } from '../actors/vault/protocol.ts';
import type { PlainPolicy, Timeouts } from '../proxy/lane.ts';

/** Setup of the data plane: what the operator chose, the same for all lanes. */
export interface ProxyOptions {
  readonly host: string;
  readonly port: number;
  /** The API's port: refused as a target, like the proxy's own. */
  readonly apiPort: number;
  readonly baseUrl: string;
  readonly plain: PlainPolicy;
  readonly timeouts: Timeouts;
  readonly limit: RateLimit;
  /** Wrong tokens an address may show in five minutes; 0: any number. */
  readonly authFailures: number;
  readonly allowPrivateRanges: boolean;
  readonly networkAllow: readonly string[];
  /** PEM texts that upstreams are verified against, beside the bundled and the system's roots. */
  readonly upstreamCa: readonly string[];
  readonly auditFailOpen: boolean;
  /** Refusals a second of one caller that have a record each; those over it are summed up. 0: all have one. */
  readonly auditRefusalRate: number;
  /** How long a drain waits for what is in flight, in ms. */
  readonly drainMs: number;
}

/** Memory that all threads share. */
export interface SharedMemory {
  /** One word: the epoch of the published state. */
  readonly epoch: SharedArrayBuffer;
  readonly limits: SharedArrayBuffer;
  /** What sessions have of things that are shared out. */
  readonly shares: SharedArrayBuffer;
  readonly failures: SharedArrayBuffer;
  readonly meters: SharedArrayBuffer;
  /** One word: 0 the audit is being written, 1 it can't be. */
  readonly auditHealth: SharedArrayBuffer;
}

/** What a lane's records take to the main thread. The port is transferred; its end is the lane's. */
export interface LaneAudit {
  readonly memory: SharedArrayBuffer;
  /** Descriptor of its run file (`src/proxy/run-file.ts`): they are the process's, not a thread's. */
  readonly runFile: number;
  readonly port: MessagePort;
}

/** Everything that a lane's thread is given. Cloneable; the ports are transferred. */
export interface LaneBoot {
  readonly lane: number;
  readonly lanes: number;
  /** Heartbeat, and the actors of the main thread. */
  readonly port: MessagePort;
  /** Full state first, then each transaction's deltas. */
  readonly statePort: MessagePort;
  /** Its audit records (`src/proxy/audit-memory.ts`), and where it says that there are some. */
  readonly audit: LaneAudit;
  readonly shared: SharedMemory;
  readonly options: ProxyOptions;
  /** The one key of all leaves, the listener's own among them (PKCS #8 PEM). */
  readonly leafKeyPem: string;
  /** What the proxy is reached by: the names in its own certificate. */
  readonly listenerNames: readonly string[];
  /** 48 bytes for session tickets: a client resumes on any lane. */
  readonly ticketKeys: Uint8Array;
}

/** What the main thread tells and asks of a lane are heartbeats only; what a lane asks of the main thread is this. */
export interface LanePeers {
  readonly ca: Ref<CaProtocol>;
  readonly vault: Ref<{ notice: { in: VaultEvent } }>;
  [name: string]: Ref<never> | Ref<CaProtocol> | Ref<{ notice: { in: VaultEvent } }>;
}
