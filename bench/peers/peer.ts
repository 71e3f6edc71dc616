import type { Subject } from '../subject.ts';

/** A proxy of others that the broker is compared with. */
export interface Peer {
  readonly name: string;
  /** What `--install` gets: packages by their names, from the package manager that has them. */
  readonly packages: { readonly from: 'apt' | 'pip' | 'npm'; readonly names: readonly string[] };
  /** As it is installed here, or what is missing. */
  find(): Subject | { readonly missing: string };
}
