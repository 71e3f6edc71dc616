import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { VaultView } from '../../src/actors/vault/protocol.ts';
import { durationBounds, type MeterReading } from '../../src/proxy/meters.ts';

export interface MetricSources {
  read(): MeterReading;
  vaults(): Promise<readonly VaultView[]>;
  /** Counters of the actor runtime, by name. */
  actors(): Readonly<Record<string, number>>;
  lanesUp(): number;
  auditHealthy(): boolean;
}

/** The Prometheus text of `GET /metrics`: what the lanes counted, and the state of the parts. No label is free text. */
export function createMetrics(sources: MetricSources): () => Promise<string> {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: 'broker_' });
  let reading = sources.read();

  const counter = (name: string, help: string, labels: string[], fill: (c: Counter) => void): void => {
    new Counter({
      name,
      help,
      labelNames: labels,
      registers: [registry],
      collect() {
        // The lanes hold the running totals: each scrape starts from nothing and takes them over.
        this.reset();
        fill(this);
      },
    });
  };
  const gauge = (name: string, help: string, value: () => number | Promise<number>): void => {
    new Gauge({
      name,
      help,
      registers: [registry],
      async collect() {
        this.set(await value());
      },
    });
  };

  counter(
    'broker_requests_total',
    'Proxied requests by class of the status that the client saw',
    ['status'],
    (c) => {
      for (const [name, count] of Object.entries(reading.counts)) {
        if (name.startsWith('requests'))
          c.inc({ status: name.slice('requests'.length).toLowerCase() }, count);
      }
    },
  );
  counter('broker_refusals_total', "The broker's own answers, by error code", ['code'], (c) => {
    for (const { code, count } of reading.errors) c.inc({ code }, count);
  });
  const plain: [string, string, keyof MeterReading['counts']][] = [
    ['broker_injected_requests_total', 'Requests that carried a credential', 'injected'],
    ['broker_request_body_bytes_total', 'Body bytes from clients', 'bytesIn'],
    ['broker_response_body_bytes_total', 'Body bytes to clients', 'bytesOut'],
    ['broker_client_connections_total', 'Connections accepted on the proxy port', 'connectionsOpened'],
    ['broker_tunnels_total', 'CONNECT tunnels opened', 'tunnelsOpened'],
    ['broker_upstream_connections_total', 'Connections opened to upstreams', 'upstreamOpened'],
    ['broker_upstream_reuses_total', 'Requests on a kept upstream connection', 'upstreamReused'],
  ];
  for (const [name, help, word] of plain) counter(name, help, [], (c) => c.inc(reading.counts[word]));
  gauge(
    'broker_open_connections',
    'Connections, both sides, as of the last sweep',
    () => reading.counts.open,
  );
  gauge('broker_lanes_up', 'Proxy threads that serve', sources.lanesUp);
  gauge('broker_audit_healthy', '1 while the audit log can be written', () =>
    sources.auditHealthy() ? 1 : 0,
  );
  counter('broker_actor_events_total', 'Events of the actor runtime', ['event'], (c) => {
    for (const [event, count] of Object.entries(sources.actors())) c.inc({ event }, count);
  });

  new Gauge({
    name: 'broker_vault_objects',
    help: 'What the vaults hold, all together',
    labelNames: ['kind'],
    registers: [registry],
    async collect() {
      const vaults = await sources.vaults();
      this.set({ kind: 'vaults' }, vaults.length);
      for (const kind of ['services', 'credentials', 'pending_proposals'] as const) {
        this.set(
          { kind },
          vaults.reduce((sum, { counters }) => sum + counters[kind], 0),
        );
      }
    },
  });

  return async () => {
    reading = sources.read();
    return (await registry.metrics()) + histogram(reading);
  };
}

/** prom-client keeps a histogram by observing; ours is counted by the lanes, so its text is made here. */
function histogram({ buckets, counts }: MeterReading): string {
  const name = 'broker_request_duration_seconds';
  let total = 0;
  const lines = [
    `\n# HELP ${name} From a request's head to the end of its answer`,
    `# TYPE ${name} histogram`,
  ];
  durationBounds.forEach((bound, i) => {
    total += buckets[i];
    lines.push(`${name}_bucket{le="${bound / 1000}"} ${total}`);
  });
  total += buckets[durationBounds.length];
  lines.push(
    `${name}_bucket{le="+Inf"} ${total}`,
    `${name}_sum ${counts.durationSum / 1000}`,
    `${name}_count ${total}`,
  );
  return `${lines.join('\n')}\n`;
}
