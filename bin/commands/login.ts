import { askPasswords, passwordOption } from '../ask-passwords.ts';
import { type Command, connectionOptions, type Input, jsonOption } from '../cli.ts';
import { connect, Refused } from '../client.ts';
import { openInBrowser } from '../open-browser.ts';
import { failed, misused, note, printable, printJson, write } from '../terminal.ts';

/** A token for the command line, by name and password. It is printed, not kept: where is for its owner to say. */
async function tokenOf(input: Input, name: string): Promise<void> {
  const api = await connect(input, 'anyone');
  const { current: password } = await askPasswords(input, { current: `Password of ${name}` });
  const made = await api
    .call<{ token: string; expires_at: string }>('POST', '/v1/login', { body: { name, password } })
    .catch((error: unknown) => {
      throw error instanceof Refused && error.status === 401
        ? failed(printable(String(error.body.message)))
        : error;
    });
  if (input.flag('json')) return printJson(made);
  note('Commands take this token from BROKER_OPERATOR_TOKEN. It ends 12 hours after its last use:');
  write(`${printable(made.token)}\n`);
}

/** Six digits that prove a change in a browser. Who reads them over one's shoulder can do nothing without its cookie. */
async function codeOf(input: Input): Promise<void> {
  const api = await connect(input);
  const made = await api.call<{ code: string }>('POST', '/v1/login-codes', { body: {} });
  if (input.flag('json')) return printJson(made);
  note('Type this into the page that asks for it, within 2 minutes. It proves one change:');
  write(`${printable(made.code)}\n`);
}

export const commands: readonly Command[] = [
  {
    name: 'login',
    about:
      'Print a link that signs one browser in, and open it where there is one. It works once, for 10 minutes. With --code: print six digits that prove a change in a browser; with --name: print a token.',
    options: {
      '--code': 'Print six digits for a page that asks to show that it is you; once, for 2 minutes',
      '--name <operator>': 'Ask for the password of this operator, and print a token for commands',
      ...passwordOption,
      ...connectionOptions,
      ...jsonOption,
    },
    examples: [
      'broker login',
      'broker login --code',
      'export BROKER_OPERATOR_TOKEN="$(broker login --name ann)"',
    ],
    async run(input) {
      const name = input.text('name');
      if (input.flag('code')) {
        if (name !== undefined)
          throw misused('--code and --name ask for different things. Give one of them.');
        return codeOf(input);
      }
      if (name !== undefined) return tokenOf(input, name);
      const api = await connect(input);
      const link = await api.call<{ url: string }>('POST', '/v1/login-links', { body: {} });
      if (input.flag('json')) return printJson(link);
      note('Open this in your browser within 10 minutes; whoever uses it first is signed in:');
      write(`${printable(link.url)}\n`);
      await openInBrowser(link.url);
    },
  },
];
