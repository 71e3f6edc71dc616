import { readFileSync } from 'node:fs';
import { Secret } from '../../src/actors/vault/secret.ts';
import { askHidden } from '../hidden-prompt.ts';
import { withoutLastNewline } from '../read-text.ts';
import { failed, interactive } from '../terminal.ts';

/**
 * `BROKER_MASTER_PASSWORD`, taken out of the environment, so that neither a thread nor a child gets it. The system goes
 * on showing the environment that a process was started with to its user (`/proc/PID/environ`): a file is better.
 */
export function takeMasterPassword(env: NodeJS.ProcessEnv): Secret | null {
  const text = env.BROKER_MASTER_PASSWORD;
  delete env.BROKER_MASTER_PASSWORD;
  return text === undefined || text === '' ? null : new Secret(text);
}

/** A password from a file; one line break at its end is dropped. Throws a `Failure` where there is none. */
export function readMasterPassword(file: string): Secret {
  let text: string;
  try {
    text = withoutLastNewline(readFileSync(file, 'utf8'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw failed(`${file} (--master-password-file) can't be read (${code}). Check the path.`);
  }
  if (text === '') throw failed(`${file} (--master-password-file) is empty. Put the master password there.`);
  return new Secret(text);
}

/** Asks for it, hidden; null: there is no terminal. */
export const askMasterPassword: (() => Promise<Secret>) | null = interactive()
  ? async () => new Secret((await askHidden(['Master password']))[0])
  : null;
