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
  /** In which order they come. Default: last. */
  readonly newest?: 'first' | 'last';
  /** With the newest first: octets from the log's end that are looked through. Default: all of them. */
  readonly within?: number;
}

/** A segment to read; `size`: no more of it than so many octets, what lies behind them isn't written yet. */
export interface Readable {
  readonly path: string;
  readonly size?: number;
}

/** Read at a time; between two pieces the event loop runs, so that a long read doesn't hold up the API. */
const pieceBytes = 64 * 1024;
/** A line that is longer is none of ours: it is passed over. */
const maxLine = 4 * 2 ** 20;

/**
 * Records of the segments (oldest first) as they were written, one a string, without line feed. Memory is a piece and
 * a line, whatever the query: with a limit and the newest last, what there is is first counted from its end. A segment
 * that retention deletes meanwhile is passed over.
 */
export async function* readRecords(segments: readonly Readable[], query: AuditQuery): AsyncGenerator<string> {
  const { limit = Number.POSITIVE_INFINITY, newest = 'last' } = query;
  if (newest === 'first') yield* newestFirst(segments, query, limit);
  else if (limit === Number.POSITIVE_INFINITY) yield* oldestFirst(segments, query, 0);
  else {
    const from = await findStart(segments, query, limit);
    if (from === null) return;
    try {
      let skip = from.skip;
      for await (const lines of piecesForward(from.file, from.offset, from.size)) {
        for (const line of lines) if (matches(line, query) && --skip < 0) yield line;
      }
    } finally {
      await from.file.close();
    }
    yield* oldestFirst(segments, query, from.segment + 1);
  }
}

async function* oldestFirst(
  segments: readonly Readable[],
  query: AuditQuery,
  first: number,
): AsyncGenerator<string> {
  for (const { path, size } of segments.slice(first)) {
    const file = await openIfThere(path);
    if (file === null) continue;
    try {
      for await (const lines of piecesForward(file, 0, size)) {
        for (const line of lines) if (matches(line, query)) yield line;
      }
    } finally {
      await file.close();
    }
  }
}

async function* newestFirst(
  segments: readonly Readable[],
  query: AuditQuery,
  limit: number,
): AsyncGenerator<string> {
  let left = limit;
  let octets = query.within ?? Number.POSITIVE_INFINITY;
  for (const { path, size } of segments.toReversed()) {
    const file = left > 0 && octets > 0 ? await openIfThere(path) : null;
    if (file === null) continue;
    try {
      for await (const { lines } of piecesBackward(file, size)) {
        for (const line of lines.reverse()) {
          if (left === 0) return;
          if (!matches(line, query)) continue;
          left--;
          yield line;
        }
        octets -= pieceBytes;
        if (octets <= 0) return;
      }
    } finally {
      await file.close();
    }
  }
}

/** Where the newest `limit` records that match begin. */
interface Start {
  readonly segment: number;
  /** Open: what was counted is read, even if retention puts another file in its place. */
  readonly file: FileHandle;
  readonly size: number | undefined;
  readonly offset: number;
  /** Records from there on that match and are too many. */
  readonly skip: number;
}

async function findStart(
  segments: readonly Readable[],
  query: AuditQuery,
  limit: number,
): Promise<Start | null> {
  let found = 0;
  let start: Start | null = null;
  for (let segment = segments.length - 1; segment >= 0 && found < limit; segment--) {
    const { path, size } = segments[segment];
    const file = await openIfThere(path);
    if (file === null) continue;
    await start?.file.close();
    start = { segment, file, size, offset: 0, skip: 0 };
    for await (const { lines, offset } of piecesBackward(file, size)) {
      for (const line of lines) if (matches(line, query)) found++;
      if (found < limit) continue;
      start = { segment, file, size, offset, skip: found - limit };
      break;
    }
  }
  return start;
}

/** Whether a line is a record that is asked for. */
export function matches(line: string, { vault, since, until }: AuditQuery): boolean {
  if (line.startsWith('{"chain":') || line.startsWith('{"segment":')) return false;
  if (vault === undefined && since === undefined && until === undefined) return true;
  // To parse each line of a long log is what takes time.
  if (vault !== undefined && !line.includes(JSON.stringify(vault))) return false;
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

async function* piecesForward(
  file: FileHandle,
  from: number,
  size = Number.POSITIVE_INFINITY,
): AsyncGenerator<string[]> {
  let rest: Buffer = Buffer.alloc(0);
  let skipping = false;
  for (let at = from; at < size; ) {
    const piece = await readAt(file, at, Math.min(pieceBytes, size - at));
    if (piece.length === 0) return;
    at += piece.length;
    const bytes = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    const whole = bytes.lastIndexOf(10) + 1;
    rest = bytes.subarray(whole);
    const lines = bytes.toString('utf8', 0, whole).split('\n').slice(0, -1);
    if (skipping && whole > 0) {
      lines.shift();
      skipping = false;
    }
    if (rest.length > maxLine) {
      rest = Buffer.alloc(0);
      skipping = true;
    }
    yield lines;
  }
}

/** Lines in the order of the file, the last ones first; `offset`: where the first of them begins. */
async function* piecesBackward(
  file: FileHandle,
  most = Number.POSITIVE_INFINITY,
): AsyncGenerator<{ lines: string[]; offset: number }> {
  const size = Math.min(most, (await file.stat()).size);
  let rest: Buffer = Buffer.alloc(0);
  /** The end of the line before what was given: its octets are too many, or there is no line feed behind them. */
  let skipping = true;
  for (let end = size; end > 0; ) {
    const at = Math.max(0, end - pieceBytes);
    const piece = await readAt(file, at, end - at);
    if (piece.length < end - at) return;
    end = at;
    const bytes = rest.length === 0 ? piece : Buffer.concat([piece, rest]);
    // What stands up to the first line feed may begin in the piece before.
    const whole = at === 0 ? 0 : bytes.indexOf(10) + 1;
    const last = bytes.lastIndexOf(10) + 1;
    if (whole === 0 && at > 0) {
      rest = bytes.length > maxLine ? Buffer.alloc(0) : bytes;
      if (bytes.length > maxLine) skipping = true;
      continue;
    }
    rest = bytes.subarray(0, whole);
    const until = skipping ? last : bytes.length;
    skipping = false;
    const lines = whole < until ? bytes.toString('utf8', whole, until).split('\n') : [];
    if (lines.at(-1) === '') lines.pop();
    yield { lines, offset: at + whole };
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
