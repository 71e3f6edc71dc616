import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ready, run, start } from './children.ts';
import { cores } from './machine.ts';

/** The credential that every proxy has to put in. It opens nothing but the upstream of this benchmark. */
export const credential = 'SECRET';

/** What all measurements have in common. */
export interface Ground {
  /** Temporary; removed when this process ends. */
  readonly directory: string;
  /** Holds `upstream-ca`, `mitm-ca`, `proxy` and `front`, each as `.pem`, `.key` and `-both.pem`. */
  readonly certs: string;
  /** The load generator. */
  readonly loadgen: string;
}

/** Ground with an upstream on it, and who runs on which cores. */
export interface Place extends Ground {
  /** Threads or processes that the proxy serves with. */
  readonly lanes: 1 | 2;
  readonly proxyCores: string;
  readonly loadCores: string;
  readonly upstream: { readonly pid: number; readonly tlsPort: number; readonly plainPort: number };
}

/** Builds the load generator and makes the certificates, in a new temporary directory. */
export async function openGround(): Promise<Ground> {
  const directory = mkdtempSync(join(tmpdir(), 'broker-bench-'));
  process.on('exit', () => rmSync(directory, { recursive: true, force: true, maxRetries: 3 }));
  // squid reads its files as another user. Nothing here is worth hiding: the keys live for this run only.
  chmodSync(directory, 0o755);
  const loadgen = join(directory, 'loadgen');
  const source = fileURLToPath(new URL('./loadgen', import.meta.url));
  await run('go build', 'go', ['build', '-o', loadgen, '.'], { cwd: source, seconds: 300 });
  const certs = join(directory, 'certs');
  await run('loadgen certs', loadgen, ['certs', '-dir', certs]);
  return { directory, certs, loadgen };
}

/**
 * Starts an upstream. One core: the proxy has the first core to itself, upstream and load share the second. Two:
 * the proxy has the first two; upstream and load have the others, or, where there are none, the same.
 */
export async function openPlace(ground: Ground, proxyCores: 1 | 2): Promise<Place> {
  const all = cores();
  const others = all.slice(2);
  const loadCores = proxyCores === 1 ? [all[1]] : others.length >= 2 ? others : all;
  const args = ['upstream', '-certs', ground.certs, '-expect', credential];
  const upstream = start('upstream', ground.loadgen, args, { cores: loadCores.join() });
  await ready(upstream, () => upstream.stdout().endsWith('\n'));
  const { tls, plain } = JSON.parse(upstream.stdout()) as { tls: string; plain: string };
  const port = (address: string) => Number(address.split(':').at(-1));
  return {
    ...ground,
    lanes: proxyCores,
    proxyCores: all.slice(0, proxyCores).join(),
    loadCores: loadCores.join(),
    upstream: { pid: upstream.pid, tlsPort: port(tls), plainPort: port(plain) },
  };
}

let made = 0;

/** A new directory on the ground, for one start of one proxy. */
export function workspace(ground: Ground, name: string): string {
  const path = join(ground.directory, `${name}-${++made}`);
  mkdirSync(path);
  return path;
}
