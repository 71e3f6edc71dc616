import type { Command } from '../cli.ts';
import { readMasterPassword, takeMasterPassword } from '../server/master-password.ts';
import { listFlags, readSettings, serverFlags } from '../server/options.ts';
import { show } from '../yaml.ts';

export const commands: readonly Command[] = [
  {
    name: 'server',
    about: 'Run the broker: the API and its pages, and the proxy that agents go through.',
    options: { ...serverFlags(), '--json': 'Print the settings as JSON (with --print-config)' },
    repeatable: listFlags,
    examples: [
      'broker server',
      'broker server --data-dir /var/lib/broker --workers 4',
      'broker server --config broker.yaml --print-config',
    ],
    async run(input) {
      const fromEnvironment = takeMasterPassword(process.env);
      const settings = readSettings(input, process.env);
      if (input.flag('print-config')) {
        const secrets = fromEnvironment === null ? {} : { 'master-password': '(set)' };
        show({ ...settings, ...secrets }, input.flag('json'));
        return 0;
      }
      const { runServer } = await import('../server/run.ts');
      const file = settings['master-password-file'];
      return runServer(settings, file === null ? fromEnvironment : readMasterPassword(file));
    },
  },
];
