import { type Command, connectionOptions, jsonOption } from '../cli.ts';
import { type Api, connect, Refused } from '../client.ts';
import { Failure, note } from '../terminal.ts';
import { show } from '../yaml.ts';

interface VaultCounters {
  readonly counters: {
    readonly services: number;
    readonly credentials: number;
    readonly pending_proposals: number;
  };
}

async function isReady(api: Api): Promise<boolean> {
  try {
    await api.call('GET', '/ready');
    return true;
  } catch (error) {
    if (error instanceof Refused && error.status === 503) return false;
    throw error;
  }
}

export const commands: readonly Command[] = [
  {
    name: 'status',
    about: 'Say whether the broker is ready, and what waits for an operator. Exits 1 where it is not ready.',
    options: { ...connectionOptions, ...jsonOption },
    examples: ['broker status', 'broker status --address https://broker.example.com'],
    async run(input) {
      const api = await connect(input, 'anyone');
      const ready = await isReady(api);
      const port = (await api.text('/v1/ca.pem')).header('x-broker-proxy-port');
      const report: Record<string, unknown> = {
        address: api.address,
        ready,
        proxy_port: Number(port) || null,
      };
      try {
        const operator = await connect(input);
        const { vaults } = await operator.call<{ vaults: readonly VaultCounters[] }>('GET', '/v1/vaults');
        const sum = (name: keyof VaultCounters['counters']) =>
          vaults.reduce((all, one) => all + one.counters[name], 0);
        report.vaults = vaults.length;
        report.services = sum('services');
        report.credentials = sum('credentials');
        report.pending_proposals = sum('pending_proposals');
      } catch (error) {
        // Readiness is everyone's to ask; the rest is for operators only.
        if (!(error instanceof Failure)) throw error;
        note(`broker: ${error.message}`);
      }
      show(report, input.flag('json'));
      return ready ? 0 : 1;
    },
  },
];
