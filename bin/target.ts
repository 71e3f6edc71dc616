import { accessSync, constants, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';
import { Secret } from '../src/actors/vault/secret.ts';
import { isLoopback } from './local-socket.ts';
import { failed, misused } from './terminal.ts';

type Env = Readonly<Record<string, string | undefined>>;

export const defaultAddress = 'http://127.0.0.1:14321';

/** `--data-dir`, else `BROKER_DATA_DIR`, else `$XDG_DATA_HOME/broker`, else `~/.local/share/broker`; absolute. */
export function dataDirectory(env: Env, flag?: string): string {
  const named = flag || env.BROKER_DATA_DIR;
  if (named) return resolve(named);
  // The XDG base directory specification: a relative path is to be ignored.
  const xdg = env.XDG_DATA_HOME;
  return join(xdg && isAbsolute(xdg) ? xdg : join(homedir(), '.local', 'share'), 'broker');
}

/** `--address`, else `BROKER_ADDR`, else the local default, as an origin. Throws a misuse where it isn't one. */
export function brokerAddress(env: Env, flag?: string): string {
  const text = flag || env.BROKER_ADDR || defaultAddress;
  const source = flag ? '--address' : 'BROKER_ADDR';
  const url = URL.parse(text);
  const bare =
    url !== null && url.username === '' && url.password === '' && url.pathname === '/' && url.search === '';
  if (!bare || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw misused(`${source} is not an address of a broker. Write it as ${defaultAddress}.`);
  }
  return url.origin;
}

/** The owner's token of the local data directory, where this user can read it; null: not. */
export function readableOwnerToken(env: Env, dataDir?: string): string | null {
  const file = join(dataDirectory(env, dataDir), 'owner.token');
  try {
    accessSync(file, constants.R_OK);
    return file;
  } catch {
    return null;
  }
}

export interface Credentials {
  readonly token: Secret;
  /** How a message calls the place the token came from. */
  readonly source: string;
}

/**
 * The token that a command speaks with: `BROKER_OPERATOR_TOKEN`, else, for what agents may do too, the
 * `BROKER_SESSION_TOKEN` that `vault run` gives its child, else `owner.token` in the data directory.
 *
 * That file opens the local broker. It goes to another host only where the user names the directory too, so
 * that a `BROKER_ADDR` alone can't draw the owner's token out.
 */
export function credentials(
  env: Env,
  address: string,
  options: { readonly agent: boolean; readonly dataDir?: string },
): Credentials {
  if (env.BROKER_OPERATOR_TOKEN) return token(env.BROKER_OPERATOR_TOKEN, 'BROKER_OPERATOR_TOKEN');
  if (options.agent && env.BROKER_SESSION_TOKEN)
    return token(env.BROKER_SESSION_TOKEN, 'BROKER_SESSION_TOKEN');
  if (!isLoopback(new URL(address).hostname) && !options.dataDir && !env.BROKER_DATA_DIR) {
    throw failed(
      `No operator token for ${address}. Set BROKER_OPERATOR_TOKEN, or name its data directory by --data-dir.`,
    );
  }
  const file = join(dataDirectory(env, options.dataDir), 'owner.token');
  try {
    return token(readFileSync(file, 'utf8').trim(), file);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error;
    const what = error.code === 'ENOENT' ? `There is no ${file}` : `${file} can't be read (${error.code})`;
    throw failed(`${what}. Name the broker's data directory by --data-dir, or set BROKER_OPERATOR_TOKEN.`);
  }
}

function token(text: string, source: string): Credentials {
  if (!/^[\x21-\x7e]+$/.test(text))
    throw failed(`${source} holds no token. It has to be one line, such as brk_opr_….`);
  return { token: new Secret(text), source };
}
