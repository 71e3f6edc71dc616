import { askPasswords, passwordOption } from '../ask-passwords.ts';
import { type Command, connectionOptions, jsonOption } from '../cli.ts';
import { type Api, connect, route, vaultName } from '../client.ts';
import { misused, note, printJson, table, write } from '../terminal.ts';

interface Operators {
  readonly operators: readonly {
    readonly name: string;
    readonly role: 'owner' | 'admin';
    readonly vaults: readonly string[];
  }[];
  /** Whose token this command has. */
  readonly you: string;
}

function list(api: Api): Promise<Operators> {
  return api.call<Operators>('GET', '/v1/operators');
}

export const commands: readonly Command[] = [
  {
    name: 'operator create',
    args: '<name>',
    about: 'Make an operator: an admin of the vaults named, or another owner. Give it a password next.',
    options: {
      '--vault <name>': 'A vault that it administers; repeat it for more (default)',
      '--role <owner|admin>': 'admin, or owner of all vaults (admin)',
      ...jsonOption,
      ...connectionOptions,
    },
    repeatable: ['vault'],
    examples: ['broker operator create ann --vault staging', 'broker operator passwd ann'],
    async run(input) {
      const [name] = input.args;
      const role = input.text('role') ?? 'admin';
      if (role !== 'admin' && role !== 'owner') throw misused('--role is admin or owner.');
      const named = input.texts('vault').map(vaultName);
      if (role === 'owner' && named.length > 0)
        throw misused('An owner administers all vaults: leave --vault out.');
      const vaults = role === 'owner' ? [] : named.length > 0 ? named : ['default'];
      const api = await connect(input);
      const made = await api.call('POST', '/v1/operators', { body: { name, role, vaults } });
      if (input.flag('json')) return printJson(made);
      note(`Created ${role} ${name}. To let them sign in: broker operator passwd ${name}`);
    },
  },
  {
    name: 'operator passwd',
    args: '[name]',
    about: "Set an operator's password, by default your own. It signs them out everywhere else.",
    options: { ...passwordOption, ...connectionOptions },
    examples: ['broker operator passwd', 'broker operator passwd ann'],
    async run(input) {
      const api = await connect(input);
      const { operators, you } = await list(api);
      const [name = you] = input.args;
      // An owner may set any; others show that the token in use is in the right hands.
      const isOwner = operators.find((one) => one.name === you)?.role === 'owner';
      const next = `New password of ${name}`;
      const given = await askPasswords(
        input,
        isOwner ? { next } : { current: 'Your present password', next },
      );
      const body = { password: given.next, current_password: given.current };
      await api.call('PUT', route`/v1/operators/${name}/password`, { body });
      note(`Set the password of ${name}.`);
    },
  },
  {
    name: 'operator list',
    about: 'List the operators and the vaults that they administer.',
    options: { ...jsonOption, ...connectionOptions },
    examples: ['broker operator list'],
    async run(input) {
      const answer = await list(await connect(input));
      if (input.flag('json')) return printJson(answer);
      const rows = answer.operators.map(({ name, role, vaults }) => [
        name,
        role,
        role === 'owner' ? '(all)' : vaults.join(','),
      ]);
      write(table(['NAME', 'ROLE', 'VAULTS'], rows));
    },
  },
  {
    name: 'operator remove',
    args: '<name>',
    about: 'Remove an operator. They are signed out everywhere at once.',
    options: connectionOptions,
    examples: ['broker operator remove ann'],
    async run(input) {
      const api = await connect(input);
      await api.call('DELETE', route`/v1/operators/${input.args[0]}`);
      note(`Removed operator ${input.args[0]}.`);
    },
  },
];
