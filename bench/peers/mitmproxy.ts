import { copyFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ready, start } from '../children.ts';
import { installed } from '../install.ts';
import { program, versionOf } from '../machine.ts';
import { type Place, workspace } from '../place.ts';
import { freePorts, isOpen } from '../ports.ts';
import { forwardProxy, type Running } from '../subject.ts';
import type { Peer } from './peer.ts';

export const mitmproxy: Peer = {
  name: 'mitmproxy',
  packages: { from: 'pip', names: ['mitmproxy'] },
  find() {
    const own = join(installed('mitmproxy'), 'bin/mitmdump');
    const file = existsSync(own) ? own : program('mitmdump');
    if (file === null) return { missing: 'mitmdump is not on PATH' };
    return {
      name: 'mitmproxy',
      version: versionOf(file, ['--version'], /Mitmproxy: (\S+)/),
      legs: ['plain'],
      twoLanes: false,
      mints: true,
      start: (place) => startMitmproxy(file, place),
    };
  },
};

async function startMitmproxy(file: string, place: Place): Promise<Running> {
  const directory = workspace(place, 'mitmproxy');
  const [port] = await freePorts(1);
  copyFileSync(join(place.certs, 'mitm-ca-both.pem'), join(directory, 'mitmproxy-ca.pem'));
  const script = fileURLToPath(new URL('mitmproxy-inject.py', import.meta.url));
  const settings = {
    confdir: directory,
    listen_host: '127.0.0.1',
    listen_port: port,
    ssl_verify_upstream_trusted_ca: join(place.certs, 'upstream-ca.pem'),
    http2: false,
    connection_strategy: 'lazy',
  };
  const set = Object.entries(settings).flatMap(([name, value]) => ['--set', `${name}=${value}`]);
  const child = start('mitmproxy', file, ['-q', '-s', script, ...set], {
    cores: place.proxyCores,
    env: { PYTHONDONTWRITEBYTECODE: '1' },
  });
  await ready(child, () => isOpen(port));
  const ca = join(place.certs, 'mitm-ca.pem');
  return { pid: child.pid, stop: child.stop, ways: [forwardProxy(place, 'plain', { port, ca })] };
}
