import { randomBytes } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { parseRunFile, type RunFile, runFileBytes, runFileHeader } from '../proxy/run-file.ts';

/** What an end that was not in order left behind. */
export interface LeftBehind {
  readonly files: readonly RunFile[];
  /** Once the log has what they say. */
  remove(): void;
}

/** The run file of one life of a lane, for its lane's thread to write places into. */
export interface OpenRunFile {
  readonly fd: number;
  /** All that the lane had finished by then, wall clock ms, is in the log. */
  writtenUntil(time: number): void;
  /** The life has ended, and all of it is in the log. */
  remove(): void;
}

export interface RunFiles {
  /** null: the last run ended in order, or there was none. */
  readonly left: LeftBehind | null;
  create(lane: number): OpenRunFile;
}

const namePattern = /^lane-\d+-[0-9a-f]{12}$/;

/**
 * The run files (`run-file.ts`) in `<dir>/running` (made if missing, 0700; files 0600).
 * @throws Error (of node:fs) where they can't be read or made
 */
export function openRunFiles(dir: string): RunFiles {
  const folder = join(dir, 'running');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const names = readdirSync(folder).filter((name) => namePattern.test(name));
  const files = names.map((name) => parseRunFile(readFileSync(join(folder, name))));

  return {
    left:
      names.length === 0
        ? null
        : {
            files: files.filter((file) => file !== null),
            remove() {
              for (const name of names) unlinkSync(join(folder, name));
            },
          },
    create(lane) {
      const path = join(folder, `lane-${lane}-${randomBytes(6).toString('hex')}`);
      const fd = openSync(path, 'wx', 0o600);
      // At its full size, so that a full disk is no hindrance later; on the disk, so that a power cut shows, too.
      const bytes = Buffer.alloc(runFileBytes);
      bytes.write(runFileHeader(lane, Date.now()), 'latin1');
      writeSync(fd, bytes);
      fsyncSync(fd);
      return {
        fd,
        writtenUntil(time) {
          attempt(() => writeSync(fd, runFileHeader(lane, time), 0, 'latin1'));
        },
        remove() {
          attempt(() => closeSync(fd));
          attempt(() => unlinkSync(path));
        },
      };
    },
  };
}

/** Where it fails, the next start says more than it would have had to. */
function attempt(step: () => unknown): void {
  try {
    step();
  } catch {
    // As said.
  }
}
