import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { AuditVerdict } from '../../src/actors/audit-verify.ts';
import { type Command, connectionOptions, type Input, jsonOption } from '../cli.ts';
import { connect } from '../client.ts';
import { dataDirectory } from '../target.ts';
import { escapeUnsafe, failed, misused, note, printable, printJson, write } from '../terminal.ts';
import { damageOf } from '../verdict.ts';

/** A record on one line: its time, then `name=value`, quoted where a blank or a quote would make it unclear. */
function humanLine(line: string): string {
  const { time, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const parts = Object.entries(fields).flatMap(([name, value]) => {
    if (value === null || value === undefined) return [];
    const text = typeof value === 'string' && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value);
    return [`${name}=${text}`];
  });
  return printable([String(time ?? '-'), ...parts].join(' '));
}

const queryOptions = {
  '--vault <name>': 'Only those of this vault',
  '--since <time>': 'Only those of this moment or later: 2026-01-31T12:00:00Z',
} as const;

/** The records that the options ask for, as the API's query. */
function queryOf(input: Input): URLSearchParams {
  const query = new URLSearchParams();
  const vault = input.text('vault');
  if (vault !== undefined) query.set('vault', vault);
  for (const name of ['since', 'until']) {
    const text = input.text(name);
    if (text === undefined) continue;
    const time = new Date(text);
    if (Number.isNaN(time.getTime()))
      throw misused(`--${name} takes a moment, such as 2026-01-31T12:00:00Z.`);
    query.set(name, time.toISOString());
  }
  return query;
}

/** Writes a file (0600) that is there only when it is whole. */
async function writeWhole(file: string, lines: AsyncIterable<string>): Promise<number> {
  const part = `${file}.${process.pid}.part`;
  let count = 0;
  async function* counted() {
    for await (const line of lines) {
      count++;
      yield `${line}\n`;
    }
  }
  try {
    await pipeline(Readable.from(counted()), createWriteStream(part, { mode: 0o600, flags: 'wx' }));
    await rename(part, file);
    return count;
  } catch (error) {
    await rm(part, { force: true });
    const { code } = error as NodeJS.ErrnoException;
    throw code === undefined ? error : failed(`${file} can't be written (${code}). Name another file.`);
  }
}

export const commands: readonly Command[] = [
  {
    name: 'audit tail',
    about: 'Print the latest audit records, newest last.',
    options: {
      '-n, --limit <count>': 'How many (20)',
      '-f, --follow': 'Go on with what is written from then on, until you end it',
      ...queryOptions,
      '--json': 'Print them as they are, one JSON object a line',
      ...connectionOptions,
    },
    examples: ['broker audit tail --follow', 'broker audit tail -n 100 --vault default --json'],
    async run(input) {
      const limit = input.text('limit') ?? '20';
      if (!/^[1-9]\d{0,6}$/.test(limit)) throw misused('--limit takes a number of records, such as 100.');
      const query = queryOf(input);
      query.set('limit', limit);
      if (input.flag('follow')) query.set('follow', 'true');
      const api = await connect(input);
      const format = input.flag('json') ? escapeUnsafe : humanLine;
      for await (const line of api.lines(`/v1/audit?${query}`)) write(`${format(line)}\n`);
      if (input.flag('follow'))
        throw failed('The broker ended it: it stops, or this reader is too slow. Follow again.');
    },
  },
  {
    name: 'audit export',
    about: 'Write audit records as they are, one JSON object a line, to a file or to standard output.',
    options: {
      '-o, --output <path>': 'The file',
      ...queryOptions,
      '--until <time>': 'Only those before this moment',
      '--json': 'The same: records are JSON',
      ...connectionOptions,
    },
    examples: [
      'broker audit export --since 2026-01-01T00:00:00Z --until 2026-02-01T00:00:00Z -o january.ndjson',
    ],
    async run(input) {
      const query = queryOf(input);
      const file = input.text('output');
      const api = await connect(input);
      const lines = api.lines(`/v1/audit?${query}`);
      if (file !== undefined) {
        note(`Wrote ${await writeWhole(file, lines)} records to ${file}.`);
        return;
      }
      for await (const line of lines) write(`${escapeUnsafe(line)}\n`);
    },
  },
  {
    name: 'audit verify',
    about:
      'Check that the audit log is whole: by the broker that runs on the data directory, else with its store. Exits 1 where not.',
    options: {
      ...connectionOptions,
      '--master-password-file <path>':
        'File with the master password, where no broker runs (or BROKER_MASTER_PASSWORD, or a prompt)',
      ...jsonOption,
    },
    examples: ['broker audit verify', 'broker audit verify --data-dir /var/lib/broker --json'],
    async run(input) {
      // Only this opens a store: no other command waits for what that loads.
      const { checkAudit } = await import('../audit-check.ts');
      const verdict = await checkAudit(dataDirectory(process.env, input.text('data-dir')), input);
      if (input.flag('json')) printJson(verdict);
      else printVerdict(verdict);
      if (verdict.ok) return 0;
      note(`broker: ${damageOf(verdict)}.`);
      return 1;
    },
  },
];

function printVerdict({ ok, records, segments, head, checked, anchored }: AuditVerdict): void {
  write(
    `${ok ? 'whole' : 'damaged'}: ${records} records in ${segments} segments ${ok ? '' : 'before the damage '}are as they were written\n`,
  );
  if (head !== null) write(`head: batch ${head.seq}, ${head.hash}\n`);
  if (checked === 'order')
    note(
      'Without the store of its broker only the order was checked: whoever can write the files can make them anew.',
    );
  else if (!anchored)
    note('The store does not know yet where the log ends: a missing end could not be told.');
}
