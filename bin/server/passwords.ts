import type { Derive } from '../../src/actors/vault/password-kek.ts';
import { accept, type Result, refuse } from '../../src/actors/vault/problem.ts';
import type { Secret } from '../../src/actors/vault/secret.ts';
import type { PasswordJob } from '../../src/workers/password.ts';
import { createPool, type Pool } from '../../src/workers/pool.ts';

/** What hashes passwords, and derives keys from them, off the main thread. */
export interface Passwords {
  hash(password: Secret): Promise<Result<string>>;
  verify(password: Secret, encoded: string | null): Promise<Result<boolean>>;
  readonly derive: Derive;
  close(): Promise<void>;
}

/** Each needs 128 MiB for its third of a second: a flood of sign-ins must not take the machine's memory. */
const threads = 2;
const atOnce = 2 * threads;
const longestMs = 30_000;

/** The threads are started with the first password: most brokers never see one. */
export function createPasswords(filename: URL): Passwords {
  let pool: Pool | null = null;
  let underWay = 0;

  async function run(job: PasswordJob): Promise<unknown> {
    pool ??= createPool({ filename, threads });
    underWay++;
    try {
      return await pool.run(job, { signal: AbortSignal.timeout(longestMs) });
    } finally {
      underWay--;
    }
  }

  async function ifRoom<T>(job: PasswordJob): Promise<Result<T>> {
    if (underWay >= atOnce) return refuse('overloaded', tooMany, undefined, 2);
    return accept((await run(job)) as T);
  }

  return {
    hash: (password) => ifRoom<string>({ job: 'hash', password: password.reveal() }),
    verify: (password, encoded) => ifRoom<boolean>({ job: 'verify', password: password.reveal(), encoded }),
    derive: async (password, salt, cost) =>
      (await run({ job: 'derive', password: password.reveal(), salt, cost })) as Uint8Array,
    close: async () => pool?.close(),
  };
}

const tooMany = 'Too many passwords are being checked. Try again shortly.';
