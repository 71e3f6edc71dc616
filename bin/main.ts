import { type Groups, runCommandLine } from './cli.ts';
import { Failure, printableBlock } from './terminal.ts';

/** Every command by its first words. A file is loaded when it is needed, so that a small command starts fast. */
const groups: Groups = {
  server: { about: 'Run the broker', load: () => import('./commands/server.ts') },
  status: {
    about: 'Is the broker there, and what waits for you',
    load: () => import('./commands/status.ts'),
  },
  login: { about: 'Print a link that signs a browser in', load: () => import('./commands/login.ts') },
  vault: { about: 'Create, list, show, change and delete vaults', load: () => import('./commands/vault.ts') },
  'vault run': {
    about: 'Run a command with access to a vault',
    load: () => import('./commands/vault-run.ts'),
  },
  'vault service': {
    about: 'Which hosts a vault reaches, and how',
    load: () => import('./commands/vault-service.ts'),
  },
  'vault credential': {
    about: 'The secrets of a vault, by key',
    load: () => import('./commands/vault-credential.ts'),
  },
  'vault proposal': { about: 'What agents ask for', load: () => import('./commands/vault-proposal.ts') },
  'vault explain': {
    about: 'What would happen to a request',
    load: () => import('./commands/vault-discovery.ts'),
  },
  'vault discover': {
    about: 'What agents find in a vault',
    load: () => import('./commands/vault-discovery.ts'),
  },
  agent: { about: 'Invite, list, rotate and remove agents', load: () => import('./commands/agent.ts') },
  ca: { about: 'The root certificate that agents trust', load: () => import('./commands/ca.ts') },
  operator: {
    about: 'The humans who own vaults: create, list, remove, set passwords',
    load: () => import('./commands/operator.ts'),
  },
  'master-password': {
    about: 'Have the stored credentials open by a password',
    load: () => import('./commands/master-password.ts'),
  },
  backup: { about: 'Write a backup of the running broker', load: () => import('./commands/backup.ts') },
  restore: {
    about: 'Put a backup into an empty data directory',
    load: () => import('./commands/backup.ts'),
  },
  audit: { about: 'What was done, by whom', load: () => import('./commands/audit.ts') },
  completion: {
    about: 'Complete commands and options in your shell',
    load: async () => ({ commands: (await import('./commands/completion.ts')).completionCommands(groups) }),
  },
  version: { about: 'Print the version', load: () => import('./commands/version.ts') },
};

try {
  process.exitCode = await runCommandLine(groups, process.argv.slice(2));
} catch (error) {
  const message = error instanceof Error ? error.message : String(error);
  const what =
    error instanceof Failure ? message : `failed in a way it should not: ${message}. Please report this.`;
  process.stderr.write(`broker: ${printableBlock(what)}\n`);
  process.exitCode = error instanceof Failure ? error.exitCode : 1;
}
