import type { KeyObject } from 'node:crypto';
import { createWriteStream, existsSync } from 'node:fs';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { type BackupHead, readHead } from '../../src/actors/vault/backup-format.ts';
import { parseKey } from '../../src/actors/vault/keyfile.ts';
import { scryptKey } from '../../src/actors/vault/password-hash.ts';
import { unwrapKek } from '../../src/actors/vault/password-kek.ts';
import { insistOnEmpty, restoreBackup } from '../../src/actors/vault/restore.ts';
import { StoreError } from '../../src/actors/vault/store.ts';
import { type Command, connectionOptions, type Input } from '../cli.ts';
import { connect } from '../client.ts';
import { readText } from '../read-text.ts';
import { askMasterPassword, readMasterPassword, takeMasterPassword } from '../server/master-password.ts';
import { dataDirectory } from '../target.ts';
import { failed, note } from '../terminal.ts';

function cannot(what: string, error: unknown): Error {
  const { code } = error as NodeJS.ErrnoException;
  return error instanceof Error && code !== undefined && !(error instanceof StoreError)
    ? failed(`${what} (${code}). Check the path and the disk.`)
    : (error as Error);
}

/** Writes a backup to a file (0600) that is there only when it is whole. */
async function backup(input: Input): Promise<void> {
  const [file] = input.args;
  if (existsSync(file)) throw failed(`${file} is there already. Name another file, or remove it.`);
  const api = await connect(input);
  const bytes = await api.bytes('POST', '/v1/backup');
  const part = `${file}.${process.pid}.part`;
  try {
    await pipeline(bytes, createWriteStream(part, { mode: 0o600, flags: 'wx', flush: true }));
    await rename(part, file);
  } catch (error) {
    await rm(part, { force: true });
    throw cannot(`${file} can't be written`, error);
  }
  note(
    `Wrote ${file}. It opens with the master.key, or the master password, that the broker has now: keep that apart.`,
  );
}

/** The key that a backup asks for. */
async function keyOf(input: Input, { kek }: BackupHead, directory: string): Promise<KeyObject> {
  const fromEnvironment = takeMasterPassword(process.env);
  if (kek.source === 'password') {
    const file = input.text('master-password-file');
    const password =
      file === undefined ? (fromEnvironment ?? (await askMasterPassword?.())) : readMasterPassword(file);
    if (!password)
      throw failed('This backup opens with a master password. Give it by --master-password-file.');
    const key = await unwrapKek(kek, password, async (secret, salt, cost) =>
      scryptKey(secret.reveal(), salt, cost),
    );
    if (key === null)
      throw failed(
        'The master password is not the one that this backup was made under. Nothing was restored.',
      );
    return key;
  }
  const present = join(directory, 'master.key');
  const file = input.text('master-key') ?? (existsSync(present) ? present : undefined);
  if (file === undefined)
    throw failed(
      'This backup opens with the master.key of its broker. Name your copy of it by --master-key.',
    );
  const key = parseKey(await readText(file));
  if (key === null) throw failed(`${file} holds no master key. It has to be a line of 64 hex digits.`);
  return key;
}

async function restore(input: Input): Promise<void> {
  const [name] = input.args;
  const directory = dataDirectory(process.env, input.text('data-dir'));
  let file: FileHandle | undefined;
  try {
    file = await open(name, 'r');
    const head = await readHead(file);
    insistOnEmpty(directory);
    const key = await keyOf(input, head.head, directory);
    await restoreBackup({ file, head, key, directory });
    note(`Restored the backup of ${head.head.created} into ${directory}. Start the broker there.`);
  } catch (error) {
    if (error instanceof StoreError) throw failed(error.message);
    throw cannot(`${name} can't be restored`, error);
  } finally {
    await file?.close();
  }
}

export const commands: readonly Command[] = [
  {
    name: 'backup',
    args: '<file>',
    about: 'Write a backup of the running broker: vaults, credentials, operators, the CA. It is sealed.',
    options: connectionOptions,
    examples: ['broker backup /backup/broker-2026-01-31.backup'],
    run: backup,
  },
  {
    name: 'restore',
    args: '<file>',
    about: 'Put a backup into an empty data directory, while no broker runs there. All of it, or nothing.',
    options: {
      '--data-dir <path>': 'The data directory to be (BROKER_DATA_DIR)',
      '--master-key <path>':
        'Your copy of the master.key that the broker had (master.key in the data directory)',
      '--master-password-file <path>':
        'File with the master password that it had (or BROKER_MASTER_PASSWORD, or a prompt)',
    },
    examples: [
      'broker restore broker-2026-01-31.backup --data-dir /var/lib/broker --master-key ~/master.key',
    ],
    run: restore,
  },
];
