import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ready, run, start } from './children.ts';
import { failed } from './failure.ts';
import { root, versionOf } from './machine.ts';
import { credential, type Place, workspace } from './place.ts';
import { forwardProxy, type Running, type Subject } from './subject.ts';

const launcher = join(root, 'bin/broker');
const main = join(root, 'bin/main.ts');

const services = `services:
  - host: upstream.test
    auth: { type: bearer, token: BENCH_TOKEN }
  - host: '*.upstream.test'
    auth: { type: bearer, token: BENCH_TOKEN }
`;

/**
 * Starts the whole broker as its users do: policy (unknown hosts are refused), audit, netguard, deadlines and
 * limits are on. `watched`: with a module loaded into each of its threads. The limits are out of reach, and loopback is allowed, since all traffic here is on it.
 */
export async function startBroker(
  place: Place,
  watched?: { readonly hook: URL; readonly env: Readonly<Record<string, string>> },
): Promise<Running> {
  const directory = workspace(place, 'broker');
  const data = join(directory, 'data');
  const args = ['server', '--data-dir', data, '--port', '0', '--proxy-port', '0'];
  args.push('--workers', String(place.lanes), '--allow-private-ranges');
  args.push('--upstream-ca', join(place.certs, 'upstream-ca.pem'));
  args.push('--rate-limit', '1000000', '--rate-burst', '1000000', '--rate-inflight', '100000');
  // The launcher drops what a variable would have Node load.
  const child = watched
    ? start('broker', process.execPath, [`--import=${watched.hook.href}`, main, ...args], {
        cores: place.proxyCores,
        env: { ...watched.env, UV_THREADPOOL_SIZE: '64' },
      })
    : start('broker', launcher, args, { cores: place.proxyCores });
  try {
    await ready(child, () => child.stdout().includes('vault run'));
    const address = found(/^ {2}API +(\S+)/m, child.stdout());
    const port = Number(found(/^ {2}proxy +\S+:(\d+)/m, child.stdout()));
    const client = { env: { BROKER_ADDR: address, BROKER_DATA_DIR: data } };
    const command = (args: string[], stdin = '') =>
      run(`broker ${args.slice(0, 3).join(' ')}`, launcher, args, { ...client, stdin });
    await command(['vault', 'credential', 'set', 'BENCH_TOKEN', '--stdin'], credential);
    await command(['vault', 'service', 'set', '-f', '-'], services);
    await command(['vault', 'set', 'default', 'unmatched_host_policy=deny']);
    const ca = join(directory, 'ca.pem');
    writeFileSync(ca, await (await fetch(`${address}/v1/ca.pem`)).text());
    const user = `${await session(address, readFileSync(join(data, 'owner.token'), 'utf8').trim())}:default`;
    return {
      pid: child.pid,
      ways: [
        forwardProxy(place, 'TLS', { port, user, ca }),
        forwardProxy(place, 'plain', { port, user, ca }),
      ],
      stop: child.stop,
    };
  } catch (error) {
    await child.stop();
    throw error;
  }
}

async function session(address: string, owner: string): Promise<string> {
  const answer = await fetch(`${address}/v1/sessions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${owner}`, 'content-type': 'application/json' },
    body: JSON.stringify({ vault: 'default', label: 'bench' }),
  });
  if (answer.status !== 201) throw failed(`The broker gave no session (status ${answer.status}).`);
  return ((await answer.json()) as { token: string }).token;
}

function found(pattern: RegExp, text: string): string {
  const match = pattern.exec(text);
  if (match === null) throw failed(`The broker did not say where it listens: ${text.trim()}`);
  return match[1];
}

export function brokerSubject(): Subject {
  const commit = versionOf('git', ['-C', root, 'describe', '--always', '--dirty'], /^(\S+)/);
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  return {
    name: 'broker',
    version: `${version} (${commit}) on Node ${process.versions.node}`,
    legs: ['TLS', 'plain'],
    twoLanes: true,
    mints: true,
    start: (place) => startBroker(place),
  };
}
