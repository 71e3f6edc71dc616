import { copyFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ready, start } from '../children.ts';
import { installed } from '../install.ts';
import { type Place, workspace } from '../place.ts';
import { freePorts } from '../ports.ts';
import { forwardProxy, type Running } from '../subject.ts';
import type { Peer } from './peer.ts';

/** Proxies that are libraries for Node: each is run by a script of its name beside this file. */
function nodePeer(name: string, caOf: (place: Place, directory: string) => string): Peer {
  const home = installed(name);
  const manifest = join(home, 'node_modules', name, 'package.json');
  return {
    name,
    packages: { from: 'npm', names: [name] },
    find() {
      if (!existsSync(manifest)) return { missing: `${name} is not in ${home}` };
      return {
        name,
        version: (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version,
        legs: ['plain'],
        twoLanes: false,
        mints: true,
        start: (place) => startPeer(name, place, caOf),
      };
    },
  };
}

async function startPeer(
  name: string,
  place: Place,
  caOf: (place: Place, directory: string) => string,
): Promise<Running> {
  const directory = workspace(place, name);
  const [port] = await freePorts(1);
  // Where it lies decides where Node looks for what it imports.
  const script = join(installed(name), `${name}.mjs`);
  copyFileSync(fileURLToPath(new URL(`${name}.mjs`, import.meta.url)), script);
  const args = [script, String(port), place.certs, directory];
  const child = start(name, process.execPath, args, { cores: place.proxyCores });
  await ready(child, () => child.stdout().includes('ready'));
  const ca = caOf(place, directory);
  return { pid: child.pid, stop: child.stop, ways: [forwardProxy(place, 'plain', { port, ca })] };
}

export const httpMitmProxy = nodePeer('http-mitm-proxy', (_, directory) => join(directory, 'certs/ca.pem'));
export const mockttp = nodePeer('mockttp', (place) => join(place.certs, 'mitm-ca.pem'));
