/** What `packaging/` says holds for the tree that it packs: without a Docker daemon or a systemd to run it. */
import { cpSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { collect, launcher, run, start, temporary, until } from '../support/broker.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (file: string) => readFileSync(join(root, 'packaging', file), 'utf8');

/** Each `NAME=value` that a file sets in the environment. */
const variables = (text: string, line: RegExp) =>
  Object.fromEntries(
    [...text.matchAll(line)].flatMap(([, pairs]) => pairs.split(' ').map((pair) => pair.split('='))),
  ) as Record<string, string>;

t.test('the Dockerfile copies all that a broker needs, and its environment is understood', async (t) => {
  const text = read('Dockerfile');
  const image = temporary(t);
  const copied = [...text.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, names]) => names.split(' '));
  t.ok(copied.includes('bin') && copied.includes('src'));
  const ignored = read('Dockerfile.dockerignore');
  for (const name of copied) {
    mkdirSync(dirname(join(image, name)), { recursive: true });
    cpSync(join(root, name), join(image, name), { recursive: true });
    t.ok(ignored.includes(`\n!${name}\n`), `${name} goes to the daemon`);
  }
  symlinkSync(join(root, 'node_modules'), join(image, 'node_modules'));

  const directory = join(temporary(t), 'data');
  const env = { ...variables(text, /^ENV (.+)$/gm), BROKER_DATA_DIR: directory };
  t.match(env, { BROKER_HOST: '0.0.0.0' });
  const command = join(image, 'bin', 'broker');
  const ports = { BROKER_PORT: '0', BROKER_PROXY_PORT: '0', BROKER_WORKERS: '1' };
  t.match(await run(command, ['server'], { env: { ...env, ...ports } }), {
    code: 1,
    stderr: /--insecure-http/,
  });
  const child = start(command, ['server'], { env: { ...env, ...ports, BROKER_INSECURE_HTTP: 'true' } });
  t.teardown(() => child.kill('SIGKILL'));
  const { printed, ended } = collect(child);
  await until(() => /API +http:\S+/.test(printed().stdout), 'the broker is ready');
  const port = /API +\S+:(\d+)/.exec(printed().stdout)?.[1];
  const status = await run(command, ['status'], {
    env: { ...env, BROKER_ADDR: `http://127.0.0.1:${port}` },
  });
  t.match(status, { code: 0, stdout: /ready: true/ }, 'the health check');
  child.kill(/^STOPSIGNAL (\w+)$/m.exec(text)?.[1] as NodeJS.Signals);
  t.match(await ended, { code: 0 });
});

t.test('the systemd unit names settings that exist, and leaves time to drain', async (t) => {
  const text = read('broker.service');
  const env: Record<string, string> = {
    ...variables(text, /^#?Environment=(.+)$/gm),
    BROKER_DATA_DIR: join(temporary(t), 'data'),
  };
  t.ok('BROKER_MASTER_PASSWORD_FILE' in env);
  const shown = await run(launcher, ['server', '--print-config'], { env });
  t.match(shown, { code: 0, stdout: `master-password-file: "${env.BROKER_MASTER_PASSWORD_FILE}"` });
  const drain = Number(/^drain-timeout: (\d+)$/m.exec(shown.stdout)?.[1]);
  t.ok(Number(/^TimeoutStopSec=(\d+)$/m.exec(text)?.[1]) > drain);
  t.match(text, /^ExecStart=\/opt\/broker\/bin\/broker server$/m);
});
