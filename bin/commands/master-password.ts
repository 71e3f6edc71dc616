import { askPasswords, passwordOption } from '../ask-passwords.ts';
import { type Command, connectionOptions, type Input } from '../cli.ts';
import { connect } from '../client.ts';
import { note } from '../terminal.ts';

async function put(input: Input, body: { readonly current?: string; readonly new?: string }): Promise<void> {
  const api = await connect(input);
  await api.call('PUT', '/v1/master-password', { body });
}

const current = 'Present master password';
const next = 'New master password';

export const commands: readonly Command[] = [
  {
    name: 'master-password set',
    about: 'Have the stored credentials open by a password instead of the file master.key.',
    options: { ...passwordOption, ...connectionOptions },
    examples: ['broker master-password set', 'pass show broker | broker master-password set --stdin'],
    async run(input) {
      const given = await askPasswords(input, { next });
      await put(input, { new: given.next });
      note(
        'Set the master password, and removed master.key. From its next start on the broker asks for the password:',
      );
      note(
        'on a terminal, or give it by --master-password-file. Without it the stored credentials are lost.',
      );
    },
  },
  {
    name: 'master-password change',
    about: 'Put another master password in the place of the present one.',
    options: { ...passwordOption, ...connectionOptions },
    examples: ['broker master-password change'],
    async run(input) {
      const given = await askPasswords(input, { current, next });
      await put(input, { current: given.current, new: given.next });
      note('Changed the master password. Backups made before still open with the one before.');
    },
  },
  {
    name: 'master-password remove',
    about: 'Go back to the file master.key in the data directory.',
    options: { ...passwordOption, ...connectionOptions },
    examples: ['broker master-password remove'],
    async run(input) {
      const given = await askPasswords(input, { current });
      await put(input, { current: given.current });
      note(
        'Removed the master password. Keep a copy of master.key elsewhere, and start the broker without a password.',
      );
    },
  },
];
