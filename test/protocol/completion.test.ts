/** Completion in real shells, on a real terminal. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import { launcher, run, temporary } from '../support/broker.ts';
import { onTerminal } from '../support/terminal.ts';

/** How each shell is started without its user's files, and what makes it print the words that it was given. */
const shells: readonly { name: string; command: readonly string[]; ready: readonly string[] }[] = [
  {
    name: 'bash',
    command: ['bash', '--norc', '--noprofile', '-i'],
    ready: ['source <(broker completion bash)', `broker() { printf '<%s>' "$@" '|'; }`],
  },
  {
    name: 'zsh',
    command: ['zsh', '-f', '-i'],
    ready: [
      'unsetopt zle_bracketed_paste; autoload -U compinit; compinit -u -D; source <(broker completion zsh)',
      `broker() { printf '<%s>' "$@" '|'; }`,
    ],
  },
  {
    name: 'fish',
    command: ['fish', '--no-config'],
    ready: ['broker completion fish | source', `function broker; printf '<%s>' $argv '|'; end`],
  },
];

for (const { name, command, ready } of shells) {
  t.test(`completion in ${name}`, async (t) => {
    const home = temporary(t);
    mkdirSync(join(home, 'bin'));
    writeFileSync(join(home, 'services.yaml'), '');
    writeFileSync(join(home, 'bin', 'zz-program'), '#!/bin/sh\n', { mode: 0o755 });
    const script = await run(launcher, ['completion', name]);
    t.equal(script.code, 0);
    writeFileSync(join(home, 'script'), script.stdout);
    t.match(await run(command[0], ['-n', join(home, 'script')]), { code: 0, stderr: '' }, 'its syntax');

    const path = [join(home, 'bin'), dirname(launcher), process.env.PATH].join(':');
    const env = { HOME: home, XDG_CONFIG_HOME: home, XDG_DATA_HOME: home, PATH: path, PS1: '% ' };
    const terminal = onTerminal(t, ['sh', '-c', `cd ${home} && exec ${command.join(' ')}`], env);
    for (const line of [...ready, 'echo rea""dy']) terminal.type(`${line}\r`);
    await terminal.sees('ready');
    for (const [typed, words] of [
      ['vau', 'vault'],
      ['vault serv', 'vault service'],
      ['vault service en', 'vault service enable'],
      ['vault service --vault x li', 'vault service --vault x list'],
      ['vault service set --fi', 'vault service set --file'],
      ['vault service set --vault dev --fi', 'vault service set --vault dev --file'],
      ['vault service set -f serv', 'vault service set -f services.yaml'],
      ['server --proxy-plain al', 'server --proxy-plain always'],
      ['completion fi', 'completion fish'],
      ['restore serv', 'restore services.yaml'],
      ['vault run --ttl 1h -- zz-pr', 'vault run --ttl 1h -- zz-program'],
      ['nowhere x', 'nowhere x'],
    ]) {
      terminal.type(`broker ${typed}\t\r`);
      await terminal.sees(`<${words.split(' ').join('><')}><|>`);
      t.pass(`${typed}: ${words}`);
    }
    terminal.type('exit\r');
    t.match(await terminal.ended, { code: 0 });
  });
}

t.test('completion knows every command and option', async (t) => {
  const { stdout } = await run(launcher, ['completion', 'bash']);
  const { stdout: help } = await run(launcher, ['--help']);
  const groups = [...help.matchAll(/^ {2}([a-z][a-z -]*?) {2}/gm)].map(([, group]) => group);
  t.ok(groups.length > 15);
  for (const group of groups) {
    const words = group.split(' ');
    const before = words.slice(0, -1).join(' ');
    t.match(stdout, new RegExp(`'${before}'\\) echo '[^']*\\b${words.at(-1)}\\b`), group);
  }
  t.match(await run(launcher, ['completion', 'tcsh']), {
    code: 2,
    stdout: '',
    stderr: /one of bash, zsh, fish/,
  });
});
