import { basename } from 'node:path';
import { runChild, SignalRelay, signalCode } from '../child.ts';
import { type Command, connectionOptions, durationSeconds, type Input, vaultOption } from '../cli.ts';
import { type Api, connect, route } from '../client.ts';
import { proxyEnv, proxyUrl, withScheme } from '../proxy-env.ts';
import { writeRunFiles } from '../run-files.ts';
import { readableOwnerToken } from '../target.ts';
import { Failure, failed, misused, note, printable } from '../terminal.ts';

interface Session {
  readonly id: string;
  readonly token: string;
  readonly vault: string;
  readonly expires_at: string;
  readonly proxy_url?: string;
}

function schemeOf(input: Input): 'https' | 'http' {
  const scheme = input.text('proxy-scheme') ?? 'https';
  if (scheme !== 'https' && scheme !== 'http') throw misused('--proxy-scheme is https or http.');
  return scheme;
}

/** What is asked for, but for the vault. */
function wishes(input: Input): { ttl_seconds?: number; label?: string } {
  const ttl = input.text('ttl');
  // What a human sees who is asked to approve something: the program, never its arguments.
  const program = printable(basename(input.rest[0])).slice(0, 64) || undefined;
  return {
    ttl_seconds: ttl === undefined ? undefined : durationSeconds(ttl, '--ttl'),
    label: input.text('label') ?? program,
  };
}

async function revoke(api: Api, session: Session): Promise<void> {
  try {
    await api.call('DELETE', route`/v1/sessions/${session.id}`);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    note(
      `broker: the session could not be revoked; it ends by itself at ${session.expires_at}. ${error.message}`,
    );
  }
}

/** The proxy as the session names it; an older answer without it: the API's host and the port told with the root. */
function proxyOf(api: Api, session: Session, scheme: 'https' | 'http', port: string | undefined): string {
  if (session.proxy_url) return withScheme(session.proxy_url, scheme);
  if (!port) throw failed(`${api.address} names no proxy. Check that it is a broker of this version.`);
  const host = new URL(api.address).hostname;
  return proxyUrl({ scheme, host, port: Number(port), token: session.token, vault: session.vault });
}

/** The command runs as the user who starts it, and reads what that user can. */
const exposedNote = (file: string): string =>
  `broker: the command can read ${file}, and with it do all that the owner may. Run it as another user, with a token from \`broker agent invite\`.`;

export const commands: readonly Command[] = [
  {
    name: 'vault run',
    about: 'Run a command with a session of a vault and an environment that leads through the broker.',
    options: {
      ...vaultOption,
      '--ttl <time>': 'How long the session is valid, 60s to 7d; it is revoked when the command ends (24h)',
      '--label <text>': "What the session is called where its agent's wishes are shown (the program's name)",
      '--proxy-scheme <https|http>': 'https, or http for programs that cannot speak TLS to a proxy (https)',
      ...connectionOptions,
    },
    takesCommand: true,
    examples: [
      'broker vault run -- curl https://api.example.com/v1/items',
      'broker vault run --vault staging --ttl 2h -- npm run agent',
    ],
    async run(input) {
      if (input.rest.length === 0)
        throw misused('Name the command to run behind --: broker vault run -- COMMAND.');
      const scheme = schemeOf(input);
      const wished = wishes(input);
      const api = await connect(input);
      const root = await api.text('/v1/ca.pem');
      // From here on there is something to take back, whatever happens.
      const signals = new SignalRelay();
      const session = await api.call<Session>('POST', '/v1/sessions', {
        body: { vault: api.vault, ...wished },
      });
      try {
        const url = proxyOf(api, session, scheme, root.header('x-broker-proxy-port'));
        const files = writeRunFiles(root.text, process.env);
        try {
          if (signals.ended !== null) return signalCode(signals.ended);
          const { address } = api;
          // Where nobody watches, standard error is the command's alone.
          if (process.stderr.isTTY) {
            note(`broker: what the agent asks for, you decide at ${address}/proposals`);
            const exposed = readableOwnerToken(process.env, input.text('data-dir'));
            if (exposed !== null) note(exposedNote(exposed));
          }
          const env = proxyEnv(process.env, { address, token: session.token, proxyUrl: url, ...files });
          return await runChild(input.rest, env, signals);
        } finally {
          files.remove();
        }
      } finally {
        await revoke(api, session);
      }
    },
  },
];
