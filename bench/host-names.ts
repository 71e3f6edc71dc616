import { readFileSync, writeFileSync } from 'node:fs';
import { failed } from './failure.ts';

const file = '/etc/hosts';
const begin = '# broker bench: begin; these lines go when it ends';
const end = '# broker bench: end';
const block = new RegExp(`\\n?${begin}\\n[^]*?${end}\\n`, 'g');

/** The names that the load asks for: one, and as many as "new hosts" needs. All are this machine. */
export const names: readonly string[] = [
  'upstream.test',
  ...Array.from({ length: 120 }, (_, i) => `h${i}.upstream.test`),
];

/** Names that the text of a hosts file gives to 127.0.0.1. */
function loopbackNames(text: string): Set<string> {
  const found = new Set<string>();
  for (const line of text.split('\n')) {
    const [address, ...given] = line.replace(/#.*/, '').trim().split(/\s+/);
    if (address === '127.0.0.1') for (const name of given) found.add(name);
  }
  return found;
}

/**
 * Puts the names that are missing into the system's hosts file, between two marks, until this process ends.
 * What was there stays as it is.
 * @throws Failure saying what to add by hand, where the file may not be written
 */
export function provideNames(): void {
  const before = readFileSync(file, 'utf8');
  const known = loopbackNames(before.replace(block, ''));
  const missing = names.filter((name) => !known.has(name));
  if (missing.length === 0) return;
  const lines = missing.map((name) => `127.0.0.1 ${name}`).join('\n');
  try {
    // In place: in a container the file is often a mount, which can't be replaced.
    writeFileSync(file, `${before.replace(block, '')}\n${begin}\n${lines}\n${end}\n`);
  } catch {
    throw failed(
      `The proxies have to resolve upstream.test and h0 to h119.upstream.test, and ${file} can't be written. ` +
        `Run the benchmark as root, or add this to it:\n` +
        `for i in $(seq 0 119); do echo 127.0.0.1 h$i.upstream.test; done | sudo tee -a ${file}; ` +
        `echo 127.0.0.1 upstream.test | sudo tee -a ${file}`,
    );
  }
  process.on('exit', () => writeFileSync(file, readFileSync(file, 'utf8').replace(block, '')));
}
