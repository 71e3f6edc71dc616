import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ready, run, start } from '../children.ts';
import { names } from '../host-names.ts';
import { program, versionOf } from '../machine.ts';
import { credential, type Place, workspace } from '../place.ts';
import { freePorts, isOpen } from '../ports.ts';
import { forwardProxy, type Running } from '../subject.ts';
import type { Peer } from './peer.ts';
import { fill } from './template.ts';

const helpers = ['/usr/lib/squid', '/usr/lib64/squid', '/usr/libexec/squid', '/usr/local/squid/libexec'];

export const squid: Peer = {
  name: 'squid',
  packages: { from: 'apt', names: ['squid-openssl'] },
  find() {
    const file = program('squid');
    if (file === null) return { missing: 'squid is not on PATH' };
    const certgen = helpers
      .map((path) => join(path, 'security_file_certgen'))
      .find((path) => existsSync(path));
    if (certgen === undefined)
      return { missing: 'this squid is built without OpenSSL, so it has no ssl-bump' };
    return {
      name: 'squid',
      version: versionOf(file, ['-v'], /Version (\S+)/),
      legs: ['plain'],
      twoLanes: false,
      mints: true,
      start: (place) => startSquid(file, certgen, place),
    };
  },
};

async function startSquid(file: string, certgen: string, place: Place): Promise<Running> {
  const directory = workspace(place, 'squid');
  const [port] = await freePorts(1);
  const config = fill('squid.conf', {
    DIR: directory,
    CERTS: place.certs,
    CERTGEN: certgen,
    CREDENTIAL: credential,
    PORT: port,
  });
  const path = join(directory, 'squid.conf');
  writeFileSync(path, config);
  writeFileSync(join(directory, 'mime'), '');
  writeFileSync(join(directory, 'hosts'), names.map((name) => `127.0.0.1 ${name}\n`).join(''));
  await run('security_file_certgen', certgen, ['-c', '-s', join(directory, 'certificates'), '-M', '16MB']);
  // As root squid becomes another user, who has to write here.
  chmodSync(directory, 0o777);
  execFileSync('chmod', ['-R', 'a+rwX', directory]);
  const child = start('squid', file, ['-N', '-f', path], { cores: place.proxyCores });
  try {
    await ready(child, () => isOpen(port));
  } catch (error) {
    if (existsSync(join(directory, 'log')))
      process.stderr.write(readFileSync(join(directory, 'log'), 'utf8'));
    throw error;
  }
  const ca = join(place.certs, 'mitm-ca.pem');
  return { pid: child.pid, stop: child.stop, ways: [forwardProxy(place, 'plain', { port, ca })] };
}
