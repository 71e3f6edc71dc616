import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { collect, run, start, until } from '../../support/broker.ts';
import { freePort } from '../../support/lane.ts';
import type { Certificate } from '../../support/upstream.ts';

const version = '6.10.4';

/** An npm registry, as a package of npm's: installed beside the project and not in it, since only tests run it. */
export const verdaccio = {
  version,
  /** Where its node_modules is. */
  folder: join(
    process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'),
    'broker-tests',
    `verdaccio-${version}`,
  ),
  /** The manifest to install it by. One of its dependencies asks for a tag of node-fetch, which not every registry has. */
  manifest: { private: true, dependencies: { verdaccio: version }, overrides: { 'node-fetch': '2.7.0' } },
  get program() {
    return join(this.folder, 'node_modules', 'verdaccio', 'bin', 'verdaccio');
  },
};

const config = (certificate: { readonly key: string; readonly cert: string }) => `
storage: ./storage
auth: { htpasswd: { file: ./htpasswd } }
uplinks: {}
packages: { '**': { access: $authenticated, publish: $authenticated } }
security: { api: { jwt: { sign: { expiresIn: 1h } } } }
https: ${JSON.stringify(certificate)}
log: { type: stdout, format: json, level: http }
web: { enable: false }
`;

export interface Registry {
  readonly port: number;
  /** What opens it: a bearer token. */
  readonly token: string;
  /** Its log. */
  printed(): string;
}

/** Starts the registry below `folder`, with TLS. Nothing in it can be read without the token of the one user. */
export async function startVerdaccio(t: Test, folder: string, certificate: Certificate): Promise<Registry> {
  mkdirSync(folder, { recursive: true });
  const files = { key: join(folder, 'key.pem'), cert: join(folder, 'cert.pem') };
  writeFileSync(files.key, certificate.key);
  writeFileSync(files.cert, certificate.cert);
  writeFileSync(join(folder, 'config.yaml'), config(files));
  const port = await freePort();
  const flags = ['--config', join(folder, 'config.yaml'), '--listen', `https://127.0.0.1:${port}`];
  const child = start(process.execPath, [verdaccio.program, ...flags], { cwd: folder });
  t.teardown(() => child.kill('SIGKILL'));
  const { printed } = collect(child);
  await until(
    () => {
      const { code, stderr, stdout } = printed();
      if (code !== null) throw new Error(`verdaccio ended with ${code}: ${stdout}${stderr}`);
      return stdout.includes('http address');
    },
    'verdaccio to listen',
    60,
  );
  const token = await addUser(port);
  return { port, token, printed: () => printed().stdout };
}

/** As `npm adduser` does; curl, since the certificate is of an authority that this process doesn't know. */
async function addUser(port: number): Promise<string> {
  const user = { name: 'tester', password: randomBytes(12).toString('hex') };
  const url = `https://127.0.0.1:${port}/-/user/org.couchdb.user:${user.name}`;
  const json = ['--header', 'Content-Type: application/json', '--data-binary', JSON.stringify(user)];
  const { stdout, stderr } = await run('curl', ['-sS', '-k', '-X', 'PUT', ...json, url]);
  const { token } = JSON.parse(stdout || '{}');
  if (token === undefined) throw new Error(`verdaccio gave no token: ${stdout}${stderr}`);
  return token;
}
