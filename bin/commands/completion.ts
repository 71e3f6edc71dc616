import type { Command, Groups } from '../cli.ts';
import { shells } from '../completion-scripts.ts';
import { completionTable } from '../completion-table.ts';
import { misused, write } from '../terminal.ts';

/** @param groups every command, this one among them */
export function completionCommands(groups: Groups): readonly Command[] {
  return [
    {
      name: 'completion',
      args: `<${Object.keys(shells).join('|')}>`,
      about: 'Print a script that completes commands and options in bash, zsh or fish.',
      examples: [
        'source <(broker completion bash)',
        'source <(broker completion zsh)',
        'broker completion fish > ~/.config/fish/completions/broker.fish',
      ],
      async run({ args: [shell] }) {
        if (!Object.hasOwn(shells, shell))
          throw misused(`The shell is one of ${Object.keys(shells).join(', ')}.`);
        write(shells[shell](await completionTable(groups)));
      },
    },
  ];
}
