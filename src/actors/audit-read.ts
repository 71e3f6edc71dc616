import { type FileHandle, open } from 'node:fs/promises';

/** Which records to read. Absent: all of them. */
export interface AuditQuery {
  /** Name of the vault, as in the record's `vault`. */
  readonly vault?: string;
  /** Milliseconds since the epoch: records whose `time` is that instant or later. */
  readonly since?: number;
  /** Milliseconds since the epoch: records whose `time` is before that instant. */
  readonly until?: number;
  /** At most so many: the newest of those that match. */
  readonly limit?: number;
}

/** A segment to read, up to `size` octets of it: what lies behind them isn't written yet. */
export interface Readable {
  readonly path: string;
  readonly size: number;
}

/** Read at a time; between two pieces the event loop runs, so that a long read doesn't hold up the API. */
const pieceBytes = 64 * 1024;

/**
 * Records of the segments (oldest first) as they were written, one a string, without line feed, newest last.
 *
 * With a limit the files are read from their end, and only as far as needed. A segment that retention deletes
 * meanwhile is passed over.
 */
export async function* readRecords(segments: readonly Readable[], query: AuditQuery): AsyncGenerator<string> {
  const { limit } = query;
  if (limit === undefined) {
    for (const segment of segments) {
      for await (const lines of piecesForward(segment)) yield* lines.filter((line) => matches(line, query));
    }
    return;
  }
  const found: string[] = [];
  for (const segment of segments.toReversed()) {
    if (found.length >= limit) break;
    for await (const lines of piecesBackward(segment)) {
      for (const line of lines.reverse()) if (matches(line, query)) found.push(line);
      if (found.length >= limit) break;
    }
  }
  yield* found.slice(0, Math.max(0, limit)).reverse();
}

/** Whether a line is a record that is asked for. */
export function matches(line: string, { vault, since, until }: AuditQuery): boolean {
  if (line.startsWith('{"chain":') || line.startsWith('{"segment":')) return false;
  if (vault === undefined && since === undefined && until === undefined) return true;
  const record = parse(line);
  if (vault !== undefined && record.vault !== vault) return false;
  const time = Date.parse(String(record.time));
  return (since === undefined || time >= since) && (until === undefined || time < until);
}

/** A damaged line matches no question, but it doesn't keep others from being read. */
function parse(line: string): { vault?: unknown; time?: unknown } {
  try {
    return JSON.parse(line) ?? {};
  } catch {
    return {};
  }
}

async function* piecesForward({ path, size }: Readable): AsyncGenerator<string[]> {
  const file = await openIfThere(path);
  if (file === null) return;
  try {
    let rest: Buffer = Buffer.alloc(0);
    for (let at = 0; at < size; at += pieceBytes) {
      const bytes = Buffer.concat([rest, await readAt(file, at, Math.min(pieceBytes, size - at))]);
      const whole = bytes.lastIndexOf(10) + 1;
      rest = bytes.subarray(whole);
      yield bytes.toString('utf8', 0, whole).split('\n').slice(0, -1);
    }
  } finally {
    await file.close();
  }
}

async function* piecesBackward({ path, size }: Readable): AsyncGenerator<string[]> {
  const file = await openIfThere(path);
  if (file === null) return;
  try {
    let rest: Buffer = Buffer.alloc(0);
    for (let end = size; end > 0; end -= pieceBytes) {
      const at = Math.max(0, end - pieceBytes);
      const bytes = Buffer.concat([await readAt(file, at, end - at), rest]);
      // What stands up to the first line feed may begin in the piece before; what stands after the last is torn.
      const whole = at === 0 ? 0 : bytes.indexOf(10) + 1;
      rest = bytes.subarray(0, whole);
      yield bytes.toString('utf8', whole).split('\n').slice(0, -1);
    }
  } finally {
    await file.close();
  }
}

async function openIfThere(path: string): Promise<FileHandle | null> {
  return open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
}

async function readAt(file: FileHandle, at: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(length), 0, length, at);
  return buffer.subarray(0, bytesRead);
}
