/** A record of one request, as far as it is compared. */
interface RequestRecord {
  readonly vault: string;
  readonly actor: string;
  readonly method: string;
  readonly host: string;
  readonly path: string;
  readonly status: number | null;
  readonly error: string | null;
  readonly attempts?: number;
  readonly reflected?: readonly string[];
  readonly unlooked?: boolean;
}

/** A request that an upstream saw. */
export interface Sighting {
  readonly method: string;
  readonly host: string;
  readonly path: string;
}

/** What of a path tells one request from all others: the id in it, else all of it. */
const idOf = (path: string): string => /\/([a-z]\d+(?:x\d+)?)~/.exec(path)?.[1] ?? path.slice(0, 1024);
const keyOf = ({ method, host, path }: Sighting): string =>
  `${method} ${host.replace(/:\d+$/, '')} ${idOf(path)}`.slice(-1200);
/** What an upstream took out of a body is no request of the proxy's. */
const isSmuggled = ({ path }: Sighting): boolean => /^s\d/.test(idOf(path));

function group<T extends Sighting>(all: Iterable<T>): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const one of all) {
    const key = keyOf(one);
    const same = groups.get(key);
    if (same === undefined) groups.set(key, [one]);
    else same.push(one);
  }
  return groups;
}

/** Who sends what has this id, as `vault actor`; null: that can't be told from it. */
export type Senders = (id: string, host: string) => string | null;

/** What upstreams saw, callers got and the audit says, compared. */
export interface Evidence {
  readonly records: Iterable<RequestRecord>;
  readonly sightings: Iterable<Sighting>;
  /** Status by id, of requests that upstreams answered. */
  readonly answered: ReadonlyMap<string, number>;
  /** Ids of requests whose answers showed what was put in, of a service that audits that. */
  readonly reflected: ReadonlySet<string>;
  readonly senderOf: Senders;
}

/** Each breach of "a request that an upstream saw has exactly one record, and it says what was". */
export function auditProblems(evidence: Evidence): string[] {
  const problems: string[] = [];
  const records = group([...evidence.records]);
  const seen = group([...evidence.sightings].filter((one) => !isSmuggled(one)));
  for (const [key, all] of seen) {
    const mine = records.get(key) ?? [];
    const attempts = mine.reduce((sum, { attempts = 1 }) => sum + attempts, 0);
    if (mine.length === 0) problems.push(`${key}: seen, and no record`);
    else if (all.length > attempts) problems.push(`${key}: seen ${all.length} times, ${attempts} on record`);
  }
  const statuses = new Map<string, number | null>();
  const reflected = new Set<string>();
  for (const [key, mine] of records) {
    const served = mine.filter(({ error }) => error === null).length;
    const times = seen.get(key)?.length ?? 0;
    if (served > times) problems.push(`${key}: ${served} records of success, seen ${times} times`);
    const id = idOf(mine[0].path);
    if (mine.length > 1 && /^[a-z]\d+/.test(id)) problems.push(`${key}: ${mine.length} records`);
    for (const { path, host, vault, actor, status, error, ...rest } of mine) {
      const sender = evidence.senderOf(id, host);
      if (sender !== null && sender !== `${vault} ${actor}`)
        problems.push(`${path}: ${vault} ${actor}, was ${sender}`);
      if (error === 'unknown') problems.push(`${path}: nobody knows what became of it`);
      statuses.set(id, status);
      if (rest.reflected !== undefined || rest.unlooked === true) reflected.add(id);
    }
  }
  for (const [id, status] of evidence.answered)
    if (statuses.get(id) !== status)
      problems.push(`${id}: answered ${status}, on record ${statuses.get(id)}`);
  for (const id of evidence.reflected)
    if (!reflected.has(id)) problems.push(`${id}: its answer showed a value, and its record says nothing`);
  return problems;
}
