import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import tls from 'node:tls';

/** What one `vault run` leaves on disk while its child lives: a folder that its user alone may enter. */
export interface RunFiles {
  /** PEM: the broker's root, then the roots that the system trusts. */
  readonly bundle: string;
  /** The folder itself, for `CURL_HOME`: it holds the `.curlrc`. */
  readonly curlHome: string;
  /** Removes all of it; again is harmless. */
  remove(): void;
}

/**
 * Where curl looks for its settings, in its order (curl(1), `--config`).
 */
function userCurlrc(env: Readonly<NodeJS.ProcessEnv>): string {
  const home = env.HOME || homedir();
  const places = [
    env.CURL_HOME && join(env.CURL_HOME, '.curlrc'),
    env.XDG_CONFIG_HOME && join(env.XDG_CONFIG_HOME, 'curlrc'),
    join(home, '.curlrc'),
    join(home, '.config', 'curlrc'),
  ];
  for (const place of places) {
    if (!place) continue;
    try {
      return readFileSync(place, 'utf8');
    } catch {
      // Absent or unreadable: curl goes on to the next place too.
    }
  }
  return '';
}

/** The user's settings plus the one that curl has no environment variable for: the root of a TLS proxy. */
export function curlrc(own: string, bundle: string): string {
  const before = own === '' || own.endsWith('\n') ? own : `${own}\n`;
  return `${before}proxy-cacert = "${bundle.replace(/["\\]/g, '\\$&')}"\n`;
}

/** The system's roots and those of `NODE_EXTRA_CA_CERTS`, which the child's bundle stands in for; Node's own without any. */
function trustedRoots(): string[] {
  const system = tls.getCACertificates('system');
  return [...(system.length > 0 ? system : tls.rootCertificates), ...tls.getCACertificates('extra')];
}

/** Writes the files (0600) in a new folder (0700) below the temporary directory. Throws as `node:fs` does. */
export function writeRunFiles(rootPem: string, env: Readonly<NodeJS.ProcessEnv>): RunFiles {
  const folder = mkdtempSync(join(tmpdir(), 'broker-run-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    const bundle = join(folder, 'ca-bundle.pem');
    const certificates = new Set([rootPem, ...trustedRoots()].map((pem) => pem.trim()));
    writeFileSync(bundle, `${[...certificates].join('\n')}\n`, { mode: 0o600, flag: 'wx' });
    // May hold passwords of the user's: private like the folder.
    writeFileSync(join(folder, '.curlrc'), curlrc(userCurlrc(env), bundle), { mode: 0o600, flag: 'wx' });
    return { bundle, curlHome: folder, remove };
  } catch (error) {
    remove();
    throw error;
  }
}
