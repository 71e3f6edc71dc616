import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ready, start } from '../children.ts';
import { program, versionOf } from '../machine.ts';
import { credential, type Place, workspace } from '../place.ts';
import { freePorts, isOpen } from '../ports.ts';
import type { Running } from '../subject.ts';
import type { Peer } from './peer.ts';
import { fill } from './template.ts';

/** Where Debian and its kin put what other builds have compiled in. */
const streamModule = '/usr/lib/nginx/modules/ngx_stream_module.so';

export const nginx: Peer = {
  name: 'nginx',
  packages: { from: 'apt', names: ['nginx', 'libnginx-mod-stream'] },
  find() {
    const file = program('nginx');
    if (file === null) return { missing: 'nginx is not on PATH' };
    const builtIn = versionOf(file, ['-V'], /(--with-stream)(?:\s|$)/) !== 'unknown';
    if (!builtIn && !existsSync(streamModule)) return { missing: 'nginx has no stream module' };
    return {
      name: 'nginx',
      version: versionOf(file, ['-v'], /nginx\/(\S+)/),
      legs: ['TLS', 'plain'],
      twoLanes: true,
      mints: false,
      start: (place) => startNginx(file, builtIn ? '' : `load_module ${streamModule};`, place),
    };
  },
};

async function startNginx(file: string, loadStream: string, place: Place): Promise<Running> {
  const directory = workspace(place, 'nginx');
  const [inner, outer, clear, clearTls] = await freePorts(4);
  const config = fill('nginx.conf', {
    DIR: directory,
    CERTS: place.certs,
    LANES: place.lanes,
    LOAD_STREAM: loadStream,
    USER: process.getuid?.() === 0 ? 'user root;' : '',
    CREDENTIAL: credential,
    TLS_UPSTREAM: place.upstream.tlsPort,
    PLAIN_UPSTREAM: place.upstream.plainPort,
    INNER: inner,
    OUTER: outer,
    CLEAR: clear,
    CLEAR_TLS: clearTls,
  });
  const path = join(directory, 'nginx.conf');
  writeFileSync(path, config);
  const args = ['-p', directory, '-c', path, '-e', 'stderr'];
  const child = start('nginx', file, args, { cores: place.proxyCores });
  await ready(child, () => isOpen(outer));
  const ca = ['-ca', join(place.certs, 'mitm-ca.pem')];
  const proxyCa = ['-proxy-ca', join(place.certs, 'mitm-ca.pem')];
  const clearOrigin = `http://upstream.test:${place.upstream.plainPort}`;
  return {
    pid: child.pid,
    stop: child.stop,
    ways: [
      {
        // No CONNECT: the inner TLS goes straight through the outer one.
        leg: 'TLS',
        reach: (scheme) =>
          scheme === 'https'
            ? {
                origin: `https://upstream.test:${place.upstream.tlsPort}`,
                proxy: `https://127.0.0.1:${outer}`,
                flags: [...ca, ...proxyCa, '-noconnect'],
              }
            : { origin: clearOrigin, proxy: `https://127.0.0.1:${clearTls}`, flags: proxyCa },
      },
      {
        leg: 'plain',
        reach: (scheme) =>
          scheme === 'https'
            ? { origin: `https://upstream.test:${inner}`, flags: ca }
            : { origin: clearOrigin, proxy: `http://127.0.0.1:${clear}`, flags: [] },
      },
    ],
  };
}
