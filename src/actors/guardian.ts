import type { MessagePort } from 'node:worker_threads';
import type { AuditOptions, AuditProtocol } from './audit.ts';
import { auditActor } from './audit.ts';
import type { CaOptions, CaProtocol } from './ca.ts';
import { caActor } from './ca.ts';
import type { ActorSpec } from './core/behavior.ts';
import { serve } from './core/link.ts';
import type { Ref } from './core/protocol.ts';
import { policies } from './core/supervision.ts';
import type { ActorSystem } from './core/system.ts';
import { type ThreadProtocol, threadActor } from './core/thread.ts';
import type { VaultProtocol } from './vault/protocol.ts';

/** What starts one lane's task on a thread; resolves when it ends. */
type RunLane = (lane: number, port: MessagePort, signal: AbortSignal) => Promise<unknown>;

export interface TreeOptions {
  readonly audit: AuditOptions;
  readonly ca: CaOptions;
  /** Made by the wiring, which has opened the store; it is given the audit to write to. */
  readonly vault: (audit: Ref<AuditProtocol>) => ActorSpec<VaultProtocol>;
  readonly lanes: number;
  readonly runLane: RunLane;
  /** How long a lane may take to drain, in ms. */
  readonly drainMs: number;
  readonly onLaneUp: (lane: number) => void;
  readonly onLaneDown: (lane: number, error: unknown) => void;
}

export interface Tree {
  readonly audit: Ref<AuditProtocol>;
  readonly ca: Ref<CaProtocol>;
  readonly vault: Ref<VaultProtocol>;
  /** Drains and ends the lanes side by side: one after the other, the last would take connections all the while. */
  stopLanes(): Promise<void>;
}

/**
 * The tree of actors. What is started last stops first: lanes drain before the vault closes, and the audit
 * outlives them all, since each of them still has something to write.
 *
 * | actor | policy | why |
 * |---|---|---|
 * | audit | always | records are held outside of its life; without it proxying stops, and comes back with it |
 * | vault | transient | its memory is read anew from the store; one that keeps failing has a damaged store |
 * | ca | transient | it holds nothing but the root key and a cache |
 * | lane-N | always | a lane takes only its own connections with it |
 */
export function startTree(system: ActorSystem, options: TreeOptions): Tree {
  const audit = system.spawn({ ...auditActor(options.audit), supervision: policies.always, mailbox: 65_536 });
  const vault = system.spawn(options.vault(audit));
  const ca = system.spawn({ ...caActor(options.ca), supervision: policies.transient, mailbox: 8192 });
  const lanes: Ref<ThreadProtocol>[] = [];
  for (let lane = 0; lane < options.lanes; lane++) {
    const ref = system.spawn(
      threadActor({
        name: `lane-${lane}`,
        supervision: policies.always,
        stopTimeoutMs: options.drainMs + 5_000,
        onStart: (port) => void serve(system, port, { ca, vault }),
        onUp: () => options.onLaneUp(lane),
        async run(port, signal) {
          try {
            return await options.runLane(lane, port, signal);
          } catch (error) {
            options.onLaneDown(lane, error);
            throw error;
          } finally {
            vault.tell('lane.detach', { lane });
          }
        },
      }),
    );
    lanes.push(ref);
  }
  return {
    audit,
    ca,
    vault,
    async stopLanes() {
      const ended = lanes.map(
        (lane) => new Promise<void>((resolve) => void system.watch(lane, () => resolve())),
      );
      for (const lane of lanes) lane.tell('stop', undefined);
      await Promise.all(ended);
    },
  };
}
