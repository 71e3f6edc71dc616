import type { Ref } from '../../src/actors/core/protocol.ts';
import type { VaultProtocol } from '../../src/actors/vault/protocol.ts';
import type { HealthPort } from '../../src/http/front-options.ts';
import { durationBounds, readMeters } from '../../src/proxy/meters.ts';
import type { SharedMemory } from '../../src/workers/boot.ts';
import { createMetrics } from './metrics.ts';

export interface HealthSources {
  readonly vault: Ref<VaultProtocol>;
  readonly shared: SharedMemory;
  readonly lanes: number;
  lanesUp(): number;
  draining(): boolean;
  /** Counters of the actor runtime, by name. */
  actors(): Readonly<Record<string, number>>;
  readonly metricsPublic: boolean;
}

/** How the server is, for probes, Prometheus and the console: all of it from the memory that the lanes count in. */
export function createHealth(sources: HealthSources): HealthPort {
  const { vault, shared, lanes, lanesUp, draining, actors, metricsPublic } = sources;
  const health = new Int32Array(shared.auditHealth);
  const read = () => readMeters(shared.meters, lanes);
  const auditHealthy = () => Atomics.load(health, 0) === 0;

  return {
    ready: () => lanesUp() === lanes && !draining(),
    draining,
    stats() {
      const { counts, errors, buckets } = read();
      const requests = buckets.reduce((sum, count) => sum + count, 0);
      return {
        requests,
        failures: counts.requests5xx,
        refusals: errors,
        durations: { bounds: durationBounds, counts: buckets },
        openConnections: counts.open,
        lanes: { up: lanesUp(), all: lanes },
        auditHealthy: auditHealthy(),
      };
    },
    metrics: createMetrics({
      read,
      vaults: () => vault.ask('vault.list', {}),
      actors,
      lanesUp,
      auditHealthy,
    }),
    metricsPublic,
  };
}
