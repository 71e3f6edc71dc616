import type dns from 'node:dns';

/** `dns.lookup`, or what stands in for it. */
export type Lookup = (
  host: string,
  options: dns.LookupAllOptions,
  done: (error: NodeJS.ErrnoException | null, found: dns.LookupAddress[]) => void,
) => void;

/** Look-ups that one lane has under way at once: the resolver's threads are few, and other lanes need them too. */
const maxLookups = 24;
/** And of these for one session, so that names that resolve slowly delay those who asked for them. */
const maxOfOne = 8;

interface Waiting {
  readonly owner: object;
  readonly start: () => void;
}

/** Resolves names as the system does (hosts file, resolv.conf), in turn and with a share for everyone. */
export class Lookups {
  readonly #lookup: Lookup;
  readonly #underWay = new Map<object, number>();
  readonly #waiting: Waiting[] = [];
  #total = 0;

  constructor(lookup: Lookup) {
    this.#lookup = lookup;
  }

  /**
   * All addresses of a name, in the resolver's order; null where it has none.
   * @param owner who asks
   */
  addresses(owner: object, host: string, done: (addresses: readonly string[] | null) => void): void {
    const start = (): void => {
      this.#total++;
      this.#underWay.set(owner, this.#of(owner) + 1);
      this.#lookup(host, { all: true, order: 'verbatim' }, (error, found) => {
        this.#ended(owner);
        done(error === null ? found.map(({ address }) => address) : null);
      });
    };
    if (this.#total < maxLookups && this.#of(owner) < maxOfOne) start();
    else this.#waiting.push({ owner, start });
  }

  #of(owner: object): number {
    return this.#underWay.get(owner) ?? 0;
  }

  #ended(owner: object): void {
    this.#total--;
    const left = this.#of(owner) - 1;
    if (left === 0) this.#underWay.delete(owner);
    else this.#underWay.set(owner, left);
    const next = this.#waiting.findIndex((waiting) => this.#of(waiting.owner) < maxOfOne);
    if (next >= 0) this.#waiting.splice(next, 1)[0].start();
  }
}
