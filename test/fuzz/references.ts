import { type ChildProcessByStdio, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { Reading } from './reading.ts';

/** How the bytes are to be read: requests, requests by a lenient parser, answers to a GET, answers to a HEAD. */
type Kind = 'requests' | 'lenient' | 'answers' | 'headAnswers';
const kindByte = { requests: 'q', lenient: 'l', answers: 'r', headAnswers: 'h' } as const;

export const referenceNames = ['llhttp', 'go', 'h11'] as const;
export type ReferenceName = (typeof referenceNames)[number];

/** A parser that isn't ours, in a long-lived process of its own. */
export interface Reference {
  readonly name: ReferenceName;
  /** Readings come in the order of the calls. Rejects where the process has ended. */
  read(kind: Kind, raw: Buffer): Promise<Reading>;
  stop(): void;
}

const file = (name: string) => fileURLToPath(new URL(`readers/${name}`, import.meta.url));

/** What has to be there for a reference, in words; null: it is. */
export function missing(name: ReferenceName): string | null {
  const run = (command: string, args: string[]): boolean => {
    try {
      execFileSync(command, args, { stdio: 'ignore' });
      return true;
    } catch {
      return false;
    }
  };
  if (name === 'go' && !run('go', ['version'])) return 'Go is not installed: https://go.dev/dl';
  if (name === 'h11' && !run('python3', ['-c', 'import h11']))
    return 'h11 is not installed: python3 -m pip install h11==0.16.0';
  return null;
}

/** Starts a reference; throws where it can't be built. */
export function startReference(name: ReferenceName): Reference {
  if (name === 'llhttp') return overPipes(name, process.execPath, [file('llhttp-reader.ts')], () => {});
  if (name === 'h11') return overPipes(name, 'python3', [file('h11_reader.py')], () => {});
  const folder = mkdtempSync(join(tmpdir(), 'broker-fuzz-'));
  const program = join(folder, 'reader');
  execFileSync('go', ['build', '-o', program, file('main.go')], { cwd: folder, stdio: 'inherit' });
  // Once it runs it needs no file.
  return overPipes(name, program, [], () => rmSync(folder, { recursive: true }));
}

function overPipes(name: ReferenceName, command: string, args: string[], onStart: () => void): Reference {
  const child: ChildProcessByStdio<Writable, Readable, null> = spawn(command, args, {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.once('spawn', onStart);
  const waiting: PromiseWithResolvers<Reading>[] = [];
  let out: Buffer[] = [];
  let read: Buffer[] = [];
  let readBytes = 0;
  let wanted = 4;
  child.stdout.on('data', (chunk: Buffer) => {
    read.push(chunk);
    readBytes += chunk.length;
    if (readBytes < wanted) return;
    let bytes = Buffer.concat(read);
    for (;;) {
      wanted = bytes.length < 4 ? 4 : 4 + bytes.readUInt32BE(0);
      if (bytes.length < wanted) break;
      waiting.shift()?.resolve(JSON.parse(bytes.toString('utf8', 4, wanted)));
      bytes = bytes.subarray(wanted);
    }
    read = [bytes];
    readBytes = bytes.length;
  });
  child.on('exit', (code) => {
    for (const one of waiting) one.reject(new Error(`The reader ${name} ended with ${code}.`));
  });
  const flush = () => {
    child.stdin.write(Buffer.concat(out));
    out = [];
  };
  return {
    name,
    read(kind, raw) {
      // What one turn of the loop brings goes in one write.
      if (out.length === 0) setImmediate(flush);
      const head = Buffer.alloc(5);
      head.writeUInt32BE(raw.length + 1);
      head.latin1Write(kindByte[kind], 4);
      out.push(head, raw);
      const one = Promise.withResolvers<Reading>();
      waiting.push(one);
      return one.promise;
    },
    stop: () => child.stdin.end(),
  };
}
