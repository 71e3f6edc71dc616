/**
 * A file in `running/` of the data directory, one for each life of a lane, that outlives a kill: which sessions have
 * something under way in it or not yet in the log, and up to when all that it finished is in the log. It is written in
 * place and never grows; a stop in order removes it, so that one that is found at a start tells of another end.
 *
 * 64 octets of JSON, padded with spaces, then places of 96 octets: an actor as records name it, padded with zeros, or
 * zeros.
 */

const headerBytes = 64;
export const placeBytes = 96;
/** Sessions that a lane can have active. */
export const placeCount = 4096;
export const runFileBytes = headerBytes + placeCount * placeBytes;

/** Where a place begins. */
export function placeAt(place: number): number {
  return headerBytes + place * placeBytes;
}

/** @param until wall clock, ms: what ended before is in the log */
export function runFileHeader(lane: number, until: number): string {
  return JSON.stringify({ lane, until })
    .padEnd(headerBytes - 1)
    .concat('\n');
}

export interface RunFile {
  readonly lane: number;
  /** Wall clock, ms. */
  readonly until: number;
  /** Actors, each as often as it stands there. */
  readonly sessions: readonly string[];
}

/** null: it is no such file, or was never begun. */
export function parseRunFile(bytes: Buffer): RunFile | null {
  const header = /^\{"lane":(\d+),"until":(\d+)\} *\n$/.exec(bytes.toString('latin1', 0, headerBytes));
  if (header === null) return null;
  const sessions: string[] = [];
  for (let at = headerBytes; at < bytes.length; at += placeBytes) {
    const text = bytes.toString('utf8', at, at + placeBytes).replace(/\0.*$/s, '');
    if (text !== '') sessions.push(text);
  }
  return { lane: Number(header[1]), until: Number(header[2]), sessions };
}
