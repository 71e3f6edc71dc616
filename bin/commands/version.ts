import { readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';
import { type Command, jsonOption } from '../cli.ts';
import { printJson, write } from '../terminal.ts';

/** The version in package.json, found from the sources and from a build alike. */
function packageVersion(): string {
  const file = findPackageJSON('..', import.meta.url);
  return file === undefined ? 'unknown' : String(JSON.parse(readFileSync(file, 'utf8')).version);
}

export const commands: readonly Command[] = [
  {
    name: 'version',
    about: 'Print the version of the broker and of Node.js.',
    options: jsonOption,
    examples: ['broker version'],
    async run(input) {
      const version = packageVersion();
      if (input.flag('json')) printJson({ version, node: process.versions.node });
      else write(`broker ${version} (Node.js ${process.versions.node})\n`);
    },
  },
];
