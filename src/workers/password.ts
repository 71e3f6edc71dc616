import { hashPassword, type ScryptCost, scryptKey, verifyPassword } from '../actors/vault/password-hash.ts';

/** What takes a thread a third of a second, and what it gives: a hash, whether the password is right, or 32 octets. */
export type PasswordJob =
  | { readonly job: 'hash'; readonly password: string }
  | { readonly job: 'verify'; readonly password: string; readonly encoded: string | null }
  | {
      readonly job: 'derive';
      readonly password: string;
      readonly salt: Uint8Array;
      readonly cost: ScryptCost;
    };

/** The task of the pool for passwords. It throws what `scryptKey` throws. */
export default function password(job: PasswordJob): string | boolean | Uint8Array {
  switch (job.job) {
    case 'hash':
      return hashPassword(job.password);
    case 'verify':
      return verifyPassword(job.password, job.encoded);
    case 'derive':
      return scryptKey(job.password, job.salt, job.cost);
  }
}
